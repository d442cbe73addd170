// The state of one connection.
#pragma once

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fabric/links/remote_array.hpp"
#include "fabric/links/service_threads.hpp"
#include "fabric/links/slot_server.hpp"
#include "fabric/sessions/export_grants.hpp"
#include "fabric/sessions/handshake.hpp"
#include "fabric/wires/wire.hpp"

namespace tranship::fabric {

/// A reply, and the descriptor of memory that accompanied it.
struct Answer {
  std::vector<std::byte> body;
  FileDescriptor memory;
};
using Reply = Result<Answer>;

/// A connection: one that this process has made (`client`), or one of a requester that it serves.
/// Owned by the progress thread.
struct Session {
  using Clock = std::chrono::steady_clock;

  ConnectionId connection = 0;
  bool client = false;
  bool lost = false;
  bool leaving = false;           ///< This process disconnects, and has sent a goodbye.
  bool said_goodbye = false;      ///< This process closes, and has sent a goodbye.
  Clock::time_point leaves_by{};  ///< Time until which it waits for the peer to read the goodbye.
  std::shared_ptr<std::promise<bool>>
      left;  ///< Kept when the peer has closed its end, for disconnect().
  std::unique_ptr<Handshake> handshake;
  std::string label;
  FileDescriptor pidfd;  ///< Process at the other end, if it is on this machine.
  LinkMode mode = LinkMode::network;
  Clock::time_point began{};
  SlotSegment segment;

  // client
  PeerId peer;
  std::shared_ptr<Link> link;  ///< Set when connected.
  std::shared_ptr<std::promise<Result<PeerId>>> connecting;
  std::map<std::uint64_t, std::shared_ptr<std::promise<Reply>>> calls;

  // server: set when the requester is admitted
  std::shared_ptr<SlotServer> server;
  ServiceThreads::Seat seat;
  ExportGrants grants;
};

}  // namespace tranship::fabric
