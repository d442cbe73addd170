// Bytes of a message that lie in several places of their sender's memory.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tranship::fabric {

/// Bytes that lie in one place or in several, and follow each other in a message. Does not own
/// them.
class GatheredBytes {
 public:
  GatheredBytes() = default;
  /// The bytes of one place.
  GatheredBytes(std::span<const std::byte> bytes) { add(bytes); }
  GatheredBytes(const std::vector<std::byte>& bytes) { add(bytes); }
  GatheredBytes(std::vector<std::byte>&&) = delete;

  void add(std::span<const std::byte> part) {
    if (part.empty()) return;
    parts_.push_back(part);
    size_ += part.size();
  }

  std::span<const std::span<const std::byte>> parts() const { return parts_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  std::vector<std::span<const std::byte>> parts_;
  std::size_t size_ = 0;
};

}  // namespace tranship::fabric
