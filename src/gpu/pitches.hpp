// Limits of the copy engines on a pitched copy, the same for real and for emulated GPUs.
#pragma once

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

}  // namespace tranship
