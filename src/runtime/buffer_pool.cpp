#include "runtime/buffer_pool.hpp"

#include <algorithm>

#include "base/at.hpp"
#include "base/check.hpp"

namespace tranship {
namespace {

/// Largest segment that is added beyond need, in bytes. Segments double a memory's buffers up to
/// it, so that small engines stay small, and large ones allocate seldom.
constexpr std::int64_t growth_bytes_max = std::int64_t{32} << 20;

}  // namespace

BufferPool::BufferPool(std::vector<MemoryLimits> memories) {
  for (MemoryLimits& limits : memories) add_memory(std::move(limits));
}

BufferPool::~BufferPool() {
  for (Arena& arena : arenas_) {
    CHECK(arena.ranges.bytes() == arena.ranges.bytes_free(),
          "an intermediate buffer was not given back");
    drop_free_segments(arena);
  }
}

int BufferPool::add_memory(MemoryLimits limits) {
  Arena arena;
  constexpr std::int64_t sum_max = INT64_MAX / 4;  // so that sums do not overflow
  if (limits.bytes_max > 0) {
    arena.bytes_max = arena.ranges.rounded(std::min(limits.bytes_max, sum_max));
  }
  arena.source = std::move(limits.source);
  arenas_.push_back(std::move(arena));
  return static_cast<int>(arenas_.size()) - 1;
}

bool BufferPool::acquire(const std::vector<BufferRequest>& requests, std::vector<Buffer>& buffers) {
  buffers.clear();
  if (!fits(requests, false)) return false;
  if (take_all(requests, buffers)) return true;
  // Unused segments of other sizes may take the memory. Some were in use by buffers of the failed
  // attempt.
  for (const BufferRequest& request : requests) drop_free_segments(arenas_[at(request.memory)]);
  return take_all(requests, buffers);
}

bool BufferPool::take_all(const std::vector<BufferRequest>& requests,
                          std::vector<Buffer>& buffers) {
  for (std::size_t k = 0; k < requests.size(); ++k) {
    const Buffer buffer = take(requests, k);
    if (buffer.address == nullptr) {
      for (std::size_t j = 0; j < buffers.size(); ++j) release(requests[j].memory, buffers[j]);
      buffers.clear();
      return false;
    }
    buffers.push_back(buffer);
  }
  return true;
}

Buffer BufferPool::take(const std::vector<BufferRequest>& requests, std::size_t number) {
  const auto& [memory, bytes] = requests[number];
  Arena& arena = arenas_[at(memory)];
  auto range = arena.ranges.allocate(bytes);
  if (!range) {
    std::int64_t missing = 0;
    for (std::size_t k = number; k < requests.size(); ++k) {
      if (requests[k].memory == memory) missing += arena.ranges.rounded(requests[k].bytes);
    }
    const std::int64_t more = std::min(arena.ranges.bytes(), growth_bytes_max);
    if (add_segment(arena, std::max(missing, more)) || add_segment(arena, missing) ||
        add_segment(arena, arena.ranges.rounded(bytes))) {
      range = arena.ranges.allocate(bytes);
    }
  }
  if (!range) return {};
  return {arena.segments.at(range->segment).address + range->offset, *range};
}

/// Adds a segment. Returns false if the limit forbids it, or the memory has no room.
bool BufferPool::add_segment(Arena& arena, std::int64_t bytes) {
  if (arena.ranges.bytes() + bytes > arena.bytes_max) return false;
  std::byte* address = arena.source.allocate(bytes);
  if (address == nullptr) return false;
  arena.segments[arena.next_segment] = {address, bytes};
  arena.ranges.add_segment(arena.next_segment++, bytes);
  return true;
}

void BufferPool::drop_free_segments(Arena& arena) {
  for (const Range& segment : arena.ranges.free_segments()) {
    const auto found = arena.segments.find(segment.segment);
    arena.source.release(found->second.address, found->second.bytes);
    arena.segments.erase(found);
    arena.ranges.remove_segment(segment.segment);
  }
}

void BufferPool::release(int memory, const Buffer& buffer) {
  arenas_[at(memory)].ranges.release(buffer.range);
}

bool BufferPool::possible(const std::vector<BufferRequest>& requests) const {
  return fits(requests, true);
}

/// Returns whether the requests fit the free ranges, or an empty pool. A transfer asks for a few
/// buffers, so that comparing each with each costs less than a table.
bool BufferPool::fits(const std::vector<BufferRequest>& requests, bool when_empty) const {
  for (const BufferRequest& request : requests) {
    const Arena& arena = arenas_[at(request.memory)];
    std::int64_t bytes = when_empty ? 0 : bytes_in_use(request.memory);
    for (const BufferRequest& other : requests) {
      if (other.memory == request.memory) bytes += arena.ranges.rounded(other.bytes);
    }
    if (bytes > arena.bytes_max) return false;
  }
  return true;
}

std::int64_t BufferPool::bytes_in_use(int memory) const {
  const Heap& ranges = arenas_[at(memory)].ranges;
  return ranges.bytes() - ranges.bytes_free();
}

}  // namespace tranship
