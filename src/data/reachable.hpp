// Which numbers a sum of multiples can reach: the question behind every overlap of strided boxes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "data/loop_nest.hpp"

namespace tranship {

/// The values of sum(stride[k] * x[k]) with 0 <= x[k] <= most[k].
class StrideSum {
 public:
  enum class Answer { no, yes, unknown };

  /// Adds a term; its stride may be negative or 0.
  void add(std::int64_t stride, std::int64_t most);

  /// Returns whether a value lies in [low, high].
  /// steps: Largest number of steps of the search, which is decreased by those that were taken; the
  /// answer is unknown if they do not suffice.
  Answer reaches(std::int64_t low, std::int64_t high, std::int64_t& steps) const;

 private:
  struct Term {
    std::int64_t stride;  ///< positive
    std::int64_t most;
    std::int64_t rest;     ///< largest sum of the terms behind it
    std::int64_t divisor;  ///< greatest common divisor of this stride and those behind it
  };
  static constexpr std::size_t terms_max = 2 * static_cast<std::size_t>(LoopNest::loops_max) + 1;

  Answer search(std::size_t term, std::int64_t low, std::int64_t high, std::int64_t& steps) const;

  std::array<Term, terms_max> terms_;  ///< the longest stride first
  std::size_t count_ = 0;
  std::int64_t shift_ = 0;  ///< smallest value
};

}  // namespace tranship
