// Memory of the host that is pinned where it lies, so that GPUs reach it at their link's rate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "gpu/background_pinner.hpp"
#include "gpu/gpus.hpp"
#include "gpu/pinned_parts.hpp"
#include "os/shared_memory.hpp"

namespace tranship {

/// Pins shared memory, whole or part by part, and memory of the caller's. Threads: all.
class Pinning {
 public:
  explicit Pinning(std::shared_ptr<Gpus> gpus) : gpus_(std::move(gpus)) {}

  /// Pins shared memory. Returns false if the driver refuses, or if the background thread pins the
  /// memory and has not pinned all of it.
  bool pin(SharedMemory& memory) const;
  /// Does as pin() for a copy of this range. While the background thread pins the memory, it notes
  /// the range for that thread and returns false.
  bool pin_for_copy(SharedMemory& memory, const std::byte* first, std::int64_t bytes) const;
  /// Lets the background thread pin the first `bytes` of the memory, part by part. Does nothing if
  /// the memory is pinned already. ahead: Parts are pinned before a copy uses the memory.
  void pin_in_background(const std::shared_ptr<SharedMemory>& memory, std::int64_t bytes,
                         bool ahead) const;
  /// Ends the background thread.
  void stop() const { pinner_->stop(); }

  /// Pins the pages around the caller's memory until the last reference to the answer is released.
  /// Memory that is pinned already stays as it is.
  /// @error what the driver refused: a part that is pinned already, too little memory
  Result<std::shared_ptr<void>> pin(std::byte* begin, std::int64_t bytes) const;

  /// Returns whether GPUs reach what lies at this address of the host.
  bool reaches(const std::byte* address) const;
  /// Returns whether GPUs reach each byte from `first` to `last`.
  bool reaches(const std::byte* first, const std::byte* last) const;

 private:
  /// Returns the memory's registration; null if the driver refused it.
  std::shared_ptr<PinnedParts> parts_of(SharedMemory& memory) const;

  std::shared_ptr<Gpus> gpus_;
  std::unique_ptr<BackgroundPinner> pinner_ = std::make_unique<BackgroundPinner>();
};

}  // namespace tranship
