// Carries the steps of recipes. Each carrier has a file of its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/clock.hpp"
#include "base/trace.hpp"
#include "engine/carriers/ends.hpp"
#include "engine/carriers/waits.hpp"
#include "engine/engine_channels.hpp"
#include "engine/event.hpp"
#include "engine/lifetime.hpp"
#include "engine/link_usage.hpp"
#include "engine/recipe/recipe.hpp"

namespace tranship {

namespace fabric {
class OutgoingNotice;
}

/// Starts steps between arrays whose memories are known (is_resolved()). Owns no threads, channels
/// or arrays: it refers to parts of an engine, which outlive it. Threads: all.
class Carriers {
 public:
  struct Parts {
    const EngineChannels& channels;
    Lifetime& lifetime;
    LinkUsage* links = nullptr;  ///< null: the uses of links are not known
    Trace* trace = nullptr;      ///< null: nothing is traced
    const Clock& clock;
  };
  explicit Carriers(Parts parts)
      : channels_(parts.channels),
        lifetime_(parts.lifetime),
        links_(parts.links),
        trace_(parts.trace),
        clock_(parts.clock) {}

  /// Starts all steps of a recipe between the arrays of `pairs`. The event is that of all, with
  /// the plan of the first. owner: Keeps the memory of all arrays; null: their own owners do.
  /// @error as Engine::start(): then none of the steps goes on
  Result<Event> start(const Recipe& recipe, std::span<const CopyPair> pairs,
                      const StartOptions& options, const std::shared_ptr<void>& owner = {}) const;

  /// Starts one step. @error as start()
  Result<Event> start_step(const RecipeStep& step, const StepEnds& ends,
                           const StartOptions& options) const;

  /// Carries a recipe of one step, between the arrays of its base, on the caller's thread, if that
  /// needs no lock that another thread holds, no other thread, and if all of `options.after` have
  /// ended. Returns nothing otherwise, or if the process that owns the memory was lost meanwhile:
  /// call start() then.
  std::optional<Event> start_now(const Recipe& recipe, const Array& source, const Array& target,
                                 const StartOptions& options) const;

  /// Moves the bytes of a step of Carrier::here between two addresses.
  static void move(const RecipeStep& step, const std::byte* source, std::byte* target);

  /// Checks that arrays which were pinned still are: a GPU fails when it accesses pageable memory.
  /// @error invalid_argument if one is not
  Status check_pinned(const CopyPair& ends) const;

  /// Waits until a copy has ended, as calls wait that other threads may close and signals
  /// interrupt.
  /// @error how the copy ended; cancelled if `interrupted` returned true, and closed: then a copy
  ///        that no GPU carries was cancelled, and has ended
  Status wait_for_end(const Event& event, bool (*interrupted)()) const;

  /// Runs a plan that the caller has made, as a transfer.
  Event start_along(const std::shared_ptr<const Plan>& plan, const CopyPair& ends) const;

  /// Runs the nests of a peer's access as one job of a channel; `done` is called when it has ended.
  void run_nests(const Request& request, std::function<void(Status)> done) const;

  bool traces() const { return trace_ != nullptr; }
  /// Returns whether the caller's stream is being captured: what is prepared then might become a
  /// part of the graph.
  bool is_captured(const StartOptions& options, const CopyPair& ends) const;

 private:
  Result<Event> start_nothing(const RecipeStep& step, const StepEnds& ends, const Waits& waits,
                              const StartOptions& options) const;
  Result<Event> start_here(const RecipeStep& step, const StepEnds& ends, const Waits& waits) const;
  Result<Event> start_on_gpu(const RecipeStep& step, const StepEnds& ends, const Waits& waits,
                             const StartOptions& options, Guards guards) const;
  /// Returns whether a short copy may go through a bounce buffer within the call, once the events
  /// that it waits for have ended. If the caller named a stream, it may only if later work in that
  /// stream has to follow the copy: the call then waits for the stream in any case.
  bool bounces(const Plan& plan, const Waits& waits, const StartOptions& options) const;
  Result<Event> start_bounced(const RecipeStep& step, const StepEnds& ends, const Waits& waits,
                              const StartOptions& options, Guards guards) const;
  /// Carries a short copy to or from an array of another process. Returns nothing if the caller's
  /// thread cannot carry it, so that it has to become a transfer.
  std::optional<Status> carry_to_peer(const RecipeStep& step, const StepEnds& ends,
                                      const StartOptions& options) const;
  /// Carries a short copy to or from an array of another process without its help. Returns false
  /// if that cannot be: start() carries it in another way, or says why not.
  bool carry_directly(const RecipeStep& step, const Array& source, const Array& target) const;
  Result<Event> start_transfer(const RecipeStep& step, const StepEnds& ends, const Waits& waits,
                               Guards guards) const;
  /// Starts a recipe, and behind it the notices that the options ask for.
  Result<Event> start_and_notify(const Recipe& recipe, std::span<const CopyPair> pairs,
                                 const StartOptions& options,
                                 const std::shared_ptr<void>& owner) const;
  /// Sends a notice once all of `after` have ended well.
  Event start_notice(std::shared_ptr<fabric::OutgoingNotice> notice, int priority,
                     const std::vector<std::shared_ptr<Completion>>& after) const;
  /// Marks for other processes that a copy uses a GPU's link.
  void mark_link(const RecipeStep& step, const StepEnds& ends) const;
  /// Adds a span of the caller's thread to the trace, if there is one.
  void note_span(const Plan& plan, std::int64_t begin_ns) const;
  std::int64_t now_ns() const { return trace_ != nullptr ? clock_.now_ns() : 0; }

  const EngineChannels& channels_;
  Lifetime& lifetime_;
  LinkUsage* links_;
  Trace* trace_;
  const Clock& clock_;
};

/// Returns the GPU on which an array of this process lies, or else `otherwise`. A stream that is
/// given by its number alone belongs to that GPU, whichever other GPUs the plan goes through.
int own_gpu(const StepEnds& ends, int otherwise);

}  // namespace tranship
