#include "gpu/kernels/tile_shape.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "gpu/kernels/kernel_body.hpp"

namespace tranship::gpu {
namespace {

/// Widest step, in bytes, of a source run that is read whole, with the gaps between its elements.
constexpr std::int64_t step_bytes_max = 32;
/// A kernel counts the units of a run, and those of the tiles that reach beyond it, in 31 bits.
constexpr std::int64_t run_bytes_max = std::int64_t{1} << 29;
/// A kernel counts the indices of each loop in 31 bits.
constexpr std::int64_t extent_max = (std::int64_t{1} << 31) - 1;

}  // namespace

TileShape::TileShape(const NormalNest& normal, const KernelTuning& tuning)
    : normal_(normal), tuning_(tuning) {}

bool TileShape::choose_runs() {
  for (const Loop& loop : normal_.loops) {
    if (loop.extent > extent_max) return false;
  }
  if (!choose_loops()) return false;
  if (bytes_p() >= run_bytes_max || bytes_q() >= run_bytes_max) return false;
  grow(wished_p(), wished_q());
  grow(8 * wished_p(), 8 * wished_q());
  return true;
}

std::int64_t TileShape::wished_p() const {
  if (tuning_.tile_target_bytes != 0) return tuning_.tile_target_bytes;
  return normal_.element_bytes == 1 ? 128 : normal_.element_bytes == 2 ? 256 : 512;
}

std::int64_t TileShape::wished_q() const { return tuning_.tile_source_bytes; }

int TileShape::rows_loop() const {
  int best = -1;
  std::int64_t least = 0;
  for (std::size_t k = 0; k < normal_.loops.size(); ++k) {
    if (taken(k)) continue;
    const std::int64_t stride = std::min(source_stride(k), normal_.loops[k].target_stride);
    if (best >= 0 && stride >= least) continue;
    best = static_cast<int>(k);
    least = stride;
  }
  return best;
}

bool TileShape::joins_along_q() const {
  std::int64_t next = bytes_p();
  for (const std::size_t k : in_q) {
    if (normal_.loops[k].target_stride != next) return false;
    next *= normal_.loops[k].extent;
  }
  return true;
}

bool TileShape::taken(std::size_t loop) const {
  return std::count(in_p.begin(), in_p.end(), loop) + std::count(in_q.begin(), in_q.end(), loop) >
         0;
}

std::int64_t TileShape::source_stride(std::size_t loop) const {
  const std::int64_t stride = std::llabs(normal_.loops[loop].source_stride);
  return stride == 0 ? std::int64_t{1} << 62 : stride;
}

std::size_t TileShape::fastest_in_source() const {
  std::size_t fastest = 0;
  for (std::size_t k = 1; k < normal_.loops.size(); ++k) {
    if (source_stride(k) < source_stride(fastest)) fastest = k;
  }
  return fastest;
}

bool TileShape::choose_loops() {
  auto& loops = normal_.loops;
  if (loops.size() < 2) return false;
  const std::size_t fastest = fastest_in_source();
  if (fastest == 0) return false;
  if (loops[fastest].source_stride < 0) turn(fastest);
  step_q = loops[fastest].source_stride;
  if (step_q < normal_.element_bytes) return false;
  if (step_q > step_bytes_max && step_q > 2 * normal_.element_bytes) return false;
  in_p = {0};
  in_q = {fastest};
  count_p = loops[0].extent;
  count_q = loops[fastest].extent;
  return loops[0].target_stride == normal_.element_bytes;
}

/// Walks a loop in the opposite direction.
void TileShape::turn(std::size_t number) {
  Loop& loop = normal_.loops[number];
  normal_.source_offset += (loop.extent - 1) * loop.source_stride;
  normal_.target_offset += (loop.extent - 1) * loop.target_stride;
  loop.source_stride = -loop.source_stride;
  loop.target_stride = -loop.target_stride;
}

bool TileShape::extend_p() {
  if (in_p.empty() || in_p.size() == tile_loops_max) return false;
  for (std::size_t k = 1; k < normal_.loops.size(); ++k) {
    if (taken(k) || normal_.loops[k].target_stride != bytes_p()) continue;
    if (bytes_p() * normal_.loops[k].extent >= run_bytes_max) return false;
    in_p.push_back(k);
    count_p *= normal_.loops[k].extent;
    return true;
  }
  return false;
}

bool TileShape::extend_q() {
  if (in_q.empty() || in_q.size() == tile_loops_max) return false;
  for (std::size_t k = 0; k < normal_.loops.size(); ++k) {
    if (taken(k) || normal_.loops[k].source_stride != bytes_q()) continue;
    if (bytes_q() * normal_.loops[k].extent >= run_bytes_max) return false;
    in_q.push_back(k);
    count_q *= normal_.loops[k].extent;
    return true;
  }
  return false;
}

/// Lets the runs go over further loops until they are as long as wished.
void TileShape::grow(std::int64_t wished_target, std::int64_t wished_source) {
  for (bool grown = true; grown;) {
    const bool more_p = bytes_p() < wished_target, more_q = bytes_q() < wished_source;
    const bool p_first = bytes_p() * wished_source <= bytes_q() * wished_target;
    grown = p_first ? (more_p && extend_p()) || (more_q && extend_q())
                    : (more_q && extend_q()) || (more_p && extend_p());
  }
}

}  // namespace tranship::gpu
