// Whether an engine may be used, and who is inside it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/error.hpp"
#include "base/gate.hpp"
#include "os/fork.hpp"

namespace tranship {

/// The life of one engine, from its start in this process until it is closed. Threads: all.
class Lifetime {
 public:
  bool closed() const { return closed_.load(std::memory_order_acquire); }
  /// Whether this process is a fork of the one that opened the engine: its threads are not here.
  bool forked() const { return fork_generation() != fork_generation_; }

  /// @error closed if the engine was closed, or the process is a fork of the one that opened it
  Status usable() const;

  /// Counts a thread that carries a copy over what closing ends, until the pass is destroyed.
  /// @error as usable()
  Result<Gate::Pass> enter();

  /// Ends the life: calls fail from now on. Returns whether this call was the first.
  bool end();
  /// Waits until no thread holds a pass; returns false if one does after `at_most`.
  bool wait_empty(std::chrono::nanoseconds at_most) const { return gate_.wait_empty(at_most); }

 private:
  Gate gate_;
  std::atomic<bool> closed_{false};
  const std::uint64_t fork_generation_ = fork_generation();
};

}  // namespace tranship
