#include "engine/engine.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "base/at.hpp"
#include "base/refusals.hpp"
#include "channels/file/file_channel.hpp"
#include "channels/host/copy.hpp"
#include "channels/host/host_channel.hpp"
#include "engine/checks.hpp"
#include "engine/processes.hpp"
#include "engine/recipe/recipe_maker.hpp"

namespace tranship {
namespace {

/// Pinned arrays from this size on lie in memory of their own, which other processes can map.
constexpr std::int64_t shared_pinned_least = std::int64_t{64} << 10;
/// How long a closing engine waits for the copies that it has cancelled before it closes the links
/// that carry them: a stopped peer must not keep the engine open.
constexpr std::chrono::seconds copies_end_max{10};
/// Threads beyond this number do not copy faster in one memory.
constexpr unsigned threads_most = 16;
/// Cores from which on threads poll for work for a while before they sleep.
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

/// Returns whether the recipe would be the same under any load: plans of copies that the driver's
/// workers carry depend on what is queued.
bool is_lasting(const Recipe& recipe) {
  return !recipe.steps.empty() && std::ranges::all_of(recipe.steps, [](const RecipeStep& step) {
    return step.carrier != Carrier::transfer && step.carrier != Carrier::nothing;
  });
}

std::shared_ptr<KnownRecipe> known_recipe(Recipe recipe, const CopyRequest& request,
                                          const RecipeKey& key) {
  auto known = std::make_shared<KnownRecipe>();
  known->recipe = std::move(recipe);
  known->key.assign(key.numbers().begin(), key.numbers().end());
  for (const CopyPair& pair : request.pairs) {
    known->mappings.push_back(pair.source.view.mapping);
    known->mappings.push_back(pair.target.view.mapping);
  }
  known->source_begin = known->mappings[0]->begin_bytes();
  known->source_end = known->mappings[0]->end_bytes();
  known->target_begin = known->mappings[1]->begin_bytes();
  known->target_end = known->mappings[1]->end_bytes();
  if (const auto* types = std::get_if<std::span<const TypePair>>(&request.parts)) {
    known->types.assign(types->begin(), types->end());
  }
  return known;
}

/// Whether one array lies in memory of another process of this machine, and the other in memory
/// that the caller's thread reaches.
bool beside_peer(const Array& source, const Array& target) {
  const auto kinds = std::pair(source.memory_kind, target.memory_kind);
  return (kinds.first == MemoryKind::near_process && cpu_reaches(kinds.second)) ||
         (kinds.second == MemoryKind::near_process && cpu_reaches(kinds.first));
}

/// Checks what of a known copy depends on the addresses and on other processes.
/// @error as Engine::copy()
Status check_known(const CopyRequest& request) {
  for (const auto& [source, target] : request.pairs) {
    if (Status s = check_liveness(source.liveness, target.liveness); !s) return s;
  }
  if (request.pairs.size() > 1 || !std::holds_alternative<WholeArrays>(request.parts)) return {};
  const auto& [source, target] = request.pairs[0];
  const auto view = matched_target(source, target);
  return view ? check_overlap(source, target, *view) : Status(view.error());
}

}  // namespace

Engine::Engine(Options options) : options_(std::move(options)) {}

Result<std::unique_ptr<Engine>> Engine::open(Options options) {
  return refusals_as_errors([&]() -> Result<std::unique_ptr<Engine>> {
    std::unique_ptr<Engine> engine(new Engine(std::move(options)));
    if (const Status status = engine->start(); !status) return status.error();
    return engine;
  });
}

Status Engine::start() {
  const Config& config = options_.config;
  if (auto kind = planner_kind_from(config.planner); !kind) return kind.error();
  if (config.buffer_bytes < (1 << 20)) {
    return invalid("buffer_bytes must be at least 1MiB, not " +
                   std::to_string(config.buffer_bytes));
  }
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
  const std::size_t gpu_count = gpu_side_ ? gpu_side_->gpus()->list().size() : 0;
  if (gpu_side_) {
    links_ = LinkUsage::open(config, UsageTable::number_of(own_identity()),
                             gpu_side_->gpus()->list(), options_.profile, clock_);
  }
  kept_maps_.emplace();
  planner_.emplace(options_.profile, config, gpu_count, links_.get());
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
  engine_channels_ = std::make_unique<EngineChannels>(options_.profile, driver_, gpu_side_.get());
  maker_ = std::make_unique<RecipeMaker>(*planner_, *engine_channels_, links_.get());
  carriers_ = std::make_unique<Carriers>(
      Carriers::Parts{*engine_channels_, lifetime_, links_.get(), trace(), clock_});
  channels_.push_back(std::make_unique<HostChannel>(threads_));
  engine_channels_->add(ChannelKind::memcpy, driver_->add_channel(*channels_.back()));
  for (const ChannelKind kind : {ChannelKind::file_read, ChannelKind::file_write}) {
    FileChannelOptions file;
    file.name = to_string(kind);
    file.copy = copy_nests;
    file.copy_lists = copy_indexed;
    file.queue_depth = static_cast<int>(std::max<std::int64_t>(config.file_queue_depth, 1));
    file.io_bytes = std::max<std::int64_t>(config.file_io_bytes, 4096);
    channels_.push_back(std::make_unique<FileChannel>(std::move(file)));
    engine_channels_->add(kind, driver_->add_channel(*channels_.back()));
  }
  if (gpu_side_) {
    if (Status status = gpu_side_->start(options_.profile, *driver_); !status) return status;
  }
  if (!options_.accept && options_.contact_file.empty()) return {};
  auto processes = this->processes();
  return processes ? Status{} : Status(processes.error());
}

/// Removes the channels of GPUs that the profile has and this process does not.
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

/// Leaves everything allocated in a fork: the threads live in the parent only, and joining them
/// would never end.
void Engine::leak() {
  (void)new std::shared_ptr<ThreadDriver>(driver_);
  (void)new std::shared_ptr<Processes>(processes_);
  for (auto& channel : channels_) (void)channel.release();
  (void)gpu_side_.release();
  (void)engine_channels_.release();
  (void)maker_.release();
  (void)carriers_.release();
  (void)recipes_.release();
}

Status Engine::close() {
  if (lifetime_.forked()) {
    if (lifetime_.end()) leak();
    return {};
  }
  const std::lock_guard closing(closing_);
  if (!lifetime_.end()) return {};
  if (!driver_) return {};  // start() failed before there was a driver
  const Error why{ErrorCode::closed, "the engine was closed before the transfer ended"};
  driver_->stop(why);
  if (gpu_side_) gpu_side_->pinning().stop();
  // Peers learn that this process leaves only after its last access to their memory.
  const auto end = std::chrono::steady_clock::now() + copies_end_max;
  const auto left = [&] { return end - std::chrono::steady_clock::now(); };
  (void)lifetime_.wait_empty(left());
  (void)driver_->wait_ended(left());
  if (gpu_side_) gpu_side_->wait_for_flights(end);
  if (links_) links_->leave();
  kept_maps_.reset();
  std::shared_ptr<Processes> processes;
  {
    std::lock_guard lock(processes_mutex_);
    processes = processes_;
  }
  const Status unused = processes ? processes->stop() : Status{};
  driver_->close(why);
  if (processes) processes->release(unused.ok());
  {
    std::lock_guard lock(processes_mutex_);
    processes_.reset();
  }
  const Status written = trace_file_ ? trace_file_->write() : Status{};
  return unused ? written : unused;
}

Status Engine::resolve(Array& source, Array& target) const {
  if (source.memory_kind != MemoryKind::device && target.memory_kind != MemoryKind::device)
    return {};
  if (Status status = uses_gpus(); !status) return status;
  if (Status status = resolve(source); !status) return status;
  if (Status status = resolve(target); !status) return status;
  return gpu_side_->open_for_one(source, target);
}

Status Engine::uses_gpus() const {
  if (gpu_side_) return {};
  return Error{ErrorCode::unsupported, "the array lies on a GPU, and this engine uses none",
               "see why with: tranship topology"};
}

Status Engine::resolve(Array& array) const {
  if (Status status = gpu_side_->resolve(array); !status) return status;
  reach_shared(array);
  return {};
}

/// Pins memory that is shared between processes, so that GPUs reach it directly, unless a thread
/// does so.
void Engine::reach_shared(Array& array) const {
  const std::byte* first = first_byte(array);
  const std::int64_t bytes = array.view.mapping->span_bytes();
  if (array.memory_kind == MemoryKind::shared && array.shared) {
    if (gpu_side_->pinning().pin_for_copy(*array.shared, first, bytes)) {
      array.memory_kind = MemoryKind::pinned;
    }
  } else if (array.memory_kind == MemoryKind::host) {
    const auto memory = shared_memories_.holding(first, bytes);
    if (memory && gpu_side_->pinning().pin(*memory)) array.memory_kind = MemoryKind::pinned;
  }
}

Result<std::shared_ptr<SharedMemory>> Engine::allocate_shared(std::int64_t bytes) {
  if (Status status = usable(); !status) return status.error();
  return shared_memories_.allocate(bytes);
}

void Engine::pin_in_background(const std::shared_ptr<SharedMemory>& memory, std::int64_t bytes,
                               bool ahead) const {
  if (gpu_side_ && usable()) gpu_side_->pinning().pin_in_background(memory, bytes, ahead);
}

Result<std::shared_ptr<void>> Engine::pin(const Array& array) {
  if (Status status = usable(); !status) return status.error();
  if (!gpu_side_) {
    return Error{ErrorCode::unsupported, "pinning memory needs a GPU",
                 "see why there is none with: tranship topology"};
  }
  if (!cpu_reaches(array.memory_kind)) {
    return invalid(array.name + " is not memory of this process; only that can be pinned",
                   "pin an array of this process");
  }
  const std::int64_t bytes = array.view.mapping->span_bytes();
  if (bytes <= 0) return std::shared_ptr<void>();
  return gpu_side_->pinning().pin(first_byte(array), bytes);
}

Result<std::shared_ptr<void>> Engine::allocate(MemoryKind kind, int device, std::int64_t bytes) {
  if (Status status = usable(); !status) return status.error();
  if (!gpu_side_) {
    return Error{ErrorCode::unsupported, "memory of a GPU, or pinned memory, needs a GPU",
                 "see why there is none with: tranship topology"};
  }
  if (kind == MemoryKind::pinned && bytes >= shared_pinned_least) {
    auto memory = shared_memories_.allocate(bytes);
    if (memory && gpu_side_->pinning().pin(**memory)) {
      return std::shared_ptr<void>(*memory, (*memory)->data());
    }
  }
  return gpu_side_->memory().allocate(kind, device, std::max<std::int64_t>(bytes, 1));
}

Result<std::shared_ptr<const Plan>> Engine::plan(const Array& source, const Array& target,
                                                 const CopyOptions& options) {
  if (Status status = usable(); !status) return status.error();
  CopyPair pair{source, target};
  if (Status status = resolve(pair.source, pair.target); !status) return status.error();
  return maker_->plan(pair, options);
}

Result<std::span<const CopyPair>> Engine::resolve(std::span<const CopyPair> pairs,
                                                  std::vector<CopyPair>& own) const {
  const auto on_gpu = [](const CopyPair& pair) {
    return pair.source.memory_kind == MemoryKind::device ||
           pair.target.memory_kind == MemoryKind::device;
  };
  const auto known = [&](const CopyPair& pair) {
    const bool both = is_resolved(pair.source) && is_resolved(pair.target) &&
                      !is_opened(pair.source) && !is_opened(pair.target);
    return both || !on_gpu(pair);
  };
  if (!gpu_side_ && std::any_of(pairs.begin(), pairs.end(), on_gpu)) return uses_gpus().error();
  if (std::all_of(pairs.begin(), pairs.end(), known)) return pairs;
  own.assign(pairs.begin(), pairs.end());
  for (CopyPair& pair : own) {
    if (Status status = resolve(pair.source, pair.target); !status) return status.error();
  }
  return std::span<const CopyPair>(own);
}

Result<Event> Engine::copy(const CopyRequest& request) {
  if (Status status = usable(); !status) return status.error();
  std::vector<CopyPair> own;
  const auto pairs = resolve(request.pairs, own);
  if (!pairs) return pairs.error();
  const CopyRequest resolved{*pairs, request.parts, request.options};
  const auto key = RecipeKey::of(resolved);
  const auto known = key ? find(*key) : nullptr;
  if (!known) return make_and_start(resolved, key);
  if (Status status = check_known(resolved); !status) return status.error();
  return carriers_->start(known->recipe, *pairs, request.options.start);
}

Result<Event> Engine::make_and_start(const CopyRequest& request,
                                     const std::optional<RecipeKey>& key) {
  const StartOptions& options = request.options.start;
  RecipeUse use{false, options.stream.has_value(), true};
  use.kept = key && recipes_->seen_before(key->numbers());
  auto recipe = maker_->make(request, use);
  if (!recipe) return recipe.error();
  if (recipe->steps.empty() && !request.pairs.empty()) return Event();  // blocks
  auto event = carriers_->start(*recipe, request.pairs, options);
  const bool remembers = event && use.kept && is_lasting(*recipe) &&
                         !carriers_->is_captured(options, request.pairs[0]);
  // A recipe that cannot be made ready is not remembered: the next copy is planned at its start,
  // and reports the error.
  if (!remembers) return event;
  const auto entered = lifetime_.enter();
  if (entered && maker_->make_ready(*recipe, request.pairs, false)) {
    recipes_->add(known_recipe(std::move(*recipe), request, *key));
  }
  return event;
}

Result<Event> Engine::copy(const Array& source, const Array& target, const CopyOptions& options) {
  if (auto event = copy_now(source, target, options)) return std::move(*event);
  const CopyPair pair{source, target};
  return copy(CopyRequest{{&pair, 1}, {}, options});
}

std::optional<Event> Engine::copy_now(const Array& source, const Array& target,
                                      const CopyOptions& options) {
  const bool near = within_memory(source, target) || beside_peer(source, target);
  if (options.start.stream || !near || !usable()) return {};
  RecipeKey key(options, 1);
  const auto known = key.add(source, target) ? find(key) : nullptr;
  if (!known) return {};
  const auto view = matched_target(source, target);
  if (!view || !check_overlap(source, target, *view)) return {};
  return carriers_->start_now(known->recipe, source, target, options.start);
}

Result<Event> Engine::start(const KnownRecipe& known, const CopyPair& ends,
                            const StartOptions& options, const std::shared_ptr<void>& owner) {
  const auto entered = lifetime_.enter();
  if (!entered) return entered.error();
  return carriers_->start_step(known.recipe.steps[0], {ends, {&ends, 1}, owner}, options);
}

Result<PreparedCopy> Engine::prepare(const CopyRequest& request) {
  const auto entered = lifetime_.enter();
  if (!entered) return entered.error();
  std::vector<CopyPair> own;
  const auto pairs = resolve(request.pairs, own);
  if (!pairs) return pairs.error();
  const CopyRequest resolved{*pairs, request.parts, request.options};
  auto recipe = maker_->make(resolved, {true, true, false});
  if (!recipe) return recipe.error();
  if (Status ready = maker_->make_ready(*recipe, *pairs, true); !ready) return ready.error();
  return PreparedCopy(std::move(*recipe), resolved);
}

Result<Event> Engine::start(const PreparedCopy& copy, const StartOptions& options) {
  const auto entered = lifetime_.enter();
  if (!entered) return entered.error();
  return copy.start(*carriers_, options);
}

Result<Event> Engine::start(const PreparedCopy& copy, const CopyPair& ends,
                            const StartOptions& options) {
  const auto entered = lifetime_.enter();
  if (!entered) return entered.error();
  CopyPair own = ends;
  if (copy.ends() != nullptr) {
    if (Status status = resolve(own.source, own.target); !status) return status.error();
  }
  return copy.start(*carriers_, own, options);
}

std::optional<Event> Engine::start_now(const PreparedCopy& copy, const StartOptions& options) {
  return lifetime_.usable() ? copy.start_now(*carriers_, options) : std::nullopt;
}

Result<OrderedStart> Engine::begin_order(const StreamOrder& order, int device) const {
  const Status open = usable();
  return open ? tranship::begin_order(gpu_side_.get(), order, device) : open.error();
}

Status Engine::end_order(const OrderedStart& started, const Event& event,
                         bool (*interrupted)()) const {
  return tranship::end_order(*carriers_, gpu_side_.get(), started, event, interrupted);
}

Status Engine::wait_for_streams(const StreamOrder& order, int device, bool (*interrupted)()) const {
  if (Status open = usable(); !open) return open;
  return tranship::wait_for_streams(*carriers_, gpu_side_.get(), order, device, interrupted);
}

Event Engine::copy_along(const std::shared_ptr<const Plan>& plan, const Array& source,
                         const Array& target) {
  return carriers_->start_along(plan, {source, target});
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
