#include "fabric/sessions/handshake.hpp"

#include <sys/uio.h>

#include <utility>

namespace tranship::fabric {
namespace {

using HandshakeReply = std::optional<HandshakeMessage>;

std::string label_of(const Identity& identity, const std::string& contact) {
  return "process " + std::to_string(identity.pid) + " on " + identity.host +
         (contact.empty() ? "" : " (" + contact + ")");
}

/// Checks that the two ends speak the same protocol.
Status check_greeting(const Greeting& own, const Greeting& other, const std::string& peer) {
  if (own.protocol == other.protocol) return {};
  return Error{ErrorCode::unsupported,
               peer + " runs tranship " + other.version + " (protocol " +
                   std::to_string(other.protocol) + "), this process tranship " + own.version +
                   " (protocol " + std::to_string(own.protocol) + ")",
               "install the same version on both sides"};
}

/// Returns whether this process may read the memory of the process that sent the welcome.
bool may_read_directly(const Welcome& welcome, pid_t pid) {
  if (pid <= 0) return false;
  std::uint64_t value = 0;
  iovec local{&value, sizeof value};
  iovec remote{reinterpret_cast<void*>(welcome.probe_address), sizeof value};
  const ssize_t moved = process_vm_readv(pid, &local, 1, &remote, 1, 0);
  return moved == sizeof value && value == welcome.probe_value;
}

Error breaks_protocol(const std::string& peer) {
  return {ErrorCode::peer_lost, peer + " breaks the protocol"};
}

LinkMode mode_of(bool local) { return local ? LinkMode::shared : LinkMode::network; }

}  // namespace

RequesterHandshake::RequesterHandshake(const HandshakeTerms& terms, Options options,
                                       std::function<void(Agreement)> agreed)
    : Handshake(terms, mode_of(options.local), "the process at " + options.contact),
      options_(std::move(options)),
      agreed_(std::move(agreed)) {}

HandshakeMessage RequesterHandshake::hello() const {
  Hello hello;
  hello.greeting = terms_.greeting;
  hello.identity = terms_.identity;
  hello.mode = mode_;
  HandshakeMessage message{MessageType::hello, encode(hello)};
  if (options_.local) message.descriptors.push_back(terms_.bell_descriptor);
  return message;
}

Result<HandshakeReply> RequesterHandshake::on_message(MessageType type,
                                                      std::span<const std::byte> body,
                                                      std::span<FileDescriptor> descriptors) {
  if (type == MessageType::welcome && state_ == State::awaiting_welcome) {
    return on_welcome(body, descriptors);
  }
  if (type == MessageType::accepted && state_ == State::awaiting_acceptance) {
    if (Status status = on_accepted(body); !status) return status.error();
    return HandshakeReply{};
  }
  return breaks_protocol(label_);
}

Result<HandshakeReply> RequesterHandshake::on_welcome(std::span<const std::byte> body,
                                                      std::span<FileDescriptor> descriptors) {
  Greeting other;
  if (!decode(body, other)) {
    return Error{ErrorCode::invalid_argument,
                 "what listens at " + options_.contact + " is not tranship"};
  }
  if (Status status = check_greeting(terms_.greeting, other, label_); !status) {
    return status.error();
  }
  Welcome welcome;
  if (!decode(body, welcome)) {
    return Error{ErrorCode::invalid_argument, label_ + " sent an unreadable welcome"};
  }
  label_ = label_of(welcome.identity, options_.contact);
  if (Status status = check_identity(welcome.identity); !status) return status.error();
  if (welcome.error) return from_peer(*welcome.error);
  if (mode_ == LinkMode::network && !terms_.network_allowed) {
    return Error{ErrorCode::unsupported,
                 label_ +
                     " cannot be reached through shared memory: it is on another machine, or "
                     "in another container"};
  }
  if (Status status = take_slots(welcome, descriptors); !status) return status.error();
  join_carrier(welcome);
  agreement_.label = label_;
  agreement_.identity = welcome.identity;
  agreement_.mode = mode_;
  state_ = State::awaiting_acceptance;
  return HandshakeReply{{MessageType::ready, encode(Ready{mode_, agreement_.carrier ? 1U : 0U})}};
}

/// Returns an error that the exporter sent, prefixed with the exporter's name.
Error RequesterHandshake::from_peer(const Error& error) const {
  return {error.code, label_ + ": " + error.message, error.hint};
}

Status RequesterHandshake::check_identity(const Identity& identity) {
  const Identity& expected = options_.expected;
  if (expected.boot.empty() || expected.same_process(identity)) return {};
  return Error{ErrorCode::peer_lost,
               "the process that wrote the contact file '" + options_.contact + "' (pid " +
                   std::to_string(expected.pid) + " on " + expected.host +
                   ") has exited, and another one listens at its address",
               "use the contact file of that one"};
}

/// Maps the slots that the exporter serves, or, over a network, makes this side's own slots.
Status RequesterHandshake::take_slots(const Welcome& welcome,
                                      std::span<FileDescriptor> descriptors) {
  const std::int64_t bytes = SlotSegment::bytes(welcome.geometry);
  if (mode_ == LinkMode::network) {
    auto memory = SharedMemory::allocate({bytes, false, false});
    if (!memory) return memory.error();
    agreement_.segment = SlotSegment(*memory, welcome.geometry);
    agreement_.way = "TCP";
    return {};
  }
  if (descriptors.size() != 2 || welcome.seat < 0 || welcome.seat >= SeatBits::seats_max) {
    return breaks_protocol(label_);
  }
  auto memory = SharedMemory::map(std::move(descriptors[0]), bytes);
  if (!memory) return memory.error();
  auto doorbell = SharedMemory::map(std::move(descriptors[1]), sizeof(ServiceDoorbell));
  if (!doorbell) return doorbell.error();
  (*memory)->close_descriptor();
  (*doorbell)->close_descriptor();
  agreement_.segment = SlotSegment(*memory, welcome.geometry);
  agreement_.seat = {welcome.seat, *doorbell};
  const bool direct = may_read_directly(welcome, options_.pid);
  if (direct) agreement_.direct_pid = options_.pid;
  agreement_.way =
      std::string("shared memory; small requests ") +
      (direct ? "straight between the processes" : "too, as the system forbids process_vm_writev");
  return {};
}

/// Accepts the carrier that the exporter offers, if this side has one of the same kind; otherwise
/// the link's `way` says why not.
void RequesterHandshake::join_carrier(const Welcome& welcome) {
  std::string& way = agreement_.way;
  if (!terms_.carrier) {
    if (!terms_.no_carrier.empty()) way += "; " + terms_.no_carrier;
    return;
  }
  if (!terms_.carries(mode_)) return;
  const std::string& kind = terms_.carrier->kind();
  if (welcome.carrier != kind) {
    way += "; no " + kind + ", as the peer has " +
           (welcome.carrier.empty() ? "none" : welcome.carrier);
    return;
  }
  auto peer = terms_.carrier->connect(welcome.carrier_address);
  way += peer ? "; long runs by " + kind : "; " + peer.error().text();
  if (peer) agreement_.carrier = std::move(*peer);
}

Status RequesterHandshake::on_accepted(std::span<const std::byte> body) {
  Accepted accepted;
  if (!decode(body, accepted)) return breaks_protocol(label_);
  if (accepted.error) return from_peer(*accepted.error);
  state_ = State::ended;
  agreed_(std::move(agreement_));
  return {};
}

ExporterHandshake::ExporterHandshake(const HandshakeTerms& terms, Options options)
    : Handshake(terms, options.mode, "a requester"), options_(std::move(options)) {}

Result<HandshakeReply> ExporterHandshake::on_message(MessageType type,
                                                     std::span<const std::byte> body,
                                                     std::span<FileDescriptor> descriptors) {
  if (type == MessageType::hello && state_ == State::awaiting_hello) {
    return on_hello(body, descriptors);
  }
  if (type == MessageType::ready && state_ == State::awaiting_ready) return on_ready(body);
  return breaks_protocol(label_);
}

Result<HandshakeReply> ExporterHandshake::on_hello(std::span<const std::byte> body,
                                                   std::span<FileDescriptor> descriptors) {
  Greeting other;
  if (!decode(body, other)) {
    return Error{ErrorCode::invalid_argument, "a connection that is not tranship's"};
  }
  Welcome welcome;
  welcome.greeting = terms_.greeting;
  welcome.identity = terms_.identity;
  welcome.mode = mode_;
  welcome.geometry = terms_.geometry;
  Status status = read_hello(other, body);
  if (status) status = prepare_slots(descriptors);
  if (!status) {
    state_ = State::ended;  // the requester closes the connection
    welcome.error = status.error();
    return HandshakeReply{{MessageType::welcome, encode(welcome)}};
  }
  state_ = State::awaiting_ready;
  HandshakeMessage reply{MessageType::welcome, {}};
  if (terms_.carries(mode_)) {
    welcome.carrier = terms_.carrier->kind();
    welcome.carrier_address = terms_.carrier->address();
  }
  if (mode_ == LinkMode::shared) {
    welcome.probe_address = reinterpret_cast<std::uint64_t>(&terms_.probe_value);
    welcome.probe_value = terms_.probe_value;
    welcome.seat = seat_.number;
    reply.descriptors = {applicant_.segment.memory()->descriptor(), seat_.doorbell->descriptor()};
  }
  reply.body = encode(welcome);
  return HandshakeReply{std::move(reply)};
}

Status ExporterHandshake::read_hello(const Greeting& greeting, std::span<const std::byte> body) {
  if (Status status = check_greeting(greeting, terms_.greeting, "the exporting process"); !status) {
    return status;
  }
  Hello hello;
  if (!decode(body, hello)) {
    return Error{ErrorCode::invalid_argument, "the greeting cannot be read"};
  }
  label_ = label_of(hello.identity, "");
  applicant_.identity = hello.identity;
  return options_.refusal ? Status(*options_.refusal) : Status{};
}

/// Makes the requester's slots and has them served.
Status ExporterHandshake::prepare_slots(std::span<FileDescriptor> descriptors) {
  applicant_.label = label_;
  applicant_.mode = mode_;
  if (mode_ == LinkMode::shared) {
    if (descriptors.size() != 1) {
      return Error{ErrorCode::invalid_argument, "the greeting comes without its bell"};
    }
    auto bell = SharedMemory::map(std::move(descriptors[0]), sizeof(Bell));
    if (!bell) return bell.error();
    applicant_.bell = *bell;
    applicant_.bell->close_descriptor();
  }
  auto memory = SharedMemory::allocate({SlotSegment::bytes(terms_.geometry), false, false});
  if (!memory) return memory.error();
  applicant_.segment = SlotSegment(*memory, terms_.geometry);
  auto seat = options_.admit(applicant_);
  if (!seat) return seat.error();
  seat_ = *seat;
  return {};
}

Result<HandshakeReply> ExporterHandshake::on_ready(std::span<const std::byte> body) {
  Ready ready;
  if (!decode(body, ready) || ready.mode != mode_) return breaks_protocol(label_);
  state_ = State::ended;
  options_.ready(ready.carrier != 0 && terms_.carries(mode_));
  return HandshakeReply{{MessageType::accepted, encode(Accepted{})}};
}

}  // namespace tranship::fabric
