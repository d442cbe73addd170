// Copies within memory that the caller's thread reaches.
#include "channels/host/copy.hpp"
#include "engine/carriers/carriers.hpp"

namespace tranship {

void Carriers::move(const RecipeStep& step, const std::byte* source, std::byte* target) {
  if (step.program) return step.program->copy(source, target, step.past_caches);
  const Payload payload = step.payload();
  copy_nests(payload.nests(), source, target, step.past_caches);
  copy_indexed(payload.indexed(), source, target, step.past_caches);
}

/// The copy holds no pass of the lifetime: Engine::close() need not wait for it. It does hold a use
/// of other processes' arrays, since those wait for its end before they take their memory back.
Result<Event> Carriers::start_here(const RecipeStep& step, const StepEnds& ends,
                                   const Waits& waits) const {
  if (Status status = waits.status(); !status) return status.error();
  const CopyHere held(ends.source(), ends.target());
  if (Status status = held.status(); !status) return status.error();
  const std::int64_t begin_ns = now_ns();
  move(step, ends.source().place.address, ends.target().place.address);
  Status status = check_liveness(ends.source().liveness, ends.target().liveness);
  note_span(*step.plan, begin_ns);
  return status ? Event(step.plan) : Result<Event>(status.error());
}

std::optional<Event> Carriers::start_now(const Recipe& recipe, const Array& source,
                                         const Array& target, const StartOptions& options) const {
  if (recipe.steps.size() != 1 || options.stream || traces()) return {};
  if (!options.notify.empty()) return {};
  const RecipeStep& step = recipe.steps[0];
  if (!Waits(channels_, lifetime_, options).over_well()) return {};
  if (step.carrier == Carrier::peer) {
    return carry_directly(step, source, target) ? std::optional(Event(step.plan)) : std::nullopt;
  }
  const bool at_once = step.carrier == Carrier::here ? !step.lists || step.program
                                                     : step.carrier == Carrier::nothing;
  if (!at_once || !within_memory(source, target)) return {};
  const CopyHere held(source, target);
  if (!held.stands()) return {};  // start() says why
  if (step.carrier == Carrier::here) move(step, source.place.address, target.place.address);
  if (!check_liveness(source.liveness, target.liveness)) return {};
  return Event(step.plan);
}

}  // namespace tranship
