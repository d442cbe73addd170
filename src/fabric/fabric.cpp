#include "fabric/fabric.hpp"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "fabric/sessions/core.hpp"
#include "fabric/sessions/progress_thread.hpp"
#include "fabric/wires/socket_wire.hpp"

namespace tranship::fabric {
namespace {

constexpr std::chrono::milliseconds full_queue_pause{2};

/// Returns the key that all engines of this process without a key of their own share.
Result<Key> process_key() {
  static std::mutex mutex;
  static std::optional<Key> made;
  std::lock_guard lock(mutex);
  if (made) return *made;
  Key key{};
  if (Status status = fill_random(key); !status) return status.error();
  made = key;
  return key;
}

Result<std::shared_ptr<Wire>> open_sockets(const FabricOptions& options, Wire::Handlers handlers) {
  SocketWire::Options wire;
  const bool network_alone = options.transport == FabricOptions::Transport::network;
  wire.listen_locally = options.accept && !network_alone;
  if (options.accept && options.transport != FabricOptions::Transport::shared) {
    wire.listen = options.listen;
    if (network_alone && wire.listen.empty()) wire.listen = "127.0.0.1:0";
  }
  auto key = options.key ? Result<Key>(*options.key) : process_key();
  if (!key) return key.error();
  wire.key = *key;
  wire.users = options.users;
  wire.reconnect = options.reconnect;
  wire.tls = options.tls;
  wire.checksums = options.wire_checksum;
  wire.sockets = std::clamp(options.network_sockets, 1, SocketWire::sockets_max);
  wire.handlers = std::move(handlers);
  auto opened = SocketWire::open(std::move(wire));
  if (!opened) return opened.error();
  return std::shared_ptr<Wire>(std::move(*opened));
}

std::chrono::milliseconds at_least_one(std::chrono::milliseconds timeout) {
  return std::max(timeout, std::chrono::milliseconds(1));
}

/// Waits for the reply to a message.
Reply wait(FabricCore& core, FabricCore::Calling& calling, std::chrono::milliseconds timeout) {
  auto& reply = calling.reply;
  if (reply.wait_for(at_least_one(timeout)) == std::future_status::ready) return reply.get();
  core.abandon(calling);
  return Error{ErrorCode::timeout, calling.link->label + " did not answer within " +
                                       std::to_string(timeout.count()) + " ms"};
}

}  // namespace

Fabric::Fabric(FabricOptions options) : thread_(std::make_shared<ProgressThread>(options.spin)) {
  FabricSeams seams;
  seams.make_wire = [options](Wire::Handlers handlers) {
    return open_sockets(options, std::move(handlers));
  };
  seams.attend = [weak = std::weak_ptr(thread_)](std::uint32_t seen,
                                                 std::chrono::nanoseconds at_most) {
    if (const auto thread = weak.lock()) thread->attend(seen, at_most);
  };
  // Without any, its thread would have to serve: only a core without a thread does.
  options.service_threads = std::max(options.service_threads, 1);
  core_ = std::make_shared<FabricCore>(std::move(options), std::move(seams));
}

Fabric::~Fabric() { (void)close(); }

Result<std::unique_ptr<Fabric>> Fabric::open(FabricOptions options) {
  const std::string contact_file = options.contact_file;
  std::unique_ptr<Fabric> fabric(new Fabric(std::move(options)));
  if (Status status = fabric->start(contact_file); !status) return status.error();
  return fabric;
}

Status Fabric::start(const std::string& contact_file) {
  if (Status status = core_->open(); !status) return status;
  if (Status status = thread_->start(core_); !status) return status;
  if (contact_file.empty()) return {};
  if (Status status = write_contact(contact_file, core_->contact()); !status) return status;
  contact_file_ = contact_file;
  return {};
}

Status Fabric::close() {
  std::lock_guard lock(close_mutex_);
  if (std::exchange(closed_, true)) return {};
  thread_->end();
  const Status status = core_->close();
  if (!contact_file_.empty()) remove_contact(contact_file_, core_->contact());
  return status;
}

std::string Fabric::contact() const { return core_->contact().text(); }

Result<PeerId> Fabric::connect(const std::string& contact_file_or_address,
                               std::chrono::milliseconds timeout) {
  const auto contact = read_contact(contact_file_or_address);
  if (!contact) return contact.error();
  const auto end = std::chrono::steady_clock::now() + at_least_one(timeout);
  auto connecting = core_->start_connect(*contact, contact_file_or_address);
  // The queue of a listener that is stopped or busy may be full.
  while (!connecting && connecting.error().code == ErrorCode::timeout &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(full_queue_pause);
    connecting = core_->start_connect(*contact, contact_file_or_address);
  }
  if (!connecting) return connecting.error();
  auto& result = connecting->result;
  if (result.wait_until(end) == std::future_status::ready) return result.get();
  core_->abandon(*connecting);
  return Error{ErrorCode::timeout,
               "nothing that speaks tranship answered at " + contact_file_or_address + " within " +
                   std::to_string(timeout.count()) + " ms",
               "check the address, and that the process there runs"};
}

Status Fabric::disconnect(PeerId peer) {
  FabricCore::Departure departure = core_->start_disconnect(peer);
  while (true) {
    if (const auto ended = core_->look(departure)) return *ended;
    if (departure.left.valid()) {
      (void)departure.left.wait_for(std::chrono::milliseconds(10));
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
}

Status Fabric::export_array(ExportedArray array) {
  if (core_->closed()) return engine_closed();
  return core_->exports().add(std::move(array));
}

Status Fabric::withdraw(const std::string& name) {
  auto withdrawal = core_->start_withdraw(name);
  if (!withdrawal) return withdrawal.error();
  while (true) {
    if (withdrawal->busy.valid()) {
      (void)withdrawal->busy.wait_for(std::chrono::milliseconds(1));
    }
    if (const auto ended = core_->look(*withdrawal)) return *ended;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

Result<std::shared_ptr<RemoteArray>> Fabric::lookup(PeerId peer, const std::string& name,
                                                    std::chrono::milliseconds timeout) {
  auto calling = core_->start_call(peer, MessageType::lookup, encode_text(name));
  if (!calling) return calling.error();
  return core_->found(peer, name, wait(*core_, *calling, timeout));
}

Result<std::vector<std::string>> Fabric::names(PeerId peer, std::chrono::milliseconds timeout) {
  auto calling = core_->start_call(peer, MessageType::names, {});
  if (!calling) return calling.error();
  auto reply = wait(*core_, *calling, timeout);
  if (!reply) return reply.error();
  MessageReader in(reply->body);
  std::vector<std::string> names;
  const auto count = in.get<std::uint32_t>();
  for (std::uint32_t k = 0; k < count && in.ok(); ++k) names.push_back(in.text());
  if (!in.ok()) return Error{ErrorCode::peer_lost, "the list of names cannot be read"};
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::size_t> Fabric::ask(PeerId peer, std::span<const std::byte> question,
                                std::span<std::byte> reply, std::chrono::milliseconds timeout,
                                const std::function<bool()>& interrupted) {
  const auto link = core_->link(peer);
  if (!link) return link.error();
  return (*link)->requester->call(question, reply, at_least_one(timeout), bell(), interrupted);
}

OpenQuestion::OpenQuestion(std::shared_ptr<Link> link, std::vector<std::byte> question,
                           std::span<std::byte> reply)
    : link_(std::move(link)), question_(std::move(question)) {
  call_.question = question_;
  call_.reply = reply;
}

OpenQuestion::~OpenQuestion() {
  if (sent_) (void)link_->requester->abandon(call_);
}

Result<std::unique_ptr<OpenQuestion>> Fabric::begin_ask(PeerId peer,
                                                        std::vector<std::byte> question,
                                                        std::span<std::byte> reply) {
  auto link = core_->link(peer);
  if (!link) return link.error();
  auto open = std::make_unique<OpenQuestion>(std::move(*link), std::move(question), reply);
  Requester& requester = *open->link_->requester;
  if (Status status = requester.start(open->call_); !status) return status.error();
  open->sent_ = true;
  requester.progress();
  return open;
}

Result<std::size_t> Fabric::end_ask(OpenQuestion& question, std::chrono::milliseconds timeout,
                                    const std::function<bool()>& interrupted) {
  question.sent_ = false;  // finish() abandons a reply that does not come
  return question.link_->requester->finish(question.call_, timeout, bell(), interrupted);
}

Status Fabric::tell(PeerId peer, std::span<const std::byte> question) {
  const auto link = core_->link(peer);
  return link ? (*link)->requester->tell(question) : link.error();
}

Status Fabric::notify(RequesterId requester, std::vector<std::byte> body) {
  return core_->notify(requester, std::move(body));
}

std::string Fabric::describe(PeerId peer) const {
  const auto link = core_->link(peer);
  return link ? (*link)->label : std::string();
}

bool Fabric::connected(PeerId peer) const { return check(peer).ok(); }

Result<Identity> Fabric::identity(PeerId peer) const {
  const auto link = core_->link(peer);
  return link ? Result<Identity>((*link)->identity) : link.error();
}

Status Fabric::check(PeerId peer) const {
  const auto link = core_->link(peer);
  if (!link) return link.error();
  const Requester& requester = *(*link)->requester;
  return requester.lost() ? Status(requester.lost_error()) : Status{};
}

void Fabric::accept_key(const Key& key) { core_->accept_key(key); }

Bell& Fabric::bell() const { return core_->bell().bell(); }

void Fabric::ring() const { core_->bell().ring(); }

}  // namespace tranship::fabric
