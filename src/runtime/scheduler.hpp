// Which tile goes next on which channel: the runtime's decisions, without threads or a clock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/buffer_pool.hpp"
#include "runtime/transfer.hpp"

namespace tranship {

/// A state machine over all transfers of an engine. Not thread-safe: a driver calls it under its
/// lock (threads) or from its event loop (virtual time). Channels serve their descriptors by strict
/// priority, then age, and keep a bounded number of bytes in flight. Buffers go all or nothing to
/// the waiting transfers in the same order; nobody overtakes a waiting transfer of the same
/// memories, so none starves and none deadlocks (I7).
class Scheduler {
 public:
  struct ChannelLimits {
    std::int64_t bytes_in_flight_max = 0;  ///< 0: no limit
    int jobs_in_flight_max = 1;
  };

  /// What a call changed: transfers that ended (the driver ends their events outside its lock),
  /// and channels that may have work now.
  struct Changes {
    std::vector<std::shared_ptr<Transfer>> ended;
    std::vector<int> channels;
  };

  Scheduler(std::vector<ChannelLimits> channels, BufferPool& buffers);

  int add_channel(ChannelLimits limits);

  /// Takes in a transfer whose descriptors name channels. It may wait for its blockers or buffers.
  void admit(std::shared_ptr<Transfer> transfer, Changes& changes);

  /// One of the events that `transfer` waits for has ended. A failure is passed on.
  void unblock(const std::shared_ptr<Transfer>& transfer, const Status& status, Changes& changes);

  /// The next job for a channel, if one may start now.
  std::optional<Job> next(int channel);

  /// A job has ended.
  void complete(const Job& job, Status status, Changes& changes);

  /// Ends the transfer with `error` as soon as its jobs in flight have ended.
  void cancel(const std::shared_ptr<Transfer>& transfer, Error error, Changes& changes);

  /// All transfers that have not ended.
  const std::vector<std::shared_ptr<Transfer>>& transfers() const { return transfers_; }

 private:
  struct ChannelState {
    ChannelLimits limits;
    std::vector<std::pair<std::shared_ptr<Transfer>, int>> descriptors;  ///< by priority, age
    std::int64_t bytes_in_flight = 0;
    int jobs_in_flight = 0;
  };

  void start_waiting(Changes& changes);
  bool start(const std::shared_ptr<Transfer>& transfer, Changes& changes);
  void drain(const std::shared_ptr<Transfer>& transfer, Changes& changes);
  void finish(const std::shared_ptr<Transfer>& transfer, Changes& changes);
  static bool may_issue(const Transfer& transfer, int hop);
  static std::int64_t job_bytes(const Transfer& transfer, std::int64_t tile);

  BufferPool& buffers_;
  std::vector<ChannelState> channels_;
  std::vector<std::shared_ptr<Transfer>> transfers_;
  std::vector<std::shared_ptr<Transfer>> waiting_;  ///< for buffers, by priority, age
  std::vector<std::byte*> acquired_;
  std::uint64_t arrivals_ = 0;
};

}  // namespace tranship
