// Kernels for lists of nests and of places.
#include <cuda_runtime.h>

#include "gpu/kernels/launch.hpp"
#include "gpu/kernels/nest_list_body.hpp"
#include "gpu/kernels/place_list_body.hpp"
#include "gpu/kernels/select_kernel.hpp"

namespace tranship::gpu {
namespace {

template <int element_bytes, bool shifted>
__device__ void move_listed(const NestPlan& plan, const ListedBlock& block, const std::byte* source,
                            std::byte* target, Row* rows) {
  if (block.number >= plan.blocks) return;
  source += block.nest.source;
  const DirectPlace place = locate_direct(plan, block.number, source, target + block.nest.target);
  list_rows(plan, place, threadIdx.x, rows);
  __syncthreads();
  move_rows<element_bytes, shifted>(plan, place, rows, source, threadIdx.x);
}

template <int element_bytes, bool shifted>
__global__ void __launch_bounds__(kernel_threads)
    held_list_kernel(const __grid_constant__ HeldTable held, const std::byte* source,
                     std::byte* target) {
  static_assert(sizeof(HeldTable) + 2 * sizeof(void*) <= 4096, "parameters of a launch");
  __shared__ Row rows[box_rows_max];
  const NestTable table = table_in(held);
  const ListedBlock block = find_block(table, blockIdx.x);
  move_listed<element_bytes, shifted>(table.plans[block.nest.plan], block, source, target, rows);
}

template <int element_bytes, bool shifted>
__global__ void __launch_bounds__(kernel_threads)
    list_kernel(const __grid_constant__ NestTable table, const std::byte* source,
                std::byte* target) {
  constexpr std::uint32_t words = sizeof(NestPlan) / sizeof(std::uint32_t);
  static_assert(sizeof(NestPlan) % sizeof(std::uint32_t) == 0);
  __shared__ alignas(NestPlan) std::uint32_t near[words];
  __shared__ Row rows[box_rows_max];
  const ListedBlock block = find_block(table, blockIdx.x);
  const auto* from = reinterpret_cast<const std::uint32_t*>(&table.plans[block.nest.plan]);
  for (std::uint32_t k = threadIdx.x; k < words; k += kernel_threads) near[k] = from[k];
  __syncthreads();
  const NestPlan& plan = *reinterpret_cast<const NestPlan*>(near);
  move_listed<element_bytes, shifted>(plan, block, source, target, rows);
}

__global__ void __launch_bounds__(kernel_threads)
    places_kernel(const __grid_constant__ PlaceLaunch places, const std::byte* source,
                  std::byte* target) {
  move_places(places, blockIdx.x, threadIdx.x, source, target);
}

/// Launches the kernel that select_list() selects.
struct Launch {
  const NestTable& table;
  const std::byte* source;
  std::byte* target;
  cudaStream_t stream;

  template <int element_bytes, bool shifted>
  int list() const {
    const auto blocks = static_cast<unsigned>(table.blocks);
    if (table.on_host != nullptr) {
      held_list_kernel<element_bytes, shifted>
          <<<blocks, kernel_threads, 0, stream>>>(hold(table), source, target);
    } else {
      list_kernel<element_bytes, shifted>
          <<<blocks, kernel_threads, 0, stream>>>(table, source, target);
    }
    return cudaGetLastError();
  }
};

}  // namespace

int launch_list(const NestTable& table, const std::byte* source, std::byte* target, void* stream) {
  if (table.blocks == 0) return cudaSuccess;
  return select_list(table, Launch{table, source, target, static_cast<cudaStream_t>(stream)});
}

int launch_places(const PlaceLaunch& places, const std::byte* source, std::byte* target,
                  void* stream) {
  if (places.blocks == 0) return cudaSuccess;
  places_kernel<<<places.blocks, kernel_threads, 0, static_cast<cudaStream_t>(stream)>>>(
      places, source, target);
  return cudaGetLastError();
}

}  // namespace tranship::gpu
