// Memory of GPUs and pinned memory: for arrays, for buffers between two hops, and for bounces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/gpus.hpp"

namespace tranship {

/// Allocates memory of GPUs, and pinned memory. Threads: all.
class GpuBuffers {
 public:
  explicit GpuBuffers(std::shared_ptr<Gpus> gpus)
      : gpus_(std::move(gpus)), bounces_(std::make_shared<BounceBuffers>(gpus_)) {}

  /// Allocates memory of a GPU, or pinned memory if `kind` says so, which is released with the last
  /// reference.
  /// @error invalid_argument for a GPU that does not exist; out_of_memory
  Result<std::shared_ptr<void>> allocate(MemoryKind kind, int device, std::int64_t bytes) const;

  /// Returns a buffer of pinned memory through which the caller's thread copies; it is kept for the
  /// next copy.
  /// @error out_of_memory
  Result<std::shared_ptr<std::byte>> bounce_buffer(std::int64_t bytes) const;

  /// How intermediate buffers are allocated, and released.
  struct Source {
    std::function<std::byte*(std::int64_t bytes)> allocate;
    std::function<void(std::byte* buffer, std::int64_t bytes)> release;
  };
  Source pinned_source() const;
  Source source_on(int device) const;

 private:
  /// Bounce buffers that no copy uses now.
  struct BounceBuffers {
    explicit BounceBuffers(std::shared_ptr<Gpus> made_by) : gpus(std::move(made_by)) {}
    BounceBuffers(const BounceBuffers&) = delete;
    BounceBuffers& operator=(const BounceBuffers&) = delete;
    ~BounceBuffers();

    std::shared_ptr<Gpus> gpus;
    std::mutex mutex;
    std::vector<std::byte*> free;  ///< of bounce_bytes each
  };

  std::shared_ptr<Gpus> gpus_;
  std::shared_ptr<BounceBuffers> bounces_;
};

}  // namespace tranship
