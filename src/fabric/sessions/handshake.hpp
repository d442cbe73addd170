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

/// The properties of a process that all its handshakes use. Outlives them.
struct HandshakeTerms {
  Greeting greeting;
  Identity identity;
  SlotGeometry geometry;     ///< Geometry of the slots that this process serves.
  int bell_descriptor = -1;  ///< Descriptor of the bell that an exporter on this machine rings.
  /// Value that peers on this machine read to find out whether they may read this process's memory.
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

/// The handshake of one session: a state machine driven by its messages, which sends nothing itself
/// and has no clock. Threads: one.
class Handshake {
 public:
  virtual ~Handshake() = default;

  /// Handles a message, and returns the reply to send; nothing if none is due.
  /// @error why the connection has to end
  virtual Result<std::optional<HandshakeMessage>> on_message(
      MessageType type, std::span<const std::byte> body, std::span<FileDescriptor> descriptors) = 0;

  /// Returns the process at the other end, as far as it is known, for messages.
  const std::string& label() const { return label_; }

 protected:
  Handshake(const HandshakeTerms& terms, LinkMode mode, std::string label)
      : terms_(terms), mode_(mode), label_(std::move(label)) {}

  const HandshakeTerms& terms_;
  LinkMode mode_;
  std::string label_;
};

/// The connecting side. Sends a hello, maps the slots of the welcome (or, over a network, makes its
/// own), sends ready, and has a link once it is accepted.
class RequesterHandshake : public Handshake {
 public:
  struct Options {
    std::string contact;  ///< The contact that the caller of connect() gave, for messages.
    Identity expected{};  ///< The process that wrote the contact file; empty: any process.
    bool local = false;   ///< The peer is on this machine.
    pid_t pid = 0;        ///< The peer's process, as the kernel reports it; 0: unknown.
  };
  /// The parts of a link.
  struct Agreement {
    std::string label;
    std::string way;  ///< How bytes travel, and why no faster way is used, for messages.
    Identity identity;
    LinkMode mode = LinkMode::network;
    SlotSegment segment;
    ServiceThreads::Seat seat{};  ///< Seat of this requester at the exporter; on one machine.
    pid_t direct_pid = 0;  ///< The peer, if its memory may be accessed directly; otherwise 0.
    std::shared_ptr<BulkCarrier::Peer> carrier{};  ///< Null: all bytes go through slots.
  };

  /// agreed: Called once, when the exporter has accepted.
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

/// The accepting side. Answers a hello with a welcome, which describes the slots or says why the
/// requester is refused, and accepts the requester once it is ready.
class ExporterHandshake : public Handshake {
 public:
  /// A requester that asks for service.
  struct Applicant {
    std::string label;
    Identity identity;
    LinkMode mode = LinkMode::network;
    SlotSegment segment;
    std::shared_ptr<SharedMemory> bell;  ///< Rung after a slot was served; null over a network.
  };
  struct Options {
    LinkMode mode = LinkMode::network;
    std::optional<Error> refusal{};  ///< Sent to the requester in the welcome.
    /// Has the slots of a requester served, and returns its seat.
    std::function<Result<ServiceThreads::Seat>(const Applicant&)> admit;
    /// Called when the requester is ready. carried: The requester accepts keys for the carrier.
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
