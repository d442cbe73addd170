// Memory on a GPU that another process has offered by an IPC handle.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "base/error.hpp"
#include "gpu/gpus.hpp"

namespace tranship {

/// Memory of another process's GPU, opened for each GPU of this process when address_for() is first
/// called for it; each GPU has its own address of the memory. Owns the mappings, which its
/// destructor closes. Threads: all.
class IpcMemory {
 public:
  /// Wraps memory of this process: its address is the same for all GPUs.
  IpcMemory(std::byte* own, int gpu) : gpu_(gpu), own_(own) {}
  IpcMemory(std::shared_ptr<Gpus> gpus, const IpcHandle& handle, int gpu)
      : gpu_(gpu), gpus_(std::move(gpus)), handle_(handle) {}
  IpcMemory(const IpcMemory&) = delete;
  IpcMemory& operator=(const IpcMemory&) = delete;
  ~IpcMemory();

  /// Opens the memory for GPU number `gpu`.
  /// @error what the driver refused
  static Result<std::shared_ptr<IpcMemory>> open(const std::shared_ptr<Gpus>& gpus,
                                                 const IpcHandle& handle, int gpu);

  /// Returns the GPU on which the memory lies, or the first GPU if this process does not see it.
  int gpu() const { return gpu_; }

  /// Returns the memory's address for a GPU.
  /// @error what the driver refused
  Result<std::byte*> address_for(int gpu);

 private:
  int gpu_;
  std::byte* own_ = nullptr;
  std::shared_ptr<Gpus> gpus_;
  IpcHandle handle_;
  std::mutex mutex_;
  std::map<int, std::byte*> addresses_;  ///< by GPU
};

}  // namespace tranship
