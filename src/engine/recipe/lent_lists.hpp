// Memory for the lists of indexed copies, kept by each thread from copy to copy.
#pragma once

#include <memory>
#include <utility>

#include "data/indexed_nest.hpp"

namespace tranship {

/// What a thread keeps from copy to copy.
template <typename Lists>
class KeptLists {
 public:
  ~KeptLists() { ended_ = true; }

  /// Returns those of the calling thread; null while it ends and they are destroyed. Only a call
  /// of this function has them destroyed with the thread, also one that has never lent any lists.
  static std::unique_ptr<Lists>* of_thread() {
    thread_local KeptLists kept;
    return ended_ ? nullptr : &kept.lists_;
  }

 private:
  static inline thread_local bool ended_ = false;

  std::unique_ptr<Lists> lists_;
};

/// Returns empty lists. The thread that drops the last reference keeps their memory for its next
/// call, so that copies that are not remembered do not allocate it each time.
template <typename Lists = IndexedCopy>
std::shared_ptr<Lists> lent_lists() {
  std::unique_ptr<Lists>* const kept = KeptLists<Lists>::of_thread();
  auto lists = kept != nullptr && *kept ? std::move(*kept) : std::make_unique<Lists>();
  lists->clear();
  return {lists.release(), [](Lists* last) {
            std::unique_ptr<Lists> unused(last);
            std::unique_ptr<Lists>* const place = KeptLists<Lists>::of_thread();
            if (place != nullptr) std::swap(*place, unused);
          }};
}

}  // namespace tranship
