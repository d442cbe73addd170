// Plans of kernels that convert numbers on the way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/loop_nest.hpp"
#include "gpu/kernels/nest_plan.hpp"

namespace tranship::gpu {

/// Numbers that follow each other, which one thread takes together; long runs are for numbers of 1
/// and 2 bytes.
constexpr int cast_run = 4;
constexpr int cast_long_run = 16;
/// Returns how many numbers in runs a thread holds. wide: They are held in 8 bytes each, on either
/// side.
constexpr int held_in_runs(bool wide) { return wide ? 8 : 16; }

/// Which carrier takes the numbers from one type to another.
enum class CastCarrier : std::uint8_t { int32, int64, uint64, float32, float64 };

/// Returns the carrier: the source's own, but float32 for targets of at most 16 bits that round,
/// which the libraries reach by way of it. float64 is rounded to float16 once, as NumPy does.
constexpr CastCarrier cast_carrier(NumberKind from, NumberKind to) {
  using Kind = NumberKind;
  const bool rounds = to == Kind::float16 || to >= Kind::bfloat16;
  if (from == Kind::float64) {
    return rounds && to != Kind::float16 ? CastCarrier::float32 : CastCarrier::float64;
  }
  if (from == Kind::float16 && to == Kind::float64) return CastCarrier::float64;
  if (rounds || from == Kind::float16 || from == Kind::float32 || from >= Kind::bfloat16) {
    return CastCarrier::float32;
  }
  if (from == Kind::uint64) return CastCarrier::uint64;
  return from == Kind::int64 || from == Kind::uint32 ? CastCarrier::int64 : CastCarrier::int32;
}

/// Whether numbers are held in 8 bytes each: in the source, the carrier or the target.
constexpr bool is_wide_cast(NumberKind from, NumberKind to) {
  const CastCarrier carrier = cast_carrier(from, to);
  const bool narrow = carrier == CastCarrier::int32 || carrier == CastCarrier::float32;
  return !narrow || bytes_of(from) == 8 || bytes_of(to) == 8;
}

/// How the boxes of a nest are moved.
enum class CastWay : std::int32_t {
  runs,     ///< runs that are aligned vectors at the target; in the source too, or one number
  singles,  ///< one number a thread
  shared,   ///< through shared memory: along the source's runs, then along the target's
};

/// Steps through a box: its loops, of which one may be taken in two parts.
constexpr int cast_steps_max = box_loops_max + 1;

/// A step through a box: along one loop of it, or a part of one.
struct CastStep {
  Divisor extent;
  std::int64_t source_stride = 0;  ///< bytes
  std::int64_t target_stride = 0;  ///< bytes
  std::int32_t shared_stride = 0;  ///< bytes in shared memory
  std::uint64_t indices = 0;       ///< indices that it adds for each loop of the box, 16 bits each
};

/// How the threads of a block walk a box: each item is one number, or a run of them along a loop.
struct CastWalk {
  std::int32_t rank = 0;
  std::int32_t items = 1;
  std::int32_t run_loop = 0;  ///< the loop of the box along which an item's numbers lie
  CastStep steps[cast_steps_max];
  /// Whether a thread's items follow each other along the last step, by `advance` each.
  bool regular = false;
  CastStep advance;
};

/// The parameters of a kernel that converts the numbers of one nest. A block converts a box of it.
struct CastPlan {
  NumberKind from = NumberKind::boolean;  ///< real: complex numbers are taken in parts
  NumberKind to = NumberKind::boolean;
  bool from_swapped = false;  ///< the source's bytes are in big-endian order
  bool to_swapped = false;
  bool either_part = false;  ///< a complex number is read, and true unless both parts are 0
  CastWay way = CastWay::singles;
  bool whole = true;                   ///< all items of a box that lies inside the nest are whole
  std::int32_t run = 1;                ///< numbers of an item that is read: 1, or those of a run
  bool source_vectors = false;         ///< runs of the source are aligned vectors
  bool source_aligned = false;         ///< each number of the source is read at once
  std::int64_t source_row_stride = 0;  ///< bytes between neighbours along the target's runs
  std::int64_t source_run_stride = 0;  ///< bytes between the numbers of a run of the source
  std::int32_t target_vector = 1;  ///< bytes of one access to the target: at most those of a number
                                   ///< without shared memory
  std::int32_t target_bytes = 1;   ///< bytes that a number takes; what its kind lacks is zero
  std::int32_t rank = 0;
  std::int32_t box_rank = 0;  ///< loops of more than one index in a box; they are not the first
  std::int64_t source_offset = 0;
  std::int64_t target_offset = 0;
  Loop loops[kernel_loops_max];             ///< of single numbers, the target's fastest first
  std::int32_t box[kernel_loops_max] = {};  ///< indices of each loop in a box
  Divisor boxes[kernel_loops_max];          ///< boxes along each loop
  /// Without shared memory: items for each index of the box's last loop, or for each run of it, and
  /// the numbers of such a run. A box that is cut along that loop alone has whole items, but fewer.
  std::int32_t last_items = 0;
  std::int32_t last_run = 1;
  CastWalk read;                       ///< also writes, without shared memory
  CastWalk write;                      ///< from shared memory
  std::int32_t shared_run_stride = 0;  ///< bytes in shared memory between the numbers of a run
  std::int64_t blocks = 0;
  std::int32_t shared_bytes = 0;
};

/// Appends the plans that convert `nest` between two addresses: usually one, several if the nest
/// has more loops than a kernel walks. Of the addresses, only the alignment matters.
void plan_casts(const LoopNest& nest, const std::byte* source, const std::byte* target,
                std::vector<CastPlan>& plans);

}  // namespace tranship::gpu
