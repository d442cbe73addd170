#include "staging/model/reduction.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

Reduced reduced(const NumberBox& numbers, const Box& part, const Reduction& reduction,
                int threads) {
  auto result = reduce(numbers, part, reduction, threads);
  REQUIRE(result.ok());
  return std::move(*result);
}

double least_of(const Reduced& result) { return std::bit_cast<double>(result.least); }
double greatest_of(const Reduced& result) { return std::bit_cast<double>(result.greatest); }

/// Numbers of a box, and what they come to, computed one by one.
struct Plain {
  Box box;
  std::vector<double> numbers;

  double at(const Point& index) const {
    std::int64_t place = 0;
    for (int k = 0; k < box.rank; ++k) {
      const auto dimension = static_cast<std::size_t>(k);
      place = place * box.extent(k) + index[dimension] - box.lower[dimension];
    }
    return numbers[static_cast<std::size_t>(place)];
  }
  NumberBox view() const {
    return {reinterpret_cast<const std::byte*>(numbers.data()), box, {NumberKind::float64, false}};
  }
  template <typename Take>
  static void each(const Box& part, const Take& take) {
    Point index = part.lower;
    Point end = part.upper;
    for (int k = 0; k < part.rank; ++k) --end[static_cast<std::size_t>(k)];
    do {
      take(index);
    } while (step(index, part.lower, end, part.rank));
  }
};

Box some_part(const Box& box, std::mt19937_64& random) {
  Box part = box;
  for (std::size_t k = 0; k < static_cast<std::size_t>(box.rank); ++k) {
    const auto extent = static_cast<std::uint64_t>(box.upper[k] - box.lower[k]);
    part.lower[k] += static_cast<std::int64_t>(random() % extent);
    const auto left = static_cast<std::uint64_t>(box.upper[k] - part.lower[k]);
    part.upper[k] = part.lower[k] + 1 + static_cast<std::int64_t>(random() % left);
  }
  return part;
}

/// Whole numbers, whose sums have no rounding.
Plain some_numbers(std::mt19937_64& random) {
  const std::vector<std::int64_t> lower{-3, 5, 0};
  std::vector<std::int64_t> upper = lower;
  upper.resize(1 + random() % 3);
  for (auto& one : upper) one += 1 + static_cast<std::int64_t>(random() % 60);
  if (upper.size() < 3 && random() % 4 == 0) {  // rows that are read where they lie
    upper.back() += 256 + static_cast<std::int64_t>(random() % 4000);
  }
  Plain plain{*Box::make({lower.begin(), lower.begin() + std::ssize(upper)}, upper), {}};
  plain.numbers.resize(static_cast<std::size_t>(plain.box.points()));
  for (double& one : plain.numbers) one = static_cast<double>(random() % 2001) - 1000;
  return plain;
}

}  // namespace

TEST(random_parts_come_to_what_their_numbers_one_by_one_come_to) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    const Plain plain = some_numbers(random);
    const Box part = some_part(plain.box, random);
    const int threads = 1 + static_cast<int>(random() % 5);
    double sum = 0;
    double least = std::numeric_limits<double>::infinity();
    double greatest = -least;
    const std::vector<double> edges{-900, -100, -100, 0, 17, 900};
    std::vector<std::int64_t> counts(edges.size() - 1);
    Reduction blocks{ReductionKind::block_sums};
    for (std::size_t k = 0; k < static_cast<std::size_t>(part.rank); ++k) {
      blocks.origin.push_back(part.lower[k] - static_cast<std::int64_t>(random() % 4));
      blocks.extents.push_back(1 + static_cast<std::int64_t>(random() % 9));
    }
    const Box touched = blocks_of(part, blocks);
    std::vector<double> sums(static_cast<std::size_t>(touched.points()));
    Plain::each(part, [&](const Point& index) {
      const double one = plain.at(index);
      sum += one;
      least = std::min(least, one);
      greatest = std::max(greatest, one);
      for (std::size_t k = 0; k < counts.size(); ++k) {
        const bool last = k + 1 == counts.size();
        counts[k] += edges[k] <= one && (one < edges[k + 1] || (last && one == edges[k + 1]));
      }
      std::int64_t block = 0;
      for (std::size_t k = 0; k < static_cast<std::size_t>(part.rank); ++k) {
        block = block * touched.extent(static_cast<int>(k)) +
                (index[k] - blocks.origin[k]) / blocks.extents[k] - touched.lower[k];
      }
      sums[static_cast<std::size_t>(block)] += one;
    });
    const Reduced all = reduced(plain.view(), part, {}, threads);
    EXPECT(all.count == part.points() && all.sum + all.rest == sum);
    EXPECT(least_of(all) == least && greatest_of(all) == greatest);
    const Reduced bins = reduced(plain.view(), part, {ReductionKind::histogram, edges}, threads);
    EXPECT(bins.counts == counts && bins.count == part.points());
    const Reduced of_blocks = reduced(plain.view(), part, blocks, threads);
    EXPECT(of_blocks.sums == sums && of_blocks.count == part.points());
  }
}

TEST(results_of_two_halves_are_merged_to_that_of_the_whole) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 100; ++round) {
    const Plain plain = some_numbers(random);
    const Box& box = plain.box;
    if (box.extent(0) < 2) continue;
    Box first = box;
    first.upper[0] =
        box.lower[0] + 1 +
        static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(box.extent(0) - 1));
    Box second = box;
    second.lower[0] = first.upper[0];
    Reduction blocks{ReductionKind::block_sums};
    for (std::size_t k = 0; k < static_cast<std::size_t>(box.rank); ++k) {
      blocks.origin.push_back(box.lower[k]);
      blocks.extents.push_back(1 + static_cast<std::int64_t>(random() % 9));
    }
    for (const Reduction& one :
         {Reduction{}, Reduction{ReductionKind::histogram, {-500, 0, 500}}, blocks}) {
      Reduced both;
      for (const Box& half : {second, first}) {
        merge(one, NumberClass::reals, half, reduced(plain.view(), half, one, 2), box, both);
      }
      const Reduced whole = reduced(plain.view(), box, one, 1);
      EXPECT(both.count == whole.count && both.counts == whole.counts && both.sums == whole.sums);
      EXPECT(both.sum + both.rest == whole.sum + whole.rest);
      EXPECT(both.least == whole.least && both.greatest == whole.greatest);
    }
  }
}

TEST(one_number_that_is_none_makes_the_bounds_none_and_lies_in_no_bin) {
  for (const std::size_t place : {0U, 3U, 4095U, 4096U, 4999U}) {
    Plain plain{*Box::make({0}, {5000}), std::vector<double>(5000, 2.0)};
    plain.numbers[place] = not_a_number;
    for (const int threads : {1, 3}) {
      const Reduced all = reduced(plain.view(), plain.box, {}, threads);
      EXPECT(std::isnan(least_of(all)) && std::isnan(greatest_of(all)) && std::isnan(all.sum));
      Reduced both;
      for (const Box& half : {*Box::make({0}, {2500}), *Box::make({2500}, {5000})}) {
        merge({}, NumberClass::reals, half, reduced(plain.view(), half, {}, threads), plain.box,
              both);
      }
      EXPECT(std::isnan(least_of(both)) && std::isnan(greatest_of(both)));
      const Reduction bins{ReductionKind::histogram, {0, 2, 4}};
      EXPECT(reduced(plain.view(), plain.box, bins, threads).counts ==
             (std::vector<std::int64_t>{0, 4999}));
    }
  }
}

TEST(small_numbers_beside_large_ones_are_not_lost) {
  Plain plain{*Box::make({0}, {100000}), std::vector<double>(100000, 1.0)};
  plain.numbers[0] = 1e16;
  plain.numbers[99999] = -1e16;
  const Reduced all = reduced(plain.view(), plain.box, {}, 2);
  EXPECT(std::abs(all.sum + all.rest - 99998) < 300);  // plain summation has 0
  plain.numbers[5] = std::numeric_limits<double>::infinity();
  EXPECT(std::isinf(reduced(plain.view(), plain.box, {}, 2).sum));
}

TEST(blocks_may_be_longer_than_any_box) {
  const Plain plain{*Box::make({index_most - 400}, {index_most - 10}), std::vector<double>(390, 2)};
  const Reduction blocks{
      ReductionKind::block_sums, {}, {-index_most}, {std::numeric_limits<std::int64_t>::max()}};
  REQUIRE(fits(blocks, plain.box, NumberKind::float64));
  EXPECT(reduced(plain.view(), plain.box, blocks, 3).sums == std::vector<double>{780});
}

TEST(a_reduction_that_cannot_be_computed_is_refused) {
  const Box box = *Box::make({0, 0}, {4, 4});
  const auto fits_reals = [&](const Reduction& one) { return fits(one, box, NumberKind::float32); };
  EXPECT(fits_reals({ReductionKind::histogram, {0, 1}}));
  EXPECT(!fits_reals({ReductionKind::histogram, {0}}));
  EXPECT(!fits_reals({ReductionKind::histogram, {1, 0}}));
  EXPECT(!fits_reals({ReductionKind::histogram, {0, not_a_number, 1}}));
  EXPECT(fits_reals({ReductionKind::block_sums, {}, {0, -1}, {1, 7}}));
  EXPECT(!fits_reals({ReductionKind::block_sums, {}, {0, 1}, {1, 7}}));
  EXPECT(!fits_reals({ReductionKind::block_sums, {}, {0, 0}, {1, 0}}));
  EXPECT(!fits_reals({ReductionKind::block_sums, {}, {0}, {1}}));
  EXPECT(fits({}, box, NumberKind::complex64));
  EXPECT(!fits({ReductionKind::histogram, {0, 1}}, box, NumberKind::complex64));
}
