#include "mpi/requests.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace tranship::mpi {

namespace {

/// Makes a communicator return errors as codes during its lifetime. A program that has freed a
/// request must not learn of its errors, but some libraries raise them when the request is tested.
class Quiet {
 public:
  explicit Quiet(MPI_Comm comm) : comm_(comm) {
    if (comm_ == MPI_COMM_NULL) return;
    if (PMPI_Comm_get_errhandler(comm_, &programs_) != MPI_SUCCESS) {
      comm_ = MPI_COMM_NULL;
    } else {
      (void)PMPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    }
  }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
  ~Quiet() {
    if (comm_ == MPI_COMM_NULL) return;
    (void)PMPI_Comm_set_errhandler(comm_, programs_);
    (void)PMPI_Errhandler_free(&programs_);
  }

 private:
  MPI_Comm comm_;
  MPI_Errhandler programs_ = MPI_ERRHANDLER_NULL;
};

/// Keeps the memory of a request until the process exits: MPI may still read and write it.
void keep_for_good(Found pending) {
  static std::mutex mutex;
  static auto* const kept = new std::deque<Found>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(pending));
}

}  // namespace

Pending::Pending(const What& what, Arrived arrived, Starts starts)
    : what_(what),
      arrived_(std::move(arrived)),
      starts_(std::move(starts)),
      ended_(what.persistent) {}

MPI_Comm Pending::comm() {
  const std::lock_guard lock(mutex_);
  return what_.comm;
}

void Pending::comm_ends(MPI_Comm comm) {
  const std::lock_guard lock(mutex_);
  if (what_.comm == comm) what_.comm = MPI_COMM_NULL;
}

bool Pending::ended() {
  const std::lock_guard lock(mutex_);
  return ended_;
}

bool Pending::start(MPI_Request request) {
  if (!ended()) {
    int inactive = 0;
    MPI_Status status{};
    const int code = PMPI_Request_get_status(request, &inactive, &status);
    if (code != MPI_SUCCESS || inactive == 0) return true;
  }
  const std::lock_guard lock(mutex_);
  if (starts_ && !starts_()) return false;
  ended_ = false;
  return true;
}

void Pending::end(int code, const MPI_Status& status) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(ended_, true) || !brought_message(code)) return;
  int cancelled = 0;
  if (PMPI_Test_cancelled(&status, &cancelled) == MPI_SUCCESS && cancelled != 0) return;
  arrived_(status);
}

void Pending::drop() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
}

void Requests::add(MPI_Request request, Found pending) {
  sweep_freed_sends();
  put_back(request, pending);
}

Found Requests::find_locked(MPI_Request request) const {
  const auto found = pending_.find(number_of(request));
  return found != pending_.end() ? found->second : nullptr;
}

Found Requests::find(MPI_Request request) {
  if (!any()) return nullptr;
  const std::lock_guard lock(mutex_);
  return find_locked(request);
}

std::vector<Found> Requests::find(int count, const MPI_Request* requests) {
  std::vector<Found> found;
  if (count <= 0 || requests == nullptr || !any()) return found;
  const std::lock_guard lock(mutex_);
  for (int k = 0; k < count; ++k) {
    if (Found one = find_locked(requests[k])) {
      found.resize(static_cast<std::size_t>(count));
      found[static_cast<std::size_t>(k)] = std::move(one);
    }
  }
  return found;
}

Found Requests::take(MPI_Request request) {
  std::vector<Found> found = take(1, &request);
  return found.empty() ? nullptr : std::move(found[0]);
}

std::vector<Found> Requests::take(int count, const MPI_Request* requests) {
  std::vector<Found> found;
  if (count <= 0 || requests == nullptr || !any()) return found;
  const std::lock_guard lock(mutex_);
  for (int k = 0; k < count; ++k) {
    const auto one = pending_.find(number_of(requests[k]));
    if (one == pending_.end()) continue;
    found.resize(static_cast<std::size_t>(count));
    found[static_cast<std::size_t>(k)] = one->second;
    if (!one->second->persistent()) pending_.erase(one);
  }
  count_locked();
  return found;
}

void Requests::put_back(MPI_Request request, const Found& pending) {
  const std::lock_guard lock(mutex_);
  pending_.insert_or_assign(number_of(request), pending);
  count_locked();
}

void Requests::remove(MPI_Request request, const Pending* pending) {
  const std::lock_guard lock(mutex_);
  const auto found = pending_.find(number_of(request));
  if (found == pending_.end() || found->second.get() != pending) return;
  pending_.erase(found);
  count_locked();
}

void Requests::comm_ends(MPI_Comm comm) {
  if (!any() && !any_freed_receive() && !any_freed_send_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  for (const auto& [number, pending] : pending_) pending->comm_ends(comm);
  for (const Abandoned& one : freed_receives_) one.pending->comm_ends(comm);
  for (const Abandoned& one : freed_sends_) one.pending->comm_ends(comm);
}

void Requests::abandon(MPI_Request request, Found pending) {
  const std::lock_guard lock(mutex_);
  if (pending->kind() != Pending::Kind::send) {
    freed_receives_.push_back({request, std::move(pending)});
  } else {
    freed_sends_.push_back({request, std::move(pending)});
  }
  note_freed_locked();
}

void Requests::sweep_freed_sends() {
  // Each call ends more than one, so that freed sends do not pile up.
  constexpr int some = 4;
  for (int k = 0; k < some && any_freed_send_.load(std::memory_order_acquire); ++k) {
    Abandoned one;
    {
      const std::lock_guard lock(mutex_);
      if (freed_sends_.empty()) return;
      one = std::move(freed_sends_.front());
      freed_sends_.pop_front();
      note_freed_locked();
    }
    if (!done_with(one)) abandon(one.request, std::move(one.pending));
  }
}

void Requests::unpack_freed_receives() {
  thread_local bool unpacks = false;  // MPI may call back into the program, which may call MPI
  if (unpacks) return;
  const std::lock_guard unpacking(unpacking_);
  std::vector<Abandoned> all;
  {
    const std::lock_guard lock(mutex_);
    all = freed_receives_;
  }
  unpacks = true;
  std::vector<const Pending*> done;
  for (Abandoned& one : all) {
    if (done_with(one)) done.push_back(one.pending.get());
  }
  unpacks = false;
  if (done.empty()) return;
  const std::lock_guard lock(mutex_);
  std::erase_if(freed_receives_, [&done](const Abandoned& one) {
    return std::find(done.begin(), done.end(), one.pending.get()) != done.end();
  });
  note_freed_locked();
}

void Requests::await_freed_receives() {
  constexpr std::chrono::seconds most(1);
  const auto end = std::chrono::steady_clock::now() + most;
  while (any_freed_receive() && std::chrono::steady_clock::now() < end) unpack_freed_receives();
}

bool Requests::done_with(Abandoned& one) {
  int ended = 0;
  MPI_Status status{};
  const Quiet quiet(one.pending->comm());
  const int code = PMPI_Request_get_status(one.request, &ended, &status);
  if (code == MPI_SUCCESS && ended == 0) return false;
  one.pending->end(code, status);
  (void)PMPI_Request_free(&one.request);
  return true;
}

void Requests::give_back() {
  await_freed_receives();
  std::vector<Abandoned> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(freed_receives_);
    all.insert(all.end(), freed_sends_.begin(), freed_sends_.end());
    freed_sends_.clear();
    note_freed_locked();
  }
  for (Abandoned& one : all) {
    if (done_with(one)) continue;
    (void)PMPI_Request_free(&one.request);
    keep_for_good(std::move(one.pending));
  }
}

void keep(MPI_Request request, const Pending::What& what, Pending::Arrived arrived,
          Pending::Starts starts) {
  if (request == MPI_REQUEST_NULL) return;
  requests().add(request, std::make_shared<Pending>(what, std::move(arrived), std::move(starts)));
}

void follow(MPI_Request request, const Pending::What& what, Pending::Arrived arrived) {
  if (request == MPI_REQUEST_NULL) return;
  int ended = 0;
  MPI_Status status{};
  if (PMPI_Request_get_status(request, &ended, &status) == MPI_SUCCESS && ended != 0) {
    arrived(status);
    return;
  }
  keep(request, what, std::move(arrived));
}

Requests& requests() {
  static Requests* const all = new Requests;  // requests may outlive the program's main()
  return *all;
}

}  // namespace tranship::mpi
