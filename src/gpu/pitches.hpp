// Limits of the copy engines on a pitched copy, the same for real and for emulated GPUs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/check.hpp"
#include "gpu/gpus.hpp"

namespace tranship {

/// CUDA's cudaDeviceProp::memPitch, in bytes, on every GPU so far.
constexpr std::int64_t pitch_bytes_max = std::numeric_limits<std::int32_t>::max();

/// Returns the same copy with dimensions of extent 1 last, and with valid pitches where they have
/// no effect.
/// @error invalid_argument if the copy engines cannot carry the copy: a kernel can
inline Result<PitchedCopy> plain_pitches(PitchedCopy shape) {
  CHECK(shape.width_bytes >= 0 && shape.rows >= 0 && shape.planes >= 0,
        "the extents of a pitched copy are not negative");
  if (shape.rows == 1 && shape.planes > 1) {
    shape.rows = shape.planes;
    shape.source_pitch = shape.source_plane;
    shape.target_pitch = shape.target_plane;
    shape.planes = 1;
  }
  if (shape.rows <= 1) shape.source_pitch = shape.target_pitch = shape.width_bytes;
  if (shape.planes <= 1) {
    shape.source_plane = shape.rows * shape.source_pitch;
    shape.target_plane = shape.rows * shape.target_pitch;
  }
  const auto carried = [&](std::int64_t pitch, std::int64_t plane) {
    if (pitch < shape.width_bytes) return false;
    if (shape.rows > 1 && pitch > pitch_bytes_max) return false;
    if (shape.planes <= 1) return true;
    return pitch > 0 && plane % pitch == 0 && plane >= shape.rows * pitch;
  };
  if (!carried(shape.source_pitch, shape.source_plane) ||
      !carried(shape.target_pitch, shape.target_plane)) {
    return Error{ErrorCode::invalid_argument,
                 "the copy engines carry rows that do not overlap, less than 2 GiB apart, in "
                 "planes of whole rows",
                 "use a kernel for this copy"};
  }
  return shape;
}

/// Returns the bytes from the first to the last byte that a pitched copy touches at one side.
inline std::int64_t span_bytes(const PitchedCopy& shape, bool at_source) {
  const std::int64_t pitch = at_source ? shape.source_pitch : shape.target_pitch;
  const std::int64_t plane = at_source ? shape.source_plane : shape.target_plane;
  return (shape.planes - 1) * plane + (shape.rows - 1) * pitch + shape.width_bytes;
}

/// A pitched copy as two.
struct CutCopy {
  PitchedCopy first;
  PitchedCopy rest;
  std::int64_t source_offset = 0;  ///< of the rest
  std::int64_t target_offset = 0;
};

/// Cuts a copy that touches more than `bytes` at one side, where `bytes` is at least 1. The first
/// copy is all planes, or rows of a single plane, or bytes of a single row, that end within
/// `bytes`; or the one plane, or row, that does not, for another cut.
inline CutCopy cut_copy(const PitchedCopy& shape, bool at_source, std::int64_t bytes) {
  CutCopy parts{shape, shape};
  const auto fitting = [bytes](std::int64_t span, std::int64_t stride, std::int64_t count) {
    return bytes < span ? 1 : std::min((bytes - span) / stride + 1, count - 1);
  };
  if (shape.planes > 1) {
    PitchedCopy plane = shape;
    plane.planes = 1;
    const std::int64_t stride = at_source ? shape.source_plane : shape.target_plane;
    parts.first.planes = fitting(span_bytes(plane, at_source), stride, shape.planes);
    parts.rest.planes -= parts.first.planes;
    parts.source_offset = parts.first.planes * shape.source_plane;
    parts.target_offset = parts.first.planes * shape.target_plane;
  } else if (shape.rows > 1) {
    const std::int64_t stride = at_source ? shape.source_pitch : shape.target_pitch;
    parts.first.rows = fitting(shape.width_bytes, stride, shape.rows);
    parts.rest.rows -= parts.first.rows;
    parts.source_offset = parts.first.rows * shape.source_pitch;
    parts.target_offset = parts.first.rows * shape.target_pitch;
  } else {
    parts.first.width_bytes = parts.source_offset = parts.target_offset = bytes;
    parts.rest.width_bytes -= bytes;
  }
  return parts;
}

}  // namespace tranship
