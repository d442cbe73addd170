// Events: the end of a copy, to wait for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "engine.h"
#include "error.hpp"
#include "plan.hpp"

namespace tranship {

/// How far a copy has come.
struct Progress {
  std::int64_t bytes_done;  ///< have arrived: by tiles; of a copy without tiles, none or all
  std::int64_t bytes_total;
  std::optional<Seconds> left;  ///< of the time that the plan predicts; nothing if not known
};

/// The end of a copy. Destroying it neither waits nor cancels: the copy goes on. Any thread may
/// call any member.
class Event {
 public:
  /// Takes ownership of a handle of the C API.
  explicit Event(tranship_event* handle) noexcept : handle_(handle) {}

  /// Waits for the end, at most `timeout`.
  /// @throws Timeout if the copy has not ended by then; else what the copy failed with: Cancelled,
  ///         Closed, PeerLost, or an Error that names the channel
  void wait(Seconds timeout) const {
    detail::check(tranship_event_wait(handle(), timeout.count()));
  }

  /// Waits for the end without a limit.
  /// @throws what the copy failed with
  void wait() const {
    constexpr double slice_s = 1e5;
    tranship_code code = TRANSHIP_OK;
    do {
      code = tranship_event_wait(handle(), slice_s);
    } while (code == TRANSHIP_TIMEOUT && !done());
    detail::check(code);
  }

  /// Returns whether the copy has ended, well or not.
  bool done() const {
    int ended = 0;
    detail::check(tranship_event_test(handle(), &ended));
    return ended != 0;
  }

  /// Returns how far the copy has come. Does not wait.
  Progress progress() const {
    tranship_progress now{};
    detail::check(tranship_event_progress(handle(), &now));
    Progress progress{now.bytes_done, now.bytes_total, {}};
    if (now.seconds_left >= 0) progress.left = Seconds(now.seconds_left);
    return progress;
  }

  /// Asks the copy to end as cancelled. What was written stays written.
  void cancel() const { detail::check(tranship_event_cancel(handle())); }

  /// Returns the plan that the copy follows.
  /// @throws NotFound for a copy without elements
  Plan plan() const {
    tranship_plan* made = nullptr;
    detail::check(tranship_event_plan(handle(), &made));
    return Plan(made);
  }

  tranship_event* handle() const noexcept { return handle_.get(); }

 private:
  std::unique_ptr<tranship_event, detail::Free<tranship_event_free>> handle_;
};

}  // namespace tranship
