// What a server computes of the numbers of a box, so that it sends a few numbers instead of all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/number_type.hpp"
#include "staging/model/box.hpp"

namespace tranship::staging {

enum class ReductionKind : std::uint32_t {
  summary = 1,  ///< How many numbers there are, their sum, the least and the greatest.
  histogram,    ///< How many numbers lie in each bin.
  block_sums,   ///< The sum of each block.
};

/// Most edges of a histogram's bins, and so that they fit the smallest message with what is beside
/// them.
constexpr std::size_t edges_max = 385;

struct Reduction {
  ReductionKind kind = ReductionKind::summary;
  /// Of the bins, rising. A bin has its lower edge, and not its upper one; the last bin has both.
  std::vector<double> edges{};
  std::vector<std::int64_t> origin{};   ///< First indices of the first block.
  std::vector<std::int64_t> extents{};  ///< Of a block.
};

/// What is computed with: real numbers as float64, whole ones as 64 bits.
enum class NumberClass {
  reals,
  integers,
  whole,
  complexes
};  // integers have signs, whole ones none

NumberClass class_of(NumberKind kind);

/// The result for a box. Those of disjoint boxes are merged to that of both.
struct Reduced {
  std::int64_t count = 0;
  /// Of real numbers, and of the real parts of complex ones. `rest` is what rounding has left out
  /// of it (Neumaier's summation).
  double sum = 0;
  double rest = 0;
  double imaginary = 0;
  double imaginary_rest = 0;
  std::uint64_t integer_sum = 0;  ///< Of integers, modulo 2^64, as NumPy's.
  /// Bits of a double, of an int64 or of a uint64; of complex numbers none. NaN if one is.
  std::uint64_t least = 0;
  std::uint64_t greatest = 0;
  std::vector<std::int64_t> counts{};  ///< Of each bin. NaN lies in none.
  std::vector<double> sums{};  ///< Of each block that the box touches, the last one fastest.
};

/// Returns whether numbers of that kind in a box can be reduced so.
bool fits(const Reduction& reduction, const Box& box, NumberKind kind);

/// Returns the blocks that a box touches, which counts whole blocks from the origin.
Box blocks_of(const Box& box, const Reduction& reduction);

/// Adds the result of another box; of block sums, those of `other_box` to those of `box`, which
/// holds it.
void merge(const Reduction& reduction, NumberClass numbers, const Box& other_box,
           const Reduced& other, const Box& box, Reduced& into);

/// A dense array of numbers, the last dimension fastest.
struct NumberBox {
  const std::byte* address = nullptr;
  Box box{};
  NumberType type{};
};

/// Reduces `part` of a dense array on up to `threads` threads, the caller's among them. Sums of
/// real numbers are as exact as those of NumPy's pairwise summation, or more; those of blocks are
/// plain.
/// @error out_of_memory
Result<Reduced> reduce(const NumberBox& numbers, const Box& part, const Reduction& reduction,
                       int threads);

}  // namespace tranship::staging
