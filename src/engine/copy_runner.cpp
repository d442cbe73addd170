#include "engine/copy_runner.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/at.hpp"
#include "base/unless_interrupted.hpp"
#include "channels/host/copy.hpp"
#include "data/lowering.hpp"
#include "engine/checks.hpp"
#include "engine/copy_to_peer.hpp"
#include "engine/waiting.hpp"

namespace tranship {
namespace {

/// Size in bytes up to which a copy on a GPU takes about as long as its start.
constexpr std::int64_t short_bytes = std::int64_t{1} << 20;

/// Size in bytes up to which the work of several boxes is remembered.
constexpr std::int64_t known_lists_bytes = std::int64_t{16} << 20;

/// How long a short copy waits behind others in its stream before the GPU counts as lost.
constexpr std::chrono::seconds bounce_wait_max{60};

/// What is read again and again leaves the caches to the target: a fill within so many times their
/// size is quicker through them (two cores of an EPYC with 8 MiB: 16 MiB at 32 and 25 GB/s, 64 MiB
/// at 6 and 26).
constexpr std::int64_t repeated_caches = 4;

/// A copy on a busy machine is planned anew if it takes this many times as long as planning.
constexpr double busy_planning_share = 20;

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

/// Whether another path was found than the one that the plan takes.
bool has_other_ways(const Plan& plan) {
  std::vector<int> memories{plan.hops.empty() ? -1 : plan.hops[0].source_memory};
  for (const Hop& hop : plan.hops) memories.push_back(hop.target_memory);
  return std::any_of(plan.alternatives.begin(), plan.alternatives.end(),
                     [&](const Alternative& other) { return other.memories != memories; });
}

std::function<Status()> liveness_of(const Array& source, const Array& target) {
  return [a = source.liveness, b = target.liveness] { return check_liveness(a, b); };
}

/// Whether the source holds some elements once for several of the target.
bool is_repeated(std::span<const LoopNest> nests) {
  if (nests.empty()) return false;
  const LoopNest& nest = nests[0];
  return std::any_of(nest.loops.begin(), nest.loops.begin() + nest.rank,
                     [](const Loop& loop) { return loop.source_stride == 0; });
}

bool is_repeated(const View& source) {
  const Placement& field = source.mapping->fields()[0];
  for (int k = 0; k < source.mapping->rank(); ++k) {
    const Levels& levels = field.dimension[at(k)];
    if (source.extents[at(k)] > 1 && levels.count == 1 && levels.level[0].stride == 0) return true;
  }
  return false;
}

/// Whether the copy of a broadcast array is quicker through the caches, although a copy of as many
/// bytes that reads them all would not be. source: The view, or nests.
template <typename Source>
bool fills_caches(const Plan& plan, const Source& source, const Profile& profile) {
  return plan.bytes <= repeated_caches * profile.cache_bytes && is_repeated(source);
}

/// Whether the caller's thread reaches both arrays.
bool within_memory(const Array& source, const Array& target) {
  return cpu_reaches(source.memory_kind) && cpu_reaches(target.memory_kind);
}

/// Returns what one hop of a GPU carries. The lists stay the caller's.
Request request_of(const Plan& plan, const Array& source, const Array& target,
                   const CopyOptions& options, const Cargo& cargo) {
  Request request;
  request.nests = cargo.nests;
  request.indexed = cargo.lists();
  request.runs = cargo.runs;
  request.source = source.place;
  request.target = target.place;
  request.bytes = plan.bytes;
  request.priority = options.priority;
  return request;
}

/// Other processes keep their arrays until the copy is done, and are asked then whether they did.
void guard_until_done(GpuFlight& flight, const Array& source, const Array& target, Leases leases) {
  if (!source.liveness && !target.liveness) return;
  flight.check_at_end(liveness_of(source, target));
  flight.hold(std::move(leases));
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

/// The GPU of this process on which an array of the copy lies, or else `otherwise`: a stream that
/// is given by its number alone is one of that GPU, whichever others the plan goes through.
int own_gpu(const Array& source, const Array& target, int otherwise) {
  if (!is_opened(source) && source.device >= 0) return source.device;
  return !is_opened(target) && target.device >= 0 ? target.device : otherwise;
}

/// The caller's stream, of its own GPU or of this one.
GpuStream stream_of(const CopyOptions& options, int device) {
  return {options.stream_device >= 0 ? options.stream_device : device,
          reinterpret_cast<void*>(options.stream.value_or(0))};
}

}  // namespace

Result<std::shared_ptr<const Plan>> CopyRunner::plan(const Array& source, const Array& target,
                                                     const CopyOptions& options) {
  auto query = planner_.query_of(source, target, options);
  if (!query) return query.error();
  if (Status s = check_overlap(source, target, query->target); !s) return s.error();
  query->waiting_s = waiting_s(options.priority);
  return planner_.plan_of(*query);
}

bool CopyRunner::must_be_queued(const CopyOptions& options) {
  if (options.stream) return false;
  for (const Event& given : options.after) {
    for (const Event& event : given.parts()) {
      if (!event.flight() && !event.done()) return true;
    }
  }
  return false;
}

bool CopyRunner::one_gpu_hop(const Plan& plan) const {
  return plan.hops.size() == 1 && traits_of(profile_.channels[at(plan.hops[0].channel)].kind).gpu;
}

void CopyRunner::mark_link(const Array& source, const Array& target) const {
  if (links_ == nullptr) return;
  if (const auto link = link_of(source, target, source.view.bytes())) links_->mark(*link, 0);
}

void CopyRunner::mark_link(const Array& source, const Array& target, const Plan& plan) const {
  if (links_ == nullptr) return;
  if (const auto link = link_of(source, target, plan.bytes)) links_->mark(*link, plan.seconds);
}

bool CopyRunner::cold(const Plan& plan, const CopyOptions& options) const {
  return 2 * std::max(plan.bytes, options.together_bytes) > profile_.cache_bytes;
}

bool CopyRunner::past_caches(const Plan& plan, const CopyOptions& options) const {
  return cold(plan, options) && !fills_caches(plan, plan.nests, profile_);
}

int CopyRunner::channel_number(const ChannelSpec& channel, int carrier) const {
  const bool to_gpu = gpus_ && gpus_->serves(channel);
  return to_gpu ? gpus_->number_of(channel, carrier) : channel_numbers_.at(channel.kind);
}

std::vector<double> CopyRunner::waiting_s(int priority) const {
  const std::vector<double> by_kind = driver_->waiting_s(priority);
  if (std::all_of(by_kind.begin(), by_kind.end(), [](double s) { return s <= 0; })) return {};
  std::vector<double> by_channel;
  for (const ChannelSpec& channel : profile_.channels) {
    int number = -1;
    if (gpus_ && gpus_->serves(channel)) {
      number = gpus_->number_of(channel);
    } else if (const auto found = channel_numbers_.find(channel.kind);
               found != channel_numbers_.end()) {
      number = found->second;
    }
    by_channel.push_back(number < 0 ? 0 : by_kind[at(number)]);
  }
  return by_channel;
}

std::optional<Event> CopyRunner::copy_now(const Array& source, const Array& target,
                                          const CopyOptions& options) {
  if (!within_memory(source, target) || !lifetime_.usable()) return {};
  auto query = planner_.query_of(source, target, options);
  if (!query || !check_overlap(source, target, query->target)) return {};
  const auto plan = planner_.find_now(*query);
  return plan ? carry_now(plan, source, target, options, {.nests = plan->nests}) : std::nullopt;
}

bool CopyRunner::copy_again(const Plan& plan, const std::byte* source, std::byte* target) const {
  if (trace_ != nullptr) return false;
  if (plan.bytes > 0) copy_nests(plan.nests, source, target, past_caches(plan, {}));
  return true;
}

std::optional<Event> CopyRunner::carry_now(const std::shared_ptr<const Plan>& plan,
                                           const Array& source, const Array& target,
                                           const CopyOptions& options, const Cargo& cargo) {
  if (!within_memory(source, target) || options.stream || trace_ != nullptr) return {};
  if (!(plan->bytes == 0 || (plan->direct && plan->hops.size() == 1))) return {};
  for (const Event& event : options.after) {
    if (!event.ended_well()) return {};
  }
  const CopyHere held(source, target);
  if (!held.stands()) return {};  // copy() says why
  if (plan->bytes > 0) move(cargo, source, target, past_caches(*plan, options));
  if (!check_liveness(source.liveness, target.liveness)) return {};
  return Event(plan);
}

Result<Event> CopyRunner::copy(const Array& source, const Array& target,
                               const CopyOptions& options) {
  mark_link(source, target);  // first: of two that begin at once, one sees the other
  auto query = planner_.query_of(source, target, options);
  if (!query) return query.error();
  if (Status s = check_overlap(source, target, query->target); !s) return s.error();
  auto plan = planner_.plan_of(*query);
  if (!plan) return plan.error();
  if ((*plan)->bytes == 0) return carry_nothing(*plan, source, target, options);
  const double planning_s = profile_.planning_s;
  const bool worth_planning = (*plan)->seconds > busy_planning_share * planning_s;
  if (!(*plan)->direct && worth_planning && has_other_ways(**plan)) {
    query->waiting_s = waiting_s(options.priority);
    if (!query->waiting_s.empty()) plan = planner_.plan_of(*query);
    if (!plan) return plan.error();
  }
  return carry(*plan, source, target, options, {.nests = (*plan)->nests});
}

Result<Event> CopyRunner::carry(const std::shared_ptr<const Plan>& plan, const Array& source,
                                const Array& target, const CopyOptions& options,
                                const Cargo& cargo) {
  const bool alone = std::all_of(options.after.begin(), options.after.end(),
                                 [](const Event& event) { return event.done(); });
  const bool ready = alone && !options.stream;
  const bool inside = within_memory(source, target);
  const bool on_gpu = one_gpu_hop(*plan);
  if (inside && ready && plan->direct && plan->hops.size() == 1 && !on_gpu) {
    return copy_here(plan, source, target, options, cargo);
  }
  auto leases = leases_of(source, target);
  if (!leases) return leases.error();
  // What lies in this process's memory needs nothing that closing ends.
  Gate::Pass pass;
  if (!inside || !leases->empty()) {
    auto entered = lifetime_.enter();
    if (!entered) return entered.error();
    pass = std::move(*entered);
  }
  if (on_gpu && !must_be_queued(options)) {
    return start_on_gpu(plan, source, target, options, std::move(*leases), cargo);
  }
  const bool bounced = plan->direct && plan->hops.size() > 1;
  if (bounced ? alone && bounces(*plan, options) : plan->direct && ready) {
    for (const Event& event : options.after) {
      if (Status status = event.wait({}); !status) return status.error();
    }
    if (bounced) return carry_bounced(plan, source, target, options, std::move(*leases));
    if (const auto status = carry_directly(*plan, source, target, options, cargo)) {
      if (!*status) return status->error();
      return Event(plan);
    }
  }
  auto after = waits_of(*plan, options, own_gpu(source, target, -1));
  if (!after) return after.error();
  return start_transfer(source, target, options, plan, *after, std::move(*leases), cargo);
}

/// Carries a copy within memory on the caller's thread. Closing needs not wait for it, but peers
/// do before they take their memory back.
Result<Event> CopyRunner::copy_here(const std::shared_ptr<const Plan>& plan, const Array& source,
                                    const Array& target, const CopyOptions& options,
                                    const Cargo& cargo) {
  for (const Event& event : options.after) {
    if (Status status = event.wait({}); !status) return status.error();
  }
  const CopyHere held(source, target);
  if (Status status = held.status(); !status) return status.error();
  if (const auto status = carry_directly(*plan, source, target, options, cargo); !*status) {
    return status->error();
  }
  return Event(plan);
}

Result<Event> CopyRunner::carry_nothing(const std::shared_ptr<const Plan>& plan,
                                        const Array& source, const Array& target,
                                        const CopyOptions& options) {
  const ChannelSpec* gpu_channel = any_gpu_channel();
  if (options.stream && gpu_channel != nullptr) {
    GpuChannel& usual = gpus_->channel(*gpu_channel);
    const GpuStream stream = stream_of(options, own_gpu(source, target, usual.device()));
    const auto after = gpu_waits_of(options);
    if (!after) return after.error();
    auto flight = gpus_->channel_on(stream.device, usual).start({}, &stream, *after);
    if (!flight) return flight.error();
    return *flight ? Event(plan, std::move(*flight)) : Event(plan);
  }
  bool ready = true;
  for (const Event& event : options.after) {
    if (!event.done()) {
      ready = false;
    } else if (Status status = event.wait({}); !status) {
      return status.error();
    }
  }
  if (ready) return Event(plan);
  const auto after = waits_of(*plan, options, own_gpu(source, target, -1));
  if (!after) return after.error();
  auto transfer = one_request("a copy of nothing", channel_numbers_.at(ChannelKind::memcpy), 0);
  driver_->submit(transfer, *after);
  return Event(plan, transfer, driver_);
}

/// Whether the caller's stream is being captured: what is prepared then might become a part of the
/// graph.
bool CopyRunner::is_captured(const CopyOptions& options, const GpuChannel& channel) const {
  return options.stream && gpus_->gpus()->capturing(stream_of(options, channel.device()));
}

std::shared_ptr<const GpuWork> CopyRunner::known_work(const std::shared_ptr<const Plan>& plan,
                                                      GpuChannel& channel, const Request& request,
                                                      const CopyOptions& options,
                                                      const Cargo& cargo) {
  if (cargo.is_all_of(*plan)) {
    return plan->bytes < short_bytes ? known_works_.of_plan(plan, channel, request) : nullptr;
  }
  const bool lists = request.nests.empty() && !request.indexed.empty() && request.runs == nullptr;
  if (!lists || plan->bytes > known_lists_bytes) return nullptr;
  if (is_captured(options, channel)) return nullptr;
  return known_works_.of_lists(channel, request);
}

Result<Event> CopyRunner::start_on_gpu(const std::shared_ptr<const Plan>& plan, const Array& source,
                                       const Array& target, const CopyOptions& options,
                                       Leases leases, const Cargo& cargo) {
  mark_link(source, target, *plan);
  const ChannelSpec& spec = profile_.channels[at(plan->hops[0].channel)];
  GpuChannel& channel = gpus_->channel(spec, carrier_of(source, target));
  // The caller's stream is one of the GPU on which its own array lies, unless the options name
  // another GPU.
  GpuChannel& usual = gpus_->channel(spec, is_opened(source) ? target.device : source.device);
  auto before = gpu_waits_of(options);
  if (!before) return before.error();
  std::vector<GpuEvent>& after = *before;
  const Request request = request_of(*plan, source, target, options, cargo);
  const GpuStream stream = stream_of(options, usual.device());
  const bool in_stream = options.stream && &channel == &usual && stream.device == usual.device();
  std::shared_ptr<GpuFlight> in_callers;
  if (options.stream && !in_stream) {
    auto behind = gpus_->channel_on(stream.device, usual).event_behind(stream);
    if (!behind) return behind.error();
    in_callers = std::move(*behind);
    if (in_callers) after.push_back(in_callers->event());
  }
  const GpuStream* own = in_stream ? &stream : nullptr;
  const bool is_short = plan->bytes < short_bytes;
  std::shared_ptr<const GpuWork> work = cargo.prepared;
  if (!work) work = known_work(plan, channel, request, options, cargo);
  auto flight =
      work ? channel.start(work, request, own, after) : channel.start(request, own, after);
  if (!flight) return flight.error();
  if (*flight) {
    if (is_short) (*flight)->ask_late();
    (*flight)->keep_alive({source.owner, target.owner});
    guard_until_done(**flight, source, target, std::move(leases));
  }
  if (options.stream && !in_stream) {
    if (Status s = gpus_->gpus()->wait(stream, (*flight)->event()); !s) return s.error();
  }
  return *flight ? Event(plan, std::move(*flight)) : Event(plan);
}

Result<std::shared_ptr<const GpuWork>> CopyRunner::prepare_work(const Plan& plan,
                                                                const CopyPair& ends,
                                                                const CopyOptions& options,
                                                                const Cargo& cargo) {
  if (plan.bytes == 0 || !one_gpu_hop(plan)) return std::shared_ptr<const GpuWork>();
  const ChannelSpec& spec = profile_.channels[at(plan.hops[0].channel)];
  GpuChannel& channel = gpus_->channel(spec, carrier_of(ends.source, ends.target));
  return channel.prepare(request_of(plan, ends.source, ends.target, options, cargo));
}

std::optional<GpuChannel::Preparation> CopyRunner::begin_prepare(const Plan& plan,
                                                                 const CopyPair& ends,
                                                                 const CopyOptions& options,
                                                                 const Cargo& cargo,
                                                                 std::int64_t table_bytes_most) {
  const ChannelSpec& spec = profile_.channels[at(plan.hops[0].channel)];
  GpuChannel& channel = gpus_->channel(spec, carrier_of(ends.source, ends.target));
  if (is_captured(options, channel)) return {};
  auto begun = channel.begin_prepare(request_of(plan, ends.source, ends.target, options, cargo),
                                     table_bytes_most);
  return begun ? std::optional(std::move(*begun)) : std::nullopt;
}

Status CopyRunner::check_pinned(const CopyPair& ends) const {
  for (const Array* array : {&ends.source, &ends.target}) {
    if (array->memory_kind != MemoryKind::pinned || array->view.mapping->end_bytes() == 0) continue;
    const Mapping& mapping = *array->view.mapping;
    const std::byte* first = array->place.address + mapping.begin_bytes();
    const std::byte* last = array->place.address + mapping.end_bytes() - 1;
    if (gpus_->reaches(first) && gpus_->reaches(last)) continue;
    return invalid(array->name + " was pinned when the copy was prepared, and is not any more",
                   "keep it pinned, or prepare the copy again");
  }
  return {};
}

bool CopyRunner::bounces(const Plan& plan, const CopyOptions& options) const {
  if (!options.stream) return true;
  const Hop& last = plan.hops[1];
  const bool up = traits_of(profile_.channels[at(last.channel)].kind).gpu;
  const GpuChannel& channel =
      gpus_->channel(profile_.channels[at((up ? last : plan.hops[0]).channel)]);
  const GpuStream stream = stream_of(options, channel.device());
  return options.in_order && stream.device == channel.device() && !gpus_->gpus()->capturing(stream);
}

Result<Event> CopyRunner::carry_bounced(const std::shared_ptr<const Plan>& plan,
                                        const Array& source, const Array& target,
                                        const CopyOptions& options, Leases leases) {
  const Hop& first = plan->hops[0];
  const Hop& last = plan->hops[1];
  auto buffer = gpus_->bounce_buffer(first.target->end_bytes());
  if (!buffer) return buffer.error();
  std::vector<LoopNest> to_buffer;
  std::vector<LoopNest> from_buffer;
  lower({first.source.get(), plan->corner_source}, {first.target.get(), {}}, plan->extents,
        first.fields, to_buffer);
  lower({last.source.get(), {}}, {last.target.get(), plan->corner_target}, plan->extents,
        last.fields, from_buffer);
  const bool up = traits_of(profile_.channels[at(last.channel)].kind).gpu;
  Request request;
  request.source = up ? Place{buffer->get(), nullptr} : source.place;
  request.target = up ? target.place : Place{buffer->get(), nullptr};
  request.nests = up ? from_buffer : to_buffer;
  request.bytes = plan->bytes;
  request.priority = options.priority;
  if (up) copy_nests(to_buffer, source.place.address, buffer->get(), false);
  const Hop& hop = up ? last : first;
  GpuChannel& channel = gpus_->channel(profile_.channels[at(hop.channel)]);
  const GpuStream stream = stream_of(options, channel.device());
  auto flight = channel.start(request, options.stream ? &stream : nullptr, {});
  if (!flight) return flight.error();
  // The GPU reads what lies in the buffer by now, and writes nothing but the buffer.
  (*flight)->keep_alive({up ? nullptr : source.owner, up ? target.owner : nullptr, *buffer});
  guard_until_done(**flight, source, target, std::move(leases));
  if (up) return Event(plan, std::move(*flight));
  using Clock = std::chrono::steady_clock;
  // How long the work in a caller's stream takes is the caller's affair.
  const auto end = options.stream ? Clock::time_point::max() : Clock::now() + bounce_wait_max;
  const auto wait = [&](Clock::time_point until) { return wait_for_flight(**flight, until); };
  if (Status status = wait_here(options, end, wait); !status) return status.error();
  copy_nests(from_buffer, buffer->get(), target.place.address, false);
  return Event(plan);
}

const ChannelSpec* CopyRunner::any_gpu_channel() const {
  const ChannelSpec* found = nullptr;
  for (const ChannelSpec& spec : profile_.channels) {
    if (traits_of(spec.kind).gpu && gpus_ && gpus_->number_of(spec) >= 0) found = &spec;
  }
  return found;
}

Result<std::vector<GpuEvent>> CopyRunner::gpu_waits_of(const CopyOptions& options) const {
  std::vector<GpuEvent> after;
  for (const Event& given : options.after) {
    for (const Event& event : given.parts()) {
      if (event.done() || !event.flight()) {
        if (Status status = wait_here(options, event); !status) return status.error();
      } else {
        after.push_back(event.flight()->event());
      }
    }
  }
  return after;
}

Result<std::vector<std::shared_ptr<Completion>>> CopyRunner::waits_of(const Plan& plan,
                                                                      const CopyOptions& options,
                                                                      int own) {
  std::vector<std::shared_ptr<Completion>> after;
  const ChannelSpec* gpu_hop = any_gpu_channel();
  for (const Hop& hop : plan.hops) {
    const ChannelSpec& spec = profile_.channels[at(hop.channel)];
    if (traits_of(spec.kind).gpu) gpu_hop = &spec;
  }
  for (const Event& given : options.after) {
    for (const Event& event : given.parts()) {
      if (event.flight() && !event.done()) {
        if (gpu_hop == nullptr) {  // it is another engine's, and this one has no GPU
          if (Status status = wait_here(options, event); !status) return status.error();
          continue;
        }
        after.push_back(driver_->completion_of(event.flight(), channel_number(*gpu_hop)));
      } else {
        after.push_back(event.completion());
      }
    }
  }
  if (options.stream && gpu_hop != nullptr) {
    GpuChannel& channel = gpus_->channel(*gpu_hop);
    const GpuStream stream = stream_of(options, own >= 0 ? own : channel.device());
    auto flight = gpus_->channel_on(stream.device, channel).event_behind(stream);
    if (!flight) return flight.error();
    if (*flight == nullptr) {
      return Error{ErrorCode::invalid_argument,
                   "the stream is being captured, and a graph holds only copies that a GPU carries "
                   "in one hop; this one goes " +
                       plan.path(profile_),
                   "copy from or to pinned memory, or outside of the capture"};
    }
    if (options.in_order) {  // the caller waits for the copy in any case, and so no thread has to
      if (Status s = wait_here(options, Event(nullptr, std::move(*flight))); !s) return s.error();
    } else {
      after.push_back(driver_->completion_of(*flight, channel_number(*gpu_hop)));
    }
  }
  return after;
}

Status CopyRunner::wait_here(
    const CopyOptions& options, std::chrono::steady_clock::time_point end,
    const std::function<Status(std::chrono::steady_clock::time_point)>& wait) const {
  using Clock = std::chrono::steady_clock;
  while (true) {
    Status status = wait(std::min(end, Clock::now() + interruption_look));
    if (status || status.error().code != ErrorCode::timeout) return status;
    if (Status open = lifetime_.usable(); !open) return open;
    if (options.interrupted != nullptr && options.interrupted()) {
      return Error{ErrorCode::cancelled, "interrupted"};
    }
    if (Clock::now() >= end) return status;
  }
}

Status CopyRunner::wait_for_end(const Event& event, bool (*interrupted)()) const {
  CopyOptions options;
  options.interrupted = interrupted;
  Status status = wait_here(options, event);
  if (event.flight() || event.done() || event.forked()) return status;
  event.cancel();
  (void)event.wait({});
  return status;
}

Status CopyRunner::wait_here(const CopyOptions& options, const Event& event) const {
  using Time = std::chrono::steady_clock::time_point;
  bool ended = false;
  const Status status = wait_here(options, Time::max(), [&](Time until) -> Status {
    Status waited = event.wait(until - std::chrono::steady_clock::now());
    ended = waited || event.done();
    return ended ? Status{} : waited;  // how it ended comes below, whatever that is
  });
  return ended ? event.wait({}) : status;
}

std::shared_ptr<const HostProgram> CopyRunner::prepare_program(const Plan& plan,
                                                               const CopyPair& ends,
                                                               const IndexedCopy& lists) {
  const bool here = within_memory(ends.source, ends.target) && plan.direct && plan.hops.size() == 1;
  return here ? std::make_shared<const HostProgram>(lists.nests()) : nullptr;
}

void CopyRunner::move(const Cargo& cargo, const Array& source, const Array& target,
                      bool past_caches) {
  const std::byte* from = source.place.address;
  std::byte* to = target.place.address;
  if (cargo.program != nullptr) return cargo.program->copy(from, to, past_caches);
  copy_nests(cargo.nests, from, to, past_caches);
  copy_indexed(cargo.lists(), from, to, past_caches);
}

std::optional<Status> CopyRunner::carry_directly(const Plan& plan, const Array& source,
                                                 const Array& target, const CopyOptions& options,
                                                 const Cargo& cargo) {
  const std::int64_t begin_ns = trace_ != nullptr ? clock_.now_ns() : 0;
  std::optional<Status> status;
  if (within_memory(source, target)) {
    move(cargo, source, target, past_caches(plan, options));
    status = check_liveness(source.liveness, target.liveness);
  } else if (cargo.lists().empty()) {
    status = copy_to_peer(plan, source, target, !options.among_others);
  }
  if (trace_ != nullptr && status) {
    trace_->add(
        {plan.path(profile_), "caller", begin_ns, clock_.now_ns(), plan.bytes, 0, own_row()});
  }
  return status;
}

Event CopyRunner::start_transfer(const Array& source, const Array& target,
                                 const CopyOptions& options,
                                 const std::shared_ptr<const Plan>& plan,
                                 const std::vector<std::shared_ptr<Completion>>& after,
                                 Leases leases, const Cargo& cargo) {
  mark_link(source, target, *plan);
  auto transfer = std::make_shared<Transfer>();
  transfer->plan = plan;
  transfer->source = source.place;
  transfer->target = target.place;
  transfer->priority = options.priority;
  transfer->cold = cold(*plan, options) && !fills_caches(*plan, source.view, profile_);
  transfer->keep_alive = {source.owner, target.owner};
  transfer->label = plan->path(profile_);
  transfer->indexed = cargo.kept;
  if (!cargo.kept && cargo.indexed != nullptr) {
    transfer->indexed = std::make_shared<const IndexedCopy>(std::move(*cargo.indexed));
  }
  if (source.liveness || target.liveness) {
    for (auto& lease : leases) transfer->keep_alive.push_back(std::move(lease));
    transfer->final_check = liveness_of(source, target);
  }
  for (const Lane& lane : plan->lanes) {
    for (int k = 0; k < lane.hop_count; ++k) {
      const Hop& hop = plan->hops[at(lane.first_hop + k)];
      const ChannelSpec& spec = profile_.channels[at(hop.channel)];
      Descriptor descriptor;
      const bool last = k + 1 == lane.hop_count;
      const int carrier = k == 0 && last ? carrier_of(source, target)
                          : last         ? target.opened_for
                                         : -1;
      descriptor.channel = channel_number(spec, carrier);
      if (lane.hop_count > 1) descriptor.in_flight_max = threads_needed(*plan, hop, spec);
      const int next = k + 1 < lane.hop_count ? plan->hops[at(lane.first_hop + k + 1)].channel : -1;
      descriptor.streams = next >= 0 && traits_of(profile_.channels[at(next)].kind).gpu;
      transfer->descriptors.push_back(descriptor);
    }
  }
  driver_->submit(transfer, after);
  return Event(plan, transfer, driver_);
}

Event CopyRunner::copy_along(const std::shared_ptr<const Plan>& plan, const Array& source,
                             const Array& target) {
  return start_transfer(source, target, {}, plan, {}, {}, {});
}

void CopyRunner::run_nests(const Request& request, std::function<void(Status)> done) {
  const bool reads = request.source.attachment != nullptr;
  const Place& attached = reads ? request.source : request.target;
  const auto* on_gpu = dynamic_cast<const GpuMemory*>(attached.attachment);
  int channel = channel_numbers_.at(reads ? ChannelKind::file_read : ChannelKind::file_write);
  if (on_gpu != nullptr) {
    const std::byte* slot = reads ? request.target.address : request.source.address;
    if (!gpus_->reaches(slot)) {
      return done(Error{ErrorCode::unsupported,
                        "the exporting process could not pin the slots of this link for its GPU",
                        "raise that process's limit of locked memory (ulimit -l)"});
    }
    channel =
        gpus_->number_of(reads ? ChannelKind::gpu_read : ChannelKind::gpu_write, on_gpu->device());
  }
  auto transfer = one_request("a peer's access", channel, request.bytes);
  transfer->fixed_nests.assign(request.nests.begin(), request.nests.end());
  transfer->source = request.source;
  transfer->target = request.target;
  if (on_gpu != nullptr) transfer->source.attachment = transfer->target.attachment = nullptr;
  transfer->cold = request.cold;
  transfer->completion->on_end(std::move(done));
  driver_->submit(std::move(transfer), {});
}

}  // namespace tranship
