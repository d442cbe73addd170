// Requests of MPI whose messages are packed here.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "mpi/handles.hpp"

namespace tranship::mpi {

/// What belongs to a request until MPI has ended it.
struct Pending {
  /// What is to be done when what MPI received is there; it also owns what MPI reads and writes.
  std::function<void(const MPI_Status&)> arrived{};
  /// Of a persistent request: what is to be done before each start; returns false if it failed.
  std::function<bool()> starts{};
  bool persistent = false;
  /// Whether the call has ended, and what it received is unpacked; a persistent request that is not
  /// started counts as ended.
  bool ended = false;

  /// Does once what is to be done at the end. status: of the completed request
  void end(const MPI_Status& status);
};

/// The requests that are not ended. Threads: all.
class Requests {
 public:
  /// Whether there is any request here: nothing is to be done at the end of others.
  bool any() const { return count_.load(std::memory_order_acquire) > 0; }

  void add(MPI_Request request, std::shared_ptr<Pending> pending);
  /// Returns what belongs to a request; null for others.
  std::shared_ptr<Pending> find(MPI_Request request);
  /// Returns the same for each of several requests; empty if none is here.
  std::vector<std::shared_ptr<Pending>> find(int count, const MPI_Request* requests);
  /// Removes a request, unless its handle belongs to another one by now.
  void remove(MPI_Request request, const Pending* pending);

  /// Keeps a request that the program has freed until MPI has ended it.
  void abandon(MPI_Request request, std::shared_ptr<Pending> pending);
  /// Ends abandoned requests that MPI has ended.
  void sweep();

 private:
  struct Abandoned {
    MPI_Request request = MPI_REQUEST_NULL;
    std::shared_ptr<Pending> pending;
  };

  std::atomic<std::int64_t> count_{0};
  std::atomic<bool> any_abandoned_{false};
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Pending>> pending_;
  std::vector<Abandoned> abandoned_;
};

Requests& requests();

/// Keeps what belongs to a request that was just started, unless MPI has ended it already: many
/// sends end at once, and some libraries give all those one handle.
void follow(MPI_Request request, Pending pending);

}  // namespace tranship::mpi
