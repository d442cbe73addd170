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

  /// Returns at least `bytes` bytes; without memory if there is none.
  static Buffer of(std::int64_t bytes);

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::int64_t capacity_ = 0;
};

}  // namespace tranship::mpi
