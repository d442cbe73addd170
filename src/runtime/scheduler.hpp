// Which tile goes next on which channel: the runtime's decisions, without threads or a clock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/buffer_pool.hpp"
#include "runtime/buffer_queue.hpp"
#include "runtime/transfer.hpp"

namespace tranship {

/// A state machine over all transfers of an engine. Not thread-safe: a driver calls it under its
/// lock (threads) or from its event loop (virtual time). Channels serve their descriptors by strict
/// priority, then age, and keep a bounded number of bytes in flight. Buffers go all or nothing to
/// the waiting transfers in the same order, and no transfer overtakes one that waits for the same
/// memories, so that none starves and none deadlocks (I7). A call costs the logarithm of the number
/// of transfers that wait for, or are ready on, the channels and memories that it concerns.
class Scheduler {
 public:
  struct ChannelLimits {
    std::int64_t bytes_in_flight_max = 0;  ///< 0: no limit
    int jobs_in_flight_max = 1;
    int jobs_in_flight_min = 1;  ///< so many may be in flight whatever their bytes
  };

  /// What a call changed: transfers that ended (the driver ends their events outside its lock),
  /// and channels that may have work now.
  struct Changes {
    std::vector<std::shared_ptr<Transfer>> ended;
    std::vector<int> channels;
  };

  Scheduler(std::vector<ChannelLimits> channels, BufferPool& buffers);

  int add_channel(ChannelLimits limits);

  /// Adds a transfer whose descriptors name channels. It may wait for its blockers or buffers.
  void admit(std::shared_ptr<Transfer> transfer, Changes& changes);

  /// Records that one of the events that `transfer` waits for has ended. A failure is passed on.
  void unblock(const std::shared_ptr<Transfer>& transfer, const Status& status, Changes& changes);

  /// Returns the next job for a channel, if one may start now. Where a descriptor bounds its jobs
  /// in flight, only as many threads take them, those of the lowest numbers: data that more cores
  /// have in their caches slows the bus of the next hop.
  std::optional<Job> next(int channel, int thread = 0);

  /// Records the end of a job.
  void complete(const Job& job, Status status, Changes& changes);

  /// Ends the transfer with `error` as soon as its jobs in flight have ended.
  void cancel(const std::shared_ptr<Transfer>& transfer, Error error, Changes& changes);

  /// Returns, by channel, the predicted seconds of the work that goes before a transfer of that
  /// priority.
  std::vector<double> waiting_s(int priority) const;

  /// All transfers that have not ended, in no particular order.
  const std::vector<std::shared_ptr<Transfer>>& transfers() const { return transfers_; }

 private:
  /// A descriptor that may issue a request. It stays in the heap when it no longer may (its
  /// transfer drains, another lane took the last tile), and is dropped when it becomes the first.
  struct Ready {
    int priority = 0;
    int hop = 0;
    std::uint64_t age = 0;
    std::shared_ptr<Transfer> transfer;
  };
  struct ChannelState {
    ChannelLimits limits;
    int jobs_in_flight = 0;
    std::int64_t bytes_in_flight = 0;
    std::vector<Ready> ready;  ///< heap: the first by priority, age and hop in front
  };

  static bool goes_after(const Ready& a, const Ready& b);
  static const Ready* first_for(const std::vector<Ready>& ready, int thread);
  void lay_rings(Transfer& transfer);
  void start_granted(Changes& changes);
  void make_ready(const std::shared_ptr<Transfer>& transfer, int hop, Changes& changes);
  void drain(const std::shared_ptr<Transfer>& transfer, Changes& changes);
  void finish(const std::shared_ptr<Transfer>& transfer, Changes& changes);
  static bool may_issue(const Transfer& transfer, const Descriptor& descriptor);
  static std::int64_t job_bytes(const Transfer& transfer, std::int64_t tile);
  static Job issue(const std::shared_ptr<Transfer>& transfer, int hop, std::int64_t tile);

  BufferPool& buffers_;
  BufferQueue waiting_;
  std::vector<BufferWaiter*> granted_;
  std::vector<ChannelState> channels_;
  std::vector<std::shared_ptr<Transfer>> transfers_;
  std::uint64_t arrivals_ = 0;
};

}  // namespace tranship
