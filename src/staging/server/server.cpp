#include "staging/server/server.hpp"

#include <algorithm>
#include <thread>

#include "fabric/messages/contact.hpp"
#include "os/available_memory.hpp"
#include "os/brief_lock.hpp"
#include "os/pages.hpp"
#include "staging/server/gpu_disk.hpp"

namespace tranship::staging {
namespace {

/// Pause of a server that has found only the contact file of a dead group.
constexpr std::chrono::milliseconds look_again{50};

/// Returns the size of the segments in which memory is taken from the system: at most a few hundred
/// of them, since each is exported separately.
std::int64_t segment_bytes(std::int64_t memory_bytes) {
  constexpr std::int64_t segments_wanted = 256;
  constexpr std::int64_t unit = std::int64_t{64} << 20;
  return std::max(unit, (memory_bytes / segments_wanted + unit - 1) / unit * unit);
}

/// Most threads that take pages at the same time.
constexpr int threads_ahead_most = 8;
/// Most of them in one segment: more only wait for each other (decision 19).
constexpr int threads_of_segment = 4;

/// Returns how many threads preallocate: half of the cores are left to those who use the memory.
int threads_ahead() {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(cores / 2, 1, threads_ahead_most);
}

/// Returns the size of the segments in which `bytes` are preallocated. Several threads work faster
/// in several segments, and a large object needs a large one.
std::int64_t bytes_of_segment_ahead(std::int64_t bytes, int threads) {
  constexpr std::int64_t least = std::int64_t{4} << 30;
  constexpr std::int64_t most = std::int64_t{8} << 30;
  constexpr std::int64_t unit = std::int64_t{64} << 20;
  if (threads == 1) return bytes;
  return std::clamp(bytes / threads_ahead_most / unit * unit, least, most);
}

}  // namespace

Server::Server(Options options) : options_(std::move(options)) {}

Result<std::unique_ptr<Server>> Server::open(Options options) {
  if (options.memory_bytes < (std::int64_t{1} << 20) || options.versions_max < 0) {
    return Error{ErrorCode::invalid_argument,
                 "a server has at least 1 MiB of memory, and keeps 0 (all) or more versions"};
  }
  if (options.servers < 1 || options.rank < 0 || options.rank >= options.servers) {
    return Error{
        ErrorCode::invalid_argument,
        "a group has at least one server, whose ranks are 0 to one less than their number"};
  }
  const auto limits = limits_of(options.config);
  if (!limits) return limits.error();
  std::unique_ptr<Server> server(new Server(std::move(options)));
  Server* raw = server.get();
  raw->limits_ = *limits;
  if (Status status = raw->open_disk(); !status) return status.error();
  Engine::Options engine;
  engine.config = raw->options_.config;
  engine.profile = raw->options_.profile;
  engine.accept = true;
  if (raw->options_.rank == 0) engine.contact_file = raw->options_.contact_file;
  engine.answer = [raw](fabric::RequesterId from, std::span<const std::byte> question,
                        std::span<std::byte> reply) { return raw->answer(from, question, reply); };
  engine.on_requester_lost = [raw](fabric::RequesterId requester, bool cleanly) {
    raw->on_lost(requester, cleanly);
  };
  engine.on_requester_served = [raw](fabric::RequesterId requester, bool cleanly) {
    raw->on_served(requester, cleanly);
  };
  engine.on_requester_gone = [raw](fabric::RequesterId requester, bool cleanly) {
    raw->on_gone(requester, cleanly);
  };
  auto opened = Engine::open(std::move(engine));
  if (!opened) return opened.error();
  raw->engine_ = std::move(*opened);
  auto processes = raw->engine_->processes();
  if (!processes) return processes.error();
  raw->processes_ = *processes;
  raw->contact_ = raw->processes_->contact();
  if (Status status = raw->choose_memory(); !status) return status.error();
  raw->start_moving();
  if (Trace* trace = raw->engine_->trace()) {
    raw->trace_ = std::make_unique<ServerTrace>(*trace, raw->options_.rank);
  }
  raw->service_ = std::make_unique<Service>(raw->service_options());
  if (Status status = raw->preallocate(); !status) return status.error();
  raw->ready_.store(true, std::memory_order_release);
  if (Status status = raw->join(); !status) return status.error();
  return server;
}

Status Server::open_disk() {
  if (options_.full != Full::spill) return {};
  if (options_.spill_bytes_max < (std::int64_t{1} << 20)) {
    return Error{ErrorCode::invalid_argument,
                 "a server that spills takes at least 1 MiB on disk: raise --spill-max"};
  }
  const bool given = !options_.spill_folder.empty();
  auto disk = SpillFile::open(given ? options_.spill_folder : options_.config.temporary_folder);
  if (!disk) return disk.error();
  disk_ = std::make_unique<CheckedDisk>(std::move(*disk));
  return {};
}

void Server::start_moving() {
  if (!disk_) return;
  if (device_ >= 0) disk_ = std::make_unique<GpuDisk>(std::move(disk_), *engine_, device_);
  const auto ended = [this](const Move& move, const Status& status) {
    const auto lock = brief_lock(mutex_);
    service_->ended(move, status);
  };
  mover_ = std::make_unique<Mover>(std::move(disk_), ended);
}

Service::Options Server::service_options() {
  Service::Options service;
  service.store.memory_bytes = options_.memory_bytes;
  service.store.segment_bytes = segment_bytes(options_.memory_bytes);
  service.store.versions_max = options_.versions_max;
  service.store.full = options_.full;
  service.store.spill_bytes = options_.spill_bytes_max;
  service.store.server = options_.rank;
  service.store.servers = options_.servers;
  service.store.limits = limits_;
  service.store.now_ns = [] { return SteadyClock().now_ns(); };
  service.store.make_segment = [this](std::int64_t bytes) { return make_segment(bytes); };
  service.store.take_pages = [this](const Range& part) { return take_pages_of(part); };
  if (device_ < 0) {
    service.store.give_back_pages = [this](const Range& segment) {
      give_back_pages(*memories_[static_cast<std::size_t>(segment.segment)], segment.offset,
                      segment.bytes);
    };
  }
  if (trace_) {
    service.store.on_discard = [this](const std::string& variable, std::int64_t version) {
      trace_->discarded(variable, version);
    };
  }
  service.servers = options_.servers;
  service.contact = contact_;
  service.message_bytes = options_.config.slot_bytes;
  if (device_ < 0) {
    service.address_of = [this](const Range& range) { return address_of(range); };
    service.copy_beside = [this](const std::function<void()>& copy) {
      struct LockAgain {
        std::mutex& mutex;
        ~LockAgain() { (void)brief_lock(mutex).release(); }
      } again{mutex_};
      mutex_.unlock();
      copy();
    };
  }
  service.notify = [this](ClientConnection client) {
    (void)processes_->notify(fabric::RequesterId{client}, {});
  };
  service.move = [this](const Move& move) {
    const bool in_memory = move.kind != Move::Kind::drop;
    if (mover_) mover_->add(move, in_memory ? address_of(move.memory) : nullptr);
  };
  return service;
}

/// Connects to the first server. A killed group leaves its contact file, until a new first server
/// writes another.
Result<fabric::PeerId> Server::find_first() {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + options_.join.timeout;
  while (true) {
    Patience left = options_.join;
    left.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    const auto first = connect_when_there(processes_, options_.first, left);
    const bool stale = !first && first.error().code == ErrorCode::peer_lost;
    const bool interrupted = left.interrupted && left.interrupted();
    if (!stale || interrupted || Clock::now() + look_again >= end) return first;
    std::this_thread::sleep_for(look_again);
  }
}

/// Sends the contact of this server to the first server of the group.
Status Server::join() {
  if (options_.rank == 0) return {};
  const auto first = find_first();
  if (!first) return first.error();
  // Clients use the key of the first server's contact file: it is the key of the group.
  if (const auto contact = fabric::read_contact(options_.first); contact && contact->key) {
    processes_->accept_key(*contact->key);
  }
  const protocol::Join join{staging_version, options_.rank, options_.servers, contact_};
  std::vector<std::byte> reply(message_bytes_least);
  const auto joined =
      processes_->ask(*first, message_of(join).bytes(), reply, options_.join.timeout);
  return joined ? Status{} : Status(joined.error());
}

Server::~Server() { (void)close(); }

Status Server::usable() const {
  if (closed_.load()) {
    return Error{ErrorCode::closed, "this staging server was closed", "start another one"};
  }
  if (fork_generation_ == fork_generation()) return {};
  return Error{ErrorCode::closed, "this process was forked after the staging server was started",
               "start one of its own "
               "here (or start processes with spawn)"};
}

Status Server::close(std::chrono::milliseconds drain_max) {
  if (!engine_ || fork_generation_ != fork_generation()) return {};
  const std::lock_guard closing(closing_);
  if (closed_.exchange(true)) return {};
  if (preallocator_) preallocator_->stop();
  const auto end = std::chrono::steady_clock::now() + drain_max;
  const auto busy = [&] {
    const auto lock = brief_lock(mutex_);
    if (service_) service_->drain();
    return service_ && service_->busy();
  };
  while (!engine_->closed() && busy() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::unique_ptr<Mover> mover;
  {
    const auto lock = brief_lock(mutex_);
    mover = std::move(mover_);
  }
  mover.reset();  // its thread may wait for the lock
  const Status status = engine_->close();
  preallocator_.reset();
  // Clients keep what they have mapped, and the engine what a stopped client has open on a GPU.
  const auto lock = brief_lock(mutex_);
  segments_.clear();
  memories_.clear();
  return !status && status.error().code == ErrorCode::timeout ? Status{} : status;
}

std::string Server::contact() const { return contact_; }

std::vector<VariableInfo> Server::list() const {
  const auto lock = brief_lock(mutex_);
  return service_->list();
}

std::int64_t Server::memory_bytes_used() const {
  const auto lock = brief_lock(mutex_);
  return service_->memory_bytes_used();
}

std::int64_t Server::spilled_bytes() const {
  const auto lock = brief_lock(mutex_);
  return service_->spilled_bytes();
}

int Server::clients() const {
  const auto lock = brief_lock(mutex_);
  return service_->clients();
}

bool Server::complete() const {
  const auto lock = brief_lock(mutex_);
  return service_->complete();
}

Status Server::choose_memory() {
  const std::string& kind = options_.memory_kind;
  if (kind == "host") return {};
  const std::string prefix = "device";
  const std::string number = kind.substr(std::min(prefix.size(), kind.size()));
  const bool digits = number.find_first_not_of("0123456789") == std::string::npos;
  if (kind.rfind(prefix, 0) != 0 || !digits || number.size() > 4) {
    return Error{ErrorCode::invalid_argument,
                 "objects lie in host memory or on a GPU, not in \"" + kind + "\"",
                 "say host, device, or device0, device1, ..."};
  }
  const auto gpus = engine_->gpus();
  const int count = gpus ? static_cast<int>(gpus->list().size()) : 0;
  device_ = !number.empty() ? std::stoi(number) : count > 0 ? options_.rank % count : 0;
  if (device_ < count) return {};
  return Error{ErrorCode::unsupported,
               "objects cannot lie on GPU " + std::to_string(device_) + ": this machine has " +
                   std::to_string(count) + " that can be used",
               "see tranship topology"};
}

Status Server::make_segment(std::int64_t bytes) {
  auto array = allocate(bytes);
  if (!array) return array.error();
  const std::string name = segment_name + std::to_string(segments_.size());
  if (Status status = processes_->export_array(name, *array); !status) {
    if (device_ < 0) memories_.pop_back();  // allocate() has added it
    return status;
  }
  segments_.push_back(std::move(*array));
  return {};
}

Result<Array> Server::allocate(std::int64_t bytes) {
  Array array;
  array.view = View::whole(
      Mapping::make({{"byte", bytes}}, {{"f0", "u1", 1}}, Layout::parse("F, byte").value())
          .value());
  array.name = "a segment of a staging server";
  if (device_ < 0) {
    auto memory = engine_->allocate_shared(bytes);
    if (!memory) return memory.error();
    memories_.push_back(*memory);
    array.place.address = (*memory)->data();
    array.owner = *memory;
    return array;
  }
  auto memory = engine_->allocate(MemoryKind::device, device_, bytes);
  if (!memory) return memory.error();
  array.place.address = static_cast<std::byte*>(memory->get());
  array.owner = *memory;
  array.memory_kind = MemoryKind::device;
  array.device = device_;
  return array;
}

/// Takes the pages of a part of a segment, which are charged to this process, before any client
/// touches them.
Status Server::take_pages_of(const Range& part) {
  if (device_ >= 0) return {};
  return take_pages(*memories_[static_cast<std::size_t>(part.segment)], part.offset, part.bytes);
}

/// Makes the memory that is preallocated, and threads that take its pages. GPUs take memory at
/// once.
Status Server::preallocate() {
  if (device_ >= 0) return {};
  const AvailableMemory free = available_memory();
  const std::int64_t available = free.bytes - free.swap_bytes;
  const std::int64_t most = options_.preallocated_bytes.value_or(available / 2);
  const std::int64_t wanted = std::min(options_.memory_bytes, most);
  // Where nobody asked for it, memory is taken as it is needed.
  if (!options_.preallocated_bytes && !has_address_space(wanted)) return {};
  const std::int64_t whole = bytes_of_segment_ahead(wanted, threads_ahead());
  for (std::int64_t left = wanted; left >= object_alignment;) {
    // The last one takes what is left, if that is too little for another.
    const std::int64_t bytes = left < 2 * whole ? left : whole;
    if (Status status = service_->add_stock(bytes); !status) {
      if (options_.preallocated_bytes) return status;
      break;
    }
    left -= bytes;
  }
  if (memories_.empty()) return {};
  // A segment is not given back while a part of it is claimed, so that its pages are taken without
  // the lock.
  const std::vector<std::shared_ptr<SharedMemory>> memories = memories_;
  Preallocator::Callbacks callbacks;
  callbacks.claim = [this](std::int64_t most) {
    const auto lock = brief_lock(mutex_);
    return service_->claim_stock(most);
  };
  callbacks.take_pages = [memories](const Range& part) {
    const SharedMemory& memory = *memories[static_cast<std::size_t>(part.segment)];
    Status status = take_pages(memory, part.offset, part.bytes);
    if (status) clear_pages(memory, part.offset, part.bytes);
    return status;
  };
  callbacks.give_back = [this](const Range& part, bool ready) {
    const auto lock = brief_lock(mutex_);
    service_->return_stock(part, ready);
  };
  const std::int64_t left = options_.preallocated_bytes ? 0 : available / 2;
  const int segments = static_cast<int>(memories.size());
  const int threads = std::min(threads_ahead(), threads_of_segment * segments);
  preallocator_ = std::make_unique<Preallocator>(std::move(callbacks), left, threads);
  return {};
}

std::byte* Server::address_of(const Range& range) const {
  return segments_[static_cast<std::size_t>(range.segment)].place.address + range.offset;
}

Result<std::size_t> Server::answer(fabric::RequesterId from, std::span<const std::byte> question,
                                   std::span<std::byte> reply) {
  if (!await_ready()) return Error{ErrorCode::closed, "the staging server did not start"};
  const auto lock = brief_lock(mutex_);
  const std::int64_t begin_ns = trace_ ? trace_->now_ns() : 0;
  auto length = service_->answer(from.value, question, reply);
  if (trace_) trace_->answered(from.value, question, length, reply, begin_ns);
  return length;
}

/// Waits until the server is open: a client may connect before.
bool Server::await_ready() const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!ready_.load(std::memory_order_acquire)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// A client that has closed has ended, although arrays in its process may still show objects.
void Server::on_served(fabric::RequesterId requester, bool cleanly) {
  if (!cleanly || !ready_.load(std::memory_order_acquire)) return;
  const auto lock = brief_lock(mutex_);
  service_->closed(requester.value);
}

/// A client that has closed is handled in on_served() or on_gone(), when none of its requests is
/// carried out any more.
void Server::on_lost(fabric::RequesterId requester, bool cleanly) {
  if (cleanly || !ready_.load(std::memory_order_acquire)) return;
  const auto lock = brief_lock(mutex_);
  service_->lost(requester.value);
}

void Server::on_gone(fabric::RequesterId requester, bool cleanly) {
  if (!ready_.load(std::memory_order_acquire)) return;  // no client has introduced itself
  const auto lock = brief_lock(mutex_);
  service_->gone(requester.value, cleanly);
  if (trace_) trace_->gone(requester.value);
}

}  // namespace tranship::staging
