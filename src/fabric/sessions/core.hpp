// The implementation of Fabric as steps that do not wait.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "fabric/sessions/closing.hpp"
#include "fabric/sessions/inbox.hpp"
#include "fabric/sessions/sessions.hpp"

namespace tranship::fabric {

/// The external facilities of a FabricCore, which a simulation can replace.
struct FabricSeams {
  /// Makes the wire, which calls the handlers with its messages.
  std::function<Result<std::shared_ptr<Wire>>(Wire::Handlers)> make_wire;
  std::shared_ptr<const Clock> clock = std::make_shared<SteadyClock>();
  std::function<Identity()> identity = own_identity;
  /// As in SessionParts.
  std::function<void(std::uint32_t seen, std::chrono::nanoseconds at_most)> attend{};
};

/// The implementation of Fabric, without its thread. Operations on any thread post tasks to the
/// thread that takes steps; all that sessions do happens in these steps, so that they need no lock.
/// Nothing here waits, so that a simulation can take the same steps in virtual time.
class FabricCore {
 public:
  FabricCore(FabricOptions options, FabricSeams seams);
  ~FabricCore();

  /// @error as Fabric::open()
  Status open();

  /// A connection that is being made.
  struct Connecting {
    ConnectionId connection = 0;
    std::future<Result<PeerId>> result;
  };
  /// A message that awaits its reply.
  struct Calling {
    std::uint64_t id = 0;
    std::shared_ptr<Link> link;
    std::future<Reply> reply;
    std::shared_ptr<void> lookup;  ///< For a lookup: held until its array is made.
  };
  /// An export that is being withdrawn.
  struct Withdrawal {
    std::shared_ptr<Export> one;
    std::int64_t end_ns = 0;
    std::future<bool> busy;
  };
  /// A connection that is being ended.
  struct Departure {
    PeerId peer;
    std::shared_ptr<Link> link;
    std::int64_t end_ns = 0;
    int late_looks = 0;  ///< Checks after `end_ns`, which only a running process makes.
    std::future<bool> left;
  };

  // any thread
  Result<Connecting> start_connect(const Contact& contact, const std::string& text);
  void abandon(const Connecting& connecting);
  Result<Calling> start_call(PeerId peer, MessageType type, std::vector<std::byte> body);
  void abandon(const Calling& calling);
  /// Makes the array that a reply to a lookup describes.
  Result<std::shared_ptr<RemoteArray>> found(PeerId peer, const std::string& name, Reply reply);
  Result<Withdrawal> start_withdraw(const std::string& name);
  /// Returns the result of a withdrawal; nothing while it goes on.
  std::optional<Status> look(Withdrawal& withdrawal);
  Departure start_disconnect(PeerId peer);
  std::optional<Status> look(Departure& departure);
  Status notify(RequesterId requester, std::vector<std::byte> body);
  /// @error as LinkTable::find()
  Result<std::shared_ptr<Link>> link(PeerId peer) const { return parts_.links.find(peer); }
  ExportTable& exports() { return *parts_.exports; }
  AttendedBell& bell() { return parts_.bell; }
  /// Returns where this process listens.
  const Contact& contact() const { return contact_; }
  /// Accepts connections over a network that prove to have `key`, from now on, in addition to
  /// others.
  void accept_key(const Key& key);
  /// Null after close().
  std::shared_ptr<Wire> wire() const;
  /// Refuses new connections and tasks, and begins to close: step() does the rest, until finished()
  /// returns true.
  void start_close();
  bool closed() const { return closed_.load(); }

  // the thread that takes steps
  /// Does the work that is due, without waiting. Returns whether there was any.
  bool step();
  /// Does the part of step() that handles messages. It is the only one that a caller may do which
  /// attends to the wire.
  bool step_wire();
  bool finished() const { return closing_.ended(); }
  /// Handles the exit of the process at the other end of a connection on this machine.
  void on_process_ended(ConnectionId connection) { sessions_.on_process_ended(connection); }
  /// Returns after how long step() has to be called again if no message comes.
  std::chrono::milliseconds next_step_in() const;
  void lift_fences() { parts_.fences.lift(); }
  bool fenced() const { return !parts_.fences.empty(); }
  Inbox& inbox() { return inbox_; }
  EventSet& events() { return parts_.events; }

  /// Without service threads: carries out the submitted commands. Returns whether there were any.
  bool serve() { return parts_.service_threads->serve_now(); }
  /// Return the numbers of remaining sessions and seats, for tests of leaks.
  std::size_t sessions() const { return sessions_.size(); }
  int seats() const { return parts_.service_threads->taken(); }

  /// Ends what is left, when no more steps are taken.
  /// @error as Closing::status()
  Status close();

 private:
  using TimePoint = Session::TimePoint;

  TimePoint now() const { return TimePoint(std::chrono::nanoseconds(seams_.clock->now_ns())); }
  std::int64_t peer_timeout_end_ns() const {
    return (now() + parts_.options.peer_timeout).time_since_epoch().count();
  }
  std::future<bool> ask_busy(const Export& one, bool end);

  FabricSeams seams_;
  SessionParts parts_;
  Sessions sessions_{parts_, *seams_.clock};
  Closing closing_{parts_, sessions_};
  Inbox inbox_;
  Contact contact_;
  TimePoint next_tick_{};
  std::atomic<bool> closed_{false};
  std::atomic<std::uint64_t> last_call_{0};
  mutable std::mutex mutex_;        ///< Guards changes of parts_.wire, and the following member.
  std::optional<Key> learned_key_;  ///< Key of the last contact file that had one.
};

}  // namespace tranship::fabric
