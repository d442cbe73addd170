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
#include "staging/protocol/connect.hpp"
#include "staging/protocol/spans.hpp"
#include "staging/server/disk.hpp"
#include "staging/server/mover.hpp"
#include "staging/server/service.hpp"

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
    /// Where objects lie: "host", or on a GPU of this machine: "device" and its number, or "device"
    /// alone, and server k of a group takes GPU k, counted round.
    std::string memory_kind = "host";
    int versions_max = 0;  ///< of a variable; 0: any number
    Full full = Full::block;
    std::string spill_folder;  ///< for Full::spill; empty: the configuration's temporary folder
    std::int64_t spill_bytes_max = spill_bytes_unlimited;
    int rank = 0;                            ///< this server's number in its group
    int servers = 1;                         ///< of the group
    std::string first;                       ///< the first server's contact, for all others
    Patience join{std::chrono::minutes(1)};  ///< to find the first server
  };

  /// Waits until it has joined its group.
  /// @error as Engine::open(); invalid_argument for impossible limits, or a rank that the group has
  ///        already; not_found or timeout if the first server does not come; cancelled; as
  ///        SpillFile::open()
  static Result<std::unique_ptr<Server>> open(Options options);
  ~Server();

  /// @error closed after close(), or in a fork; what follows is not to be called then
  Status usable() const;
  /// host:port, for clients.
  std::string contact() const;
  std::vector<VariableInfo> list() const;
  std::int64_t memory_bytes_used() const;
  std::int64_t spilled_bytes() const;
  int clients() const;

  /// Whether all servers of the group have started, as the first one knows.
  bool complete() const;

  /// Ends the service: nothing new is put, what is being written and read may end within
  /// `drain_max`; then clients that still wait are told that it closed.
  /// Nothing in a fork. A second call does nothing.
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
  Status take_pages_of(int segment);
  Result<Array> allocate(std::int64_t bytes);
  void on_lost(fabric::RequesterId requester, bool cleanly);
  void on_gone(fabric::RequesterId requester, bool cleanly);

  Options options_;
  Limits limits_;
  mutable std::mutex mutex_;            ///< guards what follows
  std::unique_ptr<ServerTrace> trace_;  ///< null: nothing is traced
  std::unique_ptr<Service> service_;
  std::vector<Array> segments_;
  std::vector<std::shared_ptr<SharedMemory>> memories_;  ///< of the segments; none on a GPU
  int device_ = -1;                                      ///< the GPU on which they lie
  std::unique_ptr<Disk> disk_;                           ///< until mover_ has it
  std::unique_ptr<Mover> mover_;  ///< null: nothing is spilled, or the server is closing
  /// Set once, before anything is answered: a thread of the fabric must not wait for the engine's
  /// locks, which whoever closes it holds.
  std::shared_ptr<Processes> processes_;
  std::string contact_;
  std::atomic<bool> ready_{false};
  std::mutex closing_;  ///< of who closes
  std::atomic<bool> closed_{false};
  const std::uint64_t fork_generation_ = fork_generation();
  std::unique_ptr<Engine> engine_;
};

}  // namespace tranship::staging
