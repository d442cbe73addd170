// Who waits for intermediate buffers, and in which order they are handed out (design: I7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "runtime/buffer_pool.hpp"

namespace tranship {

/// What somebody needs in buffers, and what he has got.
struct BufferWaiter {
  std::vector<BufferRequest> buffer_requests;
  std::vector<Buffer> buffers;  ///< one for each request, once they are granted
  int priority = 0;             ///< higher goes first
  std::uint64_t age = 0;        ///< order of arrival: of one priority, lower goes first
};

/// Hands out the buffers of a pool. Laws: (1) a waiter gets all its buffers at once or none; (2) it
/// may try only while no waiter of higher priority, or older, wants a common memory. The first of
/// all waiters is thus held up by nobody but holders of buffers, who need no more: nobody starves
/// and nothing deadlocks. Each operation costs the logarithm of the number of waiters, and a try
/// for each memory that it concerns. Not thread-safe.
class BufferQueue {
 public:
  explicit BufferQueue(BufferPool& pool) : pool_(pool) {}

  /// Lines up. The waiter stays where it is until it was granted or leaves. Appends to `granted`
  /// who got buffers now: perhaps itself.
  void enter(BufferWaiter& waiter, std::vector<BufferWaiter*>& granted);

  /// Gives up waiting, which may let others pass.
  void leave(BufferWaiter& waiter, std::vector<BufferWaiter*>& granted);

  /// Gives back the buffer of request `number`. Does nothing if it was given back before.
  void give_back(BufferWaiter& waiter, std::size_t number, std::vector<BufferWaiter*>& granted);
  /// Gives back all buffers that are left.
  void give_back(BufferWaiter& waiter, std::vector<BufferWaiter*>& granted);

 private:
  struct GoesBefore {
    bool operator()(const BufferWaiter* a, const BufferWaiter* b) const {
      return a->priority != b->priority ? a->priority > b->priority : a->age < b->age;
    }
  };
  using Line = std::set<BufferWaiter*, GoesBefore>;

  Line& line(int memory);
  bool first_everywhere(BufferWaiter& waiter);
  void try_first(int memory, std::vector<BufferWaiter*>& granted);
  void step_out(BufferWaiter& waiter);
  void serve(std::vector<BufferWaiter*>& granted);

  BufferPool& pool_;
  std::vector<Line> lines_;  ///< by memory
  std::vector<int> freed_;   ///< memories in which the first in line may try
};

}  // namespace tranship
