#include "engine/carriers/carriers.hpp"

#include <utility>
#include <vector>

namespace tranship {

int own_gpu(const StepEnds& ends, int otherwise) {
  const Array& source = ends.source();
  const Array& target = ends.target();
  if (!is_opened(source) && source.device >= 0) return source.device;
  return !is_opened(target) && target.device >= 0 ? target.device : otherwise;
}

Result<Event> Carriers::start(const Recipe& recipe, std::span<const CopyPair> pairs,
                              const StartOptions& options,
                              const std::shared_ptr<void>& owner) const {
  if (!options.notify.empty()) return start_and_notify(recipe, pairs, options, owner);
  const auto start = [&](const RecipeStep& step, const StartOptions& given) {
    return start_step(
        step, {pairs[step.base], pairs.subspan(step.first_pair, step.pair_count), owner}, given);
  };
  if (recipe.steps.size() == 1) return start(recipe.steps[0], options);
  if (recipe.steps.empty()) {
    const CopyPair none;
    RecipeStep step;
    step.plan = std::make_shared<const Plan>();
    step.carrier = Carrier::nothing;
    return start_step(step, {none, {}}, options);
  }
  StartOptions among = options;
  among.among_others = true;
  std::vector<Event> events;
  std::int64_t ended_bytes = 0;
  for (std::size_t n = 0; n < recipe.steps.size(); ++n) {
    const std::size_t k = recipe.order.empty() ? n : recipe.order[n];
    auto event = start(recipe.steps[k], among);
    if (!event) {
      for (const Event& started : events) started.cancel();
      for (const Event& started : events) (void)started.wait({});
      return event.error();
    }
    const bool over = event->ended_well() || (event->done() && event->wait({}));
    if (k == 0) {
      events.insert(events.begin(), std::move(*event));  // all of them have the first one's plan
    } else if (!over) {
      events.push_back(std::move(*event));
    } else {
      ended_bytes += recipe.steps[k].plan->bytes;
    }
  }
  Event all = events.size() == 1 ? std::move(events[0]) : Event(std::move(events));
  all.add_ended(ended_bytes);
  return all;
}

Result<Event> Carriers::start_step(const RecipeStep& step, const StepEnds& ends,
                                   const StartOptions& options) const {
  const Waits waits(channels_, lifetime_, options);
  if (step.carrier == Carrier::nothing) return start_nothing(step, ends, waits, options);
  const bool over = waits.over();
  const bool ready = over && !options.stream;
  if (step.carrier == Carrier::here && ready) return start_here(step, ends, waits);
  auto guards = Guards::of(ends);
  if (!guards) return guards.error();
  // Engine::close() waits for the holders of a pass. A copy within this process's memory uses
  // nothing that close() releases, and takes none.
  Gate::Pass pass;
  if (!within_memory(ends.source(), ends.target()) || !guards->all_own()) {
    auto entered = lifetime_.enter();
    if (!entered) return entered.error();
    pass = std::move(*entered);
  }
  if (step.carrier == Carrier::gpu_stream && !waits.need_transfer()) {
    return start_on_gpu(step, ends, waits, options, std::move(*guards));
  }
  const bool bounced =
      step.carrier == Carrier::bounce && over && bounces(*step.plan, waits, options);
  if (bounced || (step.carrier == Carrier::peer && ready)) {
    if (Status status = waits.status(); !status) return status.error();
    if (bounced) return start_bounced(step, ends, waits, options, std::move(*guards));
    if (const auto status = carry_to_peer(step, ends, options)) {
      return *status ? Event(step.plan) : Result<Event>(status->error());
    }
  }
  return start_transfer(step, ends, waits, std::move(*guards));
}

Result<Event> Carriers::start_nothing(const RecipeStep& step, const StepEnds& ends,
                                      const Waits& waits, const StartOptions& options) const {
  if (Status s = check_liveness(ends.source().liveness, ends.target().liveness); !s) {
    return s.error();
  }
  const ChannelSpec* gpu_channel = channels_.any_gpu_channel();
  if (options.stream && gpu_channel != nullptr) {
    GpuChannel& usual = channels_.gpus()->channel(*gpu_channel);
    const GpuStream stream = waits.stream(own_gpu(ends, usual.device()));
    const auto after = waits.gpu_events();
    if (!after) return after.error();
    auto flight = channels_.gpus()->channel_on(stream.device, usual).start({}, &stream, *after);
    if (!flight) return flight.error();
    return *flight ? Event(step.plan, std::move(*flight)) : Event(step.plan);
  }
  bool ready = true;
  for (const Event& event : options.after) {
    if (!event.done()) {
      ready = false;
    } else if (Status status = event.wait({}); !status) {
      return status.error();
    }
  }
  if (ready) return Event(step.plan);
  return start_transfer(step, ends, waits, {});
}

void Carriers::mark_link(const RecipeStep& step, const StepEnds& ends) const {
  if (links_ == nullptr) return;
  if (const auto link = link_of(ends.source(), ends.target(), step.plan->bytes)) {
    links_->mark(*link, step.plan->seconds);
  }
}

void Carriers::note_span(const Plan& plan, std::int64_t begin_ns) const {
  if (trace_ == nullptr) return;
  trace_->add({plan.path(channels_.profile()), "caller", begin_ns, clock_.now_ns(), plan.bytes, 0,
               own_row()});
}

Status Carriers::wait_for_end(const Event& event, bool (*interrupted)()) const {
  StartOptions options;
  options.interrupted = interrupted;
  Status status = Waits(channels_, lifetime_, options).wait(event);
  if (event.flight() || event.done() || event.forked()) return status;
  event.cancel();
  (void)event.wait({});
  return status;
}

}  // namespace tranship
