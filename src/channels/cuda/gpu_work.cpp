#include "channels/cuda/gpu_work.hpp"

#include <algorithm>
#include <optional>

namespace tranship {
namespace {

/// From so many separate runs on, one kernel carries them all.
constexpr std::size_t pieces_least = 4;
/// Rows from which a copy engine is as fast over the link as with long runs.
constexpr std::int64_t engine_row_least = 64;
/// Copy commands that one nest may take: each costs the caller a few microseconds.
constexpr std::int64_t engine_commands_most = 4;

/// The three inner loops as one command of a copy engine, if it can walk them.
std::optional<PitchedCopy> pitched(const LoopNest& nest) {
  PitchedCopy shape;
  shape.width_bytes = nest.element_bytes;
  if (nest.rank == 0) return shape;
  const Loop& rows = nest.loops[0];
  shape.rows = rows.extent;
  shape.source_pitch = rows.source_stride;
  shape.target_pitch = rows.target_stride;
  if (std::min(rows.source_stride, rows.target_stride) < nest.element_bytes) return std::nullopt;
  if (nest.rank == 1) return shape;
  const Loop& planes = nest.loops[1];
  shape.planes = planes.extent;
  shape.source_plane = planes.source_stride;
  shape.target_plane = planes.target_stride;
  const bool walks = planes.source_stride >= rows.extent * rows.source_stride &&
                     planes.target_stride >= rows.extent * rows.target_stride &&
                     planes.source_stride % rows.source_stride == 0 &&
                     planes.target_stride % rows.target_stride == 0;
  return walks ? std::optional(shape) : std::nullopt;
}

std::int64_t outer_count(const LoopNest& nest) {
  std::int64_t count = 1;
  for (int k = 2; k < nest.rank; ++k) count *= nest.loops[static_cast<std::size_t>(k)].extent;
  return count;
}

}  // namespace

GpuWork::~GpuWork() {
  if (table_ != nullptr) gpus_->release_pinned(reinterpret_cast<std::byte*>(table_));
}

Status GpuWork::enqueue(const GpuStream& stream, std::span<const LoopNest> nests,
                        const std::byte* source, std::byte* target, GpuWay way) {
  const bool runs =
      std::all_of(nests.begin(), nests.end(), [](const LoopNest& nest) { return nest.rank == 0; });
  if (runs && nests.size() >= pieces_least) return enqueue_pieces(stream, nests, source, target);
  for_kernels_.clear();
  for (const LoopNest& nest : nests) {
    if (Status s = enqueue_nest(stream, nest, source, target, way); !s) return s;
  }
  if (for_kernels_.empty()) return {};
  plans_.clear();
  cuda::plan_kernels(for_kernels_, source, target, plans_);
  for (const cuda::KernelPlan& plan : plans_) {
    if (Status s = gpus_->launch(stream, plan, source, target); !s) return s;
  }
  return {};
}

Status GpuWork::enqueue(const GpuStream& stream, const LoopNest& run, const Pages& pages,
                        const std::byte* source, std::byte* target) {
  const auto count = static_cast<std::int64_t>(pages.source.size());
  if (Status status = reserve_table(count); !status) return status;
  for (std::size_t k = 0; k < pages.source.size(); ++k) {
    table_[k] = {run.source_offset + pages.source[k] * pages.source_stride,
                 run.target_offset + pages.target[k] * pages.target_stride, run.element_bytes};
  }
  return gpus_->launch(stream, table_, count, source, target);
}

Status GpuWork::reserve_table(std::int64_t count) {
  if (table_count_ >= count) return {};
  if (table_ != nullptr) gpus_->release_pinned(reinterpret_cast<std::byte*>(table_));
  table_ = nullptr;
  table_count_ = 0;
  auto table = gpus_->allocate_pinned(count * static_cast<std::int64_t>(sizeof(cuda::Piece)));
  if (!table) return table.error();
  table_ = reinterpret_cast<cuda::Piece*>(*table);
  table_count_ = count;
  return {};
}

Status GpuWork::enqueue_nest(const GpuStream& stream, const LoopNest& nest, const std::byte* source,
                             std::byte* target, GpuWay way) {
  const std::byte* from = source + nest.source_offset;
  std::byte* to = target + nest.target_offset;
  if (nest.bytes() == 0) return {};
  if (nest.rank == 0 && way != GpuWay::past_engines) {
    return gpus_->copy(stream, from, to, nest.element_bytes);
  }
  const auto shape = way == GpuWay::over_link && nest.element_bytes >= engine_row_least &&
                             outer_count(nest) <= engine_commands_most
                         ? pitched(nest)
                         : std::nullopt;
  if (!shape) {
    for_kernels_.push_back(nest);
    return {};
  }
  for (std::int64_t number = 0; number < outer_count(nest); ++number) {
    std::int64_t rest = number;
    std::int64_t source_bytes = 0;
    std::int64_t target_bytes = 0;
    for (int k = 2; k < nest.rank; ++k) {
      const Loop& loop = nest.loops[static_cast<std::size_t>(k)];
      source_bytes += rest % loop.extent * loop.source_stride;
      target_bytes += rest % loop.extent * loop.target_stride;
      rest /= loop.extent;
    }
    if (Status s = gpus_->copy(stream, from + source_bytes, to + target_bytes, *shape); !s) {
      return s;
    }
  }
  return {};
}

Status GpuWork::enqueue_pieces(const GpuStream& stream, std::span<const LoopNest> nests,
                               const std::byte* source, std::byte* target) {
  const auto count = static_cast<std::int64_t>(nests.size());
  if (Status status = reserve_table(count); !status) return status;
  for (std::size_t k = 0; k < nests.size(); ++k) {
    table_[k] = {nests[k].source_offset, nests[k].target_offset, nests[k].element_bytes};
  }
  return gpus_->launch(stream, table_, count, source, target);
}

}  // namespace tranship
