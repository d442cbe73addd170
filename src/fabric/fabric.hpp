// Processes that read and write each other's arrays.
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

  /// Whether others may connect to this process. Those of this machine do so over a Unix-domain
  /// socket.
  bool accept = true;
  /// HOST:PORT on which to listen for other machines; port 0 takes a free one; empty: on none. Use
  /// 0.0.0.0:0 to be reached over every interface.
  std::string listen{};
  /// What both sides of a connection over a network prove that they have. None: one of this
  /// process's own, which its contact file carries.
  std::optional<Key> key{};
  /// Users of this machine, besides this process's own, that may connect and be connected to.
  std::vector<uid_t> users{};
  /// Written when the fabric is open, removed when it closes; empty: none.
  std::string contact_file{};
  /// Bound of the waits in withdraw(), disconnect() and close() for copies of others that have
  /// begun. No peer is lost by silence.
  std::chrono::milliseconds peer_timeout{2000};
  /// A connection over a network that broke is made anew within so long, or lost.
  std::chrono::milliseconds reconnect{1000};
  /// Connections over a network are encrypted by TLS 1.3 under the key, and who does not encrypt is
  /// refused. Both sides must have it on.
  bool tls = false;
  /// Messages over a network carry a checksum; one side's wish is enough for both.
  bool wire_checksum = false;
  /// Sockets of each connection that this process makes over a network, 1 to 16: beyond the first
  /// they carry messages with bulk.
  int network_sockets = 1;
  /// The progress thread looks for messages so long before it sleeps, and threads that answer calls
  /// for the next one: raise it where cores are many, since waking costs more than an answer.
  std::chrono::microseconds spin = spin_default;
  int service_threads = 8;               ///< Threads that answer all who have connected.
  int slots_per_peer = 8;                ///< In flight on one link; raise it for far networks.
  std::int64_t slot_bytes = 256 * 1024;  ///< A slot should stay in a core's cache.
  std::int64_t inside_bytes = SlotGeometry{}.inside_bytes;  ///< As SlotGeometry has it: for tests.
  int peers_max = 4096;  ///< Connections to and from this process.
  Transport transport = Transport::automatic;
  /// Moves long runs beside the wire, between processes that have carriers of the same kind.
  std::shared_ptr<BulkCarrier> carrier{};
  std::string no_carrier{};  ///< Why there is none though one was looked for; messages show it.
  ExecuteRequest execute;    ///< carries exports that have an attachment
  CopyNests copy;            ///< the host copier; needed
  AnswerCall answer;         ///< answers ask() of requesters; empty: they are refused
  // Called on the progress thread: they must not block.
  /// Nothing more comes from the requester, but its process may still touch what it was given.
  std::function<void(RequesterId, bool cleanly)> on_requester_lost;
  /// Neither the requester nor anybody for it can touch memory of this process any more.
  std::function<void(RequesterId, bool cleanly)> on_requester_gone;
  std::function<void(PeerId, std::span<const std::byte>)> on_notice;  ///< what notify() sent
  std::function<void(PeerId, const Error&)> on_peer_lost;
  /// Told of the slots' memory of each link before they are served, for devices to reach it.
  std::function<void(SharedMemory&)> register_slots;
  std::string version = "0.1.0";  ///< of tranship, for messages between versions
  std::uint32_t protocol = protocol_version_current;  ///< other values: for tests of a mismatch
};

class FabricCore;

/// This process's place among others: it exports arrays by name, and looks up those of peers.
/// Owns its connections, one progress thread, and a bounded number of threads that answer those who
/// connected; the threads sleep while nothing happens.
/// Threads: all. Cost: control calls are messages (tens of microseconds); the data's way is
/// RemoteChannel's.
class Fabric {
 public:
  /// @error invalid_argument or io if the address cannot be listened on or the contact file not
  ///        written; unsupported if it is to listen on a network and there is no libcrypto, or no
  ///        libssl for `tls`
  static Result<std::unique_ptr<Fabric>> open(FabricOptions options);
  ~Fabric();

  /// What to hand to connect() in another process: a Contact's text. It holds no key.
  std::string contact() const;

  /// From now on lets in, over a network, who has the key of a group.
  void accept_key(const Key& key);

  /// @error not_found if there is no such contact file; peer_lost if the process that wrote it is
  ///        gone or nothing listens there; timeout if what listens does not answer as tranship;
  ///        unsupported if it speaks another version of the protocol
  Result<PeerId> connect(const std::string& contact_file_or_address,
                         std::chrono::milliseconds timeout);

  /// Ends a connection; its arrays fail from then on.
  Status disconnect(PeerId peer);

  Status export_array(ExportedArray array);

  /// Ends an export. When it returns success nobody touches the array's memory any more.
  /// @error not_found if there is no such export; timeout if a peer is using it for longer than
  ///        peer_timeout: it can start nothing new, and another call waits on
  Status withdraw(const std::string& name);

  Result<std::shared_ptr<RemoteArray>> lookup(PeerId peer, const std::string& name,
                                              std::chrono::milliseconds timeout);
  Result<std::vector<std::string>> names(PeerId peer, std::chrono::milliseconds timeout);

  /// Asks the peer's `answer` something, at most slot_bytes both ways, and waits. Returns how many
  /// bytes of `reply` the answer took. The call may have been carried out if it failed by timeout
  /// or peer_lost. Cost: some microseconds on one machine.
  /// `interrupted` is called now and then in the caller's thread.
  /// @error what `answer` said; timeout; peer_lost; closed after disconnect()
  /// @error invalid_argument if it does not fit; cancelled if `interrupted` returned true
  Result<std::size_t> ask(PeerId peer, std::span<const std::byte> question,
                          std::span<std::byte> reply, std::chrono::milliseconds timeout,
                          const std::function<bool()>& interrupted = {});

  /// The same without waiting: the question is sent, in order, unless the peer is lost or the
  /// connection ends before.
  /// @error peer_lost; closed after disconnect(); invalid_argument if it does not fit
  Status tell(PeerId peer, std::span<const std::byte> question);

  /// Sends a requester of this process something that it did not ask for: its `on_notice` is
  /// called. Nothing if it is gone. In order for each requester.
  Status notify(RequesterId requester, std::vector<std::byte> body);

  /// The peer's process, host and contact, for messages; empty if there is no such peer.
  std::string describe(PeerId peer) const;
  bool connected(PeerId peer) const;

  /// Ends everything, in bounded time: requests outstanding end with `closed`; no thread, file or
  /// connection is left. Further calls fail with `closed`.
  Status close();

  /// Rung whenever an answer of any peer arrived or a peer was lost.
  Bell& bell() const;
  /// Rings it.
  void ring() const;

 private:
  explicit Fabric(std::shared_ptr<FabricCore> core);
  std::shared_ptr<FabricCore> core_;
};

}  // namespace tranship::fabric
