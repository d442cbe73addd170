// The queue of transfers that wait for intermediate buffers (design: I7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "runtime/buffer_pool.hpp"

namespace tranship {

/// A pending buffer request of one transfer, and the buffers that it was granted.
struct BufferWaiter {
  std::vector<BufferRequest> buffer_requests;
  std::vector<Buffer> buffers;  ///< one for each request, once they are granted
  int priority = 0;             ///< higher goes first
  std::uint64_t age = 0;        ///< order of arrival: of one priority, lower goes first
};

/// Hands out the buffers of a pool. Laws: (1) a waiter gets all its buffers at once or none; (2) it
/// may try only while no waiter of higher priority, or older, wants a common memory. The first of
/// all waiters therefore waits only for holders of buffers, which need no more: no waiter starves
/// and no cycle of waiting can form. Each operation costs the logarithm of the number of waiters,
/// and one try for each memory that it concerns. Not thread-safe.
class BufferQueue {
 public:
  explicit BufferQueue(BufferPool& pool) : pool_(pool) {}

  /// Adds a waiter, which must keep its address until it is granted or removed. Appends to
  /// `granted` the waiters that get buffers now: perhaps this one.
  void enter(BufferWaiter& waiter, std::vector<BufferWaiter*>& granted);

  /// Removes a waiter, which may let others pass.
  void leave(BufferWaiter& waiter, std::vector<BufferWaiter*>& granted);

  /// Returns the buffer of request `number` to the pool. Does nothing if it was returned before.
  void give_back(BufferWaiter& waiter, std::size_t number, std::vector<BufferWaiter*>& granted);
  /// Returns all buffers that the waiter still holds to the pool.
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
