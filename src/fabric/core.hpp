// The progress thread and what it owns.
#pragma once

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

#include "fabric/fabric.hpp"
#include "fabric/session.hpp"
#include "fabric/wire.hpp"

namespace tranship {

/// Everything behind Fabric. Methods under "any thread" post to the progress thread and wait, with
/// a bound; everything else runs there, so that sessions and UCX need no lock.
class FabricCore {
 public:
  explicit FabricCore(FabricOptions options);
  ~FabricCore();

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
  std::shared_ptr<Link> link(PeerId peer) const;
  ExportTable& exports() { return *exports_; }
  Bell& bell() const { return *reinterpret_cast<Bell*>(bell_memory_->data()); }
  /// Where this process listens; empty if it does not.
  std::string address() const { return contact_.text(); }
  /// Lets in over a network, from now on, who has the key of a group.
  void accept_key(const Key& key) { wire_->accept_key(key); }
  bool closed() const { return closed_.load(); }

 private:
  using Clock = std::chrono::steady_clock;

  // any thread
  Reply call(PeerId peer, MessageType type, std::vector<std::byte> body,
             std::chrono::milliseconds timeout);
  Result<std::shared_ptr<RemoteArray>> make_array(const std::shared_ptr<Link>& link,
                                                  const std::string& name, LookupReply reply,
                                                  FileDescriptor memory);
  Result<std::shared_ptr<Export>> begin_withdrawal(const std::string& name);
  bool leases_busy(std::uint64_t id, int index, bool end);

  // core.cpp: the loop
  Status open_wire();
  void run();
  void sleep();
  void on_connection_lost(ConnectionId connection, const Error& why);
  void tick();
  void lose(Session& session, Error error);
  void stop_serving(Session& session, bool cleanly);
  void lift_fences();
  void bury();
  void say_goodbye();
  void leave(Session& session);
  /// Goes on until `read` says that the peers have read it, or time is up.
  void await_goodbye(const std::function<bool()>& read);
  void await_fences();
  Session* find(ConnectionId connection);
  Status watch_process(Session& session, const WirePeer& peer);

  // handshake.cpp: from a connection to a link
  void begin_connect(ConnectionId connection, const Contact& contact, const std::string& text,
                     std::shared_ptr<std::promise<Result<PeerId>>> promise);
  void on_arrived(ConnectionId connection);
  void on_hello(Session& session, std::span<const std::byte> body,
                std::span<FileDescriptor> descriptors);
  Status prepare_slots(Session& session, std::span<FileDescriptor> descriptors);
  Status start_server(Session& session);
  void on_welcome(Session& session, std::span<const std::byte> body,
                  std::span<FileDescriptor> descriptors);
  Status take_slots(Session& session, std::span<FileDescriptor> descriptors);
  void on_ready(Session& session, std::span<const std::byte> body);
  void on_accepted(Session& session, std::span<const std::byte> body);
  std::shared_ptr<Requester> make_requester(Session& session);
  Greeting greeting() const;

  // service.cpp: messages of a link
  void on_message(ConnectionId connection, const MessageHeader& header,
                  std::span<const std::byte> body, std::span<FileDescriptor> descriptors);
  std::byte* place(ConnectionId connection, const MessageHeader& header, std::int64_t bytes);
  void serve(Session& session, const MessageHeader& header, std::span<const std::byte> body);
  void receive(Session& session, const MessageHeader& header, std::span<const std::byte> body,
               std::span<FileDescriptor> descriptors);
  void on_lookup(Session& session, const MessageHeader& header, std::span<const std::byte> body);
  void on_names(Session& session, const MessageHeader& header);
  void on_withdrawn(Session& session, std::span<const std::byte> body);
  void on_submitted(Session& session, const MessageHeader& header, std::span<const std::byte> body);
  void on_answered(Session& session, const MessageHeader& header, std::span<const std::byte> body);
  void send(Session& session, MessageType type, std::uint64_t call, std::span<const std::byte> body,
            std::span<const int> descriptors = {});

  FabricOptions options_;
  Identity identity_;
  Contact contact_;
  std::shared_ptr<ExportTable> exports_ = std::make_shared<ExportTable>();
  std::shared_ptr<SharedMemory> bell_memory_;
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::atomic<bool> closed_{false};
  std::mutex close_mutex_;
  bool contact_written_ = false;
  Status close_status_;  ///< What close() says, as the progress thread leaves it.
  std::uint64_t probe_value_ = 0;  ///< peers read it to learn whether they may

  mutable std::mutex links_mutex_;
  std::map<PeerId, std::shared_ptr<Link>> links_;
  std::atomic<std::uint64_t> last_peer_{0};
  std::atomic<std::uint64_t> last_call_{0};

  std::mutex withdrawing_mutex_;  ///< guards what follows
  std::map<std::string, std::shared_ptr<Export>> withdrawing_;  ///< That peers still use.
  std::optional<Key> learned_key_;  ///< Of the last contact file that had one.

  std::shared_ptr<Wire> wire_;  ///< Links keep it, to send.
  std::unique_ptr<ServiceThreads> service_threads_;

  // the progress thread's own
  std::map<ConnectionId, std::unique_ptr<Session>> sessions_;
  Fences fences_;
  FileDescriptor epoll_;
  bool stopping_ = false;
  Clock::time_point next_tick_{};
  std::thread thread_;
};

}  // namespace tranship
