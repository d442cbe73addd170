// Exports of arrays to other processes, and access to the arrays that other processes export.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/hmac.hpp"
#include "fabric/links/exports.hpp"
#include "fabric/links/remote_array.hpp"
#include "fabric/links/slot_server.hpp"
#include "fabric/wires/bulk_carrier.hpp"
#include "os/shared_memory.hpp"

namespace tranship::fabric {

struct FabricOptions {
  enum class Transport {
    automatic,  ///< Shared memory on one machine, else the network.
    shared,     ///< Fail rather than use the network.
    network,    ///< TCP even on one machine: for tests.
  };

  /// Whether other processes may connect to this one. Processes of this machine connect over a
  /// Unix-domain socket.
  bool accept = true;
  /// HOST:PORT at which to listen for other machines; port 0 selects a free port; empty: none. Use
  /// 0.0.0.0:0 to listen on all interfaces.
  std::string listen{};
  /// The key that both sides of a connection over a network prove to have. None: this process makes
  /// a key, which its contact file contains.
  std::optional<Key> key{};
  /// Users of this machine, besides this process's own, that may connect and be connected to.
  std::vector<uid_t> users{};
  /// Path of the contact file, which is written when the fabric opens and removed when it closes;
  /// empty: there is none.
  std::string contact_file{};
  /// How long withdraw(), disconnect() and close() wait for copies that peers have begun. No peer
  /// is declared lost only because its process is silent.
  std::chrono::milliseconds peer_timeout{2000};
  /// Time within which a broken connection over a network must be made again; after it, the peer is
  /// lost.
  std::chrono::milliseconds reconnect{1000};
  /// Whether connections over a network are encrypted by TLS 1.3 under the key; peers that do not
  /// encrypt are refused. Both sides must set it.
  bool tls = false;
  /// Whether messages over a network carry a checksum; one side's setting applies to both
  /// directions.
  bool wire_checksum = false;
  /// Number of sockets of each connection that this process makes over a network, 1 to 16. All but
  /// the first carry messages with bulk.
  int network_sockets = 1;
  /// How long the progress thread polls for messages, and a service thread for the next call,
  /// before it sleeps. Raise it on machines with many cores: waking costs more than an answer.
  std::chrono::microseconds spin = spin_default;
  int service_threads = 8;  ///< Threads that serve all requesters.
  int slots_per_peer = 8;   ///< Commands in flight on a link; raise it for far networks.
  std::int64_t slot_bytes = 256 * 1024;  ///< Bytes of a slot, which should stay in a core's cache.
  std::int64_t inside_bytes = SlotGeometry{}.inside_bytes;  ///< As in SlotGeometry: for tests.
  int peers_max = 4096;  ///< Largest number of connections to and from this process.
  Transport transport = Transport::automatic;
  /// Moves long runs outside the wire, between processes that have carriers of the same kind.
  std::shared_ptr<BulkCarrier> carrier{};
  /// Why there is no carrier although the settings ask for one, for messages.
  std::string no_carrier{};
  ExecuteRequest execute;  ///< Carries out requests to exports that have an attachment.
  Copier copy;             ///< The host copier; required.
  AnswerCall answer;       ///< Answers calls of requesters; empty: calls are refused.
  TakeNotice take_notice;  ///< Takes notices of requesters' copies; empty: they are refused.
  // The following functions are called on the progress thread, and must not block.
  /// Called when a requester's connection has ended. The requester's process may still access the
  /// memory that it was granted.
  std::function<void(RequesterId, bool cleanly)> on_requester_lost;
  /// Called when a lost requester, and all work for it, can no longer access memory of this
  /// process.
  std::function<void(RequesterId, bool cleanly)> on_requester_gone;
  /// Called with a body that the peer passed to notify().
  std::function<void(PeerId, std::span<const std::byte>)> on_notice;
  std::function<void(PeerId, const Error&)> on_peer_lost;
  /// Called with the memory of each requester's slots before they are served, so that devices can
  /// be given access to it.
  std::function<void(SharedMemory&)> register_slots;
  std::string version = "0.1.0";  ///< Version of tranship, for messages to other versions.
  std::uint32_t protocol = protocol_version_current;  ///< Other values: for tests of a mismatch.
};

class FabricCore;

/// A question that was sent, and not answered when it was sent.
class OpenQuestion {
 public:
  OpenQuestion(std::shared_ptr<Link> link, std::vector<std::byte> question,
               std::span<std::byte> reply);
  /// Abandons the reply, unless it has come.
  ~OpenQuestion();
  OpenQuestion(const OpenQuestion&) = delete;
  OpenQuestion& operator=(const OpenQuestion&) = delete;

 private:
  friend class Fabric;

  std::shared_ptr<Link> link_;
  std::vector<std::byte> question_;
  Requester::Call call_;
  bool sent_ = false;
};

/// Exports arrays of this process by name, and looks up arrays of peers.
/// Owns its connections, one progress thread, and a bounded number of threads that serve
/// requesters; the threads sleep while nothing happens. Threads: all. Cost: calls here exchange
/// messages (tens of microseconds); RemoteChannel moves the data.
class Fabric {
 public:
  /// Opens a fabric.
  /// @error invalid_argument or io if the address cannot be listened on or the contact file not
  ///        written; unsupported if it is to listen on a network and there is no libcrypto, or no
  ///        libssl for `tls`
  static Result<std::unique_ptr<Fabric>> open(FabricOptions options);
  ~Fabric();

  /// Returns what another process passes to connect(): the text of a Contact. It holds no key.
  std::string contact() const;

  /// Accepts connections over a network that prove to have `key`, from now on, in addition to
  /// others.
  void accept_key(const Key& key);

  /// Connects to a process, and returns its id.
  /// @error not_found if there is no such contact file; peer_lost if the process that wrote it has
  ///        exited or nothing listens there; timeout if what listens does not answer as tranship;
  ///        unsupported if it speaks another version of the protocol
  Result<PeerId> connect(const std::string& contact_file_or_address,
                         std::chrono::milliseconds timeout);

  /// Ends a connection. Requests to its arrays fail from then on.
  Status disconnect(PeerId peer);

  /// Exports an array: peers can look it up by its name.
  /// @error as ExportTable::add()
  Status export_array(ExportedArray array);

  /// Ends an export. After a successful return no peer can access the array's memory.
  /// @error not_found if there is no such export; timeout if a peer's copy takes longer than
  ///        peer_timeout: no new copy can begin, and a further call continues to wait
  Status withdraw(const std::string& name);

  Result<std::shared_ptr<RemoteArray>> lookup(PeerId peer, const std::string& name,
                                              std::chrono::milliseconds timeout);
  Result<std::vector<std::string>> names(PeerId peer, std::chrono::milliseconds timeout);

  /// Sends a question of at most slot_bytes to the peer's `answer`, and waits for the reply, which
  /// also has at most slot_bytes. Returns the length of the reply, in bytes. A call that fails by
  /// timeout or peer_lost may have been carried out. Cost: some microseconds on one machine.
  /// `interrupted` is called repeatedly on the caller's thread.
  /// @error the error of `answer`; timeout; peer_lost; closed after disconnect()
  /// @error invalid_argument if the question does not fit; cancelled if `interrupted` returned true
  Result<std::size_t> ask(PeerId peer, std::span<const std::byte> question,
                          std::span<std::byte> reply, std::chrono::milliseconds timeout,
                          const std::function<bool()>& interrupted = {});

  /// Sends a question whose reply end_ask() takes, on the same thread or another one. `reply` stays
  /// until the result is destroyed, which abandons a reply that was not taken.
  /// @error peer_lost; closed after disconnect(); invalid_argument if the question does not fit
  Result<std::unique_ptr<OpenQuestion>> begin_ask(PeerId peer, std::vector<std::byte> question,
                                                  std::span<std::byte> reply);
  /// Waits for the reply as ask() does, once. @error as ask()
  Result<std::size_t> end_ask(OpenQuestion& question, std::chrono::milliseconds timeout,
                              const std::function<bool()>& interrupted = {});

  /// Sends a question without waiting for a reply. Questions arrive in order, unless the peer is
  /// lost or the connection ends first.
  /// @error peer_lost; closed after disconnect(); invalid_argument if the question does not fit
  Status tell(PeerId peer, std::span<const std::byte> question);

  /// Sends a requester an unsolicited message, with which its `on_notice` is called. Messages to
  /// one requester arrive in order; a lost requester is sent none.
  Status notify(RequesterId requester, std::vector<std::byte> body);

  /// Returns the peer's process, host and contact, for messages; empty if there is no such peer.
  std::string describe(PeerId peer) const;
  bool connected(PeerId peer) const;
  /// Returns the process of a peer, as it has introduced itself.
  /// @error closed after disconnect(); invalid_argument if there was no such connection
  Result<Identity> identity(PeerId peer) const;
  /// @error why the peer is lost; as identity()
  Status check(PeerId peer) const;

  /// Ends all connections and threads in bounded time, and removes the contact file. Outstanding
  /// requests and further calls fail with `closed`.
  /// @error timeout if a peer still copies into or out of an exported array
  Status close();

  /// Returns the bell that rings whenever a peer's answer arrives or a peer is lost.
  Bell& bell() const;
  /// Rings the bell.
  void ring() const;

 private:
  explicit Fabric(std::shared_ptr<FabricCore> core);
  std::shared_ptr<FabricCore> core_;
};

}  // namespace tranship::fabric
