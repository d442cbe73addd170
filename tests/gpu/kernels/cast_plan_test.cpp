// Kernels that convert numbers, run on the host: each number becomes what it becomes alone.
#include "gpu/kernels/cast_plan.hpp"

#include <string>
#include <vector>

#include "gpu/kernels/cast_numbers.hpp"
#include "gpu/kernels/launch.hpp"
#include "support/conversions.hpp"
#include "support/test.hpp"

using namespace tranship;
using test::random_bytes;

namespace {

/// Bytes that begin at an address with a given remainder by a line of a GPU's cache.
class Placed {
 public:
  Placed(std::vector<std::byte> bytes, std::int64_t misaligned) : room_(bytes.size() + 256) {
    const auto at = reinterpret_cast<std::uintptr_t>(room_.data());
    begin_ = room_.data() + (128 - at % 128) % 128 + misaligned;
    std::copy(bytes.begin(), bytes.end(), begin_);
    size_ = bytes.size();
  }
  std::byte* begin() { return begin_; }
  std::vector<std::byte> bytes() const { return {begin_, begin_ + size_}; }

 private:
  std::vector<std::byte> room_;
  std::byte* begin_;
  std::size_t size_;
};

void run(const LoopNest& nest, const std::byte* source, std::byte* target,
         std::vector<gpu::CastPlan>& plans) {
  gpu::plan_casts(nest, source, target, plans);
  for (const gpu::CastPlan& plan : plans) gpu::run_cast_on_host(plan, source, target);
}

}  // namespace

TEST(kernels_convert_as_the_host_does) {
  int shared = 0;
  int vectors = 0;
  for (std::uint64_t seed = 0; seed < test::seed_count(4000); ++seed) {
    Random random(seed);
    const auto one = test::random_converting_nest(random, random.chance(0.2) ? 40000 : 2000);
    Placed source(random_bytes(random, one.source_bytes), random.chance(0.5) ? 0 : 1);
    const auto before = random_bytes(random, one.target_bytes);
    Placed target(before, random.chance(0.5) ? 0 : random.between(0, 16));
    auto expected = before;
    test::convert_slowly(one.nest, one.nest.rank, source.begin() + one.nest.source_offset,
                         expected.data() + one.nest.target_offset);
    std::vector<gpu::CastPlan> plans;
    run(one.nest, source.begin(), target.begin(), plans);
    for (const gpu::CastPlan& plan : plans) {
      shared += plan.way == gpu::CastWay::shared ? 1 : 0;
      vectors += plan.source_vectors ? 1 : 0;
    }
    EXPECT(target.bytes() == expected);
    if (target.bytes() != expected) {
      test::record_failure(__FILE__, __LINE__, "seed " + std::to_string(seed));
      break;
    }
  }
  EXPECT(shared > 0);
  EXPECT(vectors > 0);
}

TEST(kernels_convert_all_pairs_of_types_as_the_host_does) {
  for (int from = 0; from < number_kinds; ++from) {
    for (int to = 0; to < number_kinds; ++to) {
      if (from == to) continue;
      const Conversion conversion{{static_cast<NumberKind>(from), false},
                                  {static_cast<NumberKind>(to), false}};
      // Rows of whole long runs, and one that ends within a run.
      for (const std::int64_t count : {2051, 4096}) {
        Random random(static_cast<std::uint64_t>(from * number_kinds + to));
        Placed source(random_bytes(random, count * conversion.source_bytes()), 0);
        Placed target(random_bytes(random, count * conversion.target_bytes()), 0);
        std::vector<std::byte> expected = target.bytes();
        host::convert_run(conversion, source.begin(), expected.data(), count, false);
        const LoopNest nest{count * conversion.target_bytes(), 0, 0, 0, {}, conversion};
        std::vector<gpu::CastPlan> plans;
        run(nest, source.begin(), target.begin(), plans);
        REQUIRE(plans.size() == 1u);
        const bool drops_parts =
            is_complex(conversion.from.kind) && !is_complex(conversion.to.kind);
        EXPECT(plans[0].way == (drops_parts ? gpu::CastWay::singles : gpu::CastWay::runs));
        EXPECT(target.bytes() == expected);
      }
    }
  }
}

TEST(kernels_convert_and_transpose_all_pairs_of_types_as_the_host_does) {
  for (int from = 0; from < number_kinds; ++from) {
    for (int to = 0; to < number_kinds; ++to) {
      if (from == to) continue;
      LoopNest nest;
      nest.conversion = {{static_cast<NumberKind>(from), false},
                         {static_cast<NumberKind>(to), false}};
      const std::int64_t source_bytes = nest.conversion.source_bytes();
      const std::int64_t target_bytes = nest.conversion.target_bytes();
      for (const std::int64_t extent : {67, 128}) {
        nest.element_bytes = target_bytes;
        nest.rank = 2;
        nest.loops[0] = {extent, extent * source_bytes, target_bytes};
        nest.loops[1] = {extent, source_bytes, extent * target_bytes};
        Random random(static_cast<std::uint64_t>(from * number_kinds + to));
        Placed source(random_bytes(random, extent * extent * source_bytes), 0);
        Placed target(random_bytes(random, extent * extent * target_bytes), 0);
        std::vector<std::byte> expected = target.bytes();
        test::convert_slowly(nest, nest.rank, source.begin(), expected.data());
        std::vector<gpu::CastPlan> plans;
        run(nest, source.begin(), target.begin(), plans);
        REQUIRE(plans.size() == 1u);
        const bool in_parts = is_complex(nest.conversion.from.kind);
        if (!in_parts) EXPECT(plans[0].way == gpu::CastWay::shared);
        EXPECT(target.bytes() == expected);
      }
    }
  }
}

TEST(one_number_is_repeated_in_vectors) {
  const NumberKind kinds[] = {NumberKind::int8, NumberKind::int16, NumberKind::int32,
                              NumberKind::int64};
  for (const NumberKind kind : kinds) {
    for (const std::int64_t row : {5, 1000, 4096}) {
      for (const bool aligned : {true, false}) {
        LoopNest nest;
        nest.conversion = {{kind, false}, {kind, false}};
        nest.element_bytes = bytes_of(kind);
        nest.rank = 2;
        // Rows that repeat a number each, with a gap between them.
        const std::int64_t pitch = row * nest.element_bytes + (aligned ? 16 : bytes_of(kind));
        nest.loops[0] = {row, 0, nest.element_bytes};
        nest.loops[1] = {7, nest.element_bytes, pitch};
        Random random(static_cast<std::uint64_t>(row));
        Placed source(random_bytes(random, 7 * nest.element_bytes), 0);
        Placed target(random_bytes(random, 7 * pitch), 0);
        std::vector<std::byte> expected = target.bytes();
        for (std::int64_t k = 0; k < 7 * row; ++k) {
          std::copy_n(source.begin() + k / row * nest.element_bytes, nest.element_bytes,
                      expected.data() + k / row * pitch + k % row * nest.element_bytes);
        }
        std::vector<gpu::CastPlan> plans;
        run(nest, source.begin(), target.begin(), plans);
        REQUIRE(plans.size() == 1u);
        if (aligned && row % 2 == 0) EXPECT(plans[0].way == gpu::CastWay::runs);
        EXPECT(target.bytes() == expected);
      }
    }
  }
}

TEST(nests_of_many_loops_become_several_kernels) {
  LoopNest nest;
  nest.conversion = {{NumberKind::int16, false}, {NumberKind::float64, false}};
  nest.element_bytes = 8;
  nest.rank = 12;
  std::int64_t source_step = 4;
  std::int64_t target_step = 16;
  for (std::size_t k = 0; k < 12; ++k) {
    nest.loops[k] = {2, source_step, target_step};
    source_step = 2 * source_step + 2;
    target_step = 2 * target_step + 8;
  }
  Random random(3);
  Placed source(random_bytes(random, source_step), 0);
  Placed target(random_bytes(random, target_step), 0);
  std::vector<std::byte> expected = target.bytes();
  test::convert_slowly(nest, nest.rank, source.begin(), expected.data());
  std::vector<gpu::CastPlan> plans;
  run(nest, source.begin(), target.begin(), plans);
  EXPECT_EQ(plans.size(), 16u);
  EXPECT(target.bytes() == expected);
}
