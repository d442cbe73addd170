// Short copies to or from a GPU through a bounce buffer, on the caller's thread.
#include <chrono>
#include <utility>

#include "channels/host/copy.hpp"
#include "engine/carriers/carriers.hpp"
#include "engine/waiting.hpp"

namespace tranship {
namespace {

/// How long a short copy waits behind others in its stream before the GPU counts as lost.
constexpr std::chrono::seconds bounce_wait_max{60};

}  // namespace

bool Carriers::bounces(const Plan& plan, const Waits& waits, const StartOptions& options) const {
  if (!options.stream) return true;
  const bool up = traits_of(channels_.spec_of(plan.hops[1]).kind).gpu;
  const GpuSide& gpus = *channels_.gpus();
  const GpuChannel& channel = gpus.channel(channels_.spec_of(plan.hops[up ? 1 : 0]));
  const GpuStream stream = waits.stream(channel.device());
  return options.in_order && stream.device == channel.device() && !gpus.gpus()->capturing(stream);
}

Result<Event> Carriers::start_bounced(const RecipeStep& step, const StepEnds& ends,
                                      const Waits& waits, const StartOptions& options,
                                      Guards guards) const {
  const Plan& plan = *step.plan;
  const GpuSide& gpus = *channels_.gpus();
  const BounceNests& nests = *step.bounce;
  auto buffer = gpus.memory().bounce_buffer(plan.hops[0].target->end_bytes());
  if (!buffer) return buffer.error();
  const bool up = traits_of(channels_.spec_of(plan.hops[1]).kind).gpu;
  Request request;
  request.source = up ? Place{buffer->get(), nullptr} : ends.source().place;
  request.target = up ? ends.target().place : Place{buffer->get(), nullptr};
  request.payload = up ? nests.from_buffer : nests.to_buffer;
  request.bytes = plan.bytes;
  request.priority = step.priority;
  if (up) copy_nests(nests.to_buffer, ends.source().place.address, buffer->get(), false);
  GpuChannel& channel = gpus.channel(channels_.spec_of(plan.hops[up ? 1 : 0]));
  const GpuStream stream = waits.stream(channel.device());
  auto flight = channel.start(request, options.stream ? &stream : nullptr, {});
  if (!flight) return flight.error();
  guards.give_to(**flight);
  // The GPU accesses one array and the buffer: the other array's owner is not needed any more.
  const Array& on_gpu = up ? ends.target() : ends.source();
  (*flight)->keep_alive({ends.owner, on_gpu.owner, *buffer});
  if (up) return Event(step.plan, std::move(*flight));
  using Clock = std::chrono::steady_clock;
  // The work in a caller's stream may take any time.
  const auto end = options.stream ? Clock::time_point::max() : Clock::now() + bounce_wait_max;
  const auto wait = [&](Clock::time_point until) { return wait_for_flight(**flight, until); };
  if (Status status = waits.wait(end, wait); !status) return status.error();
  copy_nests(nests.from_buffer, buffer->get(), ends.target().place.address, false);
  return Event(step.plan);
}

}  // namespace tranship
