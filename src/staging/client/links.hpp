// A client's connections to the servers of a group.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/processes.hpp"
#include "staging/client/catalog.hpp"
#include "staging/protocol/connect.hpp"

namespace tranship::staging {

/// Connects to the first server, which names the others, and to those at their first request. Any
/// thread may call any member.
class Links final : public Servers {
 public:
  /// Waits until all servers of the group have started. `engine` must outlive the links.
  /// @error as connect_when_there(); timeout; unsupported if what answers there is no staging
  ///        server
  static Result<std::unique_ptr<Links>> open(Engine& engine, const std::string& contact,
                                             const std::string& name, const Patience& patience);
  ~Links() override;

  /// Returns the connection to a server; connects if necessary, for at most wait_of(end_ns).
  Result<fabric::PeerId> peer(int server, std::int64_t end_ns);

  /// Returns how long a call that ends at `end_ns` waits for a server; 0: the call has no limit.
  std::chrono::milliseconds wait_of(std::int64_t end_ns) const;

  /// Returns the contact of the first server, by which others find the group.
  const std::string& contact() const { return contact_; }

  /// Returns how many segments of a server get their pages before objects need them; 0 if there is
  /// no connection to it.
  int segments_ahead(int server) const;

  /// Announces that this client has ended, and disconnects. Does nothing in a fork.
  Status close();

  /// Wakes the threads that wait for servers.
  void wake();

  // Servers
  std::int64_t now_ns() const override { return clock_.now_ns(); }
  int count() const override { return static_cast<int>(links_.size()); }
  std::int64_t message_bytes() const override { return message_bytes_; }
  /// Returns the largest object that is sent inside a message, in bytes; 0: none is.
  std::int64_t data_bytes() const { return data_bytes_; }
  Result<std::span<const std::byte>> ask(int server, const fabric::MessageWriter& request,
                                         ReplyBuffer& reply) override;
  std::unique_ptr<Question> send(int server, const fabric::MessageWriter& request,
                                 ReplyBuffer& reply) override;
  void tell(int server, const fabric::MessageWriter& request) override;
  std::uint64_t notices() const override;
  void wait(std::uint64_t seen, std::int64_t until_ns) override;

 private:
  class Listener;
  class Sent;
  struct Link {
    std::string contact;
    std::optional<fabric::PeerId> peer{};
    int segments_ahead = 0;
    std::optional<Error> failure{};  ///< Of the last attempt to connect.
    std::int64_t failed_ns = 0;
  };

  Links(Engine& engine, std::string name, std::function<bool()> interrupted);
  /// Connects to a server and introduces the client; the first server's reply names the others.
  Result<Link> connect(const std::string& contact, int rank, std::chrono::milliseconds timeout);
  Result<std::span<const std::byte>> ask(fabric::PeerId peer, const fabric::MessageWriter& request,
                                         ReplyBuffer& reply) const;
  Status greet(fabric::PeerId peer, int rank, std::int64_t end_ns);
  Status take_in(const protocol::Welcome& welcome, int rank);

  Engine& engine_;
  std::shared_ptr<Processes> processes_;
  const std::uint64_t fork_generation_ = fork_generation();
  std::string name_;
  const ClientId identity_;  ///< Of this client, on all its connections.
  std::string contact_;
  std::function<bool()> interrupted_;
  SteadyClock clock_;
  std::int64_t message_bytes_ = message_bytes_least;
  std::int64_t data_bytes_ = 0;
  std::shared_ptr<Listener> listener_;
  /// Held while connecting; taken before mutex_. close() only tries to take it, since a signal
  /// handler may close the links while its own thread connects.
  std::mutex connecting_;
  mutable std::mutex mutex_;  ///< Guards the peers of the links, and their failures.
  std::vector<Link> links_;
};

}  // namespace tranship::staging
