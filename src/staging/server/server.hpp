// A staging server: an engine that answers requests of the staging service.
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
#include "staging/protocol/connect.hpp"
#include "staging/protocol/spans.hpp"
#include "staging/server/disk.hpp"
#include "staging/server/mover.hpp"
#include "staging/server/preallocator.hpp"
#include "staging/server/service.hpp"

namespace tranship::staging {

/// Keeps objects in memory that clients map: the server's threads handle messages and small
/// objects, and the clients' engines copy large ones. Any thread may call any member.
class Server {
 public:
  struct Options {
    Config config;
    Profile profile;
    std::string contact_file;  ///< Written by the first server of a group only.
    std::int64_t memory_bytes = std::int64_t{1} << 30;
    /// Bytes of host memory that get their pages in the background, before objects need them; none:
    /// all, but at most half of what the machine has left.
    std::optional<std::int64_t> preallocated_bytes;
    /// Memory of the objects: "host", or a GPU of this machine: "device" and its number, or
    /// "device" alone for GPU `rank` modulo the number of GPUs.
    std::string memory_kind = "host";
    int versions_max = 0;  ///< Of a variable; 0: any number.
    Full full = Full::block;
    std::string spill_folder;  ///< For Full::spill; empty: the configuration's temporary folder.
    std::int64_t spill_bytes_max = spill_bytes_unlimited;
    int rank = 0;                            ///< Number of this server in its group.
    int servers = 1;                         ///< Servers of the group.
    std::string first;                       ///< Contact of the first server, for all others.
    Patience join{std::chrono::minutes(1)};  ///< To find the first server.
  };

  /// Opens a server, and waits until it has joined its group.
  /// @error as Engine::open(); invalid_argument for impossible limits, or a rank that the group has
  ///        already; not_found or timeout if the first server is not found; cancelled; as
  ///        SpillFile::open()
  static Result<std::unique_ptr<Server>> open(Options options);
  ~Server();

  /// Checks that the members below may be called.
  /// @error closed after close(), or in a fork
  Status usable() const;
  /// Returns the contact for clients.
  std::string contact() const;
  std::vector<VariableInfo> list() const;
  std::int64_t memory_bytes_used() const;
  std::int64_t spilled_bytes() const;
  int clients() const;

  /// Returns whether all servers of the group have joined; the first server knows.
  bool complete() const;

  /// Ends the service: refuses new puts, lets what is being written and read end within
  /// `drain_max`, and then sends `closed` to clients that still wait. Does nothing in a fork, and
  /// when called again.
  /// @error as Engine::close()
  Status close(std::chrono::milliseconds drain_max = std::chrono::milliseconds(5000));

 private:
  explicit Server(Options options);

  Status open_disk();
  void start_moving();
  Service::Options service_options();
  Result<fabric::PeerId> find_first();
  Status join();
  Result<std::size_t> answer(fabric::RequesterId from, std::span<const std::byte> question,
                             std::span<std::byte> reply);
  bool await_ready() const;
  std::byte* address_of(const Range& range) const;
  Status choose_memory();
  Status make_segment(std::int64_t bytes);
  Status take_pages_of(const Range& part);
  Status preallocate();
  Result<Array> allocate(std::int64_t bytes);
  void on_served(fabric::RequesterId requester, bool cleanly);
  void on_lost(fabric::RequesterId requester, bool cleanly);
  void on_gone(fabric::RequesterId requester, bool cleanly);

  Options options_;
  Limits limits_;
  mutable std::mutex mutex_;            ///< Guards what follows.
  std::unique_ptr<ServerTrace> trace_;  ///< Null: no tracing.
  std::unique_ptr<Service> service_;
  std::vector<Array> segments_;
  std::vector<std::shared_ptr<SharedMemory>> memories_;  ///< Of the segments; none on a GPU.
  int device_ = -1;                                      ///< The GPU of the segments.
  std::unique_ptr<Disk> disk_;                           ///< Until the mover takes it.
  std::unique_ptr<Preallocator> preallocator_;  ///< Set once, before any request is answered.
  std::unique_ptr<Mover> mover_;                ///< Null: no spilling, or the server is closing.
  /// Set once, before any request is answered: a thread of the fabric must not wait for the
  /// engine's locks, which a closing thread holds.
  std::shared_ptr<Processes> processes_;
  std::string contact_;
  std::atomic<bool> ready_{false};
  std::mutex closing_;  ///< Held while closing.
  std::atomic<bool> closed_{false};
  const std::uint64_t fork_generation_ = fork_generation();
  std::unique_ptr<Engine> engine_;
};

}  // namespace tranship::staging
