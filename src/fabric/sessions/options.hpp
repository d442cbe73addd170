// The settings of a fabric, and what it calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/hmac.hpp"
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
  int service_threads = 8;  ///< Threads that serve all requesters. 0: see FabricCore::serve().
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
  /// Called between the two others when no request of a lost requester is carried out any more, if
  /// its process may still access the memory then.
  std::function<void(RequesterId, bool cleanly)> on_requester_served{};
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

}  // namespace tranship::fabric
