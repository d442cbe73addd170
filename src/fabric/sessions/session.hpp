// One connection, as the progress thread sees it.
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

/// An answer, and the memory that came with it.
struct Answer {
  std::vector<std::byte> body;
  FileDescriptor memory;
};
using Reply = Result<Answer>;

/// Owned by the progress thread. A client session asks, a server session serves.
struct Session {
  using Clock = std::chrono::steady_clock;

  ConnectionId connection = 0;
  bool client = false;
  bool lost = false;
  bool leaving = false;           ///< This process disconnects, and has said goodbye.
  bool said_goodbye = false;      ///< This process closes, and has said so.
  Clock::time_point leaves_by{};  ///< It waits so long until the peer has read the goodbye.
  std::shared_ptr<std::promise<bool>> left;  ///< Of the disconnect() that waits for that.
  std::unique_ptr<Handshake> handshake;
  std::string label;
  FileDescriptor pidfd;  ///< Of the process at the other end, if it is on this machine.
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
