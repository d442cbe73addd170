// What a caller asks of a copy, beside what it moves.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/array.hpp"
#include "engine/event.hpp"
#include "plan/plan.hpp"

namespace tranship {

/// What one start of a copy asks for.
struct StartOptions {
  std::vector<Event> after;  ///< events that must end before the copy starts
  /// A cudaStream_t: the copy starts after what is in the stream. To or from the memory of a
  /// GPU that reaches the other end, too, it runs in the stream itself, so that later work of it
  /// starts after the copy, too.
  std::optional<std::uintptr_t> stream{};
  /// The GPU of the stream; -1: that of the source, if it lies on one, else that of the target.
  int stream_device = -1;
  /// Whether later work in `stream` must follow the copy. The caller then waits for copies that do
  /// not run in the stream (end_order()), so that a short one may be carried within the call.
  bool in_order = false;
  /// Whether the caller starts other copies next, so that the call must not wait for a peer's
  /// answer.
  bool among_others = false;
  /// Name of the notice that the owners of the other processes' arrays get once all bytes have
  /// arrived; refers to the caller's text. Empty: there is none.
  std::string_view notify{};
  /// Called now and then by a call that waits. The call fails with `cancelled` once this returns
  /// true. Null: the wait cannot be interrupted.
  bool (*interrupted)() = nullptr;
};

struct CopyOptions {
  int priority = 0;  ///< higher goes first on every channel
  PlannerKind planner = PlannerKind::automatic;
  /// Which numbers may be converted on the way. By default both ends must have the same types.
  Casting casting = Casting::none;
  std::int64_t buffer_bytes_max = 0;  ///< of this transfer; 0: the memories' own limits
  /// Bytes of all copies that this one belongs to. Where that is more than the caches hold, the
  /// target is written past them.
  std::int64_t together_bytes = 0;
  StartOptions start{};
};

/// The two ends of a copy.
struct CopyPair {
  Array source;
  Array target;
};

}  // namespace tranship
