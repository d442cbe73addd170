// Requests of MPI whose messages are packed here.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "mpi/handles.hpp"

namespace tranship::mpi {

/// What belongs to a request until MPI has ended it. Threads: all.
class Pending {
 public:
  /// What is to be done when what MPI received is there.
  using Arrived = std::function<void(const MPI_Status&)>;
  /// What is to be done before each start of a persistent request; returns false if it failed.
  using Starts = std::function<bool()>;

  /// Both functions also own what MPI reads and writes. Of a request that is not persistent,
  /// `starts` is empty. A persistent one is not started yet.
  Pending(Arrived arrived, bool persistent, Starts starts = {});

  bool persistent() const { return persistent_; }
  /// Whether MPI has ended it, and what it received is unpacked; or it is not started.
  bool ended();
  /// Makes a persistent request ready to be started. Returns false if that failed.
  bool start();
  /// Does once what is to be done at the end. status: of the completed request
  void end(const MPI_Status& status);
  /// Ends it without a message: it failed.
  void drop();

 private:
  Arrived arrived_;
  Starts starts_;
  bool persistent_ = false;
  std::mutex mutex_;  ///< held while a message is unpacked, so that who sees the end sees its data
  bool ended_ = false;
};

using Found = std::shared_ptr<Pending>;

/// The requests that are not ended. Threads: all.
class Requests {
 public:
  /// Whether there is any request here: nothing is to be done at the end of others.
  bool any() const { return count_.load(std::memory_order_acquire) > 0; }

  void add(MPI_Request request, Found pending);
  /// Returns what belongs to a request; null for others.
  Found find(MPI_Request request);
  /// Returns the same for each of several requests; empty if none is here.
  std::vector<Found> find(int count, const MPI_Request* requests);
  /// Returns the same, for a call that may end them: requests that are not persistent leave the
  /// table, since another thread may get the handle as soon as MPI has ended one.
  Found take(MPI_Request request);
  std::vector<Found> take(int count, const MPI_Request* requests);
  /// Puts back what take() returned for a request that has not ended.
  void put_back(MPI_Request request, const Found& pending);
  /// Removes a request, unless its handle belongs to another one by now.
  void remove(MPI_Request request, const Pending* pending);

  /// Keeps a request that the program has freed until MPI has ended it.
  void abandon(MPI_Request request, Found pending);
  /// Ends some abandoned requests that MPI has ended.
  void sweep();
  /// Gives all abandoned requests back to MPI, which ends them; their memory stays. Before MPI
  /// ends.
  void give_back();

 private:
  struct Abandoned {
    MPI_Request request = MPI_REQUEST_NULL;
    Found pending;
  };

  /// Ends an abandoned request if MPI has ended it; returns whether it is done with.
  static bool done_with(Abandoned& one);
  Found find_locked(MPI_Request request) const;
  void count_locked() {
    count_.store(static_cast<std::int64_t>(pending_.size()), std::memory_order_release);
  }

  std::atomic<std::int64_t> count_{0};
  std::atomic<bool> any_abandoned_{false};
  std::mutex mutex_;  ///< never held while MPI is called, which may call the program
  std::unordered_map<std::uint64_t, Found> pending_;
  std::deque<Abandoned> abandoned_;
};

Requests& requests();

/// Keeps what belongs to a new request; nothing for MPI_REQUEST_NULL.
void keep(MPI_Request request, Pending::Arrived arrived, bool persistent,
          Pending::Starts starts = {});

/// The same for a request that may have ended already, as many sends do: some libraries give all
/// those one handle.
void follow(MPI_Request request, Pending::Arrived arrived);

}  // namespace tranship::mpi
