// Memory on a GPU that another process has offered by an IPC handle.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "base/error.hpp"
#include "gpu/gpus.hpp"

namespace tranship {

/// Opens the memory for one GPU of this process after another, each when it first asks: each finds
/// it at an address of its own. Closes all with itself. Threads: all.
class IpcMemory {
 public:
  /// Memory that this process has offered itself: all GPUs find it where it is.
  IpcMemory(std::byte* own, int gpu) : gpu_(gpu), own_(own) {}
  IpcMemory(std::shared_ptr<Gpus> gpus, const IpcHandle& handle, int gpu)
      : gpu_(gpu), gpus_(std::move(gpus)), handle_(handle) {}
  IpcMemory(const IpcMemory&) = delete;
  IpcMemory& operator=(const IpcMemory&) = delete;
  ~IpcMemory();

  /// Opens it for the first GPU.
  /// @error what the driver refused
  static Result<std::shared_ptr<IpcMemory>> open(const std::shared_ptr<Gpus>& gpus,
                                                 const IpcHandle& handle, int gpu);

  /// The GPU on which it lies, or the first if this process does not see that one.
  int gpu() const { return gpu_; }

  /// Returns where a GPU finds it.
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
