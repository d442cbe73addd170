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

/// The message of a request, and how to complete it once MPI has ended the request. Threads: all.
class Pending {
 public:
  enum class Kind { send, receive, collective };
  /// What a request is for.
  struct What {
    Kind kind = Kind::send;
    MPI_Comm comm = MPI_COMM_NULL;
    bool persistent = false;  ///< started by calls of its own, again and again
  };
  /// Unpacks the message when MPI has received it.
  using Arrived = std::function<void(const MPI_Status&)>;
  /// Packs the message before each start of a persistent request. Returns false if that failed.
  using Starts = std::function<bool()>;

  /// Makes the state of a new request. Both functions also own the memory that MPI reads and
  /// writes. `starts` is empty unless the request is persistent; such a request is not started yet.
  Pending(const What& what, Arrived arrived, Starts starts = {});

  bool persistent() const { return what_.persistent; }
  Kind kind() const { return what_.kind; }
  /// Returns the communicator; MPI_COMM_NULL once the program has freed it.
  MPI_Comm comm();
  /// Forgets the communicator if it is the one that the program frees.
  void comm_ends(MPI_Comm comm);
  /// Returns whether the request has not been started, or MPI has ended it and its message is
  /// unpacked.
  bool ended();
  /// Makes a persistent request ready to be started, unless it is active: then MPI refuses to start
  /// it. Returns false if that failed.
  bool start(MPI_Request request);
  /// Unpacks the message, unless an earlier call has. code, status: of the completed request. Of a
  /// message that was too long, the part that fits is unpacked.
  void end(int code, const MPI_Status& status);
  /// Ends a request that failed, without a message.
  void drop();

 private:
  What what_;
  Arrived arrived_;
  Starts starts_;
  std::mutex mutex_;  ///< Held while a message is unpacked: after ended() its data are there.
  bool ended_ = false;
};

using Found = std::shared_ptr<Pending>;

/// The requests with messages that are packed here, until they end. Threads: all.
class Requests {
 public:
  /// Returns whether there is any request: ends of other requests need no work.
  bool any() const { return count_.load(std::memory_order_acquire) > 0; }

  void add(MPI_Request request, Found pending);
  /// Returns the state of a request; null for requests without a message that is packed here.
  Found find(MPI_Request request);
  /// Returns the states of several requests; empty if all would be null.
  std::vector<Found> find(int count, const MPI_Request* requests);
  /// Return the states for a call that may end the requests. Those that are not persistent leave
  /// the table: as soon as MPI has ended one, another thread may get its handle.
  Found take(MPI_Request request);
  std::vector<Found> take(int count, const MPI_Request* requests);
  /// Puts back what take() returned for a request that has not ended.
  void put_back(MPI_Request request, const Found& pending);
  /// Removes a request, unless its handle belongs to another one by now.
  void remove(MPI_Request request, const Pending* pending);

  /// Records that the program frees a communicator.
  void comm_ends(MPI_Comm comm);

  /// Keeps a request that the program has freed until MPI has ended it.
  void abandon(MPI_Request request, Found pending);
  /// Returns whether the program has freed a receive that MPI has not ended.
  bool any_freed_receive() const { return any_freed_receive_.load(std::memory_order_acquire); }
  /// Unpacks the messages that have arrived for freed receives. Each call of MPI from whose return
  /// a program may conclude that they have arrived does so first.
  void unpack_freed_receives();
  /// Does as unpack_freed_receives() until all have ended, for at most a second.
  void await_freed_receives();
  /// Frees all abandoned requests by MPI, which ends them; their memory is kept. Call it before MPI
  /// is finalized.
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
  /// Held while freed receives are unpacked, so that no call returns while another one unpacks.
  std::mutex unpacking_;
};

Requests& requests();

/// Returns whether a receive that ended with this code has a message, or the part of one that fits.
inline bool brought_message(int code) {
  int kind = MPI_SUCCESS;
  return code == MPI_SUCCESS ||
         (PMPI_Error_class(code, &kind) == MPI_SUCCESS && kind == MPI_ERR_TRUNCATE);
}

/// Returns `code`, after the messages that have arrived for freed receives were unpacked.
inline int after(int code) {
  if (requests().any_freed_receive()) requests().unpack_freed_receives();
  return code;
}

/// Adds the state of a new request to the table; does nothing for MPI_REQUEST_NULL.
void keep(MPI_Request request, const Pending::What& what, Pending::Arrived arrived,
          Pending::Starts starts = {});

/// Does as keep() for a request that may have ended already, as many sends do: some libraries give
/// all ended requests one handle.
void follow(MPI_Request request, const Pending::What& what, Pending::Arrived arrived);

}  // namespace tranship::mpi
