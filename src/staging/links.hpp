// A client's connections to the servers of a group.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/processes.hpp"
#include "staging/catalog.hpp"

namespace tranship::staging {

/// Connects to the first server, which names the others; to those when they are first asked. Any
/// thread may call any member.
class Links final : public Servers {
 public:
  /// Waits until all servers of the group have started. `engine` must outlive the links.
  /// @error as Processes::connect(); timeout; unsupported if what answers there is no staging
  ///        server
  static Result<std::unique_ptr<Links>> open(Engine& engine, const std::string& contact,
                                             const std::string& name,
                                             std::chrono::milliseconds timeout);
  ~Links() override;

  /// Connects if need be.
  Result<PeerId> peer(int server);

  /// Says that this client has ended, and disconnects.
  Status close();

  // Servers
  std::int64_t now_ns() const override { return clock_.now_ns(); }
  int count() const override { return static_cast<int>(links_.size()); }
  std::int64_t message_bytes() const override { return message_bytes_; }
  Result<std::span<const std::byte>> ask(int server, const MessageWriter& question,
                                         ReplyBuffer& reply) override;
  std::uint64_t notices() const override;
  void wait(std::uint64_t seen, std::int64_t until_ns) override;

 private:
  class Listener;
  struct Link {
    std::string contact;
    std::optional<PeerId> peer;
  };

  Links(Engine& engine, std::string name);
  /// Connects to a server and says hello; the first one's answer says who the others are.
  Result<Link> connect(const std::string& contact, int rank, std::chrono::milliseconds timeout);
  Result<std::span<const std::byte>> ask(PeerId peer, const MessageWriter& question,
                                         ReplyBuffer& reply) const;
  Status greet(PeerId peer, int rank, std::int64_t end_ns);
  Status read_greeting(std::span<const std::byte> answer, int rank);

  Engine& engine_;
  Processes* processes_ = nullptr;
  std::string name_;
  SteadyClock clock_;
  std::int64_t message_bytes_ = message_bytes_least;
  std::shared_ptr<Listener> listener_;
  mutable std::mutex mutex_;  ///< guards the peers of the links
  std::vector<Link> links_;
};

}  // namespace tranship::staging
