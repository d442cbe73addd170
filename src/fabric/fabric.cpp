#include "fabric/fabric.hpp"

#include <algorithm>
#include <mutex>

#include "fabric/sessions/core.hpp"
#include "fabric/wires/socket_wire.hpp"

namespace tranship::fabric {
namespace {

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

}  // namespace

FabricSeams real_seams(const FabricOptions& options) {
  FabricSeams seams;
  seams.make_wire = [&options](Wire::Handlers handlers) {
    return open_sockets(options, std::move(handlers));
  };
  return seams;
}

Fabric::Fabric(std::shared_ptr<FabricCore> core) : core_(std::move(core)) {}

Fabric::~Fabric() { (void)close(); }

Result<std::unique_ptr<Fabric>> Fabric::open(FabricOptions options) {
  auto core = std::make_shared<FabricCore>(std::move(options));
  if (auto status = core->open(); !status) return status.error();
  return std::unique_ptr<Fabric>(new Fabric(std::move(core)));
}

std::string Fabric::contact() const { return core_->address(); }

Result<PeerId> Fabric::connect(const std::string& contact_file_or_address,
                               std::chrono::milliseconds timeout) {
  const auto contact = read_contact(contact_file_or_address);
  if (!contact) return contact.error();
  return core_->connect(*contact, contact_file_or_address, timeout);
}

Status Fabric::disconnect(PeerId peer) { return core_->disconnect(peer); }

Status Fabric::export_array(ExportedArray array) {
  if (core_->closed()) return Error{ErrorCode::closed, "this engine was closed"};
  return core_->export_array(std::move(array));
}

Status Fabric::withdraw(const std::string& name) { return core_->withdraw(name); }

Result<std::shared_ptr<RemoteArray>> Fabric::lookup(PeerId peer, const std::string& name,
                                                    std::chrono::milliseconds timeout) {
  return core_->lookup(peer, name, timeout);
}

Result<std::vector<std::string>> Fabric::names(PeerId peer, std::chrono::milliseconds timeout) {
  return core_->names(peer, timeout);
}

Result<std::size_t> Fabric::ask(PeerId peer, std::span<const std::byte> question,
                                std::span<std::byte> reply, std::chrono::milliseconds timeout,
                                const std::function<bool()>& interrupted) {
  return core_->ask(peer, question, reply, timeout, interrupted);
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
  if (!link) return core_->no_link(peer);
  auto open = std::make_unique<OpenQuestion>(std::move(link), std::move(question), reply);
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
  return core_->tell(peer, question);
}

Status Fabric::notify(RequesterId requester, std::vector<std::byte> body) {
  return core_->notify(requester, std::move(body));
}

std::string Fabric::describe(PeerId peer) const {
  const auto link = core_->link(peer);
  return link ? link->label : std::string();
}

bool Fabric::connected(PeerId peer) const {
  const auto link = core_->link(peer);
  return link && !link->requester->lost();
}

Result<Identity> Fabric::identity(PeerId peer) const {
  const auto link = core_->link(peer);
  return link ? Result<Identity>(link->identity) : core_->no_link(peer);
}

Status Fabric::check(PeerId peer) const {
  const auto link = core_->link(peer);
  if (!link) return core_->no_link(peer);
  return link->requester->lost() ? Status(link->requester->lost_error()) : Status{};
}

Status Fabric::close() { return core_->close(); }

void Fabric::accept_key(const Key& key) { core_->accept_key(key); }

Bell& Fabric::bell() const { return core_->bell(); }

void Fabric::ring() const { core_->ring(); }

}  // namespace tranship::fabric
