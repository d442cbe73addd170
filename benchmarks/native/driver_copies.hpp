// Bare copies of the CUDA driver, which is loaded at run time: what the engine is compared with.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace tranship::bench {

/// One copy of bytes, and the GPU whose stream carries it.
struct RawCopy {
  std::uintptr_t source = 0;
  std::uintptr_t target = 0;
  std::size_t bytes = 0;
  int device = 0;
};

/// Streams of the driver, one for each copy of a round. With emulated GPUs, whose memory is the
/// host's, each copy is a memcpy. Raises std::runtime_error where the driver refuses a call.
class DriverCopies {
 public:
  DriverCopies(const std::vector<RawCopy>& copies, bool emulated);
  ~DriverCopies();
  DriverCopies(const DriverCopies&) = delete;
  DriverCopies& operator=(const DriverCopies&) = delete;

  /// Starts all copies.
  void start();
  /// Waits, without sleeping, until the started copies have ended.
  void wait();

 private:
  struct Driver;

  std::vector<RawCopy> copies_;
  std::unique_ptr<Driver> driver_;
};

}  // namespace tranship::bench
