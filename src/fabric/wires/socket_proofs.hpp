// The proofs with which a network connection begins.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "fabric/wires/byte_stream.hpp"
#include "fabric/wires/frame.hpp"

namespace tranship::fabric {

/// One side of a new socket over a network, until both sides have proved by challenge and response
/// that they have the key. With encryption, the TLS handshake comes first. Reads and writes the
/// socket, and never waits. Threads: one.
class SocketProofs {
 public:
  struct Options {
    int socket = -1;
    bool tls = false;
    bool checksums = false;  ///< This side asks for messages with checksums.
  };
  /// `claimed`: the client has proved itself, and the listener decides about claim() by answer().
  enum class Step { waits, failed, claimed, done };
  struct Failure {
    Error why;
    /// Whether a further attempt may succeed: the other side may be another process by then, or the
    /// bytes may have been changed on the way.
    bool again = true;
  };

  /// The client's side. address: The listener's, for messages. claim: What the client says about
  /// its session, still without its proof.
  SocketProofs(Options options, const Key& key, std::string address, const ClientProof& claim);
  /// The listener's side. key: Returns the key that clients must have at the time.
  SocketProofs(Options options, std::function<Key()> key);

  /// Continues as far as the socket allows.
  Step go_on();
  /// Returns whether the next step waits until the socket accepts more bytes.
  bool wants_to_write() const { return state_ == State::securing && tls_->wants_to_write(); }
  const Failure& failure() const { return failure_; }

  /// Returns what the client has claimed.
  const ClientProof& claim() const { return claim_; }
  /// Sends the listener's decision, with which its proofs are done unless `ready` refuses.
  void answer(ServerReady ready);
  /// Returns the listener's decision.
  const ServerReady& ready() const { return ready_; }

  /// Returns whether one side has asked for messages with checksums.
  bool checksums() const { return ((hello_.options | answer_.options) & option_checksums) != 0; }
  /// Returns the encryption of the socket's bytes; null: there is none.
  const std::shared_ptr<TlsStream>& tls() const { return tls_; }

 private:
  enum class State {
    connected,
    securing,        ///< The TLS handshake is in progress.
    awaiting_hello,  ///< The listener has received nothing yet.
    awaiting_server_hello,
    awaiting_proof,
    awaiting_ready,
  };
  using Outcome = std::optional<Step>;  ///< Nothing: the next step can be tried.

  Outcome start_tls();
  Outcome secure();
  Step not_secured();
  void start_proofs();
  Outcome take_hello();
  Outcome take_server_hello();
  Step take_proof();
  Step take_ready();
  Step refuse(std::uint32_t why);
  Step fail(Error why, bool again);
  std::size_t step_bytes() const;
  bool read_step(std::size_t bytes, bool& failed);
  void write_step(std::span<const std::byte> bytes);

  Options options_;
  bool client_;
  std::function<Key()> key_;
  std::string address_;
  ClientProof claim_;
  State state_ = State::connected;
  std::shared_ptr<TlsStream> tls_;
  std::vector<std::byte> greeting_;  ///< Bytes of the current step that have been read.
  ClientHello hello_;
  ServerHello answer_;  ///< Answer to the client's hello.
  ServerReady ready_;
  Failure failure_;
};

}  // namespace tranship::fabric
