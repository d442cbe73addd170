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
/// copied, once, and, on a thread of low priority, those that a server has preallocated, before the
/// first copy. It allocates no pages. Any thread may call map().
class PageMapper {
 public:
  using Find = std::function<Result<std::shared_ptr<SharedMemory>>()>;

  PageMapper() = default;
  ~PageMapper() { stop(); }
  PageMapper(const PageMapper&) = delete;
  PageMapper& operator=(const PageMapper&) = delete;

  /// Maps the pages around a part of the memory that is going to be copied, if they are there and
  /// this is the first time.
  void map(const std::shared_ptr<SharedMemory>& memory, std::int64_t offset, std::int64_t bytes);

  /// Starts the thread, which maps pages as they appear, until none does for a while. Does nothing
  /// while another one of this process does so, and where the system refuses a thread.
  /// find: Returns the memory, or null if there is none to map; called from the thread.
  void start(Find find);
  /// Ends the thread, and gives up the memory: map() may not be called any more.
  void stop();

 private:
  /// Which parts were looked at; kept with the memory, whose address is not used again meanwhile.
  struct Looked {
    std::shared_ptr<SharedMemory> memory;
    std::vector<std::atomic<bool>> parts;
  };
  std::shared_ptr<Looked> looked_at(const std::shared_ptr<SharedMemory>& memory);
  void follow(const Find& find);

  std::mutex mutex_;  ///< Guards what follows.
  std::condition_variable stopping_;
  std::map<const SharedMemory*, std::shared_ptr<Looked>> looked_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tranship::staging
