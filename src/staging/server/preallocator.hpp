// The threads of a staging server that take the pages of its memory before objects need them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/heap.hpp"

namespace tranship::staging {

/// Takes the pages of a server's memory part by part, on threads of low priority: the kernel clears
/// pages slower than a put copies. They end when all parts have pages, when the system has no more,
/// or at stop().
class Preallocator {
 public:
  /// The steps of the work on one part, which the threads call without any lock of this class.
  struct Callbacks {
    std::function<std::optional<Range>(std::int64_t bytes)> claim;  ///< The next part, if any.
    std::function<Status(const Range& part)> take_pages;
    std::function<void(const Range& part, bool ready)> give_back;  ///< A claimed part.
  };

  /// left_least: Bytes that the machine is to have left, without swap; with less it ends. threads:
  /// How many work at the same time, if the system gives so many; at least one.
  Preallocator(Callbacks callbacks, std::int64_t left_least, int threads);
  ~Preallocator() { stop(); }

  /// Waits for the parts that are being taken, and takes no more.
  void stop();

 private:
  void run();

  Callbacks callbacks_;
  std::int64_t left_least_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace tranship::staging
