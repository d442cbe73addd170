// Copies that the driver's workers carry, tile by tile, over any number of hops.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/at.hpp"
#include "engine/carriers/carriers.hpp"
#include "fabric/links/outgoing_notice.hpp"

namespace tranship {
namespace {

/// A hop of a pipeline gets this many times the threads that its rate needs. With more threads,
/// more of the data lies in caches, which slows the bus of the next hop.
constexpr double threads_spare = 1.75;
/// A hop always gets this many threads.
constexpr int threads_least = 4;

/// Returns how many of the channel's threads a hop of a pipeline gets; 0: all.
int threads_needed(const Plan& plan, const Hop& hop, const ChannelSpec& channel) {
  const double rate = hop.converts ? hop.bytes_per_second : channel.throughput.peak();
  if (channel.width <= threads_least || rate <= 0) return 0;
  const double needed = std::ceil(threads_spare * plan.bytes_per_second / rate * channel.width);
  return static_cast<int>(std::clamp<double>(needed, threads_least, channel.width));
}

/// Makes a transfer of a single request of a channel.
std::shared_ptr<Transfer> one_request(std::string label, int channel, std::int64_t bytes) {
  auto plan = std::make_shared<Plan>();
  plan->hops.resize(1);
  plan->lanes = {{0, 1, 0}};
  plan->bytes = bytes;
  plan->tiles = 1;
  auto transfer = std::make_shared<Transfer>();
  transfer->plan = std::move(plan);
  transfer->label = std::move(label);
  Descriptor descriptor;
  descriptor.channel = channel;
  transfer->descriptors.push_back(descriptor);
  return transfer;
}

/// Returns the descriptors of all hops of a plan between two arrays.
std::vector<Descriptor> descriptors_of(const EngineChannels& channels, const Plan& plan,
                                       const StepEnds& ends) {
  std::vector<Descriptor> descriptors;
  for (const Lane& lane : plan.lanes) {
    for (int k = 0; k < lane.hop_count; ++k) {
      const Hop& hop = plan.hops[at(lane.first_hop + k)];
      const ChannelSpec& spec = channels.spec_of(hop);
      Descriptor descriptor;
      const bool last = k + 1 == lane.hop_count;
      const int carrier = k == 0 && last ? carrier_of(ends.source(), ends.target())
                          : last         ? ends.target().opened_for
                                         : -1;
      descriptor.channel = channels.number_of(spec, carrier);
      if (lane.hop_count > 1) descriptor.in_flight_max = threads_needed(plan, hop, spec);
      if (!last) {
        const Hop& next = plan.hops[at(lane.first_hop + k + 1)];
        descriptor.streams = traits_of(channels.spec_of(next).kind).gpu;
      }
      descriptors.push_back(descriptor);
    }
  }
  return descriptors;
}

}  // namespace

Result<Event> Carriers::start_transfer(const RecipeStep& step, const StepEnds& ends,
                                       const Waits& waits, Guards guards) const {
  auto after = waits.completions(*step.plan, own_gpu(ends, -1));
  if (!after) return after.error();
  std::shared_ptr<Transfer> transfer;
  if (step.carrier == Carrier::nothing) {
    transfer = one_request("a copy of nothing", channels_.number_of(ChannelKind::memcpy), 0);
  } else {
    mark_link(step, ends);
    transfer = std::make_shared<Transfer>();
    transfer->plan = step.plan;
    transfer->source = ends.source().place;
    transfer->target = ends.target().place;
    transfer->priority = step.priority;
    transfer->cold = step.past_caches;
    transfer->label = step.plan->path(channels_.profile());
    transfer->indexed = step.lists;
    if (step.runs) (void)expanded(*step.runs, transfer->fixed_nests);
    transfer->descriptors = descriptors_of(channels_, *step.plan, ends);
  }
  guards.give_to(*transfer);
  channels_.driver().submit(transfer, *after);
  return Event(step.plan, transfer, channels_.shared_driver());
}

Event Carriers::start_notice(std::shared_ptr<fabric::OutgoingNotice> notice, int priority,
                             const std::vector<std::shared_ptr<Completion>>& after) const {
  auto transfer = one_request("a notice", channels_.number_of(ChannelKind::remote_write), 0);
  transfer->priority = priority;
  transfer->target = {nullptr, notice.get()};
  transfer->keep_alive.push_back(std::move(notice));
  channels_.driver().submit(transfer, after);
  return Event::of_notice(std::move(transfer), channels_.shared_driver());
}

Event Carriers::start_along(const std::shared_ptr<const Plan>& plan, const CopyPair& ends) const {
  RecipeStep step;
  step.plan = plan;
  step.past_caches = 2 * plan->bytes > channels_.profile().cache_bytes;
  const StartOptions options;
  const Waits waits(channels_, lifetime_, options);
  Guards guards = Guards::of({ends, {&ends, 1}}).value();
  return start_transfer(step, {ends, {&ends, 1}}, waits, std::move(guards)).value();
}

void Carriers::run_nests(const Request& request, std::function<void(Status)> done) const {
  const bool reads = request.source.attachment != nullptr;
  const Place& attached = reads ? request.source : request.target;
  const auto* on_gpu = dynamic_cast<const GpuMemory*>(attached.attachment);
  int channel = channels_.number_of(reads ? ChannelKind::file_read : ChannelKind::file_write);
  if (on_gpu != nullptr) {
    const GpuSide& gpus = *channels_.gpus();
    const std::byte* slot = reads ? request.target.address : request.source.address;
    if (!gpus.pinning().reaches(slot)) {
      return done(Error{ErrorCode::unsupported,
                        "the exporting process could not pin the slots of this link for its GPU",
                        "raise that process's limit of locked memory (ulimit -l)"});
    }
    channel =
        gpus.number_of(reads ? ChannelKind::gpu_read : ChannelKind::gpu_write, on_gpu->device());
  }
  auto transfer = one_request("a peer's access", channel, request.bytes);
  const auto nests = request.payload.nests();
  transfer->fixed_nests.assign(nests.begin(), nests.end());
  transfer->source = request.source;
  transfer->target = request.target;
  if (on_gpu != nullptr) transfer->source.attachment = transfer->target.attachment = nullptr;
  transfer->cold = request.cold;
  transfer->completion->on_end(std::move(done));
  channels_.driver().submit(std::move(transfer), {});
}

}  // namespace tranship
