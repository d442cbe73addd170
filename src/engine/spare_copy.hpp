// Memory for the lists of an indexed copy, kept by each thread from copy to copy.
#pragma once

#include <utility>

#include "data/indexed_nest.hpp"

namespace tranship {

/// Lends the thread's spare lists for one call, so that a copy does not allocate its own again. A
/// call inside that call gets fresh ones.
class SpareCopy {
 public:
  SpareCopy() : copy_(std::move(kept())) { copy_.clear(); }
  ~SpareCopy() { kept() = std::move(copy_); }
  SpareCopy(const SpareCopy&) = delete;
  SpareCopy& operator=(const SpareCopy&) = delete;

  IndexedCopy& copy() { return copy_; }

 private:
  static IndexedCopy& kept() {
    thread_local IndexedCopy lists;
    return lists;
  }

  IndexedCopy copy_;
};

}  // namespace tranship
