#include "runtime/buffer_pool.hpp"

#include "base/check.hpp"

namespace tranship {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Sizes that are made: eight between a number and its double, so that transfers of nearly the same
/// tiles share their buffers. To make one costs much: pages are touched, pinned, mapped for GPUs.
std::int64_t size_made(std::int64_t bytes) {
  std::int64_t step = 1;
  while (step * 16 <= bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

}  // namespace

BufferPool::~BufferPool() {
  for (std::size_t k = 0; k < memories_.size(); ++k) {
    CHECK(states_[k].used == 0, "an intermediate buffer was not given back");
    trim(static_cast<int>(k), states_[k].kept);
  }
}

bool BufferPool::acquire(const std::vector<BufferRequest>& requests,
                         std::vector<std::byte*>& buffers) {
  buffers.clear();
  if (!fits(requests, false)) return false;
  for (const BufferRequest& request : requests) {
    std::byte* buffer = take(request.memory, request.bytes);
    if (buffer == nullptr) {
      for (std::size_t k = buffers.size(); k > 0; --k) release(requests[k - 1], buffers[k - 1]);
      buffers.clear();
      return false;
    }
    buffers.push_back(buffer);
  }
  return true;
}

std::byte* BufferPool::take(int memory, std::int64_t bytes) {
  State& state = states_[at(memory)];
  const MemoryLimits& limits = memories_[at(memory)];
  if (state.used + bytes > limits.bytes_max) return nullptr;
  std::byte* buffer = nullptr;
  const std::int64_t size = size_made(bytes);
  if (const auto found = state.free.find(size); found != state.free.end()) {
    buffer = found->second;
    state.free.erase(found);
    state.kept -= size;
  } else {
    const std::int64_t over = state.used + state.kept + bytes - limits.bytes_max;
    if (over > 0) trim(memory, over);
    buffer = limits.source.allocate(size);
    if (buffer == nullptr && state.kept > 0) {
      trim(memory, state.kept);
      buffer = limits.source.allocate(size);
    }
  }
  if (buffer != nullptr) state.used += bytes;
  return buffer;
}

void BufferPool::trim(int memory, std::int64_t bytes) {
  State& state = states_[at(memory)];
  while (bytes > 0 && !state.free.empty()) {
    const auto largest = std::prev(state.free.end());
    memories_[at(memory)].source.release(largest->second, largest->first);
    bytes -= largest->first;
    state.kept -= largest->first;
    state.free.erase(largest);
  }
}

void BufferPool::release(const BufferRequest& request, std::byte* buffer) {
  State& state = states_[at(request.memory)];
  state.used -= request.bytes;
  CHECK(state.used >= 0, "an intermediate buffer was given back twice");
  const std::int64_t size = size_made(request.bytes);
  state.kept += size;
  state.free.emplace(size, buffer);
}

bool BufferPool::possible(const std::vector<BufferRequest>& requests) const {
  return fits(requests, true);
}

/// A transfer asks for a few buffers, so that comparing each with each costs less than a table.
bool BufferPool::fits(const std::vector<BufferRequest>& requests, bool when_empty) const {
  for (const BufferRequest& request : requests) {
    std::int64_t bytes = when_empty ? 0 : states_[at(request.memory)].used;
    for (const BufferRequest& other : requests) {
      if (other.memory == request.memory) bytes += other.bytes;
    }
    if (bytes > memories_[at(request.memory)].bytes_max) return false;
  }
  return true;
}

std::int64_t BufferPool::bytes_in_use(int memory) const { return states_[at(memory)].used; }

int BufferPool::add_memory(MemoryLimits limits) {
  memories_.push_back(std::move(limits));
  states_.emplace_back();
  return static_cast<int>(memories_.size()) - 1;
}

}  // namespace tranship
