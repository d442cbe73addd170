// The progress thread and what it owns.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fabric/fabric.hpp"
#include "fabric/session.hpp"

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
  Status withdraw(const std::string& name);
  Result<std::shared_ptr<RemoteArray>> lookup(PeerId peer, const std::string& name,
                                              std::chrono::milliseconds timeout);
  Result<std::vector<std::string>> names(PeerId peer, std::chrono::milliseconds timeout);
  Result<std::size_t> ask(PeerId peer, std::span<const std::byte> question,
                          std::span<std::byte> reply, std::chrono::milliseconds timeout);
  Status tell(PeerId peer, std::span<const std::byte> question);
  Status notify(RequesterId requester, std::vector<std::byte> body);
  Status close();
  std::shared_ptr<Link> link(PeerId peer) const;
  ExportTable& exports() { return *exports_; }
  Bell& bell() const { return *reinterpret_cast<Bell*>(bell_memory_->data()); }
  const std::string& address() const { return address_; }
  bool closed() const { return closed_.load(); }

 private:
  using Clock = std::chrono::steady_clock;

  // any thread
  Reply call(PeerId peer, MessageType type, std::vector<std::byte> body,
             std::chrono::milliseconds timeout);
  Result<std::shared_ptr<RemoteArray>> make_array(const std::shared_ptr<Link>& link,
                                                  const std::string& name, LookupReply reply);
  bool leases_busy(std::uint64_t id, int index, bool clear);

  // core.cpp: the loop
  void run();
  void sleep();
  void tick();
  void check_stuck(Session& session, Clock::time_point now);
  void lose(Session& session, Error error);
  void tell_gone(SlotServer& server, RequesterId requester, bool cleanly);
  void bury();
  void say_goodbye();
  void leave(Session& session);
  /// Goes on until `read` says that the peers have read it, or time is up.
  void await_goodbye(const std::function<bool()>& read);
  Session* find(ConnectionId connection);
  void watch_process(Session& session);

  // handshake.cpp: from a connection to a link
  void begin_connect(const Contact& contact, const std::string& text,
                     std::shared_ptr<std::promise<Result<PeerId>>> promise);
  void on_arrived(ConnectionId connection);
  void on_hello(Session& session, std::span<const std::byte> body);
  void on_welcome(Session& session, std::span<const std::byte> body);
  void on_ready(Session& session, std::span<const std::byte> body);
  void on_accepted(Session& session, std::span<const std::byte> body);
  std::string offer_shared(Session& session, const Hello& hello);
  std::string take_shared(Session& session);
  Status take_network(Session& session);
  Status register_slots(Session& session);
  std::shared_ptr<Requester> make_requester(Session& session);
  void start_server(Session& session);
  Greeting greeting() const;

  // service.cpp: messages of a link
  void on_message(ConnectionId connection, const MessageHeader& header,
                  std::span<const std::byte> body);
  void serve(Session& session, const MessageHeader& header, std::span<const std::byte> body);
  void receive(Session& session, const MessageHeader& header, std::span<const std::byte> body);
  void on_lookup(Session& session, const MessageHeader& header, std::span<const std::byte> body);
  void on_names(Session& session, const MessageHeader& header);
  void on_withdrawn(Session& session, std::span<const std::byte> body);
  void on_submitted(Session& session, const MessageHeader& header, std::span<const std::byte> body);
  void on_answered(Session& session, const MessageHeader& header, std::span<const std::byte> body);
  void send_submitted(ConnectionId connection, int slot, std::size_t command_bytes,
                      std::int64_t write_bytes);
  void send_answered(ConnectionId connection, int slot, std::int64_t read_bytes);
  void send(Session& session, MessageType type, std::uint64_t call,
            std::span<const std::byte> body);

  FabricOptions options_;
  Identity identity_;
  std::string address_;
  std::shared_ptr<ExportTable> exports_ = std::make_shared<ExportTable>();
  std::shared_ptr<SharedMemory> bell_memory_;
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::atomic<bool> closed_{false};
  std::mutex close_mutex_;
  bool contact_written_ = false;
  std::uint64_t probe_value_ = 0;  ///< peers read it to learn whether they may

  mutable std::mutex links_mutex_;
  std::map<PeerId, std::shared_ptr<Link>> links_;
  std::atomic<std::uint64_t> last_peer_{0};
  std::atomic<std::uint64_t> last_call_{0};

  // the progress thread's own
  std::unique_ptr<Wire> wire_;
  std::map<ConnectionId, std::unique_ptr<Session>> sessions_;
  /// Memory that UCX may still be sending from: released with the wire.
  std::vector<std::unique_ptr<Session>> buried_;
  int epoll_ = -1;
  bool stopping_ = false;
  Clock::time_point next_tick_{};
  std::thread thread_;
};

}  // namespace tranship
