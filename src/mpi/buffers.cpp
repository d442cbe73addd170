#include "mpi/buffers.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "mpi/gpu_memory.hpp"

namespace tranship::mpi {
namespace {

constexpr std::int64_t smallest_bytes = 4096;
constexpr std::size_t alignment = 64;
/// Most bytes of unused buffers that are kept.
constexpr std::int64_t kept_bytes_max = std::int64_t{256} << 20;
/// Most buffers of one size that are kept.
constexpr std::size_t free_most = 256;
constexpr int classes = 48;

/// Unused buffers, by the power of two of their size.
struct Kept {
  std::mutex mutex;
  struct {
    std::array<std::byte*, free_most> buffers;
    std::size_t count = 0;
  } free[classes];
  std::int64_t bytes = 0;
};

Kept& kept(bool pinned) {
  static Kept* const all = new Kept[2];  // never deleted: messages may end while the process exits
  return all[pinned ? 1 : 0];
}

std::size_t class_of(std::int64_t capacity) {
  return static_cast<std::size_t>(std::countr_zero(static_cast<std::uint64_t>(capacity)));
}

/// Keeps memory for the next message; returns false if there is enough.
bool keep(std::byte* data, std::int64_t capacity, bool pinned) {
  Kept& all = kept(pinned);
  const std::lock_guard lock(all.mutex);
  auto& free = all.free[class_of(capacity)];
  if (all.bytes + capacity > kept_bytes_max || free.count == free_most) return false;
  free.buffers[free.count++] = data;
  all.bytes += capacity;
  return true;
}

}  // namespace

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      capacity_(std::exchange(other.capacity_, 0)),
      pinned_(other.pinned_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(capacity_, other.capacity_);
  std::swap(pinned_, other.pinned_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ == nullptr || keep(data_, capacity_, pinned_)) return;
  if (pinned_) {
    free_pinned(data_);
  } else {
    std::free(data_);
  }
}

Buffer Buffer::of(std::int64_t bytes, bool pinned) {
  Buffer buffer;
  buffer.pinned_ = pinned;
  if (bytes > std::int64_t{1} << 46) return buffer;
  const auto capacity = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::max(bytes, smallest_bytes))));
  Kept& all = kept(pinned);
  {
    const std::lock_guard lock(all.mutex);
    auto& free = all.free[class_of(capacity)];
    if (free.count > 0) {
      buffer.data_ = free.buffers[--free.count];
      buffer.capacity_ = capacity;
      all.bytes -= capacity;
      return buffer;
    }
  }
  buffer.data_ = pinned ? allocate_pinned(capacity)
                        : static_cast<std::byte*>(
                              std::aligned_alloc(alignment, static_cast<std::size_t>(capacity)));
  if (buffer.data_ != nullptr) buffer.capacity_ = capacity;
  return buffer;
}

}  // namespace tranship::mpi
