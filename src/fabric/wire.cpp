#include "fabric/wire.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>

#include <chrono>
#include <cstring>
#include <map>
#include <unordered_map>

#include "base/check.hpp"

namespace tranship {
namespace {

constexpr unsigned message_id = 7;
constexpr std::chrono::milliseconds drain_max{500};

Error ucx_error(ErrorCode code, const std::string& what, ucs_status_t status) {
  return {code,
          what + ": " + ucs_status_string(status) + " (UCX " + ucp_get_version_string() + ")"};
}

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

/// Whether only processes of this machine can reach or be reached at the address.
bool loopback(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address.storage);
    return (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address.storage);
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) != 0;
}

/// Takes "host:port" or "[v6]:port".
Result<SocketAddress> resolve(const std::string& text, bool passive) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) {
    return Error{ErrorCode::invalid_argument, "'" + text + "' is not host:port"};
  }
  std::string host = text.substr(0, colon);
  const std::string port = text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (code != 0 || found == nullptr) {
    return Error{ErrorCode::invalid_argument,
                 "'" + text + "' cannot be used as host:port: " + gai_strerror(code)};
  }
  SocketAddress address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

bool is_any(const sockaddr_storage& storage) {
  if (storage.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(storage).sin_addr.s_addr == INADDR_ANY;
  }
  return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr) != 0;
}

/// Where others reach who listens on all interfaces: on the first one that is up and is not
/// loopback, or on loopback if there is no other. Any other address as it is.
sockaddr_storage reachable(const sockaddr_storage& storage) {
  if (!is_any(storage)) return storage;
  sockaddr_storage chosen = storage;
  const auto take = [&](const sockaddr* from) {
    if (from->sa_family == AF_INET) {
      reinterpret_cast<sockaddr_in&>(chosen).sin_addr =
          reinterpret_cast<const sockaddr_in*>(from)->sin_addr;
    } else {
      reinterpret_cast<sockaddr_in6&>(chosen).sin6_addr =
          reinterpret_cast<const sockaddr_in6*>(from)->sin6_addr;
    }
  };
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return storage;
  bool found = false;
  for (const bool loopback_too : {false, true}) {
    for (const ifaddrs* one = all; one != nullptr && !found; one = one->ifa_next) {
      const bool fits = one->ifa_addr != nullptr && one->ifa_addr->sa_family == storage.ss_family;
      const bool up = (one->ifa_flags & IFF_UP) != 0;
      if (!fits || !up || ((one->ifa_flags & IFF_LOOPBACK) != 0 && !loopback_too)) continue;
      take(one->ifa_addr);
      found = true;
    }
  }
  freeifaddrs(all);
  return chosen;
}

std::string print(const sockaddr_storage& storage) {
  char host[NI_MAXHOST] = {};
  char port[NI_MAXSERV] = {};
  getnameinfo(reinterpret_cast<const sockaddr*>(&storage), sizeof storage, host, sizeof host, port,
              sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  std::string text = storage.ss_family == AF_INET6 ? "[" : "";
  text.append(host).append(storage.ss_family == AF_INET6 ? "]:" : ":").append(port);
  return text;
}

/// A message or a put on its way; pooled.
struct Sending {
  Wire::State* state = nullptr;
  MessageHeader header;
  std::vector<std::byte> body;
  std::function<void()> arrived;
  Sending* next = nullptr;
};

struct Connection {
  ucp_ep_h endpoint = nullptr;
  ucp_rkey_h key = nullptr;
};

}  // namespace

class Wire::State {
 public:
  Options options;
  std::string address;
  ucp_context_h context = nullptr;
  ucp_worker_h worker = nullptr;
  ucp_listener_h listener = nullptr;
  bool loopback_only = false;  ///< no interface but loopback is in use
  int event_descriptor = -1;
  std::map<ConnectionId, Connection> connections;
  std::unordered_map<ucp_ep_h, ConnectionId> by_endpoint;
  std::vector<std::pair<ConnectionId, std::string>> lost;
  std::vector<void*> closing;
  ConnectionId last_id = 0;
  int outstanding = 0;

  Status open_context();
  Status open_worker();
  Status open_listener();
  ConnectionId add(ucp_ep_h endpoint);
  Result<ConnectionId> create_endpoint(ucp_ep_params_t& params);
  void close_endpoint(Connection& connection);
  void drain();
  void close_all();
  Sending* take_sending();
  void give_back(Sending* sending);
  void started(ucs_status_ptr_t request, Sending* sending);
  bool progress();

  static void on_arrival(ucp_conn_request_h request, void* argument);
  static void on_error(void* argument, ucp_ep_h endpoint, ucs_status_t status);
  static ucs_status_t on_message(void* argument, const void* header, size_t header_bytes,
                                 void* data, size_t bytes, const ucp_am_recv_param_t* param);
  static void on_sent(void* request, ucs_status_t status, void* argument);

 private:
  std::vector<std::unique_ptr<Sending>> sendings_;
  Sending* free_ = nullptr;
};

/// A lost peer is our error to report, with its name; UCX would also print lines of its own. A
/// level that somebody chose stays.
void quiet_ucx() {
  char level[32] = {};
  if (ucs_global_opts_get_value("LOG_LEVEL", level, sizeof level) == UCS_OK &&
      std::string(level) == "WARN") {
    (void)ucs_global_opts_set_value("LOG_LEVEL", "FATAL");
  }
}

Status Wire::State::open_context() {
  quiet_ucx();
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return ucx_error(ErrorCode::unsupported, "UCX did not start", status);
  // Shared memory is the fabric's own; UCX's would leave segments behind a kill -9, and with error
  // handling it emulates remote access over tcp, at a twentieth of the rate.
  // Only the slots are registered, once, so that no cache of registrations is needed, nor the hooks
  // into every munmap of the process that keep one valid.
  const char* settings[][2] = {{"TLS", options.tcp_only ? "tcp" : "^shm"},
                               {"RNDV_THRESH", "inf"},
                               {"MM_ERROR_HANDLING", "y"},
                               {"KEEPALIVE_INTERVAL", "1s"},
                               {"PROTO_EMULATION_ENABLE", "n"},
                               {"RCACHE_ENABLE", "n"}};
  for (const auto& setting : settings) {
    // A setting that this UCX does not know is not worth a failure.
    (void)ucp_config_modify(config, setting[0], setting[1]);
  }
  // UCX's tcp opens a socket on every interface; who listens on loopback wants none of the others.
  if (const auto own = resolve(options.listen, true); own && loopback(*own)) {
    (void)ucp_config_modify(config, "NET_DEVICES", "lo");
    loopback_only = true;
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP;
  params.name = "tranship";
  status = ucp_init(&params, config, &context);
  ucp_config_release(config);
  if (status != UCS_OK) return ucx_error(ErrorCode::unsupported, "UCX did not start", status);
  return {};
}

Status Wire::State::open_worker() {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucs_status_t status = ucp_worker_create(context, &params, &worker);
  if (status != UCS_OK) return ucx_error(ErrorCode::unsupported, "no UCX worker", status);
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = message_id;
  handler.cb = on_message;
  handler.arg = this;
  status = ucp_worker_set_am_recv_handler(worker, &handler);
  if (status == UCS_OK) status = ucp_worker_get_efd(worker, &event_descriptor);
  if (status != UCS_OK) return ucx_error(ErrorCode::unsupported, "no UCX events", status);
  return {};
}

Status Wire::State::open_listener() {
  if (options.listen.empty()) return {};
  const auto socket_address = resolve(options.listen, true);
  if (!socket_address) return socket_address.error();
  ucp_listener_params_t params{};
  params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
  params.sockaddr.addr = reinterpret_cast<const sockaddr*>(&socket_address->storage);
  params.sockaddr.addrlen = socket_address->length;
  params.conn_handler.cb = on_arrival;
  params.conn_handler.arg = this;
  ucs_status_t status = ucp_listener_create(worker, &params, &listener);
  if (status != UCS_OK) {
    return ucx_error(ErrorCode::io,
                     "cannot listen on " + options.listen +
                         ": choose another address, or port 0 for any free one",
                     status);
  }
  ucp_listener_attr_t attributes{};
  attributes.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
  status = ucp_listener_query(listener, &attributes);
  if (status != UCS_OK) return ucx_error(ErrorCode::io, "no listening address", status);
  address = print(reachable(attributes.sockaddr));
  return {};
}

void Wire::State::on_arrival(ucp_conn_request_h request, void* argument) {
  auto& state = *static_cast<State*>(argument);
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  params.conn_request = request;
  const auto connection = state.create_endpoint(params);
  if (connection) state.options.handlers.arrived(*connection);
}

Result<ConnectionId> Wire::State::create_endpoint(ucp_ep_params_t& params) {
  params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = on_error;
  params.err_handler.arg = this;
  ucp_ep_h endpoint = nullptr;
  const ucs_status_t status = ucp_ep_create(worker, &params, &endpoint);
  if (status != UCS_OK) return ucx_error(ErrorCode::peer_lost, "no connection", status);
  const ConnectionId id = ++last_id;
  connections[id] = {endpoint, nullptr};
  by_endpoint[endpoint] = id;
  return id;
}

void Wire::State::on_error(void* argument, ucp_ep_h endpoint, ucs_status_t status) {
  auto& state = *static_cast<State*>(argument);
  const auto found = state.by_endpoint.find(endpoint);
  if (found != state.by_endpoint.end()) {
    state.lost.emplace_back(found->second, ucs_status_string(status));
  }
}

ucs_status_t Wire::State::on_message(void* argument, const void* header, size_t header_bytes,
                                     void* data, size_t bytes, const ucp_am_recv_param_t* param) {
  auto& state = *static_cast<State*>(argument);
  const bool usable = header_bytes == sizeof(MessageHeader) &&
                      (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0 &&
                      (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0;
  if (!usable) return UCS_OK;
  const auto found = state.by_endpoint.find(param->reply_ep);
  if (found == state.by_endpoint.end()) return UCS_OK;
  MessageHeader message;
  std::memcpy(&message, header, sizeof message);
  state.options.handlers.message(found->second, message,
                                 {static_cast<const std::byte*>(data), bytes});
  return UCS_OK;
}

Sending* Wire::State::take_sending() {
  if (free_ == nullptr) {
    sendings_.push_back(std::make_unique<Sending>());
    free_ = sendings_.back().get();
    free_->state = this;
  }
  Sending* sending = free_;
  free_ = sending->next;
  return sending;
}

void Wire::State::give_back(Sending* sending) {
  sending->arrived = nullptr;
  sending->next = free_;
  free_ = sending;
}

void Wire::State::on_sent(void* request, ucs_status_t status, void* argument) {
  auto* sending = static_cast<Sending*>(argument);
  State& state = *sending->state;
  const auto arrived = std::move(sending->arrived);
  --state.outstanding;
  state.give_back(sending);
  ucp_request_free(request);
  if (status == UCS_OK && arrived) arrived();
}

/// Follows a call that may have ended at once, or not have begun (the error handler tells).
void Wire::State::started(ucs_status_ptr_t request, Sending* sending) {
  if (UCS_PTR_IS_PTR(request)) {
    ++outstanding;
    return;
  }
  const auto arrived = std::move(sending->arrived);
  give_back(sending);
  if (request == nullptr && arrived) arrived();
}

bool Wire::State::progress() {
  bool any = ucp_worker_progress(worker) != 0;
  while (!lost.empty()) {
    const auto [id, why] = lost.back();
    lost.pop_back();
    any = true;
    if (connections.contains(id)) options.handlers.lost(id, why);
  }
  for (std::size_t k = 0; k < closing.size();) {
    if (ucp_request_check_status(closing[k]) == UCS_INPROGRESS) {
      ++k;
      continue;
    }
    ucp_request_free(closing[k]);
    closing[k] = closing.back();
    closing.pop_back();
  }
  return any;
}

void Wire::State::close_endpoint(Connection& connection) {
  if (connection.key != nullptr) ucp_rkey_destroy(connection.key);
  by_endpoint.erase(connection.endpoint);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* request = ucp_ep_close_nbx(connection.endpoint, &param);
  if (UCS_PTR_IS_PTR(request)) closing.push_back(request);
}

void Wire::State::drain() {
  for (auto& [id, connection] : connections) close_endpoint(connection);
  connections.clear();
  const auto end = std::chrono::steady_clock::now() + drain_max;
  while ((!closing.empty() || outstanding > 0) && std::chrono::steady_clock::now() < end) {
    progress();
  }
}

void Wire::State::close_all() {
  if (listener != nullptr) ucp_listener_destroy(listener);
  if (worker != nullptr) drain();
  if (worker != nullptr) ucp_worker_destroy(worker);
  if (context != nullptr) ucp_cleanup(context);
}

Wire::Wire(std::unique_ptr<State> state) : state_(std::move(state)) {}

Wire::~Wire() { state_->close_all(); }

Result<std::unique_ptr<Wire>> Wire::open(Options options) {
  auto state = std::make_unique<State>();
  state->options = std::move(options);
  std::unique_ptr<Wire> wire(new Wire(std::move(state)));
  State& inner = *wire->state_;
  if (auto status = inner.open_context(); !status) return status.error();
  if (auto status = inner.open_worker(); !status) return status.error();
  if (auto status = inner.open_listener(); !status) return status.error();
  return wire;
}

const std::string& Wire::address() const { return state_->address; }
int Wire::event_descriptor() const { return state_->event_descriptor; }
bool Wire::arm() { return ucp_worker_arm(state_->worker) == UCS_OK; }
void Wire::drain() { state_->drain(); }
bool Wire::progress() { return state_->progress(); }

Result<ConnectionId> Wire::connect(const std::string& address) {
  const auto socket_address = resolve(address, false);
  if (!socket_address) return socket_address.error();
  if (state_->loopback_only && !loopback(*socket_address)) {
    return Error{ErrorCode::invalid_argument,
                 address +
                     " is another machine, and this engine listens on loopback only; set "
                     "listen to 0.0.0.0:0 on both sides, on a network that you trust"};
  }
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  params.sockaddr.addr = reinterpret_cast<const sockaddr*>(&socket_address->storage);
  params.sockaddr.addrlen = socket_address->length;
  return state_->create_endpoint(params);
}

void Wire::close(ConnectionId connection) {
  const auto found = state_->connections.find(connection);
  if (found == state_->connections.end()) return;
  state_->close_endpoint(found->second);
  state_->connections.erase(found);
}

void Wire::send(ConnectionId connection, const MessageHeader& header,
                std::span<const std::byte> body) {
  const auto found = state_->connections.find(connection);
  if (found == state_->connections.end()) return;
  Sending* sending = state_->take_sending();
  sending->header = header;
  sending->body.assign(body.begin(), body.end());
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = State::on_sent;
  param.user_data = sending;
  param.flags = UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  state_->started(
      ucp_am_send_nbx(found->second.endpoint, message_id, &sending->header, sizeof sending->header,
                      sending->body.data(), sending->body.size(), &param),
      sending);
}

Result<Wire::Registered> Wire::register_memory(std::byte* address, std::int64_t bytes) {
  ucp_mem_map_params_t params{};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
  params.address = address;
  params.length = static_cast<std::size_t>(bytes);
  params.memory_type = UCS_MEMORY_TYPE_HOST;
  ucp_mem_h handle = nullptr;
  ucs_status_t status = ucp_mem_map(state_->context, &params, &handle);
  if (status != UCS_OK) {
    return ucx_error(ErrorCode::out_of_memory, "slots could not be registered", status);
  }
  void* key = nullptr;
  std::size_t key_bytes = 0;
  status = ucp_rkey_pack(state_->context, handle, &key, &key_bytes);
  if (status != UCS_OK) {
    ucp_mem_unmap(state_->context, handle);
    return ucx_error(ErrorCode::unsupported, "slots have no remote key", status);
  }
  Registered registered;
  registered.handle = handle;
  registered.key.assign(static_cast<std::byte*>(key), static_cast<std::byte*>(key) + key_bytes);
  ucp_rkey_buffer_release(key);
  return registered;
}

void Wire::release(Registered& memory) {
  if (memory.handle != nullptr) {
    ucp_mem_unmap(state_->context, static_cast<ucp_mem_h>(memory.handle));
  }
  memory.handle = nullptr;
}

Status Wire::use_key(ConnectionId connection, std::span<const std::byte> key) {
  const auto found = state_->connections.find(connection);
  if (found == state_->connections.end()) {
    return Error{ErrorCode::peer_lost, "the connection is gone"};
  }
  CHECK(found->second.key == nullptr, "a connection has one key");
  const ucs_status_t status =
      ucp_ep_rkey_unpack(found->second.endpoint, key.data(), &found->second.key);
  if (status != UCS_OK) return ucx_error(ErrorCode::unsupported, "the peer's key", status);
  return {};
}

void Wire::put(ConnectionId connection, const Put& put, std::function<void()> arrived) {
  const auto found = state_->connections.find(connection);
  if (found == state_->connections.end() || found->second.key == nullptr) return;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_MEMH;
  param.cb.send = State::on_sent;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  param.memh = static_cast<ucp_mem_h>(put.source_handle);
  Sending* sending = state_->take_sending();
  param.user_data = sending;
  ucs_status_ptr_t request =
      ucp_put_nbx(found->second.endpoint, put.source, static_cast<std::size_t>(put.bytes),
                  put.remote_address, found->second.key, &param);
  const bool failed = UCS_PTR_IS_ERR(request);
  state_->started(request, sending);
  if (failed) {
    state_->lost.emplace_back(connection,
                              std::string("put: ") + ucs_status_string(UCS_PTR_STATUS(request)));
    return;
  }
  Sending* flush = state_->take_sending();
  flush->arrived = std::move(arrived);
  ucp_request_param_t flush_param{};
  flush_param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  flush_param.cb.send = State::on_sent;
  flush_param.user_data = flush;
  state_->started(ucp_ep_flush_nbx(found->second.endpoint, &flush_param), flush);
}

}  // namespace tranship
