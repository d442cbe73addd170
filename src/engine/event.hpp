// Events: what the callers of an engine wait for.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "channels/gpu/gpu_channel.hpp"
#include "os/fork.hpp"
#include "plan/plan.hpp"
#include "runtime/thread_driver.hpp"

namespace tranship {

/// How far a copy has come.
struct Progress {
  std::int64_t bytes_done = 0;  ///< have arrived; 0 to bytes_total
  std::int64_t bytes_total = 0;
  /// Seconds to the end, by the time that the plan predicts and the bytes that are left; nothing
  /// where the plan predicts none.
  std::optional<double> seconds_left{};
};

/// The end of a copy, to wait for. A value; its copies refer to the same transfer. Threads: all.
class Event {
 public:
  Event() = default;
  /// A copy that has ended well.
  explicit Event(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}
  /// A copy that the driver carries.
  Event(std::shared_ptr<const Plan> plan, std::shared_ptr<Transfer> transfer,
        const std::shared_ptr<ThreadDriver>& driver)
      : plan_(std::move(plan)), transfer_(std::move(transfer)), driver_(driver) {}
  /// A copy that the caller's thread has put into a stream of a GPU.
  Event(std::shared_ptr<const Plan> plan, std::shared_ptr<GpuFlight> flight)
      : plan_(std::move(plan)), flight_(std::move(flight)) {}

  /// A notice of a copy, which the driver sends.
  static Event of_notice(std::shared_ptr<Transfer> transfer,
                         const std::shared_ptr<ThreadDriver>& driver) {
    Event event(nullptr, std::move(transfer), driver);
    event.notice_ = true;
    return event;
  }

  bool done() const;
  /// Whether the copy is known to have ended well, without a lock and without asking a GPU.
  bool ended_well() const;
  /// @error timeout if the transfer has not ended by then; closed in a fork of the process that
  ///        started it; else how it ended
  Status wait(std::optional<std::chrono::nanoseconds> timeout) const;
  /// Asks the transfer to end as cancelled; bytes that have been written stay. Returns whether it
  /// ends so. For an event of several copies: whether one of them does.
  bool cancel() const;
  /// Several copies, which have ended when all have.
  explicit Event(std::vector<Event> parts) : plan_(parts[0].plan_), parts_(std::move(parts)) {}
  /// Returns how far the copy has come, in tiles that have arrived. A copy that is carried in one
  /// step has moved either nothing or all. A copy that failed or was cancelled reports the bytes
  /// that had arrived, and 0 s left.
  Progress progress() const;
  /// Returns the event of this copy and of the notices behind it.
  Event followed_by(std::vector<Event> notices) const;
  /// Counts bytes of other copies of the same call, which have ended, as progress() does.
  void add_ended(std::int64_t bytes) { ended_bytes_ += bytes; }
  /// Returns whether this process was forked since the copy began. The threads that carry it run in
  /// the parent, so that the event never ends here.
  bool forked() const { return fork_generation_ != fork_generation(); }
  /// Returns the copies that it stands for: itself, if it is one.
  std::vector<Event> parts() const { return parts_.empty() ? std::vector{*this} : parts_; }
  /// Null for a copy of nothing; of several copies that of the first.
  const std::shared_ptr<const Plan>& plan() const { return plan_; }
  /// Null if the copy ended within the call, or is in flight().
  std::shared_ptr<Completion> completion() const;
  /// Null if the copy does not run on a GPU by itself.
  const std::shared_ptr<GpuFlight>& flight() const { return flight_; }
  /// Returns whether it is the end of a notice rather than of a copy.
  bool is_notice() const { return notice_; }

 private:
  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<Transfer> transfer_;
  std::shared_ptr<GpuFlight> flight_;
  std::weak_ptr<ThreadDriver> driver_;
  std::vector<Event> parts_;
  std::int64_t ended_bytes_ = 0;  ///< of copies of the same call that are not among the parts
  bool notice_ = false;
  std::uint64_t fork_generation_ = fork_generation();
};

}  // namespace tranship
