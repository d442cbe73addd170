// Lists of nests on the CPU: the kernel's body, compared with naive walks of all nests.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "gpu/kernels/launch.hpp"
#include "gpu/kernels/nest_list.hpp"
#include "gpu/kernels/nests.hpp"
#include "support/test.hpp"

namespace tranship::gpu {
namespace {

/// The result of moving a list of nests.
struct Outcome {
  bool right = false;       ///< the lists moved what naive walks move, and touched nothing else
  std::size_t groups = 0;   ///< groups of both launches
  std::size_t shifted = 0;  ///< nests of the launch for misaligned nests
  std::size_t left = 0;     ///< nests for launches of their own
};

/// Returns random sizes of boxes and bands.
KernelTuning random_tuning(Random& random) {
  KernelTuning tuning;
  tuning.direct_box_bytes = std::int64_t{256} << random.below(8);
  tuning.shifted_rows = std::int64_t{1} << random.below(8);
  tuning.band_nests = std::int64_t{1} << random.below(7);
  tuning.short_blocks = random.below(1024);
  if (random.chance(0.7)) tuning.short_list_accesses = 0;
  return tuning;
}

Outcome carry(const std::vector<LoopNest>& nests, std::int64_t shift, const KernelTuning& tuning,
              Random& random) {
  WalkedNests walked(nests, shift, random);
  NestLists lists;
  std::vector<LoopNest> rest;
  plan_lists(nests, walked.source(), walked.target(), lists, rest, tuning);
  for (const NestList& list : {lists.aligned, lists.shifted}) {
    std::vector<std::int64_t> table(static_cast<std::size_t>(table_bytes(list)) / 8);
    auto* at = reinterpret_cast<std::byte*>(table.data());
    write_table(list, at);
    NestTable launched = table_of(list, at);
    if (table_bytes(list) <= held_bytes_max && random.chance(0.5)) launched.on_host = at;
    run_list_on_host(launched, walked.source(), walked.target());
  }
  walked.carry(rest);
  return {walked.right(), lists.aligned.plans.size() + lists.shifted.plans.size(),
          lists.shifted.nests.size(), rest.size()};
}

/// The nests that assemble an array from dense objects, one nest for each object.
struct Reassembly {
  std::vector<LoopNest> nests;
  std::int64_t objects = 1;
};

/// Returns the nests of an array. cuts: For each dimension, the last one fastest, where the objects
/// begin and end.
Reassembly reassembly(const std::vector<std::vector<std::int64_t>>& cuts,
                      std::int64_t element_bytes) {
  Reassembly result;
  for (const auto& cut : cuts) result.objects *= static_cast<std::int64_t>(cut.size()) - 1;
  std::int64_t source = 0;
  for (std::int64_t number = 0; number < result.objects; ++number) {
    LoopNest nest;
    nest.element_bytes = element_bytes;
    nest.source_offset = source;
    std::int64_t rest = number, inside = element_bytes, whole = element_bytes;
    for (std::size_t k = cuts.size(); k-- > 0;) {
      const auto parts = static_cast<std::int64_t>(cuts[k].size()) - 1;
      const std::int64_t lower = cuts[k][static_cast<std::size_t>(rest % parts)];
      const std::int64_t extent = cuts[k][static_cast<std::size_t>(rest % parts) + 1] - lower;
      rest /= parts;
      add(nest, extent, inside, whole);
      nest.target_offset += lower * whole;
      inside *= extent;
      whole *= cuts[k].back();
    }
    source += inside;
    result.nests.push_back(nest);
  }
  return result;
}

TEST(objects_become_an_array_in_one_launch) {
  std::size_t shifted = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Random random(seed + 5);
    const int rank = static_cast<int>(random.between(1, 8));
    const std::int64_t element_bytes = random.between(1, 16);
    std::vector<std::vector<std::int64_t>> cuts;
    std::int64_t room = 30000;
    for (int k = 0; k < rank; ++k) {
      std::vector<std::int64_t>& cut = cuts.emplace_back(std::vector<std::int64_t>{0});
      const std::int64_t most = std::max<std::int64_t>(1, std::min<std::int64_t>(room, 200));
      const std::int64_t extent = k + 1 < rank ? random.between(1, std::min<std::int64_t>(most, 6))
                                               : random.between(1, most);
      while (cut.back() < extent) {
        cut.push_back(std::min(extent, cut.back() + random.between(1, (extent + 1) / 2)));
      }
      room /= extent;
    }
    const Reassembly one = reassembly(cuts, element_bytes);
    const std::int64_t shift = random.chance(0.3) ? random.below(16) : 0;
    const Outcome outcome = carry(one.nests, shift, random_tuning(random), random);
    EXPECT_EQ(outcome.right ? seed : ~seed, seed);
    EXPECT_EQ(outcome.left, std::size_t{0});
    shifted += outcome.shifted;
  }
  EXPECT(shifted > 400);
}

/// A nest of single bytes must not shorten the long runs of other nests, unless one launch for all
/// of few bytes costs less.
TEST(long_runs_beside_narrow_ones_are_shifted_but_in_short_lists) {
  Random random(3);
  std::vector<LoopNest> nests(3);
  for (std::size_t k = 0; k < 3; ++k) {
    nests[k].element_bytes = k < 2 ? 4096 : 1;
    nests[k].source_offset = nests[k].target_offset = static_cast<std::int64_t>(k) * 4096;
  }
  add(nests[2], 100, 3, 5);
  for (const bool one_launch : {false, true}) {
    KernelTuning tuning;
    if (!one_launch) tuning.short_list_accesses = 0;
    const Outcome outcome = carry(nests, 0, tuning, random);
    EXPECT(outcome.right);
    EXPECT_EQ(outcome.shifted, std::size_t{one_launch ? 0U : 2U});
    EXPECT_EQ(outcome.left, std::size_t{0});
  }
}

/// The second nest begins off the alignment that both nests have together.
TEST(nests_that_walk_backwards_are_not_listed) {
  Random random(4);
  std::vector<LoopNest> nests(2);
  for (LoopNest& nest : nests) {
    nest.element_bytes = 1;
    add(nest, 16, -1, -1);
  }
  nests[0].source_offset = nests[0].target_offset = 15;
  nests[1].source_offset = nests[1].target_offset = 46;
  const Outcome outcome = carry(nests, 0, random_tuning(random), random);
  EXPECT(outcome.right);
  EXPECT_EQ(outcome.left, std::size_t{2});
}

TEST(equal_objects_are_one_group) {
  Random random(1);
  const std::vector<std::int64_t> halves{0, 16, 32};
  const Reassembly cubes = reassembly({halves, halves, halves}, 8);
  const Outcome outcome = carry(cubes.nests, 0, random_tuning(random), random);
  EXPECT(outcome.right);
  EXPECT_EQ(outcome.groups, std::size_t{1});
}

TEST(lists_of_any_nests_move_as_walked) {
  std::size_t listed = 0, left = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Random random(seed);
    std::vector<LoopNest> nests;
    std::int64_t source = 0, target = 0;
    for (auto shapes = random.between(1, 4); shapes > 0; --shapes) {
      const LoopNest shape = random_case(random).nest;
      for (auto copies = random.between(1, 5); copies > 0; --copies) {
        LoopNest nest = shape;
        nest.source_offset += source;
        nest.target_offset += target;
        source += reach(shape, true) + random.between(0, 3) * 8;
        target += reach(shape, false) + random.between(0, 3) * 8;
        nests.push_back(nest);
      }
    }
    const Outcome outcome = carry(nests, 0, random_tuning(random), random);
    EXPECT_EQ(outcome.right ? seed : ~seed, seed);
    listed += nests.size() - outcome.left;
    left += outcome.left;
  }
  EXPECT(listed > 400);
  EXPECT(left > 400);
}

TEST(a_list_of_nothing_launches_nothing) {
  NestLists lists;
  std::vector<LoopNest> rest;
  LoopNest empty;
  empty.element_bytes = 8;
  add(empty, 0, 8, 8);
  plan_lists(std::vector<LoopNest>{empty, empty}, nullptr, nullptr, lists, rest);
  for (const NestList& list : {lists.aligned, lists.shifted}) {
    EXPECT_EQ(list.blocks, 0);
    EXPECT(list.plans.empty());
  }
  EXPECT(rest.empty());
}

}  // namespace
}  // namespace tranship::gpu
