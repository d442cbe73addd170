#include "fabric/service_threads.hpp"

#include <algorithm>
#include <string>
#include <system_error>

#include "fabric/slot_server.hpp"

namespace tranship {
namespace {

constexpr std::chrono::milliseconds sleep_max{250};
constexpr std::chrono::microseconds spin_least{20};

/// Threads of this process that stay awake for longer than that. Of many requesters some are served
/// by threads that have to be woken.
std::atomic<int> awake{0};

int awake_max() {
  static const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return cores / 4;
}

}  // namespace

ServiceThreads::~ServiceThreads() {
  stopping_.store(true);
  for (const auto& worker : workers_) {
    worker->bell().bell.ring();
    if (worker->thread.joinable()) worker->thread.join();
  }
}

/// The thread with the fewest requesters, which may have to be started.
Result<ServiceThreads::Worker*> ServiceThreads::worker_for_another() {
  const auto fewest =
      std::min_element(workers_.begin(), workers_.end(),
                       [](const auto& a, const auto& b) { return a->taken < b->taken; });
  const bool full = static_cast<int>(workers_.size()) >= std::max(options_.threads_max, 1);
  if (fewest != workers_.end() && ((*fewest)->taken == 0 || full)) return fewest->get();
  auto worker = std::make_unique<Worker>();
  auto doorbell = SharedMemory::allocate({sizeof(ServiceDoorbell), false, false});
  if (!doorbell) return doorbell.error();
  worker->doorbell = *doorbell;
  try {
    if (options_.threads_max > 0) {
      worker->thread = std::thread([this, raw = worker.get()] { run(*raw); });
    }
  } catch (const std::system_error& refused) {
    if (fewest != workers_.end()) return fewest->get();
    return Error{ErrorCode::out_of_memory, std::string("no thread for another client: ") +
                                               refused.what() +
                                               "; raise the limit of threads (ulimit -u)"};
  }
  workers_.push_back(std::move(worker));
  return workers_.back().get();
}

Result<ServiceThreads::Seat> ServiceThreads::add(std::shared_ptr<SlotServer> server) {
  std::lock_guard lock(mutex_);
  const auto found = worker_for_another();
  if (!found) return found.error();
  Worker& worker = **found;
  std::lock_guard seats(worker.mutex);
  auto free = std::find(worker.seats.begin(), worker.seats.end(), nullptr);
  if (free == worker.seats.end()) {
    if (worker.seats.size() == static_cast<std::size_t>(ServiceDoorbell::seats_max)) {
      return Error{ErrorCode::out_of_memory, "this process serves as many clients as it can"};
    }
    free = worker.seats.emplace(worker.seats.end());
  }
  *free = std::move(server);
  ++worker.taken;
  Seat seat;
  const auto same = [&](const auto& one) { return one.get() == &worker; };
  seat.thread =
      static_cast<int>(std::find_if(workers_.begin(), workers_.end(), same) - workers_.begin());
  seat.number = static_cast<int>(free - worker.seats.begin());
  seat.doorbell = worker.doorbell;
  return seat;
}

void ServiceThreads::remove(const Seat& seat) {
  if (seat.thread < 0) return;
  std::lock_guard lock(mutex_);
  Worker& worker = *workers_[static_cast<std::size_t>(seat.thread)];
  std::unique_lock seats(worker.mutex);
  auto& server = worker.seats[static_cast<std::size_t>(seat.number)];
  worker.taken -= server ? 1 : 0;
  server.reset();
  worker.served.wait(seats, [&] { return worker.serving != seat.number; });
}

int ServiceThreads::taken() const {
  std::lock_guard lock(mutex_);
  int taken = 0;
  for (const auto& worker : workers_) taken += worker->taken;
  return taken;
}

bool ServiceThreads::serve_now() {
  bool any = false;
  for (const auto& worker : workers_) any |= serve_ready(*worker, false);
  return any;
}

void ServiceThreads::run(Worker& worker) {
  bool all = false;
  while (!stopping_.load(std::memory_order_relaxed)) {
    const std::uint32_t seen = worker.bell().bell.rings();
    if (serve_ready(worker, all)) {
      all = false;
      continue;
    }
    if (!all) {
      wait(worker, seen);
      // Nobody rang: a bit may have been lost to a peer that misbehaves.
      all = worker.bell().bell.rings() == seen;
    } else {
      all = false;
      wait(worker, seen);
    }
  }
}

bool ServiceThreads::serve_ready(Worker& worker, bool all) {
  std::size_t seats = 0;
  {
    std::lock_guard lock(worker.mutex);
    seats = worker.seats.size();
  }
  bool any = false;
  for (std::size_t word = 0; word * 64 < seats; ++word) {
    auto& ready = worker.bell().ready[word];
    std::uint64_t bits = 0;
    if (ready.load(std::memory_order_relaxed) != 0) {
      bits = ready.exchange(0, std::memory_order_seq_cst);
    }
    if (all) bits = ~std::uint64_t{0};
    for (int bit = 0; bits != 0; ++bit, bits >>= 1) {
      if ((bits & 1) == 0) continue;
      const int seat = static_cast<int>(word) * 64 + bit;
      if (static_cast<std::size_t>(seat) < seats) any |= serve(worker, seat);
    }
  }
  return any;
}

bool ServiceThreads::serve(Worker& worker, int seat) {
  std::shared_ptr<SlotServer> server;
  {
    std::lock_guard lock(worker.mutex);
    server = worker.seats[static_cast<std::size_t>(seat)];
    if (!server) return false;
    worker.serving = seat;
  }
  bool more = false;
  const bool any = server->serve(more);
  if (more) {
    const auto index = static_cast<std::size_t>(seat);
    worker.bell().ready[index / 64].fetch_or(std::uint64_t{1} << (index % 64));
  }
  worker.called = std::max(worker.called, server->called());
  server.reset();
  std::lock_guard lock(worker.mutex);
  worker.serving = -1;
  worker.served.notify_all();
  return any;
}

void ServiceThreads::wait(Worker& worker, std::uint32_t seen) {
  Bell& bell = worker.bell().bell;
  const auto left = worker.called + options_.spin - std::chrono::steady_clock::now();
  if (left > spin_least) {
    const bool may = awake.fetch_add(1, std::memory_order_relaxed) < awake_max();
    if (may) bell.wait(seen, left, left);
    awake.fetch_sub(1, std::memory_order_relaxed);
    if (bell.rings() != seen) return;
  }
  bell.wait(seen, sleep_max, spin_least);
}

}  // namespace tranship
