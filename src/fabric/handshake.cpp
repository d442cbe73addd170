// From a connection to a link: hello, welcome, ready, accepted.
#include <sys/uio.h>

#include "fabric/core.hpp"

namespace tranship {
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
bool probe_direct(const Welcome& welcome) {
  std::uint64_t value = 0;
  iovec local{&value, sizeof value};
  iovec remote{reinterpret_cast<void*>(welcome.probe_address), sizeof value};
  const ssize_t moved =
      process_vm_readv(static_cast<pid_t>(welcome.identity.pid), &local, 1, &remote, 1, 0);
  return moved == sizeof value && value == welcome.probe_value;
}

}  // namespace

Greeting FabricCore::greeting() const {
  Greeting greeting;
  greeting.protocol = options_.protocol;
  greeting.version = options_.version;
  return greeting;
}

void FabricCore::begin_connect(const Contact& contact, const std::string& text,
                               std::shared_ptr<std::promise<Result<PeerId>>> promise) {
  auto connection = wire_->connect(contact.address);
  if (!connection) {
    promise->set_value(connection.error());
    return;
  }
  auto session = std::make_unique<Session>();
  session->connection = *connection;
  session->client = true;
  session->contact = text;
  session->identity = contact.identity;  // whom it expects there, if a contact file says
  session->label = "the process at " + text;
  session->connecting = std::move(promise);
  Hello hello;
  hello.greeting = greeting();
  hello.identity = identity_;
  hello.mode = static_cast<LinkMode>(options_.transport);
  hello.bell = bell_memory_->ticket();
  send(*session, MessageType::hello, 0, encode(hello));
  sessions_[*connection] = std::move(session);
}

void FabricCore::on_arrived(ConnectionId connection) {
  if (sessions_.size() >= static_cast<std::size_t>(options_.peers_max)) {
    wire_->close(connection);
    return;
  }
  auto session = std::make_unique<Session>();
  session->connection = connection;
  session->label = "a requester";
  sessions_[connection] = std::move(session);
}

void FabricCore::on_hello(Session& session, std::span<const std::byte> body) {
  Greeting other;
  if (session.client || session.greeted || !decode(body, other)) {
    lose(session, {ErrorCode::invalid_argument, "a connection that is not tranship's"});
    return;
  }
  session.greeted = true;
  Welcome welcome;
  welcome.greeting = greeting();
  welcome.identity = identity_;
  welcome.geometry = {options_.slots_per_peer, options_.slot_bytes};
  Hello hello;
  const auto status = check_greeting(other, welcome.greeting, "the exporting process");
  if (!status || !decode(body, hello)) {
    welcome.error_code = wire_code_of(status ? ErrorCode::invalid_argument : status.error().code);
    welcome.error_text = status ? "the greeting cannot be read" : status.error().message;
    send(session, MessageType::welcome, 0, encode(welcome));
    return;  // the requester closes; otherwise tick() does
  }
  session.identity = hello.identity;
  session.label = label_of(hello.identity, "");
  auto memory = SharedMemory::allocate({SlotSegment::bytes(welcome.geometry), false});
  if (!memory) {
    lose(session, memory.error());
    return;
  }
  session.segment = SlotSegment(*memory, welcome.geometry);
  welcome.segment = (*memory)->ticket();
  welcome.why = offer_shared(session, hello);
  welcome.mode = welcome.why.empty() ? LinkMode::shared : LinkMode::network;
  if (welcome.mode == LinkMode::shared) {
    welcome.probe_address = reinterpret_cast<std::uint64_t>(&probe_value_);
    welcome.probe_value = probe_value_;
  }
  send(session, MessageType::welcome, 0, encode(welcome));
}

/// Returns why the shared way is not open; empty if it is.
std::string FabricCore::offer_shared(Session& session, const Hello& hello) {
  if (hello.mode == LinkMode::network || options_.transport == FabricOptions::Transport::network) {
    return "the network was asked for";
  }
  if (!identity_.same_machine(hello.identity)) {
    return "the processes are on different machines or in different containers";
  }
  auto bell = SharedMemory::open(static_cast<pid_t>(hello.identity.pid), hello.bell);
  if (!bell) return bell.error().message;
  if ((*bell)->bytes() < static_cast<std::int64_t>(sizeof(Bell))) return "its bell is too small";
  session.client_bell = *bell;
  return {};
}

void FabricCore::on_welcome(Session& session, std::span<const std::byte> body) {
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
                       ") is gone, and another one listens at its address: use the contact file "
                       "of that one"});
    return;
  }
  if (welcome.error_code != 0) {
    lose(session, {error_code_of(welcome.error_code), session.label + ": " + welcome.error_text});
    return;
  }
  std::string why = welcome.why;
  if (welcome.mode == LinkMode::shared) why = take_shared(session);
  session.mode = why.empty() ? LinkMode::shared : LinkMode::network;
  if (!why.empty() && options_.transport == FabricOptions::Transport::shared) {
    lose(session, {ErrorCode::unsupported,
                   session.label + " cannot be reached through shared memory: " + why});
    return;
  }
  if (session.mode == LinkMode::network) {
    session.way = "network: " + why;
    if (auto status = take_network(session); !status) {
      lose(session, status.error());
      return;
    }
  }
  Ready ready;
  ready.mode = session.mode;
  if (session.mode == LinkMode::network) {
    ready.mirror.address = reinterpret_cast<std::uint64_t>(session.segment.memory()->data());
    ready.mirror.key = session.registered.key;
  }
  send(session, MessageType::ready, 0, encode(ready));
}

/// Returns why the offered shared way cannot be taken; empty if it is.
std::string FabricCore::take_shared(Session& session) {
  const Welcome& welcome = session.welcome;
  if (!identity_.same_machine(welcome.identity)) return "the processes are on different machines";
  auto memory = SharedMemory::open(static_cast<pid_t>(welcome.identity.pid), welcome.segment);
  if (!memory) return memory.error().message;
  if ((*memory)->bytes() < SlotSegment::bytes(welcome.geometry)) return "its slots are too small";
  session.segment = SlotSegment(*memory, welcome.geometry);
  session.direct = probe_direct(welcome);
  session.way = std::string("shared memory; small requests ") +
                (session.direct ? "straight between the processes"
                                : "too, as the system forbids process_vm_writev");
  watch_process(session);
  return {};
}

Status FabricCore::take_network(Session& session) {
  auto memory = SharedMemory::allocate({SlotSegment::bytes(session.welcome.geometry), false});
  if (!memory) return memory.error();
  session.segment = SlotSegment(*memory, session.welcome.geometry);
  return register_slots(session);
}

Status FabricCore::register_slots(Session& session) {
  const auto& memory = session.segment.memory();
  auto registered = wire_->register_memory(memory->data(), memory->bytes());
  if (!registered) return registered.error();
  session.registered = std::move(*registered);
  return {};
}

void FabricCore::on_ready(Session& session, std::span<const std::byte> body) {
  Ready ready;
  const bool expected = !session.client && session.greeted && !session.server &&
                        session.segment.memory() && decode(body, ready);
  const bool shared = ready.mode == LinkMode::shared;
  if (!expected || (shared && !session.client_bell)) {
    lose(session, {ErrorCode::invalid_argument, "a requester that breaks the protocol"});
    return;
  }
  session.mode = shared ? LinkMode::shared : LinkMode::network;
  Accepted accepted;
  if (shared) {
    watch_process(session);
  } else {
    session.other = ready.mirror;
    Status status = register_slots(session);
    if (status) status = wire_->use_key(session.connection, session.other.key);
    if (!status) {
      lose(session, status.error());
      return;
    }
    accepted.slots.address = reinterpret_cast<std::uint64_t>(session.segment.memory()->data());
    accepted.slots.key = session.registered.key;
  }
  start_server(session);
  send(session, MessageType::accepted, 0, encode(accepted));
}

void FabricCore::start_server(Session& session) {
  if (options_.register_slots) options_.register_slots(*session.segment.memory());
  SlotServer::Options options;
  options.segment = session.segment;
  options.exports = exports_;
  options.copy = options_.copy;
  options.execute = options_.execute;
  options.answer = options_.answer;
  options.id = RequesterId{session.connection};
  options.requester = session.label;
  options.spin = options_.spin;
  if (session.mode == LinkMode::shared) {
    options.answered = [bell = session.client_bell](int, std::int64_t) {
      reinterpret_cast<Bell*>(bell->data())->ring();
    };
  } else {
    options.answered = [this, inbox = inbox_, connection = session.connection](
                           int slot, std::int64_t read_bytes) {
      inbox->post(
          [this, connection, slot, read_bytes] { send_answered(connection, slot, read_bytes); });
    };
  }
  session.server = std::make_shared<SlotServer>(std::move(options));
  session.server->begin();
}

void FabricCore::on_accepted(Session& session, std::span<const std::byte> body) {
  Accepted accepted;
  if (!session.client || !session.connecting || !session.segment.memory() ||
      !decode(body, accepted)) {
    lose(session, {ErrorCode::invalid_argument, session.label + " breaks the protocol"});
    return;
  }
  if (session.mode == LinkMode::network) {
    session.other = accepted.slots;
    if (auto status = wire_->use_key(session.connection, session.other.key); !status) {
      lose(session, status.error());
      return;
    }
  }
  auto link = std::make_shared<Link>();
  session.peer = link->peer = PeerId{++last_peer_};
  link->label = session.label;
  link->way = session.way;
  link->identity = session.identity;
  link->mode = session.mode;
  link->direct = session.direct;
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
  if (session.direct) options.direct_pid = static_cast<pid_t>(session.identity.pid);
  if (session.mode == LinkMode::shared) {
    options.publish = [memory = session.segment.memory()](int, std::size_t, std::int64_t) {
      reinterpret_cast<SlotHeader*>(memory->data())->doorbell.ring();
    };
  } else {
    options.publish = [this, inbox = inbox_, connection = session.connection](
                          int slot, std::size_t command_bytes, std::int64_t write_bytes) {
      inbox->post([this, connection, slot, command_bytes, write_bytes] {
        send_submitted(connection, slot, command_bytes, write_bytes);
      });
    };
  }
  return std::make_shared<Requester>(std::move(options));
}

}  // namespace tranship
