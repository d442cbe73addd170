// The phases in which a fabric closes.
#pragma once

#include <chrono>

#include "fabric/sessions/sessions.hpp"

namespace tranship::fabric {

/// Closes the sessions of a process in bounded time. First it ends the copies into and out of
/// peers' memory, as a goodbye promises. Then it says goodbye and waits, since a peer closes its
/// end when it has read its goodbye: closing earlier could reset the connection, so that a clean
/// close would look like a crash. Last, it waits for the fences. Threads: the progress thread.
class Closing {
 public:
  using TimePoint = Session::TimePoint;

  /// parts, sessions: Outlive this object.
  Closing(SessionParts& parts, Sessions& sessions) : parts_(parts), sessions_(sessions) {}

  void start(TimePoint now);
  /// Enters the next phase when it is due.
  void step(TimePoint now);

  bool begun() const { return phase_ != Phase::open; }
  bool ended() const { return phase_ == Phase::closed; }
  /// Ends all phases, for a process without sessions, or that takes no more steps.
  void stop() { phase_ = Phase::closed; }
  /// @error timeout if a peer still copies into or out of an exported array: the memory may not
  ///        have another use yet
  const Status& status() const { return status_; }

 private:
  enum class Phase { open, ending_copies, saying_goodbye, lifting_fences, closed };
  void enter(Phase phase, TimePoint end);
  void end_fences();

  SessionParts& parts_;
  Sessions& sessions_;
  Phase phase_ = Phase::open;
  TimePoint end_{};  ///< Time at which the next phase begins at the latest.
  Status status_;
};

}  // namespace tranship::fabric
