#include "mpi/requests.hpp"

#include <utility>

namespace tranship::mpi {

Pending::Pending(Arrived arrived, bool persistent, Starts starts)
    : arrived_(std::move(arrived)),
      starts_(std::move(starts)),
      persistent_(persistent),
      ended_(persistent) {}

bool Pending::ended() {
  const std::lock_guard lock(mutex_);
  return ended_;
}

bool Pending::start() {
  const std::lock_guard lock(mutex_);
  if (starts_ && !starts_()) return false;
  ended_ = false;
  return true;
}

void Pending::end(const MPI_Status& status) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(ended_, true)) return;
  int cancelled = 0;
  if (PMPI_Test_cancelled(&status, &cancelled) == MPI_SUCCESS && cancelled != 0) return;
  arrived_(status);
}

void Pending::drop() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
}

void Requests::add(MPI_Request request, Found pending) {
  sweep();
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
  if (count <= 0 || !any()) return found;
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
  if (count <= 0 || !any()) return found;
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

void Requests::abandon(MPI_Request request, Found pending) {
  const std::lock_guard lock(mutex_);
  abandoned_.push_back({request, std::move(pending)});
  any_abandoned_.store(true, std::memory_order_release);
}

void Requests::sweep() {
  // More than one for each that comes, so that they do not pile up.
  constexpr int some = 4;
  for (int k = 0; k < some && any_abandoned_.load(std::memory_order_acquire); ++k) {
    Abandoned one;
    {
      const std::lock_guard lock(mutex_);
      if (abandoned_.empty()) return;
      one = std::move(abandoned_.front());
      abandoned_.pop_front();
      any_abandoned_.store(!abandoned_.empty(), std::memory_order_release);
    }
    if (!done_with(one)) abandon(one.request, std::move(one.pending));
  }
}

bool Requests::done_with(Abandoned& one) {
  int ended = 0;
  MPI_Status status{};
  // A persistent request outlives its end, and is freed then.
  const int code = one.pending->persistent() ? PMPI_Request_get_status(one.request, &ended, &status)
                                             : PMPI_Test(&one.request, &ended, &status);
  if (code != MPI_SUCCESS) return true;
  if (ended == 0) return false;
  one.pending->end(status);
  if (one.pending->persistent()) (void)PMPI_Request_free(&one.request);
  return true;
}

void Requests::give_back() {
  std::deque<Abandoned> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(abandoned_);
    any_abandoned_.store(false, std::memory_order_release);
  }
  for (Abandoned& one : all) {
    if (done_with(one)) continue;
    (void)PMPI_Request_free(&one.request);
    static auto* const kept = new std::deque<Found>;  // MPI reads and writes until it has ended
    kept->push_back(std::move(one.pending));
  }
}

void keep(MPI_Request request, Pending::Arrived arrived, bool persistent, Pending::Starts starts) {
  if (request == MPI_REQUEST_NULL) return;
  requests().add(request,
                 std::make_shared<Pending>(std::move(arrived), persistent, std::move(starts)));
}

void follow(MPI_Request request, Pending::Arrived arrived) {
  if (request == MPI_REQUEST_NULL) return;
  int ended = 0;
  MPI_Status status{};
  if (PMPI_Request_get_status(request, &ended, &status) == MPI_SUCCESS && ended != 0) {
    arrived(status);
    return;
  }
  keep(request, std::move(arrived), false);
}

Requests& requests() {
  static Requests* const all = new Requests;  // requests may outlive the program's main()
  return *all;
}

}  // namespace tranship::mpi
