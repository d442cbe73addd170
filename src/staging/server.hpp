// A staging server: an engine whose process answers for a store.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "engine/processes.hpp"
#include "staging/messages.hpp"
#include "staging/object_store.hpp"

namespace tranship::staging {

/// Keeps what clients put in memory that they reach by themselves: the server's threads handle
/// messages and small objects, and large ones are copied by the clients' engines. Any thread may
/// call any member.
class Server {
 public:
  struct Options {
    Config config;
    Profile profile;
    std::string contact_file;  ///< where clients find it
    std::int64_t memory_bytes = std::int64_t{1} << 30;
    int versions_max = 0;  ///< of a variable; 0: any number
    Full full = Full::block;
  };

  /// @error as Engine::open(); invalid_argument for impossible limits
  static Result<std::unique_ptr<Server>> open(Options options);
  ~Server();

  /// host:port, for clients.
  std::string contact() const;
  std::vector<VariableInfo> list() const;
  std::int64_t memory_bytes_used() const;
  int clients() const;

  /// Ends the service. Clients that still wait are told that it closed.
  void close();

 private:
  explicit Server(Options options);

  Result<std::size_t> answer(RequesterId from, std::span<const std::byte> question,
                             std::span<std::byte> reply);
  Result<std::size_t> carry_out(RequesterId from, Ask ask, MessageReader& in,
                                std::span<std::byte> reply);
  Result<std::size_t> on_hello(RequesterId from, MessageReader& in, std::span<std::byte> reply);
  Result<std::size_t> on_put(RequesterId from, MessageReader& in, std::span<std::byte> reply);
  Result<std::size_t> on_begin(RequesterId from, MessageReader& in, std::span<std::byte> reply);
  Result<std::size_t> on_get(RequesterId from, MessageReader& in, bool wants_data,
                             std::span<std::byte> reply);
  Result<std::size_t> on_more(RequesterId from, MessageReader& in, std::span<std::byte> reply);
  Result<std::size_t> on_release(RequesterId from, MessageReader& in, std::span<std::byte> reply);
  Result<std::size_t> on_describe(RequesterId from, MessageReader& in, std::span<std::byte> reply);
  Result<std::size_t> on_list(MessageReader& in, std::span<std::byte> reply) const;
  std::size_t data_of(const Found& found, const Box& box, std::span<std::byte> reply) const;
  Result<std::size_t> wait(RequesterId from, const std::string& variable, const Waiting& waiting,
                           std::span<std::byte> reply);
  bool await_ready() const;
  std::byte* address_of(const Range& range) const;
  Status make_segment(std::int64_t bytes);
  void on_gone(RequesterId requester, bool cleanly);
  void tell_waiting();

  Options options_;
  mutable std::mutex mutex_;  ///< guards what follows
  ObjectStore store_;
  std::vector<std::shared_ptr<SharedMemory>> segments_;
  std::map<std::string, std::set<RequesterId>> waiting_;  ///< by variable; "": for memory
  std::map<RequesterId, std::string> clients_;            ///< by what they call themselves
  /// What gets found that no message has room for, by lease, until the release.
  std::map<std::pair<RequesterId, std::uint64_t>, Found> long_answers_;
  /// Set once, before anything is answered: a thread of the fabric must not wait for the engine's
  /// locks, which whoever closes it holds.
  Processes* processes_ = nullptr;
  std::string contact_;
  std::atomic<bool> ready_{false};
  std::unique_ptr<Engine> engine_;
};

}  // namespace tranship::staging
