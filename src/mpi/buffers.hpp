// Memory for packed messages, kept from one message to the next.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tranship::mpi {

/// Memory for one packed message; given back when it is destroyed.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  /// Returns at least `bytes` bytes; without memory if there is none. pinned: Whether GPUs reach
  /// the memory directly.
  static Buffer of(std::int64_t bytes, bool pinned = false);

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::int64_t capacity_ = 0;
  bool pinned_ = false;
};

}  // namespace tranship::mpi
