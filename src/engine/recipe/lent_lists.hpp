// Memory for the lists of indexed copies, kept by each thread from copy to copy.
#pragma once

#include <memory>
#include <utility>

#include "data/indexed_nest.hpp"

namespace tranship {

/// Returns empty lists. The thread that drops the last reference keeps their memory for its next
/// call, so that copies that are not remembered do not allocate it each time.
inline std::shared_ptr<IndexedCopy> lent_lists() {
  static thread_local bool over = false;  // readable also after the thread's `spare` was destroyed
  struct Spare {
    std::unique_ptr<IndexedCopy> lists;
    ~Spare() { over = true; }
  };
  static thread_local Spare spare;
  auto lists = over || !spare.lists ? std::make_unique<IndexedCopy>() : std::move(spare.lists);
  lists->clear();
  return {lists.release(), [](IndexedCopy* last) {
            std::unique_ptr<IndexedCopy> unused(last);
            if (!over) spare.lists = std::move(unused);
          }};
}

}  // namespace tranship
