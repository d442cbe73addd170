// One connection, as the progress thread sees it.
#pragma once

#include <unistd.h>

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fabric/links/fences.hpp"
#include "fabric/links/remote_array.hpp"
#include "fabric/links/service_threads.hpp"
#include "fabric/links/slot_server.hpp"
#include "fabric/messages/protocol.hpp"
#include "fabric/wires/bulk_carrier.hpp"
#include "fabric/wires/wire.hpp"

namespace tranship::fabric {

/// An answer, and the memory that came with it.
struct Answer {
  std::vector<std::byte> body;
  FileDescriptor memory;
};
using Reply = Result<Answer>;

/// Work for the progress thread, from any thread. Outlives the fabric where somebody still holds
/// it, and then drops what is posted.
class Inbox {
 public:
  Inbox();
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  /// Returns false, and drops the task, after close().
  bool post(std::function<void()> task);

  /// Progress thread: runs what was posted; returns whether anything was.
  bool run();
  /// Progress thread: readable when something is posted after this returned true.
  bool arm();
  void drain();
  /// Refuses what is posted from now on, and runs what was posted before.
  void close();
  int descriptor() const { return descriptor_.get(); }

 private:
  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;
  std::vector<std::function<void()>> running_;
  bool asleep_ = false;
  bool closed_ = false;
  FileDescriptor descriptor_;
};

/// An export that a requester has a carrier's key for.
struct CarriedExport {
  std::uint64_t id = 0;
  std::unique_ptr<BulkCarrier::Registration> registration;
};

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
  std::string label;
  std::string contact;
  Identity identity;
  FileDescriptor pidfd;  ///< Of the process at the other end, if it is on this machine.
  LinkMode mode = LinkMode::network;
  Clock::time_point began{};
  SlotSegment segment;

  // client
  PeerId peer;
  std::shared_ptr<Link> link;  ///< Set when connected.
  Welcome welcome;
  std::shared_ptr<SharedMemory> doorbell;
  bool direct = false;
  std::string way;
  std::shared_ptr<BulkCarrier::Peer> carrier;
  std::shared_ptr<std::promise<Result<PeerId>>> connecting;
  std::map<std::uint64_t, std::shared_ptr<std::promise<Reply>>> calls;

  // server
  bool greeted = false;
  bool refused = false;  ///< It is one too many, and is told so.
  std::shared_ptr<SlotServer> server;
  ServiceThreads::Seat seat;
  LeaseGrants leases;
  bool carried = false;  ///< The requester was offered this process's carrier, and took it.
  /// What its carrier may touch, by export. They end before others are given the memory.
  std::map<int, CarriedExport> registrations;
  std::shared_ptr<SharedMemory> client_bell;

  /// From now on the requester's carrier cannot touch this export.
  void revoke(int index, std::uint64_t id) {
    const auto found = registrations.find(index);
    if (found != registrations.end() && found->second.id == id) registrations.erase(found);
  }
};

}  // namespace tranship::fabric
