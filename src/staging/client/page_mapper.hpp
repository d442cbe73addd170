// Maps the pages of the servers' memory into a client before they are copied.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "os/shared_memory.hpp"

namespace tranship::staging {

/// The first access to a page of shared memory costs a copy a fault, which takes longer than the
/// copy of the page itself. This maps pages many at a time: those around an object before it is
/// copied, once, and, on threads of low priority, those that a server has preallocated, before the
/// first copy. It allocates no pages. Any thread may call map() and follow().
class PageMapper {
 public:
  using Open = std::function<Result<std::shared_ptr<SharedMemory>>()>;

  PageMapper() = default;
  ~PageMapper() { stop(); }
  PageMapper(const PageMapper&) = delete;
  PageMapper& operator=(const PageMapper&) = delete;

  /// Maps the pages around a part of the memory that is going to be copied, if they are there and
  /// this is the first time.
  void map(const std::shared_ptr<SharedMemory>& memory, std::int64_t offset, std::int64_t bytes);

  /// Lets threads map the pages of a memory as they appear, until none of those that they follow
  /// has got one for a while. Returns false, and does nothing, where the system refuses a thread,
  /// and while those of several other mappers of this process run.
  /// open: Returns the memory, or null if there is none to map; called from each thread.
  bool follow(Open open);
  /// Ends the threads, and gives up the memory: map() may not be called any more.
  void stop();

 private:
  /// Which parts were looked at; kept with the memory, whose address is not used again meanwhile.
  struct Looked {
    std::shared_ptr<SharedMemory> memory;
    std::vector<std::atomic<bool>> parts;
  };
  std::shared_ptr<Looked> looked_at(const std::shared_ptr<SharedMemory>& memory);
  /// A memory of which a thread maps each part whose number has the same rest as its own.
  struct Followed {
    std::shared_ptr<Looked> looked;
    std::int64_t next = 0;  ///< The part that it maps next.
  };
  void run(int thread, int threads);
  bool start();
  static bool map_next(Followed& one, int threads);

  std::mutex mutex_;  ///< Guards what follows.
  std::condition_variable changed_;
  std::vector<Open> asked_;  ///< All memories that the threads follow, or have followed.
  std::map<const SharedMemory*, std::shared_ptr<Looked>> looked_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tranship::staging
