// Device side of launch.hpp: the kernels around the bodies, and their launches.
#include <cuda_runtime.h>

#include "gpu/kernels/direct_body.hpp"
#include "gpu/kernels/launch.hpp"
#include "gpu/kernels/pieces_body.hpp"
#include "gpu/kernels/records_body.hpp"
#include "gpu/kernels/repeated_nest_body.hpp"
#include "gpu/kernels/select_kernel.hpp"
#include "gpu/kernels/table_tile_body.hpp"

namespace tranship::gpu {
namespace {

template <int element_bytes, bool shifted>
__global__ void __launch_bounds__(kernel_threads)
    direct_kernel(const __grid_constant__ NestPlan plan, const std::byte* source,
                  std::byte* target) {
  __shared__ Row rows[box_rows_max];
  const DirectPlace place = locate_direct(plan, blockIdx.x, source, target);
  list_rows(plan, place, threadIdx.x, rows);
  __syncthreads();
  move_rows<element_bytes, shifted>(plan, place, rows, source, threadIdx.x);
}

template <int element_bytes, int source_bytes, int target_bytes, int loops>
__global__ void __launch_bounds__(kernel_threads, 4)
    box_kernel(const __grid_constant__ NestPlan plan, const __grid_constant__ Repeats repeats,
               const std::byte* source, std::byte* target) {
  extern __shared__ uint4 shared_words[];
  std::byte* shared = reinterpret_cast<std::byte*>(shared_words);
  const std::uint32_t block = enter_nest(repeats, blockIdx.x, source, target);
  const BlockBox place = locate(plan, block, source, target);
  if (place.full) {
    load_box<element_bytes, source_bytes, loops, true>(plan, place, threadIdx.x, shared);
    __syncthreads();
    store_box<element_bytes, target_bytes, loops, true>(plan, place, threadIdx.x, shared);
  } else {
    load_box<element_bytes, source_bytes, loops, false>(plan, place, threadIdx.x, shared);
    __syncthreads();
    store_box<element_bytes, target_bytes, loops, false>(plan, place, threadIdx.x, shared);
  }
}

template <int unit_bytes, TileKind kind>
__global__ void __launch_bounds__(kernel_threads, 4)
    tile_kernel(const __grid_constant__ TilePlan plan, const __grid_constant__ Repeats repeats,
                const std::byte* source, std::byte* target) {
  extern __shared__ uint4 shared_words[];
  std::byte* shared = reinterpret_cast<std::byte*>(shared_words);
  auto* rows = reinterpret_cast<std::int64_t*>(shared + plan.rows_at);
  const std::uint32_t block = enter_nest(repeats, blockIdx.x, source, target);
  const TilePlace place = locate_tile(plan, block, source, target);
  tile_rows(plan, place, threadIdx.x, rows);
  __syncthreads();
  load_tile<unit_bytes>(plan, place, threadIdx.x, source + plan.source_high, rows, shared);
  __syncthreads();
  store_tile<unit_bytes, kind>(plan, place, threadIdx.x, rows, shared);
}

template <int unit_bytes>
__global__ void __launch_bounds__(kernel_threads, 4)
    table_tile_kernel(const __grid_constant__ TilePlan plan,
                      const __grid_constant__ TablePlan table,
                      const __grid_constant__ Repeats repeats, const std::byte* source,
                      std::byte* target) {
  extern __shared__ uint4 shared_words[];
  std::byte* shared = reinterpret_cast<std::byte*>(shared_words);
  auto* rows = reinterpret_cast<std::int64_t*>(shared + plan.rows_at);
  const std::uint32_t block = enter_nest(repeats, blockIdx.x, source, target);
  const TilePlace place = locate_table_tile(plan, table, block, source, target);
  table_rows(plan, table, place, threadIdx.x, rows, shared + table.bases_at);
  load_table(table, threadIdx.x, shared);
  __syncthreads();
  load_tile<unit_bytes>(plan, place, threadIdx.x, source + plan.source_high, rows, shared);
  widen_table<unit_bytes>(table, threadIdx.x, shared);
  __syncthreads();
  store_table<unit_bytes>(plan, table, place, threadIdx.x, rows, shared);
}

template <bool to_columns, bool across>
__global__ void __launch_bounds__(kernel_threads, 4)
    records_kernel(const __grid_constant__ RecordsPlan plan, std::byte* records,
                   std::byte* columns) {
  extern __shared__ uint4 shared_words[];
  std::byte* shared = reinterpret_cast<std::byte*>(shared_words);
  assume_global(records);
  assume_global(columns);
  const RecordsPlace place = locate_records<across, to_columns>(plan, blockIdx.x, records, columns);
  if constexpr (to_columns) {
    load_rows<across>(plan, place, threadIdx.x, shared);
    __syncthreads();
    store_runs<across>(plan, place, threadIdx.x, shared);
  } else {
    load_runs<across>(plan, place, threadIdx.x, shared);
    __syncthreads();
    store_rows<across>(plan, place, threadIdx.x, shared);
  }
}

__global__ void __launch_bounds__(kernel_threads)
    pieces_kernel(const Run* pieces, std::int64_t count, const std::byte* source, std::byte* target,
                  std::int32_t warps, std::int32_t warps_log2) {
  __shared__ Run held[piece_warps];
  // The table may lie in host memory: the block reads its part once, all words together.
  const std::int64_t first_warp = static_cast<std::int64_t>(blockIdx.x) * piece_warps;
  const std::int64_t first = first_warp >> warps_log2;
  const std::int64_t end = min(((first_warp + piece_warps - 1) >> warps_log2) + 1, count);
  constexpr int words = sizeof(Run) / sizeof(std::int64_t);
  if (threadIdx.x < (end - first) * words) {
    reinterpret_cast<std::int64_t*>(held)[threadIdx.x] =
        reinterpret_cast<const std::int64_t*>(pieces + first)[threadIdx.x];
  }
  __syncthreads();
  const std::int64_t warp = first_warp + threadIdx.x / warp_lanes;
  const std::int64_t number = warp >> warps_log2;
  if (number >= count) return;
  move_piece(held[number - first], source, target, static_cast<std::uint32_t>(warp & (warps - 1)),
             static_cast<std::uint32_t>(warps), threadIdx.x % warp_lanes);
}

__global__ void __launch_bounds__(kernel_threads)
    runs_kernel(const __grid_constant__ RunTable table, const std::byte* source, std::byte* target,
                std::int32_t warps, std::int32_t warps_log2) {
  const std::int64_t warp =
      static_cast<std::int64_t>(blockIdx.x) * piece_warps + threadIdx.x / warp_lanes;
  const std::int64_t number = warp >> warps_log2;
  if (number >= table.count) return;
  move_piece(piece_of(table, number), source, target,
             static_cast<std::uint32_t>(warp & (warps - 1)), static_cast<std::uint32_t>(warps),
             threadIdx.x % warp_lanes);
}

/// The blocks of a launch for a list, and the warps of one of its runs.
struct ListLaunch {
  unsigned blocks = 0;
  std::int32_t warps = 1;
  int warps_log2 = 0;
};

ListLaunch launch_of(std::int64_t count) {
  const PieceShare share = share_pieces(count);
  CHECK(share.blocks < (std::int64_t{1} << 31), "a list has more pieces than a launch takes");
  ListLaunch launch{static_cast<unsigned>(share.blocks), static_cast<std::int32_t>(share.warps), 0};
  while ((std::int64_t{1} << launch.warps_log2) < share.warps) ++launch.warps_log2;
  return launch;
}

/// Launches the kernel that select_kernel() selects.
struct Launch {
  const KernelPlan& plan;
  const Repeats& repeats;
  const std::byte* source;
  std::byte* target;
  cudaStream_t stream;

  unsigned blocks() const { return static_cast<unsigned>(plan.blocks * repeats.count); }

  template <int element_bytes, bool shifted>
  int direct() const {
    CHECK(repeats.origins == nullptr, "nests without shared memory are launched as a list");
    direct_kernel<element_bytes, shifted>
        <<<static_cast<unsigned>(plan.blocks), kernel_threads, 0, stream>>>(plan, source, target);
    return cudaGetLastError();
  }

  template <int element_bytes, int source_bytes, int target_bytes, int loops>
  int box() const {
    box_kernel<element_bytes, source_bytes, target_bytes, loops>
        <<<blocks(), kernel_threads, static_cast<std::size_t>(plan.shared_bytes), stream>>>(
            plan, repeats, source, target);
    return cudaGetLastError();
  }

  template <int unit_bytes, TileKind kind>
  int tile() const {
    tile_kernel<unit_bytes, kind>
        <<<blocks(), kernel_threads, static_cast<std::size_t>(plan.shared_bytes), stream>>>(
            plan.tile, repeats, source, target);
    return cudaGetLastError();
  }

  template <int unit_bytes>
  int table_tile() const {
    table_tile_kernel<unit_bytes>
        <<<blocks(), kernel_threads, static_cast<std::size_t>(plan.shared_bytes), stream>>>(
            plan.tile, plan.table, repeats, source, target);
    return cudaGetLastError();
  }

  template <bool to_columns, bool across>
  int records() const {
    CHECK(repeats.origins == nullptr, "records are launched one nest at a time");
    // Only the target is written.
    std::byte* from = const_cast<std::byte*>(source);
    records_kernel<to_columns, across><<<static_cast<unsigned>(plan.blocks), kernel_threads,
                                         static_cast<std::size_t>(plan.shared_bytes), stream>>>(
        plan.records, to_columns ? from : target, to_columns ? target : from);
    return cudaGetLastError();
  }
};

}  // namespace

int launch(const KernelPlan& plan, const Repeats& repeats, const std::byte* source,
           std::byte* target, void* stream) {
  const Launch launch{plan, repeats, source, target, static_cast<cudaStream_t>(stream)};
  return select_kernel(plan, launch);
}

int launch_pieces(const Run* pieces, std::int64_t count, const std::byte* source, std::byte* target,
                  void* stream) {
  if (count == 0) return cudaSuccess;
  const ListLaunch launch = launch_of(count);
  pieces_kernel<<<launch.blocks, kernel_threads, 0, static_cast<cudaStream_t>(stream)>>>(
      pieces, count, source, target, launch.warps, launch.warps_log2);
  return cudaGetLastError();
}

int launch_runs(const RunTable& table, const std::byte* source, std::byte* target, void* stream) {
  if (table.count == 0) return cudaSuccess;
  const ListLaunch launch = launch_of(table.count);
  runs_kernel<<<launch.blocks, kernel_threads, 0, static_cast<cudaStream_t>(stream)>>>(
      table, source, target, launch.warps, launch.warps_log2);
  return cudaGetLastError();
}

}  // namespace tranship::gpu
