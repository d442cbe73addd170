// Nests of one shape in one launch, on the CPU: the kernels' bodies, compared with naive walks.
#include "gpu/kernels/repeated_nest.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/random.hpp"
#include "gpu/kernels/launch.hpp"
#include "gpu/kernels/nests.hpp"
#include "support/test.hpp"

namespace tranship::gpu {
namespace {

struct Outcome {
  bool right = false;        ///< the nests' bytes, and no others, were written as by naive walks
  std::size_t launches = 0;  ///< of repeated nests
  std::size_t left = 0;      ///< nests for launches of their own
};

Outcome carry(const std::vector<LoopNest>& nests, std::int64_t shift, const KernelTuning& tuning,
              Random& random) {
  WalkedNests walked(nests, shift, random);
  std::vector<RepeatedNest> repeated;
  std::vector<NestOrigin> origins;
  std::vector<LoopNest> rest;
  plan_repeats(nests, walked.source(), walked.target(), repeated, origins, rest, tuning);
  for (const RepeatedNest& one : repeated) {
    run_on_host(one.plan, walked.source(), walked.target(), repeats_of(one, origins.data()));
  }
  walked.carry(rest);
  return {walked.right(), repeated.size(), rest.size()};
}

/// Returns a nest that reverses the order of dense dimensions, some of them with gaps between.
LoopNest transpose(Random& random, std::int64_t& source_bytes, std::int64_t& target_bytes) {
  LoopNest nest;
  nest.element_bytes = random.between(1, 16);
  const auto rank = random.between(2, 4);
  std::vector<std::int64_t> extents;
  for (std::int64_t k = 0; k < rank; ++k) extents.push_back(random.between(2, rank == 2 ? 70 : 12));
  source_bytes = nest.element_bytes;
  for (std::int64_t k = 0; k < rank; ++k) {
    add(nest, extents[static_cast<std::size_t>(k)], source_bytes, 0);
    source_bytes *= extents[static_cast<std::size_t>(k)];
    if (random.chance(0.2)) source_bytes += random.between(1, 40);
  }
  target_bytes = nest.element_bytes;
  for (std::int64_t k = rank; k-- > 0;) {
    nest.loops[static_cast<std::size_t>(k)].target_stride = target_bytes;
    target_bytes *= extents[static_cast<std::size_t>(k)];
  }
  return nest;
}

TEST(transposes_of_one_shape_are_one_launch_each) {
  std::size_t launches = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed + 11);
    KernelTuning tuning;
    tuning.tiles = random.below(4);
    tuning.tiled_bytes = random.below(100000);
    tuning.short_blocks = random.below(1024);
    std::vector<LoopNest> nests;
    std::int64_t source = 0, target = 0;
    const std::int64_t shapes = random.between(1, 3);
    for (std::int64_t k = 0; k < shapes; ++k) {
      std::int64_t source_bytes = 0, target_bytes = 0;
      LoopNest nest = transpose(random, source_bytes, target_bytes);
      const std::int64_t step = std::int64_t{1} << random.below(8);
      const std::int64_t count = random.between(1, 9);
      for (std::int64_t j = 0; j < count; ++j) {
        nest.source_offset = source;
        nest.target_offset = target;
        nests.push_back(nest);
        source += (source_bytes + step - 1) / step * step + random.below(3) * step;
        target += (target_bytes + step - 1) / step * step + random.below(3) * step;
      }
    }
    const Outcome outcome = carry(nests, random.below(16), tuning, random);
    EXPECT_EQ(outcome.right ? seed : ~seed, seed);
    launches += outcome.launches;
  }
  EXPECT(launches > 100);
}

TEST(matrices_of_one_shape_take_one_launch) {
  Random random(1);
  std::vector<LoopNest> nests;
  for (std::int64_t k = 0; k < 40; ++k) {
    LoopNest nest;
    nest.element_bytes = 4;
    nest.source_offset = nest.target_offset = k * 48 * 64 * 4;
    add(nest, 48, 4, 64 * 4);
    add(nest, 64, 48 * 4, 4);
    nests.push_back(nest);
  }
  const Outcome outcome = carry(nests, 0, {}, random);
  EXPECT(outcome.right);
  EXPECT_EQ(outcome.launches, std::size_t{1});
  EXPECT_EQ(outcome.left, std::size_t{0});
}

TEST(nests_of_their_own_shape_and_backward_walks_are_left) {
  Random random(2);
  std::vector<LoopNest> nests;
  for (std::int64_t k = 0; k < 8; ++k) {
    LoopNest nest;
    nest.element_bytes = 2;
    nest.source_offset = nest.target_offset = k * 4096;
    const bool backwards = k < 5;
    if (backwards) nest.target_offset += 30 * 2;
    add(nest, 31, 2, backwards ? -2 : 2 * (8 + k));
    add(nest, backwards ? 8 : 8 + k, 62, backwards ? 62 : 2);
    nests.push_back(nest);
  }
  const Outcome outcome = carry(nests, 0, {}, random);
  EXPECT(outcome.right);
  EXPECT_EQ(outcome.launches, std::size_t{0});
  EXPECT_EQ(outcome.left, std::size_t{8});
}

}  // namespace
}  // namespace tranship::gpu
