// The thread of a staging server that moves objects between its memory and its disk.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "staging/model/move.hpp"
#include "staging/server/disk.hpp"

namespace tranship::staging {

/// Carries out moves in the order of add(), on a thread of its own. Any thread may call any member.
class Mover {
 public:
  using Ended = std::function<void(const Move&, const Status&)>;
  /// `ended` is called from the mover's thread, without any of its locks; not for drops.
  Mover(std::unique_ptr<Disk> disk, Ended ended);
  /// Waits for the running move, and discards the others.
  ~Mover();

  /// `memory`: Address of the move's range of memory, which must stay until the move has ended.
  void add(const Move& move, std::byte* memory);

 private:
  /// A move that has been added and not reported.
  struct QueuedMove {
    Move move;
    std::byte* memory = nullptr;
    Status status;
  };

  void run();
  void carry_out(std::vector<QueuedMove>& batch);

  std::unique_ptr<Disk> disk_;
  Ended ended_;
  std::mutex mutex_;  ///< Guards what follows.
  std::condition_variable condition_;
  std::deque<QueuedMove> queue_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tranship::staging
