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
  enum class Kind { send, receive, collective };
  /// What a request is for.
  struct What {
    Kind kind = Kind::send;
    MPI_Comm comm = MPI_COMM_NULL;
    bool persistent = false;  ///< started by calls of its own, again and again
  };
  /// What is to be done when what MPI received is there.
  using Arrived = std::function<void(const MPI_Status&)>;
  /// What is to be done before each start of a persistent request; returns false if it failed.
  using Starts = std::function<bool()>;

  /// Both functions also own what MPI reads and writes. Of a request that is not persistent,
  /// `starts` is empty. A persistent one is not started yet.
  Pending(const What& what, Arrived arrived, Starts starts = {});

  bool persistent() const { return what_.persistent; }
  Kind kind() const { return what_.kind; }
  /// The communicator; MPI_COMM_NULL once the program has freed it.
  MPI_Comm comm();
  /// Forgets the communicator if it is the one that the program frees.
  void comm_ends(MPI_Comm comm);
  /// Whether MPI has ended it, and what it received is unpacked; or it is not started.
  bool ended();
  /// Makes a persistent request ready to be started, unless it is active: then MPI refuses to start
  /// it. Returns false if that failed.
  bool start(MPI_Request request);
  /// Does once what is to be done at the end. code, status: of the completed request. Of a message
  /// that was too long, what fits is there.
  void end(int code, const MPI_Status& status);
  /// Ends it without a message: it failed.
  void drop();

 private:
  What what_;
  Arrived arrived_;
  Starts starts_;
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

  /// Takes note that the program frees a communicator.
  void comm_ends(MPI_Comm comm);

  /// Keeps a request that the program has freed until MPI has ended it.
  void abandon(MPI_Request request, Found pending);
  /// Whether a receive was freed that MPI has not ended.
  bool any_freed_receive() const { return any_freed_receive_.load(std::memory_order_acquire); }
  /// Unpacks what has arrived for freed receives. A call of MPI that can imply their end does it
  /// before it returns.
  void unpack_freed_receives();
  /// The same until all have ended, for a second at most.
  void await_freed_receives();
  /// Gives all abandoned requests back to MPI, which ends them; their memory stays. Before MPI
  /// ends.
  void give_back();

 private:
  struct Abandoned {
    MPI_Request request = MPI_REQUEST_NULL;
    Found pending;
  };

  /// Ends some sends that were freed and that MPI has ended.
  void sweep_freed_sends();
  /// Ends an abandoned request if MPI has ended it; returns whether it is done with.
  static bool done_with(Abandoned& one);
  Found find_locked(MPI_Request request) const;
  void count_locked() {
    count_.store(static_cast<std::int64_t>(pending_.size()), std::memory_order_release);
  }
  void note_freed_locked() {
    any_freed_receive_.store(!freed_receives_.empty(), std::memory_order_release);
    any_freed_send_.store(!freed_sends_.empty(), std::memory_order_release);
  }

  std::atomic<std::int64_t> count_{0};
  std::atomic<bool> any_freed_receive_{false};
  std::atomic<bool> any_freed_send_{false};
  std::mutex mutex_;  ///< never held while MPI is called, which may call the program
  std::unordered_map<std::uint64_t, Found> pending_;
  std::deque<Abandoned> freed_sends_;
  std::vector<Abandoned> freed_receives_;
  /// Held while freed receives are unpacked, so that a call returns after what others unpack.
  std::mutex unpacking_;
};

Requests& requests();

/// Whether a receive that ended with this code has a message, or the part of one that fits.
inline bool brought_message(int code) {
  int kind = MPI_SUCCESS;
  return code == MPI_SUCCESS ||
         (PMPI_Error_class(code, &kind) == MPI_SUCCESS && kind == MPI_ERR_TRUNCATE);
}

/// Ends a call that returns `code`: what has arrived for freed receives is there when it returns.
inline int after(int code) {
  if (requests().any_freed_receive()) requests().unpack_freed_receives();
  return code;
}

/// Keeps what belongs to a new request; nothing for MPI_REQUEST_NULL.
void keep(MPI_Request request, const Pending::What& what, Pending::Arrived arrived,
          Pending::Starts starts = {});

/// The same for a request that may have ended already, as many sends do: some libraries give all
/// those one handle.
void follow(MPI_Request request, const Pending::What& what, Pending::Arrived arrived);

}  // namespace tranship::mpi
