// Intermediate buffers: bounded for each memory, granted all or nothing (design: I7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "base/heap.hpp"

namespace tranship {

/// Allocates and releases bytes of one memory; called with the runtime's lock held.
struct BufferSource {
  std::function<std::byte*(std::int64_t bytes)> allocate;  ///< null if there is no more
  std::function<void(std::byte* buffer, std::int64_t bytes)> release;
};

/// One buffer that a transfer needs.
struct BufferRequest {
  int memory = 0;
  std::int64_t bytes = 0;
};

struct Buffer {
  std::byte* address = nullptr;  ///< null: none
  Range range;
};

/// Owns all intermediate buffers, as ranges of segments that it keeps: allocating memory costs more
/// than copying it, since its pages are touched, pinned and mapped for GPUs. Transfers of any tile
/// size share the segments. A segment without buffers is released when a request fits no hole and
/// the limit allows no further segment. Not thread-safe: the scheduler's lock guards it.
class BufferPool {
 public:
  /// Buffers and limits are rounded up to whole pages.
  static constexpr std::int64_t page_bytes = 4096;

  struct MemoryLimits {
    std::int64_t bytes_max = 0;
    BufferSource source;
  };
  explicit BufferPool(std::vector<MemoryLimits> memories);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// Fills `buffers` with one buffer for each request and returns true, or takes nothing. It
  /// succeeds if the requests are possible and no buffer is held; held buffers may leave no hole
  /// that is large enough.
  bool acquire(const std::vector<BufferRequest>& requests, std::vector<Buffer>& buffers);

  /// Returns one buffer of a memory to the pool.
  void release(int memory, const Buffer& buffer);

  /// Whether the requests would fit an empty pool.
  bool possible(const std::vector<BufferRequest>& requests) const;

  std::int64_t bytes_in_use(int memory) const;

  /// Adds a memory, such as that of a peer; returns its number.
  int add_memory(MemoryLimits limits);

 private:
  struct Segment {
    std::byte* address = nullptr;
    std::int64_t bytes = 0;
  };
  struct Arena {
    std::int64_t bytes_max = 0;
    BufferSource source;
    Heap ranges{page_bytes};
    std::map<int, Segment> segments;
    int next_segment = 0;
  };
  static bool add_segment(Arena& arena, std::int64_t bytes);
  static void drop_free_segments(Arena& arena);
  bool fits(const std::vector<BufferRequest>& requests, bool when_empty) const;
  bool take_all(const std::vector<BufferRequest>& requests, std::vector<Buffer>& buffers);
  Buffer take(const std::vector<BufferRequest>& requests, std::size_t number);

  std::vector<Arena> arenas_;
};

}  // namespace tranship
