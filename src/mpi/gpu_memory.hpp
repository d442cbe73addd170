// Items in the memory of a GPU: an engine packs them there, into pinned memory of the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "mpi/type_plan.hpp"

namespace tranship::mpi {

/// Returns the number of the GPU on which an address lies; -1 for host memory, and if this process
/// uses no GPU. The first address on a GPU opens an engine.
int gpu_of(const void* address);

/// Returns the GPU of the memory from one byte to another, both included; nothing if the two do not
/// lie in one memory, as with types of absolute addresses.
std::optional<int> gpu_of(const void* first, const void* last);

/// Returns memory that GPUs reach directly; null if there is none.
std::byte* allocate_pinned(std::int64_t bytes);
void free_pinned(std::byte* memory);

/// Items on a GPU.
struct OnGpu {
  int gpu = -1;
  std::shared_ptr<const Items> items;
  std::byte* places = nullptr;  ///< where the first item begins
  /// Whether the packed bytes lie in memory of allocate_pinned(). Then the second copy between the
  /// same ends is prepared.
  bool repeated = false;
};

/// Packs items into `packed`, or the reverse, and waits for the end.
/// @throws Error as Engine::copy() and Event::wait()
void pack_on_gpu(const OnGpu& on, std::byte* packed);
void unpack_on_gpu(const OnGpu& on, const std::byte* packed);

}  // namespace tranship::mpi
