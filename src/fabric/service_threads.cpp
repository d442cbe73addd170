#include "fabric/service_threads.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/refusals.hpp"
#include "fabric/slot_server.hpp"

namespace tranship {
namespace {

constexpr std::chrono::milliseconds sleep_max{250};
constexpr std::chrono::microseconds spin_least{20};

/// Service threads of this process that watch a bell at this moment.
std::atomic<int> awake{0};

int awake_max() {
  static const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(cores / 4, 1);
}

}  // namespace

ServiceThreads::~ServiceThreads() {
  stopping_.store(true);
  if (doorbell_) bell().bell.ring();
  for (std::thread& thread : threads_) thread.join();
}

Status ServiceThreads::make_doorbell() {
  if (doorbell_) return {};
  auto doorbell = SharedMemory::allocate({sizeof(ServiceDoorbell), false, false});
  if (!doorbell) return doorbell.error();
  doorbell_ = *doorbell;
  return {};
}

Status ServiceThreads::start_thread() {
  return refusals_as_errors([&]() -> Status {
    threads_.emplace_back([this] { run(); });
    return {};
  });
}

Result<ServiceThreads::Seat> ServiceThreads::add(std::shared_ptr<SlotServer> server) {
  std::lock_guard lock(mutex_);
  if (Status status = make_doorbell(); !status) return status.error();
  const auto threads = static_cast<int>(threads_.size());
  if (threads < options_.threads_max && threads <= taken_) {
    const Status status = start_thread();
    if (!status && threads_.empty()) return status.error();
  }
  const auto is_free = [](const Place& place) { return !place.server && !place.serving; };
  auto free = std::find_if(places_.begin(), places_.end(), is_free);
  if (free == places_.end()) {
    if (places_.size() == static_cast<std::size_t>(ServiceDoorbell::seats_max)) {
      return Error{ErrorCode::out_of_memory, "this process serves as many clients as it can"};
    }
    free = places_.emplace(places_.end());
    seats_used_.store(static_cast<int>(places_.size()));
  }
  free->server = std::move(server);
  ++taken_;
  return Seat{static_cast<int>(free - places_.begin()), doorbell_};
}

void ServiceThreads::remove(const Seat& seat) {
  if (seat.number < 0) return;
  std::unique_lock lock(mutex_);
  const auto number = static_cast<std::size_t>(seat.number);
  taken_ -= places_[number].server ? 1 : 0;
  places_[number].server.reset();
  served_.wait(lock, [&] { return !places_[number].serving; });
}

int ServiceThreads::taken() const {
  std::lock_guard lock(mutex_);
  return taken_;
}

bool ServiceThreads::serve_now() {
  bool any = false;
  here_.next = 0;
  while (const auto seat = doorbell_ ? take_ready(here_, seats_used_.load()) : std::nullopt) {
    any |= serve(here_, *seat);
  }
  return any;
}

void ServiceThreads::run() {
  Worker worker;
  while (!stopping_.load(std::memory_order_relaxed)) {
    const std::uint32_t seen = bell().bell.rings();
    if (serve_ready(worker)) continue;
    if (time_to_look_at_all() && serve_all(worker)) continue;
    wait(worker, seen);
  }
}

/// Serves one requester that has rung, if any has: others may have, too.
bool ServiceThreads::serve_ready(Worker& worker) {
  const int seats = seats_used_.load();
  const auto seat = take_ready(worker, seats);
  if (!seat) return false;
  worker.next = (*seat + 1) % seats;
  (void)serve(worker, *seat);
  return true;
}

/// Takes a bit that is set, of the worker's next seat and those after it in a ring. If several have
/// rung while it watched, another thread is woken for the others.
std::optional<int> ServiceThreads::take_ready(Worker& worker, int seats) {
  const int first = worker.next;
  const int words = (seats + 63) / 64;
  std::optional<int> taken;
  for (int k = 0; k <= words; ++k) {
    const int word = (first / 64 + k) % std::max(words, 1);
    auto bits = bell().ready[static_cast<std::size_t>(word)].load(std::memory_order_seq_cst);
    if (k == 0) bits &= ~std::uint64_t{0} << (first % 64);
    for (; bits != 0; bits &= bits - 1) {
      const int seat = word * 64 + std::countr_zero(bits);
      if (seat >= seats) break;
      if (taken) {
        worker.watched = false;
        bell().wake_one();
        return taken;
      }
      if (!bell().take(seat)) continue;
      if (!worker.watched) return seat;
      taken = seat;
    }
  }
  worker.watched = false;
  return taken;
}

/// A bit may have been lost to a peer that misbehaves.
bool ServiceThreads::serve_all(Worker& worker) {
  bool any = false;
  const int seats = seats_used_.load();
  for (int seat = 0; seat < seats; ++seat) any |= serve(worker, seat);
  return any;
}

/// One thread at a time is told so.
bool ServiceThreads::time_to_look_at_all() {
  const auto now = Clock::now().time_since_epoch();
  Clock::rep due = look_at_all_.load(std::memory_order_relaxed);
  if (now.count() < due) return false;
  const Clock::rep next = (now + std::chrono::duration_cast<Clock::duration>(sleep_max)).count();
  return look_at_all_.compare_exchange_strong(due, next);
}

bool ServiceThreads::serve(Worker& worker, int seat) {
  const auto number = static_cast<std::size_t>(seat);
  std::shared_ptr<SlotServer> server;
  {
    std::lock_guard lock(mutex_);
    Place& place = places_[number];
    if (!place.server) return false;
    if (place.serving) {
      place.rang = true;
      return false;
    }
    place.serving = true;
    server = place.server;
  }
  bool more = false;
  const bool any = server->serve(more, worker.question);
  worker.called = std::max(worker.called, server->called());
  server.reset();
  std::lock_guard lock(mutex_);
  Place& place = places_[number];
  place.serving = false;
  more |= std::exchange(place.rang, false);
  if (more) bell().mark(seat);
  if (!place.server) served_.notify_all();
  return any || more;
}

void ServiceThreads::wait(Worker& worker, std::uint32_t seen) {
  const auto spin =
      std::max<Clock::duration>(worker.called + options_.spin - Clock::now(), spin_least);
  ServiceDoorbell& doorbell = bell();
  if (awake.fetch_add(1, std::memory_order_relaxed) < awake_max()) {
    doorbell.watching.fetch_add(1, std::memory_order_seq_cst);
    doorbell.bell.wait(seen, spin, spin);
    doorbell.watching.fetch_sub(1, std::memory_order_seq_cst);
    worker.watched = true;
  }
  awake.fetch_sub(1, std::memory_order_relaxed);
  if (doorbell.bell.rings() != seen) return;
  worker.watched = false;
  doorbell.bell.wait(seen, sleep_max, {});
}

}  // namespace tranship
