#include "fabric/wires/ucx/ucx_carrier.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "base/check.hpp"
#include "fabric/messages/runs.hpp"
#include "fabric/wires/ucx/ucx_library.hpp"
#include "os/fork.hpp"

namespace tranship::fabric {
namespace {

using Clock = std::chrono::steady_clock;

/// UCX transports on one machine; without sysv, whose segments are open to other users of the same
/// group.
constexpr const char* shared_transports = "posix,cma,self";
constexpr const char* rdma_transports = "rc,dc,ud";
/// Bytes of one put or get, which occupies the worker for some 100 us.
constexpr std::int64_t part_bytes_max = std::int64_t{1} << 20;
constexpr std::size_t operations_max = 16;
/// Polls without an event before a copy yields its core.
constexpr int idle_max = 1000;
/// How long a copy that is to stop waits for its operations before it closes its endpoint.
constexpr std::chrono::seconds stop_patience{2};
/// Time limit for closing an endpoint by force, with which UCX ends all its operations.
constexpr std::chrono::seconds close_patience{30};

struct ConfigValue {
  const char* name;
  std::string value;
};

/// Returns the settings, explicitly, so that neither UCX's environment variables nor its files
/// change them.
std::vector<ConfigValue> config_of(UcxCarrier::Reach reach) {
  const bool shared = reach == UcxCarrier::Reach::shared;
  return {{"TLS", shared ? shared_transports : rdma_transports},
          // Only one-sided operations: an emulation needs the peer's help.
          {"PROTO_EMULATION_ENABLE", "n"},
          {"RCACHE_ENABLE", "n"},
          {"RNDV_THRESH", "inf"},
          // Without this setting, endpoints that report their peer's death have no shared memory.
          {"MM_ERROR_HANDLING", "y"}};
}

/// Silences UCX's own messages, since failures are reported as errors. A level that the user has
/// set is kept.
void quiet(const ucp::Functions& calls) {
  if (calls.get_option == nullptr || calls.set_option == nullptr) return;
  std::array<char, 32> level{};
  const auto status = calls.get_option("LOG_LEVEL", level.data(), level.size());
  if (status == ucp::ok && std::string(level.data()) == "WARN") {
    (void)calls.set_option("LOG_LEVEL", "FATAL");
  }
}

}  // namespace

/// State that all parts of a carrier share, guarded by one mutex. A forked process leaves it as it
/// is: its locks and threads belong to the parent.
struct UcxCarrier::State {
  std::shared_ptr<const UcxLibrary> library;
  ucp::Handle context = nullptr;
  ucp::Handle worker = nullptr;
  std::mutex mutex;
  std::atomic<int> waiting{0};  ///< Threads that need the mutex briefly: copies yield to them.
  std::uint64_t generation = fork_generation();

  const ucp::Functions& calls() const { return library->calls(); }
  /// Locks the mutex, before the next part of a copy does.
  std::unique_lock<std::mutex> enter() {
    waiting.fetch_add(1, std::memory_order_relaxed);
    std::unique_lock lock(mutex);
    waiting.fetch_sub(1, std::memory_order_relaxed);
    return lock;
  }
  bool forked() const { return fork_generation() != generation; }

  ~State() {
    if (forked()) return;
    if (worker != nullptr) calls().destroy_worker(worker);
    if (context != nullptr) calls().cleanup(context);
  }
};

namespace {

using State = UcxCarrier::State;

class UcxRegistration final : public BulkCarrier::Registration {
 public:
  UcxRegistration(std::shared_ptr<State> state, ucp::Handle memory)
      : state_(std::move(state)), memory_(memory) {}
  ~UcxRegistration() override {
    if (state_->forked()) return;
    const auto lock = state_->enter();
    (void)state_->calls().unmap(state_->context, memory_);
  }
  UcxRegistration(const UcxRegistration&) = delete;
  UcxRegistration& operator=(const UcxRegistration&) = delete;

  const std::vector<std::byte>& key() const override { return key_; }
  std::vector<std::byte>& key() { return key_; }

 private:
  std::shared_ptr<State> state_;
  ucp::Handle memory_;
  std::vector<std::byte> key_;
};

/// An endpoint, which is closed when an operation on it fails.
class UcxPeer final : public BulkCarrier::Peer, public std::enable_shared_from_this<UcxPeer> {
 public:
  explicit UcxPeer(std::shared_ptr<State> state) : state_(std::move(state)) {}
  ~UcxPeer() override {
    if (!state_->forked()) close();
  }
  UcxPeer(const UcxPeer&) = delete;
  UcxPeer& operator=(const UcxPeer&) = delete;

  Status connect(std::span<const std::byte> address);
  Result<std::shared_ptr<BulkCarrier::Memory>> open(std::span<const std::byte> key,
                                                    std::uint64_t address) override;
  /// Ends operations in progress with errors; no new ones begin.
  void close();

  State& state() { return *state_; }
  ucp::Handle endpoint = nullptr;  ///< Null: closed. Guarded by the state's mutex.

 private:
  std::shared_ptr<State> state_;
};

/// The operations of one copy that are in progress.
class Flights {
 public:
  explicit Flights(UcxPeer& peer) : peer_(peer), state_(peer.state()) {}

  /// Waits for room, calls `begin(endpoint)` under the lock, and tracks the operation that it
  /// began.
  template <typename Begin>
  Status start(const std::function<bool()>& stop, Begin&& begin);
  /// Waits until no operation is in progress.
  Status wait(const std::function<bool()>& stop);
  /// Waits as wait() does, without failing; if need be, closes the endpoint.
  void end();

 private:
  Status add(ucp::Outcome outcome);
  Status collect();
  void pause();

  UcxPeer& peer_;
  State& state_;
  std::vector<ucp::Outcome> flying_;
  int idle_ = 0;  ///< Consecutive polls without an event.
};

class UcxMemory final : public BulkCarrier::Memory {
 public:
  UcxMemory(std::shared_ptr<UcxPeer> peer, ucp::Handle key, std::uint64_t address)
      : peer_(std::move(peer)), key_(key), address_(address) {}
  ~UcxMemory() override {
    State& state = peer_->state();
    if (state.forked()) return;
    const auto lock = state.enter();
    state.calls().destroy_key(key_);
  }
  UcxMemory(const UcxMemory&) = delete;
  UcxMemory& operator=(const UcxMemory&) = delete;

  Status move(const BulkCarrier::Movement& movement, const std::function<bool()>& stop) override;

 private:
  Status move_run(Flights& flights, std::byte* local, std::uint64_t remote, std::int64_t bytes,
                  Operation operation, const std::function<bool()>& stop);
  Status flush(Flights& flights, const std::function<bool()>& stop);

  std::shared_ptr<UcxPeer> peer_;
  ucp::Handle key_;
  std::uint64_t address_;
};

Error stopped() { return {ErrorCode::cancelled, "the copy was cancelled"}; }

/// Yields the core only after many idle polls, or to threads that need the mutex: UCX copies in
/// progress(), and each yield costs a time slice of another thread.
void Flights::pause() {
  if (idle_ > idle_max || state_.waiting.load(std::memory_order_relaxed) > 0) {
    std::this_thread::yield();
  }
}

Status Flights::add(ucp::Outcome outcome) {
  if (ucp::under_way(outcome)) {
    flying_.push_back(outcome);
    return {};
  }
  const ucp::Status status = ucp::status_of(outcome);
  if (status == ucp::ok) return {};
  return state_.library->error(ErrorCode::io, "UCX could not copy", status);
}

/// Polls the operations in progress, and removes those that have ended. The caller holds the lock.
Status Flights::collect() {
  idle_ = state_.calls().progress(state_.worker) != 0 ? 0 : idle_ + 1;
  Status worst;
  std::erase_if(flying_, [&](ucp::Outcome outcome) {
    const ucp::Status status = state_.calls().check(outcome);
    if (status == ucp::in_progress) return false;
    state_.calls().free_request(outcome);
    if (status != ucp::ok) {
      worst = state_.library->error(ErrorCode::io, "UCX could not copy", status);
    }
    return true;
  });
  return worst;
}

template <typename Begin>
Status Flights::start(const std::function<bool()>& stop, Begin&& begin) {
  while (true) {
    if (stop()) return stopped();
    {
      const std::lock_guard lock(state_.mutex);
      if (peer_.endpoint == nullptr) {
        return Error{ErrorCode::io, "the connection over UCX has failed before"};
      }
      if (flying_.size() < operations_max) return add(begin(peer_.endpoint));
      if (Status status = collect(); !status) return status;
    }
    pause();
  }
}

Status Flights::wait(const std::function<bool()>& stop) {
  while (!flying_.empty()) {
    if (stop()) return stopped();
    {
      const std::lock_guard lock(state_.mutex);
      if (Status status = collect(); !status) return status;
    }
    pause();
  }
  return {};
}

void Flights::end() {
  const auto begin = Clock::now();
  bool closed = false;
  while (!flying_.empty()) {
    if (!closed && Clock::now() - begin > stop_patience) {
      peer_.close();
      closed = true;
    }
    CHECK(Clock::now() - begin < stop_patience + close_patience,
          "UCX does not end the operations of an endpoint that was closed by force");
    {
      const std::lock_guard lock(state_.mutex);
      (void)collect();
    }
    pause();
  }
}

Status UcxPeer::connect(std::span<const std::byte> address) {
  // UCX reads as many bytes as the address says: beyond a truncated address there must be memory of
  // ours.
  std::vector<std::byte> padded(2 * carrier_address_bytes_max);
  std::copy(address.begin(), address.end(), padded.begin());
  ucp::EndpointParameters parameters;
  parameters.field_mask = ucp::EndpointParameters::has_remote_address |
                          ucp::EndpointParameters::has_error_mode |
                          ucp::EndpointParameters::has_error_handler;
  parameters.address = padded.data();
  parameters.error_mode = ucp::error_mode_peer;
  parameters.error_handler = [](void*, ucp::Handle, ucp::Status) {};  // operations report the error
  const auto lock = state_->enter();
  const auto status = state_->calls().create_endpoint(state_->worker, &parameters, &endpoint);
  if (status == ucp::ok) return {};
  endpoint = nullptr;
  return state_->library->error(ErrorCode::io, "UCX cannot reach the peer", status);
}

Result<std::shared_ptr<BulkCarrier::Memory>> UcxPeer::open(std::span<const std::byte> key,
                                                           std::uint64_t address) {
  std::vector<std::byte> padded(2 * carrier_key_bytes_max);
  if (key.empty() || key.size() > carrier_key_bytes_max) {
    return Error{ErrorCode::io, "the peer's UCX key has " + std::to_string(key.size()) +
                                    " bytes, which is not allowed"};
  }
  std::copy(key.begin(), key.end(), padded.begin());
  const auto lock = state_->enter();
  if (endpoint == nullptr) return Error{ErrorCode::io, "the connection over UCX has failed before"};
  ucp::Handle opened = nullptr;
  const auto status = state_->calls().unpack_key(endpoint, padded.data(), &opened);
  if (status != ucp::ok) {
    return state_->library->error(ErrorCode::io, "UCX refuses the peer's key", status);
  }
  return std::shared_ptr<BulkCarrier::Memory>(
      std::make_shared<UcxMemory>(shared_from_this(), opened, address));
}

void UcxPeer::close() {
  ucp::OperationParameters parameters;
  parameters.field_mask = ucp::OperationParameters::has_flags;
  parameters.flags = ucp::OperationParameters::close_by_force;
  const auto end = Clock::now() + close_patience;
  const auto lock = state_->enter();
  if (endpoint == nullptr) return;
  const ucp::Outcome closing = state_->calls().close_endpoint(endpoint, &parameters);
  endpoint = nullptr;
  if (!ucp::under_way(closing)) return;
  while (state_->calls().check(closing) == ucp::in_progress) {
    (void)state_->calls().progress(state_->worker);
    CHECK(Clock::now() < end, "UCX does not close an endpoint by force");
  }
  state_->calls().free_request(closing);
}

Status UcxMemory::move_run(Flights& flights, std::byte* local, std::uint64_t remote,
                           std::int64_t bytes, Operation operation,
                           const std::function<bool()>& stop) {
  ucp::OperationParameters parameters;
  parameters.field_mask = ucp::OperationParameters::has_memory_type;
  parameters.memory_type = ucp::host_memory;
  const ucp::Functions& calls = peer_->state().calls();
  for (std::int64_t at = 0; at < bytes; at += part_bytes_max) {
    const auto part = static_cast<std::size_t>(std::min(part_bytes_max, bytes - at));
    const std::uint64_t there = remote + static_cast<std::uint64_t>(at);
    const Status status = flights.start(stop, [&](ucp::Handle endpoint) {
      return operation == Operation::write
                 ? calls.put(endpoint, local + at, part, there, key_, &parameters)
                 : calls.get(endpoint, local + at, part, there, key_, &parameters);
    });
    if (!status) return status;
  }
  return {};
}

/// Starts a flush: a put that has ended has left this memory; a flush ends when the bytes have
/// arrived in the peer's.
Status UcxMemory::flush(Flights& flights, const std::function<bool()>& stop) {
  const ucp::OperationParameters parameters;
  return flights.start(stop, [&](ucp::Handle endpoint) {
    return peer_->state().calls().flush(endpoint, &parameters);
  });
}

Status UcxMemory::move(const BulkCarrier::Movement& movement, const std::function<bool()>& stop) {
  const bool write = movement.operation == Operation::write;
  Flights flights(*peer_);
  Status status;
  (void)for_each_run(movement.nests, movement.lists, [&](const Run& run) {
    const std::int64_t here = write ? run.source_offset : run.target_offset;
    const std::int64_t there = write ? run.target_offset : run.source_offset;
    status = move_run(flights, movement.local + here, address_ + static_cast<std::uint64_t>(there),
                      run.bytes, movement.operation, stop);
    return static_cast<bool>(status);
  });
  const auto failed = [](const Status& one) {
    return !one && one.error().code != ErrorCode::cancelled;
  };
  bool broken = failed(status);
  if (write && !broken) {
    // This applies after a cancel, too: bytes that have left this memory have arrived before the
    // end is reported.
    const auto late = Clock::now() + stop_patience;
    const Status flushed = flush(flights, [&] { return stop() && Clock::now() > late; });
    broken = !flushed;
    if (status) status = flushed;
  }
  if (status) status = flights.wait(stop);
  // A failure may leave operations in progress: they end with the endpoint.
  if (broken || failed(status)) peer_->close();
  flights.end();
  return status;
}

}  // namespace

UcxCarrier::~UcxCarrier() = default;

const std::string& UcxCarrier::library() const { return state_->library->path(); }

Result<std::shared_ptr<UcxCarrier>> UcxCarrier::open(const Options& options) {
  std::shared_ptr<UcxCarrier> carrier(new UcxCarrier(options));
  const bool rdma = options.reach == Reach::rdma;
  const auto candidates =
      options.library.empty() ? ucx_candidates(rdma) : std::vector<std::string>{options.library};
  if (Status status = carrier->open_worker(candidates); !status) return status.error();
  return carrier;
}

Status UcxCarrier::open_worker(const std::vector<std::string>& candidates) {
  auto library = UcxLibrary::open(candidates);
  if (!library) return library.error();
  const KeptSignals kept;
  state_ = std::make_shared<State>();
  state_->library = std::move(*library);
  const ucp::Functions& calls = state_->calls();
  if (state_->library->own()) quiet(calls);
  const std::string transports = config_of(options_.reach).front().value;
  const auto refused = [&](const std::string& what, ucp::Status status) {
    return state_->library->error(ErrorCode::unsupported,
                                  what + " with the transports " + transports, status);
  };
  ucp::Handle config = nullptr;
  ucp::Status status = calls.read_config(nullptr, nullptr, &config);
  if (status != ucp::ok) return refused("UCX does not start", status);
  for (const ConfigValue& one : config_of(options_.reach)) {
    status = calls.modify_config(config, one.name, one.value.c_str());
    if (status == ucp::ok) continue;
    calls.release_config(config);
    return refused("UCX does not take the setting " + std::string(one.name), status);
  }
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  calls.version(&major, &minor, &release);
  ucp::ContextParameters context;
  context.field_mask =
      ucp::ContextParameters::has_features | ucp::ContextParameters::has_shared_workers;
  context.features = ucp::feature_rma;
  context.mt_workers_shared = 1;
  status = calls.init(major, minor, &context, config, &state_->context);
  calls.release_config(config);
  if (status != ucp::ok) return refused("UCX does not start", status);
  ucp::WorkerParameters worker;
  worker.field_mask = ucp::WorkerParameters::has_thread_mode;
  worker.thread_mode = ucp::thread_mode_serialized;
  status = calls.create_worker(state_->context, &worker, &state_->worker);
  if (status != ucp::ok) return refused("UCX does not start", status);
  void* address = nullptr;
  std::size_t bytes = 0;
  status = calls.get_address(state_->worker, &address, &bytes);
  if (status != ucp::ok) return refused("UCX has no address", status);
  const auto* begin = static_cast<const std::byte*>(address);
  address_.assign(begin, begin + bytes);
  calls.release_address(state_->worker, address);
  if (bytes > carrier_address_bytes_max) {
    return Error{ErrorCode::unsupported,
                 "UCX's address has " + std::to_string(bytes) + " bytes, and " +
                     std::to_string(carrier_address_bytes_max) + " fit a message"};
  }
  kind_ = "UCX " + state_->library->version() + " (" + transports + ")";
  return {};
}

Result<std::unique_ptr<BulkCarrier::Registration>> UcxCarrier::register_memory(std::byte* address,
                                                                               std::int64_t bytes) {
  ucp::MemoryParameters parameters;
  parameters.field_mask = ucp::MemoryParameters::has_address | ucp::MemoryParameters::has_length |
                          ucp::MemoryParameters::has_memory_type;
  parameters.address = address;
  parameters.length = static_cast<std::size_t>(bytes);
  parameters.memory_type = ucp::host_memory;
  ucp::Handle memory = nullptr;
  void* packed = nullptr;
  std::size_t packed_bytes = 0;
  std::unique_ptr<UcxRegistration> made;
  const ucp::Functions& calls = state_->calls();
  {
    const auto lock = state_->enter();
    const auto status = calls.map(state_->context, &parameters, &memory);
    if (status != ucp::ok) {
      return state_->library->error(ErrorCode::io, "UCX cannot register the memory", status);
    }
  }
  made = std::make_unique<UcxRegistration>(state_, memory);
  const auto lock = state_->enter();
  const auto status = calls.pack_key(state_->context, memory, &packed, &packed_bytes);
  if (status == ucp::ok) {
    const auto* begin = static_cast<const std::byte*>(packed);
    made->key().assign(begin, begin + std::min(packed_bytes, carrier_key_bytes_max + 1));
    calls.release_key_buffer(packed);
    if (packed_bytes <= carrier_key_bytes_max) {
      return std::unique_ptr<Registration>(std::move(made));
    }
  }
  return Error{ErrorCode::io, "UCX has no key for the memory that fits a message"};
}

Result<std::shared_ptr<BulkCarrier::Peer>> UcxCarrier::connect(std::span<const std::byte> address) {
  if (address.empty() || address.size() > carrier_address_bytes_max) {
    return Error{ErrorCode::io, "the peer's UCX address has " + std::to_string(address.size()) +
                                    " bytes, which is not allowed"};
  }
  auto peer = std::make_shared<UcxPeer>(state_);
  if (Status status = peer->connect(address); !status) return status.error();
  return std::shared_ptr<Peer>(std::move(peer));
}

bool UcxCarrier::progress() {
  const std::unique_lock lock(state_->mutex, std::try_to_lock);
  return lock.owns_lock() && state_->calls().progress(state_->worker) != 0;
}

}  // namespace tranship::fabric
