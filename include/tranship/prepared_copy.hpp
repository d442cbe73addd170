// Prepared copies: checked and planned once, started again and again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "array.hpp"
#include "engine.h"
#include "error.hpp"
#include "event.hpp"

namespace tranship {

/// What one start of a prepared copy asks for.
struct StartOptions {
  /// Instances that stand for the prepared ones in this start: of the same extents, fields and
  /// layout, in the same memory. Null: the prepared ones. Not for several pairs.
  const Instance* source = nullptr;
  const Instance* target = nullptr;
  /// The copy starts when these have ended. The events must stay during the call.
  std::vector<const Event*> after{};
  /// Whether the copy starts after what is in `stream`, as in CopyOptions.
  bool has_stream = false;
  void* stream = nullptr;  ///< a cudaStream_t
  /// Name of a notice, as in CopyOptions.
  std::string notify{};
};

/// A copy that Engine::prepare() made. Memory that the caller gave must stay valid until the last
/// start has ended. Any thread may call any member; starts may overlap.
class PreparedCopy {
 public:
  /// Takes ownership of a handle of the C API.
  explicit PreparedCopy(tranship_prepared* handle) noexcept : handle_(handle) {}

  /// Starts the copy. What fails later is thrown by Event::wait().
  /// @throws InvalidArgument for other instances that differ from the prepared ones, overlap or may
  ///         only be read, and for a notice, as Engine::copy(); NotFound or PeerLost for arrays of
  ///         other processes; Closed
  Event start(const StartOptions& options = {}) const {
    std::vector<tranship_event*> after;
    for (const Event* event : options.after) after.push_back(event->handle());
    tranship_start_options given{};
    given.size = sizeof given;
    given.source = options.source != nullptr ? options.source->handle() : nullptr;
    given.target = options.target != nullptr ? options.target->handle() : nullptr;
    given.after = after.data();
    given.after_count = static_cast<std::int64_t>(after.size());
    given.stream = options.stream;
    given.has_stream = options.has_stream ? 1 : 0;
    given.notify = detail::optional_text(options.notify);
    tranship_event* made = nullptr;
    detail::check(tranship_start(handle(), &given, &made));
    return Event(made);
  }

  tranship_prepared* handle() const noexcept { return handle_.get(); }

 private:
  std::unique_ptr<tranship_prepared, detail::Free<tranship_prepared_free>> handle_;
};

}  // namespace tranship
