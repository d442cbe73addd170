// From a connection to a link: hello, welcome, ready, accepted.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "fabric/links/service_threads.hpp"
#include "fabric/messages/protocol.hpp"
#include "fabric/wires/bulk_carrier.hpp"
#include "os/descriptor.hpp"
#include "os/shared_memory.hpp"

namespace tranship::fabric {

/// What a process brings to each of its handshakes. Outlives them.
struct HandshakeTerms {
  Greeting greeting;
  Identity identity;
  SlotGeometry geometry;     ///< Of the slots that this process serves.
  int bell_descriptor = -1;  ///< Of the bell that an exporter on this machine rings.
  /// Peers on this machine read this value to find out whether they may read this process's memory.
  std::uint64_t probe_value = 0;
  std::shared_ptr<BulkCarrier> carrier{};  ///< Null: there is none.
  std::string no_carrier{};                ///< Why there is no carrier, for messages; may be empty.
  bool network_allowed = true;             ///< False: links that need a network are refused.

  /// Returns whether this process has a carrier for peers that are reached in this way.
  bool carries(LinkMode mode) const { return carrier && carrier->serves(mode == LinkMode::shared); }
};

/// A message for the other end of the connection.
struct HandshakeMessage {
  MessageType type = MessageType::hello;
  std::vector<std::byte> body;
  /// Descriptors that are duplicated to a process of this machine when the message is sent.
  std::vector<int> descriptors{};
};

/// The handshake of one session: a state machine over its messages. It sends nothing by itself, and
/// has no clock. Threads: one.
class Handshake {
 public:
  virtual ~Handshake() = default;

  /// Takes a message, and returns the reply to send; nothing if none is due.
  /// @error why the connection has to end
  virtual Result<std::optional<HandshakeMessage>> on_message(
      MessageType type, std::span<const std::byte> body, std::span<FileDescriptor> descriptors) = 0;

  /// The process at the other end, as far as it is known, for messages.
  const std::string& label() const { return label_; }

 protected:
  Handshake(const HandshakeTerms& terms, LinkMode mode, std::string label)
      : terms_(terms), mode_(mode), label_(std::move(label)) {}

  const HandshakeTerms& terms_;
  LinkMode mode_;
  std::string label_;
};

/// The side that connects. Sends a hello, maps the slots that the welcome brings (or makes its own,
/// over a network), says that it is ready, and has a link once it is accepted.
class RequesterHandshake : public Handshake {
 public:
  struct Options {
    std::string contact;  ///< What the caller of connect() named, for messages.
    Identity expected{};  ///< The process that wrote the contact file; empty: any will do.
    bool local = false;   ///< The peer is on this machine.
    pid_t pid = 0;        ///< The peer's, as the kernel reports it; 0: unknown.
  };
  /// What a link is made of.
  struct Agreement {
    std::string label;
    std::string way;  ///< How bytes travel, and why not in a faster way, for messages.
    Identity identity;
    LinkMode mode = LinkMode::network;
    SlotSegment segment;
    ServiceThreads::Seat seat{};  ///< Where the exporter serves this requester; on one machine.
    pid_t direct_pid = 0;  ///< The peer's, if its memory may be touched directly; otherwise 0.
    std::shared_ptr<BulkCarrier::Peer> carrier{};  ///< Null: all bytes go through slots.
  };

  /// `agreed` is called once, when the exporter has accepted.
  RequesterHandshake(const HandshakeTerms& terms, Options options,
                     std::function<void(Agreement)> agreed);

  /// Returns the first message.
  HandshakeMessage hello() const;

  Result<std::optional<HandshakeMessage>> on_message(
      MessageType type, std::span<const std::byte> body,
      std::span<FileDescriptor> descriptors) override;

 private:
  enum class State { awaiting_welcome, awaiting_acceptance, ended };

  Result<std::optional<HandshakeMessage>> on_welcome(std::span<const std::byte> body,
                                                     std::span<FileDescriptor> descriptors);
  Status on_accepted(std::span<const std::byte> body);
  Error from_peer(const Error& error) const;
  Status check_identity(const Identity& identity);
  Status take_slots(const Welcome& welcome, std::span<FileDescriptor> descriptors);
  void join_carrier(const Welcome& welcome);

  Options options_;
  std::function<void(Agreement)> agreed_;
  State state_ = State::awaiting_welcome;
  Agreement agreement_;
};

/// The side that is connected to. Answers a hello with a welcome, which describes the slots or says
/// why the requester is refused, and accepts the requester once it is ready.
class ExporterHandshake : public Handshake {
 public:
  /// A requester that asks to be served.
  struct Applicant {
    std::string label;
    LinkMode mode = LinkMode::network;
    SlotSegment segment;
    std::shared_ptr<SharedMemory> bell;  ///< Rung when a slot was served; null over a network.
  };
  struct Options {
    LinkMode mode = LinkMode::network;
    std::optional<Error> refusal{};  ///< Sent to the requester instead of a welcome.
    /// Has the slots of a requester served, and returns where.
    std::function<Result<ServiceThreads::Seat>(const Applicant&)> admit;
    /// Called when the requester is ready. `carried`: It takes keys for this process's carrier.
    std::function<void(bool carried)> ready;
  };

  ExporterHandshake(const HandshakeTerms& terms, Options options);

  Result<std::optional<HandshakeMessage>> on_message(
      MessageType type, std::span<const std::byte> body,
      std::span<FileDescriptor> descriptors) override;

 private:
  enum class State { awaiting_hello, awaiting_ready, ended };

  Result<std::optional<HandshakeMessage>> on_hello(std::span<const std::byte> body,
                                                   std::span<FileDescriptor> descriptors);
  Status read_hello(const Greeting& greeting, std::span<const std::byte> body);
  Status prepare_slots(std::span<FileDescriptor> descriptors);
  Result<std::optional<HandshakeMessage>> on_ready(std::span<const std::byte> body);

  Options options_;
  State state_ = State::awaiting_hello;
  Applicant applicant_;
  ServiceThreads::Seat seat_;
};

}  // namespace tranship::fabric
