#include "engine/engine.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "base/at.hpp"
#include "base/refusals.hpp"
#include "channels/file/file_channel.hpp"
#include "channels/host/copy.hpp"
#include "channels/host/host_channel.hpp"
#include "data/lowering.hpp"
#include "engine/checks.hpp"
#include "engine/processes.hpp"
#include "engine/waiting.hpp"

namespace tranship {
namespace {

/// Pinned arrays from this size on lie in memory of their own, which other processes can map.
constexpr std::int64_t shared_pinned_least = std::int64_t{64} << 10;
/// Copies that a closing engine has cancelled have so long to end before the links go over which
/// they run: a peer that is stopped must not keep the engine open.
constexpr std::chrono::seconds copies_end_max{10};
/// A short copy may stand behind others in its stream; a GPU that is silent for so long is lost.
constexpr std::chrono::seconds staged_wait_max{60};
/// More threads than this do not copy faster in one memory.
constexpr unsigned threads_most = 16;
/// From so many cores on, threads may look for work a while instead of sleeping.
constexpr unsigned spinning_cores_least = 8;
constexpr std::chrono::microseconds spin_usual{200};

/// Buffers between hops start at large pages: direct file I/O into small ones is slow on virtual
/// disks, and a fresh buffer costs fewer page faults.
constexpr std::size_t buffer_align_bytes = std::size_t{2} << 20;

std::byte* allocate_large_pages(std::int64_t bytes) {
  const auto size = (static_cast<std::size_t>(bytes) + buffer_align_bytes - 1) /
                    buffer_align_bytes * buffer_align_bytes;
  void* buffer = std::aligned_alloc(buffer_align_bytes, size);
  if (buffer != nullptr) (void)madvise(buffer, size, MADV_HUGEPAGE);
  return static_cast<std::byte*>(buffer);
}

BufferSource host_buffers() {
  return {allocate_large_pages, [](std::byte* buffer, std::int64_t) { std::free(buffer); }};
}

/// A busy machine is planned for anew where the copy takes this many times as long as the plan.
constexpr double busy_planning_share = 20;

/// In a pipeline, this many times the threads that its rate needs take part in a hop: what more
/// cores have in their caches slows the bus that comes after or before them.
constexpr double threads_spare = 1.75;
/// So few threads always take part.
constexpr int threads_least = 4;

/// Threads for a hop of a pipeline on a channel of so many; 0: no bound.
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

/// Whether the array lies on a GPU and another process owns it.
bool is_opened(const Array& array) {
  return array.memory_kind == MemoryKind::device && array.liveness;
}

/// The GPU that another process's array is open for; -1: it is none.
int opened_on(const Array& array) { return is_opened(array) ? array.device : -1; }

std::function<Status()> liveness_of(const Array& source, const Array& target) {
  return [a = source.liveness, b = target.liveness] { return check_liveness(a, b); };
}

/// Other processes keep their arrays until the copy is done, and are asked then whether they did.
void guard_until_done(GpuFlight& flight, const Array& source, const Array& target, Leases leases) {
  if (!source.liveness && !target.liveness) return;
  flight.check_at_end(liveness_of(source, target));
  flight.hold(std::move(leases));
}

/// A transfer that is one request of a channel, without a way of its own to it.
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

/// Whether somebody must wait for what a GPU cannot wait for by itself.
bool waits_for_transfers(const std::vector<Event>& after) {
  for (const Event& given : after) {
    for (const Event& event : given.parts()) {
      if (!event.flight() && !event.done()) return true;
    }
  }
  return false;
}

}  // namespace

Engine::Engine(Options options) : options_(std::move(options)) {}

Result<std::unique_ptr<Engine>> Engine::open(Options options) {
  std::unique_ptr<Engine> engine(new Engine(std::move(options)));
  const Status status = refusals_as_errors([&] { return engine->start(); });
  if (!status) return status.error();
  return engine;
}

Status Engine::start() {
  const Config& config = options_.config;
  if (auto kind = planner_kind_from(config.planner); !kind) return kind.error();
  if (config.buffer_bytes < (1 << 20)) {
    return invalid("buffer_bytes must be at least 1MiB, not " +
                   std::to_string(config.buffer_bytes));
  }
  fork_generation_ = fork_generation();
  const unsigned cores = std::max(std::thread::hardware_concurrency(), 1U);
  threads_ = static_cast<int>(config.threads > 0 ? config.threads : std::min(cores, threads_most));
  auto trace_file = TraceFile::open(config, options_.trace_file, options_.program);
  if (!trace_file) return trace_file.error();
  trace_file_ = std::move(*trace_file);
  for (Memory& memory : options_.profile.memories) {
    if (memory.name == "node0/host0") memory.buffer_bytes_max = config.buffer_bytes;
  }
  auto gpu_side = GpuSide::open(config);
  if (!gpu_side) return gpu_side.error();
  gpu_side_ = std::move(*gpu_side);
  drop_absent_gpus();
  find_memories();
  planner_.emplace(options_.profile);
  ThreadDriver::Options driver;
  for (const Memory& memory : options_.profile.memories) {
    const bool elsewhere = memory.kind == MemoryKind::pinned || memory.kind == MemoryKind::device;
    BufferSource buffers = elsewhere && gpu_side_ ? gpu_side_->buffers(memory) : BufferSource{};
    driver.memories.push_back(
        {memory.buffer_bytes_max, buffers.allocate ? std::move(buffers) : host_buffers()});
  }
  driver.clock = &clock_;
  if (config.spin_us >= 0) {
    driver.spin = std::chrono::microseconds(config.spin_us);
  } else if (cores >= spinning_cores_least) {
    driver.spin = spin_usual;
  }
  driver.trace = trace();
  driver_ = std::make_shared<ThreadDriver>(std::move(driver));
  channels_.push_back(std::make_unique<HostChannel>(threads_));
  channel_numbers_[ChannelKind::memcpy] = driver_->add_channel(*channels_.back());
  for (const ChannelKind kind : {ChannelKind::file_read, ChannelKind::file_write}) {
    FileChannelOptions file;
    file.name = to_string(kind);
    file.copy = copy_nests;
    file.queue_depth = static_cast<int>(std::max<std::int64_t>(config.file_queue_depth, 1));
    file.io_bytes = std::max<std::int64_t>(config.file_io_bytes, 4096);
    channels_.push_back(std::make_unique<FileChannel>(std::move(file)));
    channel_numbers_[kind] = driver_->add_channel(*channels_.back());
  }
  if (gpu_side_) {
    if (Status status = gpu_side_->start(options_.profile, *driver_); !status) return status;
  }
  if (!options_.accept && options_.contact_file.empty()) return {};
  auto processes = this->processes();
  return processes ? Status{} : Status(processes.error());
}

/// A profile may speak of GPUs that this process does not have: nothing is planned over them.
void Engine::drop_absent_gpus() {
  Profile& profile = options_.profile;
  const int count = gpu_side_ ? static_cast<int>(gpu_side_->gpus()->list().size()) : 0;
  const auto absent = [&](int memory) {
    const int device = GpuSide::device_of(profile.memories[at(memory)]);
    return profile.memories[at(memory)].kind == MemoryKind::device &&
           (device < 0 || device >= count);
  };
  const auto straight_to_file = [&](const ChannelSpec& spec) {
    const auto on_device = [&](int memory) {
      return profile.memories[at(memory)].kind == MemoryKind::device;
    };
    return !traits_of(spec.kind).gpu && (on_device(spec.source) || on_device(spec.target));
  };
  auto& channels = profile.channels;
  channels.erase(std::remove_if(channels.begin(), channels.end(),
                                [&](const ChannelSpec& spec) {
                                  return absent(spec.source) || absent(spec.target) ||
                                         (straight_to_file(spec) && !gpu_side_->reaches_files());
                                }),
                 channels.end());
}

Engine::~Engine() { (void)close(); }

/// In a fork: the threads live in the parent only, so that joining them would never end.
void Engine::leak() {
  (void)new std::shared_ptr<ThreadDriver>(driver_);
  (void)new std::shared_ptr<Processes>(processes_);
  for (auto& channel : channels_) (void)channel.release();
  (void)gpu_side_.release();
}

Status Engine::close() {
  if (fork_generation() != fork_generation_) {
    if (!closed_.exchange(true)) leak();
    return {};
  }
  const std::lock_guard closing(closing_);
  if (closed_.exchange(true)) return {};
  copying_.close();
  if (!driver_) return {};  // it was refused before it started
  const Error why{ErrorCode::closed, "the engine was closed before the transfer ended"};
  driver_->stop(why);
  // Peers learn that this process leaves when it touches their memory no more.
  const auto end = std::chrono::steady_clock::now() + copies_end_max;
  const auto left = [&] { return end - std::chrono::steady_clock::now(); };
  (void)copying_.wait_empty(left());
  (void)driver_->wait_ended(left());
  if (gpu_side_) gpu_side_->wait_for_flights(end);
  std::shared_ptr<Processes> processes;
  {
    std::lock_guard lock(processes_mutex_);
    processes = processes_;
  }
  if (processes) processes->stop();
  driver_->close(why);
  if (processes) processes->release();
  {
    std::lock_guard lock(processes_mutex_);
    processes_.reset();
  }
  return trace_file_ ? trace_file_->write() : Status{};
}

Status Engine::usable() const {
  if (closed()) {
    return Error{ErrorCode::closed, "the engine is closed", "open another with tranship.Engine()"};
  }
  if (fork_generation() != fork_generation_) {
    return forked_error();
  }
  return {};
}

Result<Gate::Pass> Engine::enter() {
  if (Status status = usable(); !status) return status.error();
  auto pass = copying_.enter();
  if (!pass) return usable().error();
  return pass;
}

Status Engine::resolve(Array& source, Array& target) const {
  if (source.memory_kind != MemoryKind::device && target.memory_kind != MemoryKind::device)
    return {};
  if (Status status = uses_gpus(); !status) return status;
  if (Status status = resolve(source); !status) return status;
  return resolve(target);
}

Status Engine::uses_gpus() const {
  if (gpu_side_) return {};
  return Error{ErrorCode::unsupported,
               "the array lies on a GPU, and this engine uses none: see tranship topology"};
}

Status Engine::resolve(Array& array) const {
  if (Status status = gpu_side_->resolve(array); !status) return status;
  reach_shared(array);
  return {};
}

/// Memory that is shared between processes is made for copies: GPUs reach it from the first on.
void Engine::reach_shared(Array& array) const {
  if (array.memory_kind == MemoryKind::shared && array.shared) {
    if (gpu_side_->pin(*array.shared)) array.memory_kind = MemoryKind::pinned;
  } else if (array.memory_kind == MemoryKind::host) {
    const Mapping& mapping = *array.view.mapping;
    const std::byte* first = array.place.address + mapping.begin_bytes();
    const auto memory =
        shared_memories_.holding(first, mapping.end_bytes() - mapping.begin_bytes());
    if (memory && gpu_side_->pin(*memory)) array.memory_kind = MemoryKind::pinned;
  }
}

int Engine::channel_number(const ChannelSpec& channel, int opened_on) const {
  const bool to_gpu = gpu_side_ && gpu_side_->serves(channel);
  return to_gpu ? gpu_side_->number_of(channel, opened_on) : channel_numbers_.at(channel.kind);
}

Result<std::shared_ptr<SharedMemory>> Engine::allocate_shared(std::int64_t bytes) {
  if (Status status = usable(); !status) return status.error();
  return shared_memories_.allocate(bytes);
}

Result<std::shared_ptr<void>> Engine::pin(const Array& array) {
  if (Status status = usable(); !status) return status.error();
  if (!gpu_side_) {
    return Error{ErrorCode::unsupported, "pinning memory needs a GPU: see tranship topology"};
  }
  if (!cpu_reaches(array.memory_kind)) {
    return invalid(array.name + " is not memory of this process; only that can be pinned");
  }
  const Mapping& mapping = *array.view.mapping;
  const std::int64_t bytes = mapping.end_bytes() - mapping.begin_bytes();
  if (bytes <= 0) return std::shared_ptr<void>();
  return gpu_side_->pin(array.place.address + mapping.begin_bytes(), bytes);
}

Result<std::shared_ptr<void>> Engine::allocate(MemoryKind kind, int device, std::int64_t bytes) {
  if (Status status = usable(); !status) return status.error();
  if (!gpu_side_) {
    return Error{ErrorCode::unsupported,
                 "memory of a GPU, or pinned memory, needs a GPU: see tranship topology"};
  }
  if (kind == MemoryKind::pinned && bytes >= shared_pinned_least) {
    auto memory = shared_memories_.allocate(bytes);
    if (memory && gpu_side_->pin(**memory)) {
      return std::shared_ptr<void>(*memory, (*memory)->data());
    }
  }
  return gpu_side_->allocate(kind, device, std::max<std::int64_t>(bytes, 1));
}

void Engine::find_memories() {
  const auto name_of = [](MemoryKind kind) {
    switch (kind) {
      case MemoryKind::pinned: return "node0/pinned0";
      case MemoryKind::host: return "node0/host0";
      case MemoryKind::file: return "node0/file0";
      case MemoryKind::shared: return "node0/shared0";
      case MemoryKind::near_process: return "node0/host1";
      case MemoryKind::far_process: return "node1/host0";
      default: return "";  // of devices there may be several; arrays are of no other kind
    }
  };
  for (std::size_t k = 0; k < memories_.size(); ++k) {
    memories_[k] = options_.profile.find_memory(name_of(static_cast<MemoryKind>(k)));
  }
  const std::size_t count = gpu_side_ ? gpu_side_->gpus()->list().size() : 0;
  for (std::size_t k = 0; k < count; ++k) {
    device_memories_.push_back(options_.profile.find_memory("node0/device" + std::to_string(k)));
  }
}

int Engine::memory_of(const Array& array) const {
  if (array.memory_kind != MemoryKind::device)
    return memories_[static_cast<std::size_t>(array.memory_kind)];
  const bool known = array.device >= 0 && at(array.device) < device_memories_.size();
  return known ? device_memories_[at(array.device)] : -1;
}

bool Engine::cold(const Plan& plan, const CopyOptions& options) const {
  return 2 * std::max(plan.bytes, options.together_bytes) > options_.profile.cache_bytes;
}

Result<PlanQuery> Engine::query_of(const Array& source, const Array& target,
                                   const CopyOptions& options) const {
  auto view = check_pair(source, target);
  if (!view) return view.error();
  PlanQuery query;
  query.source = source.view;
  query.target = std::move(*view);
  query.source_memory = memory_of(source);
  query.target_memory = memory_of(target);
  query.planner = options.planner;
  query.buffer_bytes_max = options.buffer_bytes_max;
  query.full_from_bytes = options_.config.full_plan_bytes;
  query.lanes_max = static_cast<int>(std::clamp<std::int64_t>(options_.config.lanes, 1, 64));
  // Another process's array is reached from its own GPU alone.
  if (is_opened(source) || is_opened(target)) query.lanes_max = 1;
  if (query.source_memory < 0 || query.target_memory < 0) {
    const Array& lost = query.source_memory < 0 ? source : target;
    return Error{ErrorCode::no_route, "the machine profile has no memory for " + lost.name,
                 "measure it anew with: tranship calibrate"};
  }
  if (query.planner == PlannerKind::automatic) {
    query.planner = *planner_kind_from(options_.config.planner);
  }
  return query;
}

Result<std::shared_ptr<const Plan>> Engine::plan_of(const PlanQuery& query) {
  if (auto cached = cache_.find(query)) return cached;
  auto made = planner_->plan(query);
  if (!made) return made.error();
  auto shared = std::make_shared<const Plan>(std::move(*made));
  cache_.add(query, shared);
  return std::shared_ptr<const Plan>(shared);
}

Result<std::shared_ptr<const Plan>> Engine::plan(const Array& given_source,
                                                 const Array& given_target,
                                                 const CopyOptions& options) {
  if (Status status = usable(); !status) return status.error();
  Array source = given_source;
  Array target = given_target;
  if (Status status = resolve(source, target); !status) return status.error();
  auto query = query_of(source, target, options);
  if (!query) return query.error();
  if (Status s = check_overlap(source, target, query->target); !s) return s.error();
  query->waiting_s = waiting_s(options.priority);
  return plan_of(*query);
}

std::vector<double> Engine::waiting_s(int priority) const {
  const std::vector<double> by_kind = driver_->waiting_s(priority);
  if (std::all_of(by_kind.begin(), by_kind.end(), [](double s) { return s <= 0; })) return {};
  std::vector<double> by_channel;
  for (const ChannelSpec& channel : options_.profile.channels) {
    int number = -1;
    if (gpu_side_ && gpu_side_->serves(channel)) {
      number = gpu_side_->number_of(channel);
    } else if (const auto found = channel_numbers_.find(channel.kind);
               found != channel_numbers_.end()) {
      number = found->second;
    }
    by_channel.push_back(number < 0 ? 0 : by_kind[at(number)]);
  }
  return by_channel;
}

Result<Event> Engine::copy(const Array& source, const Array& target, const CopyOptions& options) {
  if (Status status = usable(); !status) return status.error();
  if (source.memory_kind != MemoryKind::device && target.memory_kind != MemoryKind::device) {
    return copy_resolved(source, target, options);
  }
  if (Status status = uses_gpus(); !status) return status.error();
  std::optional<Array> from;
  std::optional<Array> to;
  if (!is_resolved(source)) {
    if (Status status = resolve(from.emplace(source)); !status) return status.error();
  }
  if (!is_resolved(target)) {
    if (Status status = resolve(to.emplace(target)); !status) return status.error();
  }
  return copy_resolved(from ? *from : source, to ? *to : target, options);
}

std::optional<Event> Engine::copy_now(const Array& source, const Array& target,
                                      const CopyOptions& options) {
  const bool inside = cpu_reaches(source.memory_kind) && cpu_reaches(target.memory_kind) &&
                      !options.stream && !trace_file_;
  if (!inside) return {};
  for (const Event& event : options.after) {
    if (!event.ended_well()) return {};
  }
  if (!usable()) return {};
  auto query = query_of(source, target, options);
  if (!query || !check_overlap(source, target, query->target)) return {};
  auto plan = cache_.find_now(*query);
  if (!plan || !(plan->bytes == 0 || (plan->direct && plan->hops.size() == 1))) return {};
  const CopyHere held(source, target);
  if (!held.stands()) return {};  // copy() says why
  if (plan->bytes > 0) {
    copy_nests(plan->nests, source.place.address, target.place.address, cold(*plan, options));
  }
  if (!check_liveness(source.liveness, target.liveness)) return {};
  return Event(std::move(plan), nullptr, this);
}

Result<Event> Engine::copy_resolved(const Array& source, const Array& target,
                                    const CopyOptions& options) {
  auto query = query_of(source, target, options);
  if (!query) return query.error();
  if (Status s = check_overlap(source, target, query->target); !s) return s.error();
  auto plan = plan_of(*query);
  if (!plan) return plan.error();
  if ((*plan)->bytes == 0) return Event(*plan, nullptr, this);
  const double planning_s = options_.profile.planning_s;
  const bool worth_planning = (*plan)->seconds > busy_planning_share * planning_s;
  if (!(*plan)->direct && worth_planning && has_other_ways(**plan)) {
    query->waiting_s = waiting_s(options.priority);
    if (!query->waiting_s.empty()) plan = plan_of(*query);
    if (!plan) return plan.error();
  }
  return carry(*plan, source, target, options, {(*plan)->nests, nullptr});
}

Result<Event> Engine::carry(const std::shared_ptr<const Plan>& plan, const Array& source,
                            const Array& target, const CopyOptions& options, const Cargo& cargo) {
  const bool ready = std::all_of(options.after.begin(), options.after.end(),
                                 [](const Event& event) { return event.done(); });
  const bool within_memory = cpu_reaches(source.memory_kind) && cpu_reaches(target.memory_kind);
  const bool one_hop = plan->hops.size() == 1;
  const bool one_gpu_hop =
      one_hop && traits_of(options_.profile.channels[at(plan->hops[0].channel)].kind).gpu;
  if (within_memory && ready && plan->direct && one_hop && !one_gpu_hop) {
    return copy_here(plan, source, target, options, cargo);
  }
  auto leases = leases_of(source, target);
  if (!leases) return leases.error();
  // What lies in this process's memory needs nothing that closing ends.
  Gate::Pass pass;
  if (!within_memory || !leases->empty()) {
    auto entered = enter();
    if (!entered) return entered.error();
    pass = std::move(*entered);
  }
  // In a stream of the caller's the copy must stand before this returns.
  if (one_gpu_hop && (options.stream || !waits_for_transfers(options.after))) {
    return start_on_gpu(plan, source, target, options, std::move(*leases), cargo);
  }
  const bool staged = plan->direct && plan->hops.size() > 1;
  if (staged ? ready && !options.stream : plan->direct && ready) {
    for (const Event& event : options.after) {
      if (Status status = event.wait({}); !status) return status.error();
    }
    if (staged) return carry_staged(plan, source, target, options, std::move(*leases));
    if (const auto status = carry_directly(*plan, source, target, options, cargo)) {
      if (!*status) return status->error();
      return Event(plan, nullptr, this);
    }
  }
  auto after = waits_of(*plan, options);
  if (!after) return after.error();
  return start_transfer(source, target, options, plan, *after, std::move(*leases), cargo.indexed);
}

/// Carries a copy within memory on the caller's thread. Closing needs not wait for it, but peers
/// do before they take their memory back.
Result<Event> Engine::copy_here(const std::shared_ptr<const Plan>& plan, const Array& source,
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
  return Event(plan, nullptr, this);
}

Result<Event> Engine::start_on_gpu(const std::shared_ptr<const Plan>& plan, const Array& source,
                                   const Array& target, const CopyOptions& options, Leases leases,
                                   const Cargo& cargo) {
  const ChannelSpec& spec = options_.profile.channels[at(plan->hops[0].channel)];
  GpuChannel& usual = gpu_side_->channel(spec);
  GpuChannel& channel = gpu_side_->channel(spec, opened_on(target));
  std::vector<GpuMark> after;
  for (const Event& given : options.after) {
    for (const Event& event : given.parts()) {
      if (event.done() || !event.flight()) {
        if (Status status = wait_here(options, event); !status) return status.error();
      } else {
        after.push_back(event.flight()->mark());
      }
    }
  }
  Request request;
  request.nests = cargo.nests;
  if (cargo.indexed != nullptr) request.indexed = cargo.indexed->nests();
  request.source = source.place;
  request.target = target.place;
  request.bytes = plan->bytes;
  request.priority = options.priority;
  const GpuStream stream{usual.device(), reinterpret_cast<void*>(options.stream.value_or(0))};
  const bool in_stream = options.stream && &channel == &usual;
  std::shared_ptr<GpuFlight> before;
  if (options.stream && !in_stream) {
    auto marked = usual.mark(stream);
    if (!marked) return marked.error();
    before = std::move(*marked);
    if (before) after.push_back(before->mark());
  }
  auto flight = channel.start(request, in_stream ? &stream : nullptr, after);
  if (!flight) return flight.error();
  if (*flight) {
    (*flight)->keep_alive({source.owner, target.owner});
    guard_until_done(**flight, source, target, std::move(leases));
  }
  if (options.stream && !in_stream) {
    if (Status s = gpu_side_->gpus()->wait(stream, (*flight)->mark()); !s) return s.error();
  }
  return *flight ? Event(plan, std::move(*flight)) : Event(plan, nullptr, this);
}

Result<Event> Engine::carry_staged(const std::shared_ptr<const Plan>& plan, const Array& source,
                                   const Array& target, const CopyOptions& options, Leases leases) {
  const Hop& first = plan->hops[0];
  const Hop& last = plan->hops[1];
  auto buffer = gpu_side_->staging_buffer(first.target->end_bytes());
  if (!buffer) return buffer.error();
  std::vector<LoopNest> to_buffer;
  std::vector<LoopNest> from_buffer;
  lower({first.source.get(), plan->corner_source}, {first.target.get(), {}}, plan->extents,
        first.fields, to_buffer);
  lower({last.source.get(), {}}, {last.target.get(), plan->corner_target}, plan->extents,
        last.fields, from_buffer);
  const bool up = traits_of(options_.profile.channels[at(last.channel)].kind).gpu;
  Request request;
  request.source = up ? Place{buffer->get(), nullptr} : source.place;
  request.target = up ? target.place : Place{buffer->get(), nullptr};
  request.nests = up ? from_buffer : to_buffer;
  request.bytes = plan->bytes;
  request.priority = options.priority;
  if (up) copy_nests(to_buffer, source.place.address, buffer->get(), false);
  const Hop& hop = up ? last : first;
  auto flight =
      gpu_side_->channel(options_.profile.channels[at(hop.channel)]).start(request, nullptr, {});
  if (!flight) return flight.error();
  // The GPU reads what lies in the buffer by now, and writes nothing but the buffer.
  (*flight)->keep_alive({up ? nullptr : source.owner, up ? target.owner : nullptr, *buffer});
  guard_until_done(**flight, source, target, std::move(leases));
  if (up) return Event(plan, std::move(*flight));
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + staged_wait_max;
  const auto wait = [&](Clock::time_point until) { return wait_for_flight(**flight, until); };
  if (Status status = wait_here(options, end, wait); !status) return status.error();
  copy_nests(from_buffer, buffer->get(), target.place.address, false);
  return Event(plan, nullptr, this);
}

Result<std::vector<std::shared_ptr<Completion>>> Engine::waits_of(const Plan& plan,
                                                                  const CopyOptions& options) {
  std::vector<std::shared_ptr<Completion>> after;
  const ChannelSpec* gpu_hop = nullptr;
  for (const ChannelSpec& spec : options_.profile.channels) {
    if (traits_of(spec.kind).gpu && gpu_side_ && gpu_side_->number_of(spec) >= 0) gpu_hop = &spec;
  }
  for (const Hop& hop : plan.hops) {
    const ChannelSpec& spec = options_.profile.channels[at(hop.channel)];
    if (traits_of(spec.kind).gpu) gpu_hop = &spec;
  }
  for (const Event& given : options.after) {
    for (const Event& event : given.parts()) {
      if (event.flight() && !event.done()) {
        if (gpu_hop == nullptr) {  // it is another engine's, and this one has no GPU
          if (Status status = wait_here(options, event); !status) return status.error();
          continue;
        }
        after.push_back(completion_of(event.flight(), channel_number(*gpu_hop)));
      } else {
        after.push_back(event.completion());
      }
    }
  }
  if (options.stream && gpu_hop != nullptr) {
    GpuChannel& channel = gpu_side_->channel(*gpu_hop);
    auto flight = channel.mark({channel.device(), reinterpret_cast<void*>(*options.stream)});
    if (!flight) return flight.error();
    if (*flight) after.push_back(completion_of(*flight, channel_number(*gpu_hop)));
  }
  return after;
}

std::shared_ptr<Completion> Engine::completion_of(std::shared_ptr<GpuFlight> flight, int channel) {
  auto transfer = one_request("a copy on a GPU", channel, 0);
  transfer->source.attachment = flight.get();
  transfer->keep_alive = {std::move(flight)};
  auto completion = transfer->completion;
  driver_->submit(std::move(transfer), {});
  return completion;
}

std::optional<Status> Engine::carry_directly(const Plan& plan, const Array& source,
                                             const Array& target, const CopyOptions& options,
                                             const Cargo& cargo) {
  const std::int64_t begin_ns = trace_file_ ? clock_.now_ns() : 0;
  std::optional<Status> status;
  if (cpu_reaches(source.memory_kind) && cpu_reaches(target.memory_kind)) {
    const bool past_caches = cold(plan, options);
    copy_nests(cargo.nests, source.place.address, target.place.address, past_caches);
    if (cargo.indexed != nullptr) {
      copy_indexed(cargo.indexed->nests(), source.place.address, target.place.address, past_caches);
    }
    status = check_liveness(source.liveness, target.liveness);
  } else if (cargo.indexed == nullptr) {
    status = Processes::carry_now(plan, source, target, !options.among_others);
  }
  if (trace_file_ && status) {
    trace()->add({plan.path(options_.profile), "caller", begin_ns, clock_.now_ns(), plan.bytes, 0,
                  own_row()});
  }
  return status;
}

Event Engine::start_transfer(const Array& source, const Array& target, const CopyOptions& options,
                             const std::shared_ptr<const Plan>& plan,
                             const std::vector<std::shared_ptr<Completion>>& after, Leases leases,
                             const IndexedCopy* indexed) {
  auto transfer = std::make_shared<Transfer>();
  transfer->plan = plan;
  transfer->source = source.place;
  transfer->target = target.place;
  transfer->priority = options.priority;
  transfer->cold = cold(*plan, options);
  transfer->keep_alive = {source.owner, target.owner};
  transfer->label = plan->path(options_.profile);
  if (indexed != nullptr) transfer->indexed = std::make_shared<const IndexedCopy>(*indexed);
  if (source.liveness || target.liveness) {
    for (auto& lease : leases) transfer->keep_alive.push_back(std::move(lease));
    transfer->final_check = liveness_of(source, target);
  }
  for (const Lane& lane : plan->lanes) {
    for (int k = 0; k < lane.hop_count; ++k) {
      const Hop& hop = plan->hops[at(lane.first_hop + k)];
      const ChannelSpec& spec = options_.profile.channels[at(hop.channel)];
      Descriptor descriptor;
      const bool last = k + 1 == lane.hop_count;
      descriptor.channel = channel_number(spec, last ? opened_on(target) : -1);
      if (lane.hop_count > 1) descriptor.in_flight_max = threads_needed(*plan, hop, spec);
      const int next = k + 1 < lane.hop_count ? plan->hops[at(lane.first_hop + k + 1)].channel : -1;
      descriptor.streams = next >= 0 && traits_of(options_.profile.channels[at(next)].kind).gpu;
      transfer->descriptors.push_back(descriptor);
    }
  }
  driver_->submit(transfer, after);
  return Event(plan, transfer, this);
}

Event Engine::copy_along(const std::shared_ptr<const Plan>& plan, const Array& source,
                         const Array& target) {
  return start_transfer(source, target, {}, plan, {}, {}, nullptr);
}

void Engine::run_nests(const Request& request, std::function<void(Status)> done) {
  const bool reads = request.source.attachment != nullptr;
  const Place& attached = reads ? request.source : request.target;
  const auto* on_gpu = dynamic_cast<const GpuMemory*>(attached.attachment);
  int channel = channel_numbers_.at(reads ? ChannelKind::file_read : ChannelKind::file_write);
  if (on_gpu != nullptr) {
    const std::byte* slot = reads ? request.target.address : request.source.address;
    if (!gpu_side_->reaches(slot)) {
      return done(Error{ErrorCode::unsupported,
                        "the exporting process could not pin the slots of this link for its GPU: "
                        "raise its limit of locked memory (ulimit -l)"});
    }
    channel = gpu_side_->number_of(reads ? ChannelKind::gpu_read : ChannelKind::gpu_write,
                                   on_gpu->device());
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

std::int64_t Engine::buffer_bytes_in_use() const {
  if (!usable()) return 0;
  return driver_->buffer_bytes_in_use(options_.profile.find_memory("node0/host0"));
}

Result<std::shared_ptr<Processes>> Engine::processes() {
  // Before the lock, which a thread of the parent may have held when this process was forked.
  if (Status status = usable(); !status) return status.error();
  std::lock_guard lock(processes_mutex_);
  if (Status status = usable(); !status) return status.error();
  if (!processes_) {
    auto opened = refusals_as_errors([&] { return Processes::open(*this); });
    if (!opened) return opened.error();
    processes_ = std::move(*opened);
  }
  return processes_;
}

}  // namespace tranship
