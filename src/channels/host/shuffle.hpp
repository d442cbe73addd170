// Builds programs of shuffles.
#pragma once

#include <cstdint>
#include <span>

#include "channels/host/kernels.hpp"
#include "channels/host/shape.hpp"

namespace tranship::host {

/// A contiguous run of the target: elements of some pieces, each at an offset in the source.
struct ShuffledRun {
  std::int64_t element_bytes;
  std::span<const ElementPiece> pieces;  ///< empty: the element is one run
  std::span<const std::int64_t> sources;
};

/// Builds the program of a record; returns false if it has too many windows or vectors.
bool make_record_program(std::int64_t record_bytes, std::span<const ElementPiece> pieces,
                         RecordProgram& program);

/// Builds the program of a run; returns false if it needs too many windows to be faster than moving
/// the pieces one by one.
bool make_program(const ShuffledRun& run, ShuffleProgram& program);

}  // namespace tranship::host
