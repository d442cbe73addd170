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

#include "fabric/protocol.hpp"
#include "fabric/remote_array.hpp"
#include "fabric/slot_server.hpp"
#include "fabric/wire.hpp"

namespace tranship {

using Reply = Result<std::vector<std::byte>>;

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
  void close();
  int descriptor() const { return descriptor_; }

 private:
  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;
  std::vector<std::function<void()>> running_;
  bool asleep_ = false;
  bool closed_ = false;
  int descriptor_ = -1;
};

/// Owned by the progress thread. A client session asks, a server session serves.
struct Session {
  using Clock = std::chrono::steady_clock;

  ConnectionId connection = 0;
  bool client = false;
  bool lost = false;
  bool leaving = false;  ///< this process has said goodbye
  std::string label;
  std::string contact;
  Identity identity;
  int pidfd = -1;
  LinkMode mode = LinkMode::network;
  Clock::time_point began = Clock::now();

  // both: the slots, and over a network their registration and the other side's
  SlotSegment segment;
  Wire::Registered registered;
  RemoteSlots other;

  // client
  PeerId peer;
  std::shared_ptr<Link> link;  ///< set when connected
  Welcome welcome;
  bool direct = false;
  std::string way;
  std::shared_ptr<std::promise<Result<PeerId>>> connecting;
  std::map<std::uint64_t, std::shared_ptr<std::promise<Reply>>> calls;
  std::uint64_t answers_seen = 0;
  Clock::time_point moved = Clock::now();
  Clock::time_point pinged{};
  bool ping_due = false;

  // server
  bool greeted = false;
  std::shared_ptr<SlotServer> server;
  std::shared_ptr<SharedMemory> client_bell;
};

}  // namespace tranship
