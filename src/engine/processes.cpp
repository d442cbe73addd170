#include "engine/processes.hpp"

#include <algorithm>
#include <filesystem>
#include <new>
#include <sstream>
#include <thread>

#include "base/unless_interrupted.hpp"
#include "channels/host/copy.hpp"
#include "channels/host/runs.hpp"
#include "data/describe.hpp"
#include "engine/same_bytes.hpp"
#include "fabric/wires/ucx/ucx_carrier.hpp"
#include "fabric/wires/ucx/ucx_library.hpp"

namespace tranship {
namespace {

Result<fabric::FabricOptions::Transport> transport_of(const std::string& text) {
  if (text == "automatic") return fabric::FabricOptions::Transport::automatic;
  if (text == "shared") return fabric::FabricOptions::Transport::shared;
  if (text == "network") return fabric::FabricOptions::Transport::network;
  return Error{ErrorCode::invalid_argument, "transport \"" + text + "\" is unknown",
               "use automatic, shared or network"};
}

/// Reads "1000,1001".
Result<std::vector<uid_t>> users_of(const std::string& text) {
  std::vector<uid_t> users;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const bool digits = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || part.size() > 9) {
      return Error{ErrorCode::invalid_argument,
                   "users are numbers separated by commas, as in 1000,1001, not \"" + text + "\""};
    }
    users.push_back(static_cast<uid_t>(std::stoul(part)));
  }
  return users;
}

int service_threads(const Config& config) {
  if (config.service_threads > 0) {
    return static_cast<int>(std::min<std::int64_t>(config.service_threads, 256));
  }
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(cores, 8, 32);
}

/// Returns the path of libucp.so.0 in a site's installation of UCX, which is named by its folder or
/// by the library itself.
std::string library_of_site(const std::string& named) {
  std::error_code failed;
  if (!std::filesystem::is_directory(named, failed)) return named;
  return (std::filesystem::path(named) / "lib" / "libucp.so.0").string();
}

/// Opens UCX as the setting says. A reach that is named in the setting is opened or an error; with
/// `automatic` it is left out where it is missing, and `options` keeps the reason for messages.
Status open_carrier(const Config& config, fabric::FabricOptions& options) {
  if (config.ucx == "off") return {};
  fabric::UcxCarrier::Options ucx;
  ucx.library = config.ucx_library;
  ucx.reach =
      config.ucx == "shared" ? fabric::UcxCarrier::Reach::shared : fabric::UcxCarrier::Reach::rdma;
  const bool of_site = config.ucx.find('/') != std::string::npos;
  if (of_site) ucx.library = library_of_site(config.ucx);
  const bool automatic = of_site || config.ucx == "automatic";
  if (!automatic && config.ucx != "shared" && config.ucx != "rdma") {
    return Error{ErrorCode::invalid_argument, "ucx=\"" + config.ucx + "\" is not a way to use UCX",
                 "set it to automatic, rdma, shared, off, or to the folder of an installation of "
                 "UCX"};
  }
  if (automatic && !fabric::rdma_card_is_up()) return {};
  auto opened = fabric::UcxCarrier::open(ucx);
  if (opened) {
    options.carrier = std::move(*opened);
    return {};
  }
  if (!automatic) return opened.error();
  options.no_carrier = "no RDMA: " + opened.error().text();
  return {};
}

/// How long closing waits for calls inside, after the fabric's close() has ended their waits.
constexpr std::chrono::seconds calls_end_max{2};
constexpr std::int64_t carried_bytes_in_flight = std::int64_t{64} << 20;
constexpr int peer_threads_most = 16;
/// Threads that start a carrier's copies; the network card carries them.
constexpr int carrier_threads = 2;
/// Cores from which on such threads pay: on fewer, slots are as fast.
constexpr int peer_cores_least = 8;
/// How long a process on that many cores polls for its peers before it sleeps.
constexpr std::chrono::microseconds spin_for_peers{2000};

/// Liveness of a peer's array that is mapped here. A copy into it would succeed even if the peer is
/// dead, and the data would be lost.
class PeerLiveness : public Liveness {
 public:
  explicit PeerLiveness(std::shared_ptr<fabric::RemoteArray> array) : array_(std::move(array)) {}
  ~PeerLiveness() override = default;

  Status check() const override {
    if (array_->link().requester->lost()) return array_->link().requester->lost_error();
    // Only arrays that are mapped here have this check: they have a lease.
    if (array_->withdrawn() || !array_->link().requester->stands(array_->remote())) {
      return Error{ErrorCode::not_found,
                   array_->link().label + " exports \"" + array_->name() + "\" no longer",
                   "look it up again"};
    }
    return {};
  }

  std::shared_ptr<void> hold() const override {
    return array_->link().requester->use(array_->remote());
  }
  bool begin_copy() const override { return array_->link().requester->begin_use(array_->remote()); }
  void end_copy() const override { array_->link().requester->end_use(array_->remote()); }
  std::shared_ptr<void> view() const override {
    return array_->link().requester->lasting_use(array_->remote());
  }
  const fabric::RemoteArray& remote() const override { return *array_; }
  Result<std::byte*> address_for(int) const override {
    return Error{ErrorCode::unsupported, array_->name() + " does not lie on a GPU"};
  }

 protected:
  std::shared_ptr<fabric::RemoteArray> array_;
};

/// A peer's array that is open on a GPU here. CUDA wants it closed before its owner frees it
/// (cudaIpcCloseMemHandle), so that it counts as used as long as it is open. A withdrawal and the
/// end of the connection close it: at once, or with the last copy that holds it.
class OpenOnGpu final : public PeerLiveness {
 public:
  OpenOnGpu(std::shared_ptr<fabric::RemoteArray> array, std::shared_ptr<void> use,
            std::shared_ptr<IpcMemory> memory)
      : PeerLiveness(std::move(array)),
        open_(std::make_shared<Open>(Open{std::move(use), std::move(memory)})) {}

  std::shared_ptr<void> hold() const override {
    if (!array_->link().requester->stands(array_->remote())) return nullptr;
    std::lock_guard lock(mutex_);
    return open_;
  }

  Result<std::byte*> address_for(int gpu) const override {
    std::shared_ptr<Open> open;
    {
      std::lock_guard lock(mutex_);
      open = open_;
    }
    if (open) return open->memory->address_for(gpu);
    return Error{ErrorCode::not_found,
                 array_->link().label + " exports \"" + array_->name() + "\" no longer",
                 "look it up again"};
  }

  void close() {
    std::shared_ptr<Open> last;
    std::lock_guard lock(mutex_);
    last.swap(open_);
  }

 private:
  struct Open {
    std::shared_ptr<void> use;
    std::shared_ptr<IpcMemory> memory;  ///< goes first
  };
  mutable std::mutex mutex_;
  std::shared_ptr<Open> open_;
};

/// Wraps a peer's array so that it is never destroyed in a fork: its destructor takes locks of the
/// connection, which a thread of the parent may have held at the fork.
std::shared_ptr<fabric::RemoteArray> left_alone_in_forks(
    std::shared_ptr<fabric::RemoteArray> array) {
  fabric::RemoteArray* const raw = array.get();
  return {raw,
          [held = std::move(array), generation = fork_generation()](fabric::RemoteArray*) mutable {
            if (fork_generation() != generation) {
              (void)new std::shared_ptr<fabric::RemoteArray>(std::move(held));
            }
            held.reset();
          }};
}

}  // namespace

int peer_threads(const Config& config) {
  if (config.peer_threads >= 0)
    return static_cast<int>(std::min<std::int64_t>(config.peer_threads, 64));
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return cores < peer_cores_least ? 0 : std::min(cores / 2, peer_threads_most);
}

Result<std::shared_ptr<Processes>> Processes::open(Engine& engine) {
  const Config& config = engine.config();
  auto transport = transport_of(config.transport);
  if (!transport) return transport.error();
  fabric::FabricOptions options;
  options.accept = engine.options_.accept || !engine.options_.contact_file.empty();
  options.listen = config.listen;
  if (!config.key.empty()) {
    const auto key = key_from_hex(config.key);
    if (!key) return key.error();
    options.key = *key;
  }
  auto users = users_of(config.users);
  if (!users) return users.error();
  options.users = std::move(*users);
  options.reconnect = std::chrono::milliseconds(config.reconnect_ms);
  options.tls = config.tls;
  options.wire_checksum = config.wire_checksum;
  options.network_sockets = static_cast<int>(std::clamp<std::int64_t>(config.tcp_sockets, 1, 16));
  options.peers_max = static_cast<int>(std::clamp<std::int64_t>(config.clients_max, 1, 65536));
  options.service_threads = service_threads(config);
  options.contact_file = engine.options_.contact_file;
  options.peer_timeout = std::chrono::milliseconds(config.peer_timeout_ms);
  options.slots_per_peer = static_cast<int>(config.slots_per_peer);
  options.slot_bytes = config.slot_bytes;
  options.transport = *transport;
  if (config.spin_us >= 0) {
    options.spin = std::max(options.spin, std::chrono::microseconds(config.spin_us));
  } else if (std::thread::hardware_concurrency() >= peer_cores_least) {
    options.spin = spin_for_peers;
  }
  options.copy = {copy_nests, copy_runs};
  if (Status carrier = open_carrier(config, options); !carrier) return carrier.error();
  options.execute = [&engine](const Request& request, std::function<void(Status)> done) {
    engine.carriers_->run_nests(request, std::move(done));
  };
  options.answer = engine.options_.answer;
  options.on_requester_lost = engine.options_.on_requester_lost;
  options.on_requester_served = engine.options_.on_requester_served;
  options.on_requester_gone = engine.options_.on_requester_gone;
  std::shared_ptr<Processes> processes(new Processes(engine));
  processes->take_messages(options);
  if (GpuSide* gpus = engine.gpu_side_.get()) {
    options.register_slots = [gpus](SharedMemory& slots) { (void)gpus->pinning().pin(slots); };
  }
  const bool has_carrier = options.carrier != nullptr;
  auto fabric = fabric::Fabric::open(std::move(options));
  if (!fabric) return fabric.error();
  processes->fabric_ = std::move(*fabric);
  processes->contact_ = processes->fabric_->contact();
  fabric::RemoteChannel::Options channel;
  channel.name = "remote";
  // Several tiles at once, so that the slots do not run dry between two of them.
  channel.bytes_in_flight_max =
      std::max(8 * config.slots_per_peer * config.slot_bytes, std::int64_t{16} << 20);
  channel.carriers = peer_threads(config);
  channel.carrier_threads = has_carrier ? carrier_threads : 0;
  if (channel.carriers > 0) {
    channel.bytes_in_flight_max = std::max(channel.bytes_in_flight_max, carried_bytes_in_flight);
  }
  processes->channel_ = std::make_unique<fabric::RemoteChannel>(*processes->fabric_, channel);
  const int number = engine.driver_->add_channel(*processes->channel_);
  engine.engine_channels_->add(ChannelKind::remote_write, number);
  engine.engine_channels_->add(ChannelKind::remote_read, number);
  return processes;
}

/// Lets the fabric hand over what peers and requesters send without being asked.
void Processes::take_messages(fabric::FabricOptions& options) {
  options.on_notice = [this](fabric::PeerId peer, std::span<const std::byte> body) {
    if (const auto listener = listener_of(peer)) listener->on_notice(body);
  };
  options.on_peer_lost = [this](fabric::PeerId peer, const Error& error) {
    if (const auto listener = listener_of(peer)) listener->on_lost(error);
    notices_.wake();
  };
  options.take_notice = [this](fabric::CopyNotice notice) {
    return notices_.add(std::move(notice));
  };
}

Processes::~Processes() { (void)stop(); }  // not reached in a fork: see Engine::leak()

Status Processes::stop() {
  gate_.close();
  notices_.close();
  const Status left = fabric_ ? fabric_->close() : Status{};  // null: refused before it started
  (void)gate_.wait_empty(calls_end_max);
  return left;
}

void Processes::release(bool unused) {
  std::map<std::string, Exported> exports;
  std::lock_guard lock(mutex_);
  exports.swap(exports_);
  listeners_.clear();
  if (unused) return;
  try {
    (void)new std::map<std::string, Exported>(std::move(exports));
  } catch (const std::bad_alloc&) {
    return;  // without memory for the list, the exports are freed although peers may access them
  }
}

Result<Gate::Pass> Processes::enter() const {
  if (fork_generation() != fork_generation_) {
    return Error{ErrorCode::closed, "this process was forked after the connection was opened",
                 "open an engine of its "
                 "own here (or start processes with spawn)"};
  }
  auto pass = gate_.enter();
  if (!pass) return Error{ErrorCode::closed, "this engine was closed", "open another one"};
  return pass;
}

void Processes::accept_key_if_free(const Key& key) {
  const auto entered = enter();
  if (!entered) return;
  const bool known = !engine_.options_.contact_file.empty() || !engine_.config().key.empty();
  if (!known) fabric_->accept_key(key);
}

Status Processes::disconnect(fabric::PeerId peer) {
  const auto entered = enter();
  if (!entered) return entered.error();
  if (engine_.gpu_side_) engine_.gpu_side_->release_ended();
  return fabric_->disconnect(peer);
}

std::string Processes::describe_peer(fabric::PeerId peer) const {
  const auto entered = enter();
  return entered ? fabric_->describe(peer) : std::string();
}

Result<std::vector<std::string>> Processes::names(fabric::PeerId peer,
                                                  std::chrono::milliseconds timeout) {
  const auto entered = enter();
  if (!entered) return entered.error();
  return fabric_->names(peer, timeout);
}

Result<std::size_t> Processes::ask(fabric::PeerId peer, std::span<const std::byte> question,
                                   std::span<std::byte> reply, std::chrono::milliseconds timeout,
                                   const std::function<bool()>& interrupted) {
  const auto entered = enter();
  if (!entered) return entered.error();
  return fabric_->ask(peer, question, reply, timeout, interrupted);
}

Result<std::unique_ptr<fabric::OpenQuestion>> Processes::begin_ask(fabric::PeerId peer,
                                                                   std::vector<std::byte> question,
                                                                   std::span<std::byte> reply) {
  const auto entered = enter();
  if (!entered) return entered.error();
  return fabric_->begin_ask(peer, std::move(question), reply);
}

Result<std::size_t> Processes::end_ask(fabric::OpenQuestion& question,
                                       std::chrono::milliseconds timeout,
                                       const std::function<bool()>& interrupted) {
  const auto entered = enter();
  if (!entered) return entered.error();
  return fabric_->end_ask(question, timeout, interrupted);
}

Status Processes::tell(fabric::PeerId peer, std::span<const std::byte> question) {
  const auto entered = enter();
  return entered ? fabric_->tell(peer, question) : Status(entered.error());
}

Status Processes::notify(fabric::RequesterId requester, std::vector<std::byte> body) {
  const auto entered = enter();
  return entered ? fabric_->notify(requester, std::move(body)) : Status(entered.error());
}

bool Processes::connected(fabric::PeerId peer) const {
  const auto entered = enter();
  return entered && fabric_->connected(peer);
}

Status Processes::export_array(const std::string& name, const Array& array, bool notices) {
  const auto entered = enter();
  if (!entered) return entered.error();
  Array source = array;
  if (Status status = engine_.resolve(source, source); !status) return status;
  const bool own =
      source.memory_kind == MemoryKind::host || source.memory_kind == MemoryKind::file ||
      source.memory_kind == MemoryKind::pinned || source.memory_kind == MemoryKind::device;
  if (!own || source.liveness) {
    return Error{ErrorCode::invalid_argument, "\"" + name + "\" is an array of another process",
                 "connect to that one instead"};
  }
  const Mapping& mapping = *source.view.mapping;
  fabric::ExportedArray exported;
  exported.name = name;
  exported.description = describe(source.view, source.named, mapping.begin_bytes());
  exported.place = source.place;
  exported.place.address = first_byte(source);
  exported.bytes = mapping.span_bytes();
  exported.writable = source.writable;
  exported.memory_name = name_of_export(source);
  exported.takes_notices = notices;
  std::unique_ptr<GpuMemory> on_gpu;
  if (source.memory_kind == MemoryKind::device) {
    on_gpu = std::make_unique<GpuMemory>(source.device);
    exported.place.attachment = on_gpu.get();
    exported.ipc_handle = engine_.gpu_side_->ipc_handle_of(exported.place.address);
  } else if (cpu_reaches(source.memory_kind)) {
    exported.memory = engine_.shared_memories_.holding(exported.place.address, exported.bytes);
  }
  if (Status status = fabric_->export_array(exported); !status) return status;
  std::lock_guard lock(mutex_);
  exports_[name] = {std::move(source), std::move(on_gpu)};
  return {};
}

Status Processes::withdraw(const std::string& name) {
  const auto entered = enter();
  if (!entered) return entered.error();
  Status status = fabric_->withdraw(name);
  if (!status) return status;
  std::map<std::string, Exported>::node_type withdrawn;  // its owner is released after the lock
  std::lock_guard lock(mutex_);
  withdrawn = exports_.extract(name);
  return status;
}

void Processes::listen(fabric::PeerId peer, std::shared_ptr<PeerListener> listener) {
  std::lock_guard lock(mutex_);
  if (listener) {
    listeners_[peer] = std::move(listener);
  } else {
    listeners_.erase(peer);
  }
}

std::shared_ptr<PeerListener> Processes::listener_of(fabric::PeerId peer) {
  std::lock_guard lock(mutex_);
  const auto found = listeners_.find(peer);
  return found == listeners_.end() ? nullptr : found->second;
}

Result<std::vector<fabric::CopyNotice>> Processes::take_notices(std::optional<fabric::PeerId> peer,
                                                                std::chrono::milliseconds timeout,
                                                                bool (*interrupted)()) {
  const auto entered = enter();
  if (!entered) return entered.error();
  std::optional<Identity> sender;
  if (peer) {
    auto identity = fabric_->identity(*peer);
    if (!identity) return identity.error();
    sender = std::move(*identity);
  }
  const auto until = std::chrono::steady_clock::now() + timeout;
  while (true) {
    const std::uint64_t seen = notices_.changes();
    // Checked before the queue is read: if the peer is lost, all that it has sent is in the queue.
    const Status lost = peer ? fabric_->check(*peer) : Status{};
    auto taken = notices_.take(sender ? &*sender : nullptr);
    if (!taken.empty()) return taken;
    if (gate_.closed()) return Error{ErrorCode::closed, "this engine was closed"};
    if (Status open = engine_.usable(); !open) return open.error();
    if (!lost) return lost.error();
    const auto now = std::chrono::steady_clock::now();
    if (now >= until) return taken;
    if (interrupted != nullptr && interrupted()) {
      return Error{ErrorCode::cancelled, "interrupted"};
    }
    notices_.wait(seen, std::min(until, now + interruption_look));
  }
}

Result<fabric::PeerId> Processes::connect(const std::string& contact,
                                          std::chrono::milliseconds timeout) {
  const auto entered = enter();
  if (!entered) return entered.error();
  return fabric_->connect(contact, timeout);
}

Result<Array> Processes::lookup(fabric::PeerId peer, const std::string& name,
                                std::chrono::milliseconds timeout) {
  const auto entered = enter();
  if (!entered) return entered.error();
  auto found = fabric_->lookup(peer, name, timeout);
  if (!found) return found.error();
  const std::shared_ptr<fabric::RemoteArray> remote = left_alone_in_forks(std::move(*found));
  auto read = described(remote->description(), remote->bytes());
  if (!read) return read.error();
  Array array;
  array.view = read->view;
  array.named = read->named;
  array.writable = remote->writable();
  array.name = "\"" + name + "\" of " + remote->link().label;
  array.owner = remote;
  if (remote->mapped() != nullptr) {
    array.place.address = remote->mapped();
    array.memory_kind = MemoryKind::shared;
    array.shared = remote->memory();
    array.liveness = std::make_shared<PeerLiveness>(remote);
    return array;
  }
  if (!remote->ipc_handle().empty() && engine_.gpu_side_) {
    open_on_gpu(remote, array);
    if (array.memory_kind == MemoryKind::device) return array;
  }
  array.place.attachment = remote.get();
  const bool far = remote->link().mode == fabric::LinkMode::network;
  array.memory_kind = far ? MemoryKind::far_process : MemoryKind::near_process;
  return array;
}

/// Maps a peer's array on a GPU; where the driver refuses, it is reached through slots as any
/// other.
void Processes::open_on_gpu(const std::shared_ptr<fabric::RemoteArray>& remote,
                            Array& array) const {
  auto use = remote->link().requester->use(remote->remote());
  if (!use) return;  // it was withdrawn: the channel reports that when the array is copied
  auto opened = engine_.gpu_side_->open_ipc_handle(remote->ipc_handle());
  if (!opened) return;
  const int gpu = (*opened)->gpu();
  const auto address = (*opened)->address_for(gpu);
  if (!address) return;
  array.place.address = *address;
  array.memory_kind = MemoryKind::device;
  array.device = array.opened_for = gpu;
  const auto open = std::make_shared<OpenOnGpu>(remote, std::move(use), std::move(*opened));
  remote->when_over([weak = std::weak_ptr(open)] {
    if (const auto still = weak.lock()) still->close();
  });
  array.liveness = open;
}

}  // namespace tranship
