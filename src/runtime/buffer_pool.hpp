// Intermediate buffers, bounded for each memory and handed out all or nothing (design: I7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace tranship {

/// Gives and takes the bytes of one memory; called with the runtime's lock held.
struct BufferSource {
  std::function<std::byte*(std::int64_t bytes)> allocate;  ///< null if there is no more
  std::function<void(std::byte* buffer, std::int64_t bytes)> release;
};

/// One buffer that a transfer needs.
struct BufferRequest {
  int memory = 0;
  std::int64_t bytes = 0;
};

/// Owns every buffer that it has handed out or keeps for reuse; kept ones count against the limit
/// too, and go first when another size is asked for. Not thread-safe: the scheduler's lock guards
/// it. Reuse matters: a fresh 64 MiB costs more in page faults than in the copy.
class BufferPool {
 public:
  struct MemoryLimits {
    std::int64_t bytes_max = 0;
    BufferSource source;
  };
  explicit BufferPool(std::vector<MemoryLimits> memories) : memories_(std::move(memories)) {
    states_.resize(memories_.size());
  }
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// Fills `buffers` with one buffer for each request and returns true, or takes nothing.
  bool acquire(const std::vector<BufferRequest>& requests, std::vector<std::byte*>& buffers);

  /// Gives one buffer back.
  void release(const BufferRequest& request, std::byte* buffer);

  /// Whether the requests would fit an empty pool.
  bool possible(const std::vector<BufferRequest>& requests) const;

  std::int64_t bytes_in_use(int memory) const;

  /// Adds a memory, such as that of a peer; returns its number.
  int add_memory(MemoryLimits limits);

 private:
  struct State {
    std::int64_t used = 0;  ///< handed out
    std::int64_t kept = 0;  ///< waiting for reuse
    std::multimap<std::int64_t, std::byte*> free;
  };
  bool fits(const std::vector<BufferRequest>& requests, bool when_empty) const;
  std::byte* take(int memory, std::int64_t bytes);
  void trim(int memory, std::int64_t bytes);

  std::vector<MemoryLimits> memories_;
  std::vector<State> states_;
};

}  // namespace tranship
