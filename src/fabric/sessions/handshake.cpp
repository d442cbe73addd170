// From a connection to a link: hello, welcome, ready, accepted.
#include <sys/uio.h>

#include <array>

#include "fabric/links/slot_messages.hpp"
#include "fabric/sessions/core.hpp"

namespace tranship::fabric {
namespace {

bool same_process(const Identity& a, const Identity& b) {
  return a.pid == b.pid && a.start_ticks == b.start_ticks && a.same_machine(b);
}

std::string label_of(const Identity& identity, const std::string& contact) {
  return "process " + std::to_string(identity.pid) + " on " + identity.host +
         (contact.empty() ? "" : " (" + contact + ")");
}

/// The two ends must speak the same protocol; the message names both.
Status check_greeting(const Greeting& own, const Greeting& other, const std::string& who) {
  if (own.protocol == other.protocol) return {};
  return Error{ErrorCode::unsupported, who + " runs tranship " + other.version + " (protocol " +
                                           std::to_string(other.protocol) +
                                           "), this process tranship " + own.version +
                                           " (protocol " + std::to_string(own.protocol) +
                                           "): install the same version on both sides"};
}

/// Whether this process may read that one's memory.
bool probe_direct(const Welcome& welcome, pid_t pid) {
  if (pid <= 0) return false;
  std::uint64_t value = 0;
  iovec local{&value, sizeof value};
  iovec remote{reinterpret_cast<void*>(welcome.probe_address), sizeof value};
  const ssize_t moved = process_vm_readv(pid, &local, 1, &remote, 1, 0);
  return moved == sizeof value && value == welcome.probe_value;
}

Error breaks_protocol(const std::string& who) {
  return {ErrorCode::peer_lost, who + " breaks the protocol"};
}

}  // namespace

Greeting FabricCore::greeting() const {
  Greeting greeting;
  greeting.protocol = options_.protocol;
  greeting.version = options_.version;
  return greeting;
}

void FabricCore::begin_connect(ConnectionId connection, const Contact& contact,
                               const std::string& text,
                               std::shared_ptr<std::promise<Result<PeerId>>> promise) {
  const WirePeer peer = wire_->peer(connection);
  auto session = std::make_unique<Session>();
  session->connection = connection;
  session->client = true;
  session->contact = text;
  session->identity = contact.identity;  // whom it expects there, if a contact file says
  session->label = "the process at " + text;
  session->connecting = std::move(promise);
  session->mode = peer.local ? LinkMode::shared : LinkMode::network;
  session->began = now();
  Session& added = *session;
  sessions_[connection] = std::move(session);
  if (phase_ != Phase::open) {
    lose(added, {ErrorCode::closed, "this engine was closed"});
    return;
  }
  if (peer.address.empty()) {
    lose(added, {ErrorCode::peer_lost, "cannot connect to " + added.label + ": it was lost",
                 "check that the process there runs"});
    return;
  }
  if (Status watched = watch_process(added, peer); !watched) return lose(added, watched.error());
  Hello hello;
  hello.greeting = greeting();
  hello.identity = identity_;
  hello.mode = added.mode;
  const int bell = bell_memory_->descriptor();
  send(added, MessageType::hello, 0, encode(hello), {&bell, peer.local ? 1U : 0U});
}

void FabricCore::on_arrived(ConnectionId connection) {
  constexpr std::size_t refusals_max = 64;
  const auto most = static_cast<std::size_t>(options_.peers_max);
  if (sessions_.size() >= most + refusals_max || phase_ != Phase::open) {
    wire_->close(connection);
    return;
  }
  auto session = std::make_unique<Session>();
  session->connection = connection;
  session->label = "a requester";
  session->began = now();
  session->refused = sessions_.size() >= most;
  session->mode = wire_->peer(connection).local ? LinkMode::shared : LinkMode::network;
  sessions_[connection] = std::move(session);
}

void FabricCore::on_hello(Session& session, std::span<const std::byte> body,
                          std::span<FileDescriptor> descriptors) {
  Greeting other;
  if (session.client || session.greeted || !decode(body, other)) {
    lose(session, {ErrorCode::invalid_argument, "a connection that is not tranship's"});
    return;
  }
  session.greeted = true;
  Welcome welcome;
  welcome.greeting = greeting();
  welcome.identity = identity_;
  welcome.mode = session.mode;
  welcome.geometry = geometry();
  Hello hello;
  Status status = check_greeting(other, welcome.greeting, "the exporting process");
  if (status && !decode(body, hello)) {
    status = Error{ErrorCode::invalid_argument, "the greeting cannot be read"};
  }
  if (status && session.refused) {
    status = Error{ErrorCode::out_of_memory,
                   "it serves " + std::to_string(options_.peers_max) + " processes, and no more",
                   "raise the setting clients_max there"};
  }
  session.identity = hello.identity;
  session.label = label_of(hello.identity, "");
  if (status) status = prepare_slots(session, descriptors);
  if (!status) {
    welcome.error_code = wire_code_of(status.error().code);
    welcome.error_text = status.error().text();
    send(session, MessageType::welcome, 0, encode(welcome));
    return;  // the requester closes; otherwise tick() does
  }
  std::array<int, 2> sent{};
  std::size_t count = 0;
  if (offers_carrier(session)) {
    welcome.carrier = options_.carrier->kind();
    welcome.carrier_address = options_.carrier->address();
  }
  if (session.mode == LinkMode::shared) {
    welcome.probe_address = reinterpret_cast<std::uint64_t>(&probe_value_);
    welcome.probe_value = probe_value_;
    welcome.seat = session.seat.number;
    sent = {session.segment.memory()->descriptor(), session.seat.doorbell->descriptor()};
    count = sent.size();
  }
  send(session, MessageType::welcome, 0, encode(welcome), std::span(sent).first(count));
  session.segment.memory()->close_descriptor();
}

/// Makes the slots of a requester, and has the service threads look at them when it rings.
Status FabricCore::prepare_slots(Session& session, std::span<FileDescriptor> descriptors) {
  const bool shared = session.mode == LinkMode::shared;
  const SlotGeometry geometry = this->geometry();
  if (shared) {
    if (descriptors.size() != 1) {
      return Error{ErrorCode::invalid_argument, "the greeting comes without its bell"};
    }
    auto bell = SharedMemory::map(std::move(descriptors[0]), sizeof(Bell));
    if (!bell) return bell.error();
    session.client_bell = *bell;
    session.client_bell->close_descriptor();
    if (Status watched = watch_process(session, wire_->peer(session.connection)); !watched) {
      return watched;
    }
  }
  auto memory = SharedMemory::allocate({SlotSegment::bytes(geometry), false, false});
  if (!memory) return memory.error();
  session.segment = SlotSegment(*memory, geometry);
  if (shared) session.leases = LeaseGrants(session.segment);
  return start_server(session);
}

Status FabricCore::start_server(Session& session) {
  if (options_.register_slots) options_.register_slots(*session.segment.memory());
  SlotServer::Options options;
  options.segment = session.segment;
  options.exports = exports_;
  options.copy = options_.copy;
  options.execute = options_.execute;
  options.answer = options_.answer;
  options.id = RequesterId{session.connection};
  options.requester = session.label;
  if (session.mode == LinkMode::shared) {
    options.answered = [bell = session.client_bell](int, const SlotBytes&) {
      reinterpret_cast<Bell*>(bell->data())->ring();
    };
  } else {
    options.network = true;
    options.answered = [wire = wire_, segment = session.segment, connection = session.connection](
                           int slot, const SlotBytes& bytes) {
      send_answered(*wire, connection, segment, slot, bytes);
    };
  }
  auto server = std::make_shared<SlotServer>(std::move(options));
  auto seat = service_threads_->add(server);
  if (!seat) return seat.error();
  session.server = std::move(server);
  session.seat = *seat;
  return {};
}

void FabricCore::on_welcome(Session& session, std::span<const std::byte> body,
                            std::span<FileDescriptor> descriptors) {
  Greeting other;
  if (!session.client || !session.connecting || session.greeted || !decode(body, other)) {
    lose(session,
         {ErrorCode::invalid_argument, "what listens at " + session.contact + " is not tranship"});
    return;
  }
  session.greeted = true;
  if (auto status = check_greeting(greeting(), other, session.label); !status) {
    lose(session, status.error());
    return;
  }
  Welcome& welcome = session.welcome;
  if (!decode(body, welcome)) {
    lose(session, {ErrorCode::invalid_argument, session.label + " sent an unreadable welcome"});
    return;
  }
  const Identity expected = std::exchange(session.identity, welcome.identity);
  session.label = label_of(welcome.identity, session.contact);
  if (!expected.boot.empty() && !same_process(expected, welcome.identity)) {
    lose(session, {ErrorCode::peer_lost,
                   "the process that wrote the contact file '" + session.contact + "' (pid " +
                       std::to_string(expected.pid) + " on " + expected.host +
                       ") is gone, and another one listens at its address",
                   "use the contact file "
                   "of that one"});
    return;
  }
  if (welcome.error_code != 0) {
    lose(session, {error_code_of(welcome.error_code), session.label + ": " + welcome.error_text});
    return;
  }
  if (session.mode == LinkMode::network && options_.transport == FabricOptions::Transport::shared) {
    lose(session,
         {ErrorCode::unsupported, session.label + " cannot be reached through shared memory: it is "
                                                  "on another machine, or in another container"});
    return;
  }
  if (auto status = take_slots(session, descriptors); !status) {
    lose(session, status.error());
    return;
  }
  join_carrier(session);
  Ready ready;
  ready.mode = session.mode;
  ready.carrier = session.carrier ? 1 : 0;
  send(session, MessageType::ready, 0, encode(ready));
}

/// Maps the slots that the exporter serves, or makes this side's of a link over a network.
Status FabricCore::take_slots(Session& session, std::span<FileDescriptor> descriptors) {
  const SlotGeometry& geometry = session.welcome.geometry;
  const std::int64_t bytes = SlotSegment::bytes(geometry);
  if (session.mode == LinkMode::network) {
    auto memory = SharedMemory::allocate({bytes, false, false});
    if (!memory) return memory.error();
    session.segment = SlotSegment(*memory, geometry);
    session.way = "TCP";
    return {};
  }
  if (descriptors.size() != 2 || session.welcome.seat < 0 ||
      session.welcome.seat >= SeatBits::seats_max) {
    return breaks_protocol(session.label);
  }
  auto memory = SharedMemory::map(std::move(descriptors[0]), bytes);
  if (!memory) return memory.error();
  auto doorbell = SharedMemory::map(std::move(descriptors[1]), sizeof(ServiceDoorbell));
  if (!doorbell) return doorbell.error();
  (*memory)->close_descriptor();
  (*doorbell)->close_descriptor();
  session.segment = SlotSegment(*memory, geometry);
  session.doorbell = *doorbell;
  session.direct = probe_direct(session.welcome, wire_->peer(session.connection).pid);
  session.way = std::string("shared memory; small requests ") +
                (session.direct ? "straight between the processes"
                                : "too, as the system forbids process_vm_writev");
  return {};
}

bool FabricCore::offers_carrier(const Session& session) const {
  return options_.carrier && options_.carrier->serves(session.mode == LinkMode::shared);
}

/// Takes the carrier that the exporter offers, if this side has one of the same kind; the link's
/// way says why not.
void FabricCore::join_carrier(Session& session) {
  if (!options_.carrier) {
    if (!options_.no_carrier.empty()) session.way += "; " + options_.no_carrier;
    return;
  }
  if (!offers_carrier(session)) return;
  const std::string& kind = options_.carrier->kind();
  const Welcome& welcome = session.welcome;
  if (welcome.carrier != kind) {
    session.way += "; no " + kind + ", as the peer has " +
                   (welcome.carrier.empty() ? "none" : welcome.carrier);
    return;
  }
  auto peer = options_.carrier->connect(welcome.carrier_address);
  session.way += peer ? "; long runs by " + kind : "; " + peer.error().text();
  if (peer) session.carrier = std::move(*peer);
}

void FabricCore::on_ready(Session& session, std::span<const std::byte> body) {
  Ready ready;
  if (session.client || !session.server || !decode(body, ready) || ready.mode != session.mode) {
    lose(session, {ErrorCode::invalid_argument, "a requester that breaks the protocol"});
    return;
  }
  session.carried = ready.carrier != 0 && offers_carrier(session);
  send(session, MessageType::accepted, 0, encode(Accepted{}));
}

void FabricCore::on_accepted(Session& session, std::span<const std::byte> body) {
  Accepted accepted;
  if (!session.client || !session.connecting || !session.segment.memory() ||
      !decode(body, accepted)) {
    lose(session, breaks_protocol(session.label));
    return;
  }
  auto link = std::make_shared<Link>();
  session.peer = link->peer = PeerId{++last_peer_};
  link->label = session.label;
  link->way = session.way;
  link->identity = session.identity;
  link->mode = session.mode;
  link->direct = session.direct;
  link->carrier = std::move(session.carrier);
  link->copy = options_.copy;
  link->bell_memory = bell_memory_;
  link->requester = make_requester(session);
  session.link = link;
  {
    std::lock_guard lock(links_mutex_);
    std::erase_if(links_, [](const auto& one) { return one.second->requester->lost(); });
    links_[link->peer] = link;
  }
  session.connecting->set_value(link->peer);
  session.connecting.reset();
}

std::shared_ptr<Requester> FabricCore::make_requester(Session& session) {
  Requester::Options options;
  options.segment = session.segment;
  options.copy = options_.copy;
  options.peer = session.label;
  options.leases = session.mode == LinkMode::shared;
  if (session.direct) options.direct_pid = wire_->peer(session.connection).pid;
  if (session.mode == LinkMode::shared) {
    options.publish = [seat = ServiceThreads::Seat{session.welcome.seat, session.doorbell}](
                          int, std::size_t, const SlotBytes&) { seat.ring(); };
  } else {
    options.publish = [wire = wire_, segment = session.segment, connection = session.connection](
                          int slot, std::size_t command_bytes, const SlotBytes& bytes) {
      send_submitted(*wire, connection, segment, slot, command_bytes, bytes);
    };
    if (seams_.threads) {
      options.attend = [weak = weak_from_this()](std::uint32_t seen,
                                                 std::chrono::nanoseconds at_most) {
        if (const auto core = weak.lock()) core->attend(seen, at_most);
      };
    }
    options.keep_bulk = [wire = wire_, connection = session.connection] {
      wire->keep_bulk(connection);
    };
  }
  return std::make_shared<Requester>(std::move(options));
}

}  // namespace tranship::fabric
