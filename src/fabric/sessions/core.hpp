// The implementation of Fabric: its sessions, and the thread that drives them.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "fabric/fabric.hpp"
#include "fabric/links/fences.hpp"
#include "fabric/sessions/inbox.hpp"
#include "fabric/sessions/session.hpp"
#include "fabric/wires/wire.hpp"

namespace tranship::fabric {

/// The external facilities of a FabricCore, which a simulation can replace.
struct FabricSeams {
  /// Makes the wire, which calls the handlers with its messages.
  std::function<Result<std::shared_ptr<Wire>>(Wire::Handlers)> make_wire;
  std::shared_ptr<const Clock> clock = std::make_shared<SteadyClock>();
  /// False: there are no threads, and the owner calls step() and serve().
  bool threads = true;
  std::function<Identity()> identity = own_identity;
};

/// Returns the seams of real processes: sockets, wall time and threads.
FabricSeams real_seams(const FabricOptions& options);

/// The implementation of Fabric. Methods under "any thread" post tasks to the progress thread and
/// wait for them, for a bounded time; all others run on that thread, so that sessions need no lock.
/// Each method that waits consists of parts that do not wait, so that a simulation can take the
/// same steps in virtual time. Owns the sessions; each has a handshake (handshake.hpp) and, for a
/// requester, its grants (export_grants.hpp).
class FabricCore : public std::enable_shared_from_this<FabricCore> {
 public:
  explicit FabricCore(FabricOptions options);
  FabricCore(FabricOptions options, FabricSeams seams);
  ~FabricCore();

  /// A connection that is being made.
  struct Connecting {
    std::shared_ptr<std::promise<Result<PeerId>>> promise;
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

  // any thread: the parts of methods that wait
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

  // the progress thread, or the owner of a core without threads
  /// Does the work that is due, without waiting. Returns whether there was any.
  bool step();
  /// Does the part of step() that handles messages.
  bool step_wire();
  bool finished() const { return phase_ == Phase::closed; }
  /// Handles the exit of the process at the other end of a connection on this machine.
  void on_process_ended(ConnectionId connection);
  /// Without threads: carries out the submitted commands. Returns whether there were any.
  bool serve() { return service_threads_->serve_now(); }
  /// Return the numbers of remaining sessions, seats and fences, for tests of leaks.
  std::size_t sessions() const { return sessions_.size(); }
  int seats() const { return service_threads_->taken(); }
  bool fenced() const { return !fences_.empty(); }

  // any thread
  Status open();
  Result<PeerId> connect(const Contact& contact, const std::string& text,
                         std::chrono::milliseconds timeout);
  Status disconnect(PeerId peer);
  Status export_array(ExportedArray array);
  Status withdraw(const std::string& name);
  Result<std::shared_ptr<RemoteArray>> lookup(PeerId peer, const std::string& name,
                                              std::chrono::milliseconds timeout);
  Result<std::vector<std::string>> names(PeerId peer, std::chrono::milliseconds timeout);
  Result<std::size_t> ask(PeerId peer, std::span<const std::byte> question,
                          std::span<std::byte> reply, std::chrono::milliseconds timeout,
                          const std::function<bool()>& interrupted);
  Status tell(PeerId peer, std::span<const std::byte> question);
  Status notify(RequesterId requester, std::vector<std::byte> body);
  Status close();
  /// Begins to close: step() does the rest, until finished() returns true.
  void start_close();
  std::shared_ptr<Link> link(PeerId peer) const;
  /// Returns the error of a link that does not exist.
  Error no_link(PeerId peer) const;
  ExportTable& exports() { return *exports_; }
  Bell& bell() const { return *reinterpret_cast<Bell*>(bell_memory_->data()); }
  /// Rings the bell, and wakes the caller that attends to the wire.
  void ring();
  /// Waits until the bell has rung. Meanwhile the caller reads messages from the network itself,
  /// instead of being woken by the progress thread, unless another caller does so already.
  void attend(std::uint32_t seen, std::chrono::nanoseconds at_most);
  /// Returns the addresses at which this process listens; empty if there are none.
  std::string address() const { return contact_.text(); }
  /// Accepts connections over a network that prove to have `key`, from now on, in addition to
  /// others.
  void accept_key(const Key& key);
  bool closed() const { return closed_.load(); }

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  /// The phases in which a core closes.
  enum class Phase { open, ending_copies, saying_goodbye, lifting_fences, closed };

  // any thread
  TimePoint now() const { return TimePoint(std::chrono::nanoseconds(seams_.clock->now_ns())); }
  std::int64_t after_ns(std::chrono::nanoseconds duration) const {
    return seams_.clock->now_ns() + duration.count();
  }
  std::shared_ptr<Wire> wire() const;
  SlotGeometry geometry() const {
    return {options_.slots_per_peer, options_.slot_bytes,
            std::min(options_.inside_bytes, options_.slot_bytes)};
  }
  Reply wait(Calling& calling, std::chrono::milliseconds timeout);
  Result<std::future<bool>> ask_busy(const Export& one, bool end);

  // core.cpp: the loop
  Status open_wire();
  Status start_thread();
  void run();
  void sleep();
  Status open_attendance();
  void watch_wire(const Wire& wire, bool watched);
  bool step_for_caller();
  void on_connection_lost(ConnectionId connection, const Error& why);
  void tick();
  void lose(Session& session, Error error);
  void stop_serving(Session& session, bool cleanly);
  void lift_fences();
  void erase_lost();
  void go_on_closing();
  bool copying() const;
  void say_goodbye();
  void send_goodbyes(bool late);
  void end_sessions();
  void end_fences();
  void leave(Session& session, std::shared_ptr<std::promise<bool>> left);
  void end_leaving();
  Session* find(ConnectionId connection);
  Status watch_process(Session& session, const WirePeer& peer);

  // sessions.cpp: connections that become links
  void set_terms();
  void begin_connect(ConnectionId connection, const Contact& contact, const std::string& text,
                     std::shared_ptr<std::promise<Result<PeerId>>> promise);
  void on_arrived(ConnectionId connection);
  void on_handshake(Session& session, MessageType type, std::span<const std::byte> body,
                    std::span<FileDescriptor> descriptors);
  void send(Session& session, const HandshakeMessage& message);
  Result<ServiceThreads::Seat> admit(Session& session,
                                     const ExporterHandshake::Applicant& applicant);
  std::shared_ptr<SlotServer> make_server(ConnectionId connection,
                                          const ExporterHandshake::Applicant& applicant);
  void add_link(Session& session, RequesterHandshake::Agreement agreement);
  std::shared_ptr<Requester> make_requester(ConnectionId connection,
                                            const RequesterHandshake::Agreement& agreement);

  // service.cpp: messages of a link
  void on_message(ConnectionId connection, const MessageHeader& header,
                  std::span<const std::byte> body, std::span<FileDescriptor> descriptors);
  ReceiveBuffer place(ConnectionId connection, const MessageHeader& header,
                      std::span<const std::byte> body, std::int64_t offset, std::int64_t left);
  void serve(Session& session, const MessageHeader& header, std::span<const std::byte> body);
  void receive(Session& session, const MessageHeader& header, std::span<const std::byte> body,
               std::span<FileDescriptor> descriptors);
  void on_lookup(Session& session, const MessageHeader& header, std::span<const std::byte> body);
  void on_submitted(Session& session, const MessageHeader& header, std::span<const std::byte> body);
  void on_answered(Session& session, const MessageHeader& header, std::span<const std::byte> body);
  void send(Session& session, MessageType type, std::uint64_t call, std::span<const std::byte> body,
            std::span<const int> descriptors = {});

  FabricOptions options_;
  FabricSeams seams_;
  Contact contact_;
  std::shared_ptr<ExportTable> exports_ = std::make_shared<ExportTable>();
  std::shared_ptr<SharedMemory> bell_memory_;
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::atomic<bool> closed_{false};
  std::mutex close_mutex_;
  bool contact_written_ = false;
  Status close_status_;  ///< Result of close(); written by the progress thread.
  HandshakeTerms terms_;

  mutable std::mutex links_mutex_;
  std::map<PeerId, std::shared_ptr<Link>> links_;
  std::atomic<std::uint64_t> last_peer_{0};
  std::atomic<std::uint64_t> last_call_{0};

  std::optional<Key> learned_key_;  ///< Key of the last contact file that had one.

  /// Shared with links, which send over it. Set and reset under links_mutex_.
  std::shared_ptr<Wire> wire_;
  std::unique_ptr<ServiceThreads> service_threads_;

  std::mutex attending_mutex_;         ///< Held by the caller that attends to the wire.
  std::atomic<bool> attended_{false};  ///< A caller attends to the wire; `attention_` wakes it.
  FileDescriptor attention_;
  FileDescriptor attendance_;  ///< That caller sleeps on this epoll of the wire and attention_.

  // used by the progress thread, and by the caller that attends to the wire
  std::mutex step_mutex_;  ///< guards all following members
  std::map<ConnectionId, std::unique_ptr<Session>> sessions_;
  Fences fences_;
  FileDescriptor epoll_;
  Phase phase_ = Phase::open;
  TimePoint phase_end_{};
  int leaving_ = 0;  ///< Number of sessions whose peers have still to read a goodbye.
  TimePoint next_tick_{};
  std::thread thread_;
};

}  // namespace tranship::fabric
