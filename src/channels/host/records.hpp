// Joins shapes that carry parts of the same records to one shape.
#pragma once

#include <cstddef>
#include <span>

#include "channels/host/shape.hpp"

namespace tranship::host {

/// Largest number of pieces of a record.
inline constexpr std::size_t pieces_max = 32;

/// Records that both sides hold whole, such as structures whose fields lie in another order.
struct WholeRecords {
  Shape shape;  ///< Its pieces are the ones below.
  ElementPiece pieces[pieces_max];
};

/// Joins shapes that walk the same axes on both sides; axes that only some of them have become
/// pieces. Returns false if they have no axis in common, or if there are too many pieces.
bool join_records(std::span<const Shape> shapes, WholeRecords& records);

}  // namespace tranship::host
