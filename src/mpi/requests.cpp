#include "mpi/requests.hpp"

#include <utility>

namespace tranship::mpi {

void Pending::end(const MPI_Status& status) {
  if (ended) return;
  ended = true;
  int cancelled = 0;
  if (PMPI_Test_cancelled(&status, &cancelled) == MPI_SUCCESS && cancelled != 0) return;
  arrived(status);
}

void Requests::add(MPI_Request request, std::shared_ptr<Pending> pending) {
  sweep();
  const std::lock_guard lock(mutex_);
  pending_.insert_or_assign(number_of(request), std::move(pending));
  count_.store(static_cast<std::int64_t>(pending_.size()), std::memory_order_release);
}

std::shared_ptr<Pending> Requests::find(MPI_Request request) {
  if (!any()) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto found = pending_.find(number_of(request));
  return found != pending_.end() ? found->second : nullptr;
}

std::vector<std::shared_ptr<Pending>> Requests::find(int count, const MPI_Request* requests) {
  std::vector<std::shared_ptr<Pending>> found;
  if (count <= 0 || !any()) return found;
  const std::lock_guard lock(mutex_);
  for (int k = 0; k < count; ++k) {
    const auto one = pending_.find(number_of(requests[k]));
    if (one == pending_.end()) continue;
    found.resize(static_cast<std::size_t>(count));
    found[static_cast<std::size_t>(k)] = one->second;
  }
  return found;
}

void Requests::remove(MPI_Request request, const Pending* pending) {
  const std::lock_guard lock(mutex_);
  const auto found = pending_.find(number_of(request));
  if (found == pending_.end() || found->second.get() != pending) return;
  pending_.erase(found);
  count_.store(static_cast<std::int64_t>(pending_.size()), std::memory_order_release);
}

void Requests::abandon(MPI_Request request, std::shared_ptr<Pending> pending) {
  const std::lock_guard lock(mutex_);
  abandoned_.push_back({request, std::move(pending)});
  any_abandoned_.store(true, std::memory_order_release);
}

void Requests::sweep() {
  if (!any_abandoned_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  std::erase_if(abandoned_, [](Abandoned& one) {
    int ended = 0;
    MPI_Status status{};
    if (one.pending->persistent) {
      // A persistent request outlives its end, and is freed then.
      if (PMPI_Request_get_status(one.request, &ended, &status) != MPI_SUCCESS || ended == 0) {
        return false;
      }
      one.pending->end(status);
      (void)PMPI_Request_free(&one.request);
      return true;
    }
    if (PMPI_Test(&one.request, &ended, &status) != MPI_SUCCESS || ended == 0) return false;
    one.pending->end(status);
    return true;
  });
  any_abandoned_.store(!abandoned_.empty(), std::memory_order_release);
}

Requests& requests() {
  static Requests* const all = new Requests;  // requests may outlive the program's main()
  return *all;
}

void follow(MPI_Request request, Pending pending) {
  int ended = 0;
  MPI_Status status{};
  if (PMPI_Request_get_status(request, &ended, &status) == MPI_SUCCESS && ended != 0) {
    pending.end(status);
    return;
  }
  requests().add(request, std::make_shared<Pending>(std::move(pending)));
}

}  // namespace tranship::mpi
