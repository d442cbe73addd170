// Lists of pieces that own their numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "data/piece_lowering.hpp"

namespace tranship::test {

struct Pieces {
  std::vector<std::int64_t> source;
  std::vector<std::int64_t> target;
  std::vector<std::int64_t> lengths;

  PieceLists lists() const { return {source, target, lengths}; }
};

}  // namespace tranship::test
