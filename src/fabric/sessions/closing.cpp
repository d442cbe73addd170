#include "fabric/sessions/closing.hpp"

namespace tranship::fabric {

void Closing::enter(Phase phase, TimePoint end) {
  phase_ = phase;
  end_ = end;
}

void Closing::start(TimePoint now) {
  if (begun()) return;
  enter(Phase::ending_copies, now + parts_.options.peer_timeout);
  sessions_.begin_closing();
}

void Closing::step(TimePoint now) {
  const bool late = now >= end_;
  switch (phase_) {
    case Phase::open:
    case Phase::closed: return;
    case Phase::ending_copies:
      if (sessions_.copying() && !late) return;
      enter(Phase::saying_goodbye, now + Sessions::goodbye_max);
      return sessions_.send_goodbyes(false);
    case Phase::saying_goodbye:
      sessions_.send_goodbyes(late);
      if (sessions_.size() > 0 && !late) return;
      sessions_.end_all();
      parts_.wire->drain();
      return enter(Phase::lifting_fences, TimePoint::max());
    case Phase::lifting_fences:
      // From here on: the end of the sessions may have taken long.
      if (end_ == TimePoint::max()) end_ = now + parts_.options.peer_timeout;
      parts_.fences.lift();
      if (parts_.fences.empty() || late) end_fences();
  }
}

void Closing::end_fences() {
  stop();
  if (parts_.fences.empty()) return;
  status_ = Error{ErrorCode::timeout,
                  "the engine is closed, but " + parts_.fences.describe() +
                      " still copies into or out of an array that it exported",
                  "keep the memory until that process has exited"};
}

}  // namespace tranship::fabric
