// Memory for one call, kept by each thread from call to call.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

namespace tranship {

/// A vector for one call. The thread lends it the memory of the last one of its type: pages that
/// are fresh from the system cost several times what a pass over them does. A second one at the
/// same time gets memory of its own, and so does one that is used while the thread ends.
/// If the elements have no destructor, it begins with those of an earlier call: assign them first.
template <typename T>
class LentVector {
 public:
  LentVector() {
    if (!ended) items_ = std::move(kept().items);
  }
  LentVector(LentVector&&) noexcept = default;
  LentVector& operator=(LentVector&&) = delete;
  ~LentVector() {
    if constexpr (!std::is_trivially_destructible_v<T>) items_.clear();
    const std::size_t capacity = items_.capacity();
    if (ended || capacity > kept_bytes_most / sizeof(T)) return;
    if (capacity > kept().items.capacity()) kept().items = std::move(items_);
  }

  std::vector<T>& operator*() { return items_; }
  const std::vector<T>& operator*() const { return items_; }
  std::vector<T>* operator->() { return &items_; }

 private:
  struct Kept {
    std::vector<T> items;
    ~Kept() { ended = true; }
  };

  static constexpr std::size_t kept_bytes_most = std::size_t{4} << 20;

  static Kept& kept() {
    thread_local Kept memory;
    return memory;
  }

  static inline thread_local bool ended = false;  ///< the thread's memory is destroyed

  std::vector<T> items_;
};

}  // namespace tranship
