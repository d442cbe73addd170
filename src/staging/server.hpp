// A staging server: an engine whose process answers for a service.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/processes.hpp"
#include "staging/service.hpp"

namespace tranship::staging {

/// Keeps what clients put in memory that they reach by themselves: the server's threads handle
/// messages and small objects, and large ones are copied by the clients' engines. Any thread may
/// call any member.
class Server {
 public:
  struct Options {
    Config config;
    Profile profile;
    std::string contact_file;  ///< where clients find it; of the first server of a group alone
    std::int64_t memory_bytes = std::int64_t{1} << 30;
    int versions_max = 0;  ///< of a variable; 0: any number
    Full full = Full::block;
    int rank = 0;                                    ///< this server's number in its group
    int servers = 1;                                 ///< of the group
    std::string first;                               ///< the first server's contact, for all others
    std::chrono::milliseconds join_timeout{60'000};  ///< to find the first server
  };

  /// Waits until it has joined its group.
  /// @error as Engine::open(); invalid_argument for impossible limits, or a rank that the group has
  ///        already; not_found or timeout if the first server does not come
  static Result<std::unique_ptr<Server>> open(Options options);
  ~Server();

  /// host:port, for clients.
  std::string contact() const;
  std::vector<VariableInfo> list() const;
  std::int64_t memory_bytes_used() const;
  int clients() const;

  /// Whether all servers of the group have started, as the first one knows.
  bool complete() const;

  /// Ends the service: nothing new is put, what is being written and read may end within
  /// `drain_max`; then clients that still wait are told that it closed.
  void close(std::chrono::milliseconds drain_max = std::chrono::milliseconds(5000));

 private:
  explicit Server(Options options);

  Status join();
  Result<std::size_t> answer(RequesterId from, std::span<const std::byte> question,
                             std::span<std::byte> reply);
  bool await_ready() const;
  std::byte* address_of(const Range& range) const;
  Status make_segment(std::int64_t bytes);
  void on_gone(RequesterId requester, bool cleanly);

  Options options_;
  mutable std::mutex mutex_;  ///< guards what follows
  std::unique_ptr<Service> service_;
  std::vector<std::shared_ptr<SharedMemory>> segments_;
  /// Set once, before anything is answered: a thread of the fabric must not wait for the engine's
  /// locks, which whoever closes it holds.
  Processes* processes_ = nullptr;
  std::string contact_;
  std::atomic<bool> ready_{false};
  std::unique_ptr<Engine> engine_;
};

}  // namespace tranship::staging
