#include "gpu/gpu_work.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace tranship {
namespace {

/// Smallest number of runs that one kernel carries together.
constexpr std::size_t pieces_least = 4;
/// Largest piece, in bytes, of a longer run of several moves: cutting gives all pieces as many
/// threads.
constexpr std::int64_t piece_bytes_most = 64 * 1024;
/// Smallest mean run, in bytes, for which a copy engine's command costs less than a kernel loses
/// over the link.
constexpr std::int64_t engine_run_least = 256 * 1024;
/// Smallest number of nests for which a table costs less than a launch for each.
constexpr std::size_t list_least = 3;
/// Smallest row, in bytes, with which a copy engine is as fast over the link as with long runs.
constexpr std::int64_t engine_row_least = 64;
/// Most copy commands for one nest: each costs the caller a few microseconds.
constexpr std::int64_t engine_commands_most = 4;

/// Returns the element and the two inner loops as one command of a copy engine, if it can walk
/// them.
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

bool long_runs(std::span<const LoopNest> nests) {
  std::int64_t bytes = 0;
  for (const LoopNest& nest : nests) bytes += nest.bytes();
  return bytes / static_cast<std::int64_t>(nests.size()) >= engine_run_least;
}

/// Returns whether one kernel should carry the nests as a list of pieces.
bool in_pieces(std::span<const IndexedNest> nests, GpuWay way) {
  std::int64_t bytes = 0;
  std::int64_t commands = 0;  // commands that copy engines would need
  for (const IndexedNest& one : nests) {
    if (one.nest.rank > 0) return false;
    const auto entries = static_cast<std::int64_t>(one.entries.size());
    if (way != GpuWay::over_link) {
      commands += entries;
      continue;
    }
    const std::int64_t moves = one.moves();
    commands += one.one_allocation ? entries : moves;
    bytes += moves * one.nest.element_bytes;
  }
  const bool by_engines = way == GpuWay::over_link && bytes >= engine_run_least * commands;
  return commands > 1 && !by_engines;
}

/// Returns how many moves of an indexed nest go into one piece.
std::int64_t moves_of_piece(const IndexedNest& one) {
  const std::int64_t bytes = one.nest.element_bytes;
  const bool touch = one.source_step == bytes && one.target_step == bytes;
  return touch ? std::max<std::int64_t>(piece_bytes_most / std::max<std::int64_t>(bytes, 1), 1) : 1;
}

template <typename Entry>
std::int64_t size_of(std::size_t count) {
  return static_cast<std::int64_t>(count * sizeof(Entry));
}

}  // namespace

GpuWork::~GpuWork() {
  if (table_ != nullptr) gpus_->release_pinned(table_);
  if (on_gpu_ != nullptr) gpus_->release(on_gpu_device_, on_gpu_);
}

Status GpuWork::enqueue(const GpuStream& stream, const Request& request, GpuWay way) {
  const std::byte* source = request.source.address;
  std::byte* target = request.target.address;
  if (request.indexed.empty()) return enqueue_nests(stream, request.nests, source, target, way);
  if (request.nests.empty() && in_pieces(request.indexed, way)) {
    return enqueue_pieces(stream, request.indexed, source, target);
  }
  const Request plain = expanded(request, expanded_);
  return enqueue_nests(stream, plain.nests, source, target, way);
}

Status GpuWork::enqueue_nests(const GpuStream& stream, std::span<const LoopNest> nests,
                              const std::byte* source, std::byte* target, GpuWay way) {
  const bool runs =
      std::all_of(nests.begin(), nests.end(), [](const LoopNest& nest) { return nest.rank == 0; });
  if (runs && nests.size() >= pieces_least) {
    const bool by_engines = way == GpuWay::over_link && long_runs(nests);
    if (!by_engines) return enqueue_pieces(stream, nests, source, target);
  }
  for_kernels_.clear();
  if (way == GpuWay::over_link || nests.size() < list_least) {
    for (const LoopNest& nest : nests) {
      if (Status s = enqueue_nest(stream, nest, source, target, way); !s) return s;
    }
    nests = for_kernels_;
  }
  if (nests.empty()) return {};
  plans_.clear();
  if (!gpu::plan_fields(nests, source, target, plans_)) {
    if (nests.size() >= list_least) {
      if (Status s = enqueue_lists(stream, nests, source, target, way); !s) return s;
      nests = rest_;
    }
    for (const LoopNest& nest : nests) gpu::plan_kernels(nest, source, target, plans_);
  }
  for (const gpu::KernelPlan& plan : plans_) {
    if (Status s = gpus_->launch(stream, plan, source, target); !s) return s;
  }
  return {};
}

Status GpuWork::enqueue_lists(const GpuStream& stream, std::span<const LoopNest> nests,
                              const std::byte* source, std::byte* target, GpuWay way) {
  rest_.clear();
  gpu::plan_lists(nests, source, target, lists_, rest_);
  const std::array lists{&lists_.aligned, &lists_.shifted};
  std::int64_t bytes = 0;
  for (const gpu::NestList* list : lists) bytes += table_bytes(*list);
  if (bytes == 0) return {};
  if (Status status = reserve_table(bytes); !status) return status;
  std::byte* at = table_;
  for (const gpu::NestList* list : lists) {
    write_table(*list, at);
    at += table_bytes(*list);
  }
  const std::byte* table = table_;
  // If the GPU has no room for the table, the kernel reads it from pinned memory.
  if (way != GpuWay::past_engines && reserve_on_gpu(stream.device, bytes)) {
    if (Status status = gpus_->copy(stream, table_, on_gpu_, bytes); !status) return status;
    table = on_gpu_;
  }
  for (const gpu::NestList* list : lists) {
    if (list->blocks == 0) continue;
    const gpu::NestTable launched = gpu::table_of(*list, table);
    if (Status s = gpus_->launch(stream, launched, source, target); !s) return s;
    table += table_bytes(*list);
  }
  return {};
}

Status GpuWork::reserve_table(std::int64_t bytes) {
  if (table_bytes_ >= bytes) return {};
  if (table_ != nullptr) gpus_->release_pinned(table_);
  table_ = nullptr;
  table_bytes_ = 0;
  auto table = gpus_->allocate_pinned(bytes);
  if (!table) return table.error();
  table_ = *table;
  table_bytes_ = bytes;
  return {};
}

Status GpuWork::reserve_on_gpu(int device, std::int64_t bytes) {
  if (on_gpu_bytes_ >= bytes && on_gpu_device_ == device) return {};
  if (on_gpu_ != nullptr) gpus_->release(on_gpu_device_, on_gpu_);
  on_gpu_ = nullptr;
  on_gpu_bytes_ = 0;
  auto made = gpus_->allocate(device, bytes);
  if (!made) return made.error();
  on_gpu_ = *made;
  on_gpu_bytes_ = bytes;
  on_gpu_device_ = device;
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
  if (Status status = reserve_table(size_of<gpu::Piece>(nests.size())); !status) return status;
  auto* pieces = reinterpret_cast<gpu::Piece*>(table_);
  for (std::size_t k = 0; k < nests.size(); ++k) {
    pieces[k] = {nests[k].source_offset, nests[k].target_offset, nests[k].element_bytes};
  }
  return gpus_->launch(stream, pieces, static_cast<std::int64_t>(nests.size()), source, target);
}

Status GpuWork::enqueue_pieces(const GpuStream& stream, std::span<const IndexedNest> nests,
                               const std::byte* source, std::byte* target) {
  std::int64_t most_pieces = 0;  // each entry begins one, and each full piece may begin another
  for (const IndexedNest& one : nests) {
    most_pieces +=
        static_cast<std::int64_t>(one.entries.size()) + one.moves() / moves_of_piece(one);
  }
  Status reserved = reserve_table(size_of<gpu::Piece>(static_cast<std::size_t>(most_pieces)));
  if (!reserved) return reserved;
  auto* piece = reinterpret_cast<gpu::Piece*>(table_);
  for (const IndexedNest& one : nests) {
    const std::int64_t most = moves_of_piece(one);
    for (const IndexedEntry& entry : one.entries) {
      gpu::Piece next{one.nest.source_offset + entry.source_offset,
                      one.nest.target_offset + entry.target_offset, 0};
      for (std::int64_t left = entry.count; left > 0; left -= most) {
        next.bytes = one.nest.element_bytes * std::min(most, left);
        *piece++ = next;
        next.source_offset += most * one.source_step;
        next.target_offset += most * one.target_step;
      }
    }
  }
  const auto* pieces = reinterpret_cast<const gpu::Piece*>(table_);
  return gpus_->launch(stream, pieces, piece - pieces, source, target);
}

}  // namespace tranship
