// What a caller asks to copy: the two ends, and which of their elements.
#pragma once

#include <span>
#include <variant>

#include "data/page_lowering.hpp"
#include "data/piece_lowering.hpp"
#include "datatypes/datatype.hpp"
#include "engine/copy_options.hpp"

namespace tranship {

/// All elements of the source of each pair, to the element at the same indices of its target.
struct WholeArrays {};

/// Blocks of memory of one pair, as pieces of two arrays that reach from the lowest to the highest
/// address. What lies between two blocks need not be memory of the process.
struct Blocks {
  PieceLists pieces;
};

/// The types of the two ends of a pair, which count from the first bytes of its arrays.
struct TypePair {
  Datatype source;
  Datatype target;
};

/// Refers to lists of the caller's, and is read during a call only.
struct CopyRequest {
  std::span<const CopyPair> pairs;  ///< one, but for whole arrays and for types
  /// What is copied between the ends. Types: as many as there are pairs.
  std::variant<WholeArrays, PageLists, PieceLists, Blocks, std::span<const TypePair>> parts{};
  CopyOptions options{};
};

}  // namespace tranship
