#include "runtime/buffer_queue.hpp"

#include <algorithm>

namespace tranship {

BufferQueue::Line& BufferQueue::line(int memory) {
  const auto number = static_cast<std::size_t>(memory);
  if (number >= lines_.size()) lines_.resize(number + 1);
  return lines_[number];
}

void BufferQueue::enter(BufferWaiter& waiter, std::vector<BufferWaiter*>& granted) {
  if (waiter.buffer_requests.empty()) {
    granted.push_back(&waiter);
    return;
  }
  for (const BufferRequest& request : waiter.buffer_requests) {
    line(request.memory).insert(&waiter);
  }
  freed_.push_back(waiter.buffer_requests.front().memory);
  serve(granted);
}

void BufferQueue::leave(BufferWaiter& waiter, std::vector<BufferWaiter*>& granted) {
  step_out(waiter);
  serve(granted);
}

void BufferQueue::give_back(BufferWaiter& waiter, std::size_t number,
                            std::vector<BufferWaiter*>& granted) {
  Buffer& buffer = waiter.buffers[number];
  if (buffer.address == nullptr) return;
  pool_.release(waiter.buffer_requests[number].memory, buffer);
  buffer = {};
  freed_.push_back(waiter.buffer_requests[number].memory);
  serve(granted);
}

void BufferQueue::give_back(BufferWaiter& waiter, std::vector<BufferWaiter*>& granted) {
  for (std::size_t k = 0; k < waiter.buffers.size(); ++k) {
    if (waiter.buffers[k].address == nullptr) continue;
    pool_.release(waiter.buffer_requests[k].memory, waiter.buffers[k]);
    freed_.push_back(waiter.buffer_requests[k].memory);
  }
  waiter.buffers.clear();
  serve(granted);
}

bool BufferQueue::first_everywhere(BufferWaiter& waiter) {
  return std::all_of(
      waiter.buffer_requests.begin(), waiter.buffer_requests.end(),
      [&](const BufferRequest& request) { return *line(request.memory).begin() == &waiter; });
}

void BufferQueue::step_out(BufferWaiter& waiter) {
  for (const BufferRequest& request : waiter.buffer_requests) {
    line(request.memory).erase(&waiter);
    freed_.push_back(request.memory);
  }
}

void BufferQueue::try_first(int memory, std::vector<BufferWaiter*>& granted) {
  const Line& waiting = line(memory);
  if (waiting.empty()) return;
  BufferWaiter& first = **waiting.begin();
  if (!first_everywhere(first)) return;
  if (!pool_.acquire(first.buffer_requests, first.buffers)) return;
  step_out(first);
  granted.push_back(&first);
}

/// Grants buffers to the first waiters of the freed memories. Each grant lets the next waiters try,
/// so that this goes on until no memory is left in `freed_`.
void BufferQueue::serve(std::vector<BufferWaiter*>& granted) {
  while (!freed_.empty()) {
    const int memory = freed_.back();
    freed_.pop_back();
    try_first(memory, granted);
  }
}

}  // namespace tranship
