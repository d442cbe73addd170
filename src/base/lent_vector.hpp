// Memory for one call, kept by each thread from call to call.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

namespace tranship {

/// A vector for one call. The thread lends it the memory of the last one of its type: pages that
/// are fresh from the system cost several times what a pass over them does. A second one at the
/// same time gets memory of its own.
template <typename T>
class LentVector {
 public:
  LentVector() : items_(std::move(kept())) {}
  LentVector(LentVector&&) noexcept = default;
  LentVector& operator=(LentVector&&) = delete;
  ~LentVector() {
    if constexpr (!std::is_trivially_destructible_v<T>) items_.clear();
    const std::size_t capacity = items_.capacity();
    if (capacity > kept().capacity() && capacity <= kept_bytes_most / sizeof(T)) {
      kept() = std::move(items_);
    }
  }

  /// Of numbers and the like, what an earlier call has left, until they are assigned.
  std::vector<T>& items() { return items_; }
  const std::vector<T>& items() const { return items_; }

 private:
  static constexpr std::size_t kept_bytes_most = std::size_t{4} << 20;

  static std::vector<T>& kept() {
    thread_local std::vector<T> items;
    return items;
  }

  std::vector<T> items_;
};

}  // namespace tranship
