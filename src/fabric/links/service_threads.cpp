#include "fabric/links/service_threads.hpp"

#include <algorithm>
#include <bit>
#include <climits>

#include "base/refusals.hpp"
#include "fabric/links/slot_server.hpp"
#include "os/brief_lock.hpp"
#include "os/cores.hpp"

namespace tranship::fabric {
namespace {

constexpr std::chrono::milliseconds sleep_max{250};
/// Shortest time for which a thread watches: longer than a requester needs for its next question,
/// even if its data are in no cache.
constexpr std::chrono::microseconds watch_least{50};
/// How often a thread serves the same requester again before it checks others.
constexpr int turns_max = 16;

/// Returns how many threads may watch: requesters need the other cores.
int watching_max() {
  return std::max(static_cast<int>(std::thread::hardware_concurrency()) / 4, 1);
}

}  // namespace

ServiceThreads::ServiceThreads(Options options)
    : options_(options), watching_max_(watching_max()) {}

ServiceThreads::~ServiceThreads() {
  stopping_.store(true);
  if (doorbell_) {
    bell().bell.count();
    bell().bell.wake(INT_MAX);
  }
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
  const auto lock = brief_lock(mutex_);
  if (Status status = make_doorbell(); !status) return status.error();
  const auto threads = static_cast<int>(threads_.size());
  if (threads < options_.threads_max && threads <= taken_) {
    const Status status = start_thread();
    if (!status && threads_.empty()) return status.error();
  }
  const auto seat = free_seat();
  if (!seat) return seat.error();
  SeatState& state = state_of(*seat);
  state.server = std::move(server);
  state.take();
  ++taken_;
  return Seat{*seat, doorbell_};
}

/// Returns the first free seat, or an error.
Result<int> ServiceThreads::free_seat() {
  const int used = seats_used_.load();
  for (int seat = 0; seat < used; ++seat) {
    if (state_of(seat).is_free()) return seat;
  }
  if (used == SeatBits::seats_max) {
    return Error{ErrorCode::out_of_memory, "this process serves as many clients as it can"};
  }
  if (used % block_seats == 0) {
    made_.push_back(std::make_unique<Block>());
    blocks_[static_cast<std::size_t>(used / block_seats)].store(made_.back().get());
  }
  seats_used_.store(used + 1);
  return used;
}

void ServiceThreads::remove(const Seat& seat) {
  if (seat.number < 0) return;
  auto lock = brief_lock(mutex_);
  SeatState& state = state_of(seat.number);
  state.leave();
  leaving_.fetch_add(1);
  if (state.is_served()) bell().bell.count();  // a thread that lingers there leaves
  left_.wait(lock, [&] { return !state.is_served(); });
  leaving_.fetch_sub(1);
  state.server.reset();
  state.give_back();
  --taken_;
}

int ServiceThreads::taken() const {
  const auto lock = brief_lock(mutex_);
  return taken_;
}

bool ServiceThreads::serve_now() {
  bool any = false;
  here_.next = 0;
  while (const auto seat = doorbell_ ? take_ready(here_, seats_used_.load()) : std::nullopt) {
    any |= serve(here_, *seat, After::leave);
  }
  return any;
}

void ServiceThreads::run() {
  Worker worker;
  while (true) {
    const std::uint32_t seen = bell().bell.rings();
    if (stopping_.load()) return;
    if (time_to_look_at_all()) serve_all(worker);
    if (!serve_ready(worker)) wait(worker, seen);
  }
}

/// Serves one requester whose bit is set. Returns false if no bit is set.
bool ServiceThreads::serve_ready(Worker& worker) {
  const int seats = seats_used_.load();
  const auto seat = take_ready(worker, seats);
  if (!seat) return false;
  worker.next = (*seat + 1) % seats;
  (void)serve(worker, *seat, After::linger);
  return true;
}

/// Takes a set bit, of the worker's next seat or those after it in a ring. A thread that has waited
/// wakes another one if it finds a second bit: the requester that set it may have seen this thread
/// watching, or may have woken this thread.
std::optional<int> ServiceThreads::take_ready(Worker& worker, int seats) {
  const int words = (seats + SeatBits::seats_a_word - 1) / SeatBits::seats_a_word;
  const int first = worker.next;
  std::optional<int> taken;
  for (int k = 0; k <= words; ++k) {
    const int word = (first / SeatBits::seats_a_word + k) % std::max(words, 1);
    std::uint64_t bits = bell().ready.word(word) & ~served_.word(word);
    if (k == 0) bits &= ~std::uint64_t{0} << (first % SeatBits::seats_a_word);
    for (; bits != 0; bits &= bits - 1) {
      const int seat = word * SeatBits::seats_a_word + std::countr_zero(bits);
      if (seat >= seats) break;
      if (taken) {
        bell().wake_one();
        worker.waited = false;
        return taken;
      }
      if (!bell().ready.take(seat)) continue;
      if (!worker.waited) return seat;
      taken = seat;
    }
  }
  worker.waited = false;
  return taken;
}

/// Checks all requesters: a misbehaving peer may have cleared a bit.
void ServiceThreads::serve_all(Worker& worker) {
  const int seats = seats_used_.load();
  for (int seat = 0; seat < seats; ++seat) (void)serve(worker, seat, After::leave);
  count(0, 0);  // restores the counts that requesters read, in case a peer has changed them
}

/// Returns whether to check all requesters: true for one thread, four times a second.
bool ServiceThreads::time_to_look_at_all() {
  const auto now = Clock::now().time_since_epoch();
  Clock::rep due = look_at_all_.load(std::memory_order_relaxed);
  if (now.count() < due) return false;
  const Clock::rep next = (now + std::chrono::duration_cast<Clock::duration>(sleep_max)).count();
  return look_at_all_.compare_exchange_strong(due, next);
}

/// Returns whether the calling thread now serves the requester. If another thread does, that thread
/// checks the requester's bit once more when it has released its claim.
bool ServiceThreads::claim(int seat) {
  SeatState& state = state_of(seat);
  while (!state.claim()) {
    if (!state.is_served()) return false;  // the seat is free, or is being released
    bell().ready.set(seat);
    if (state.is_served() || !bell().ready.take(seat)) {
      std::this_thread::yield();  // lets the thread that is about to release its claim run
      return false;
    }
  }
  return true;
}

/// Serves a requester. Returns whether the requester had submitted anything.
bool ServiceThreads::serve(Worker& worker, int seat, After after) {
  if (!claim(seat)) return false;
  SeatState& state = state_of(seat);
  SlotServer& server = *state.server;
  served_.set(seat);
  bell().served.set(seat);
  const bool any = serve_turns(worker, server, seat);
  bool more = any && after == After::linger;
  while (more && linger(worker, server)) more = serve_turns(worker, server, seat);
  served_.clear(seat);
  bell().served.clear(seat);
  const bool waits = server.waiting();
  if (state.release()) {
    const auto lock = brief_lock(mutex_);
    left_.notify_all();
  } else if (waits || bell().ready.holds(seat)) {
    bell().ready.set(seat);
    bell().bell.count();
    bell().wake_one();
  }
  return any;
}

/// Watches the slots of the requester that this thread serves: most requesters soon submit again,
/// and then neither side has to ring. Returns whether it has submitted something; false as soon as
/// another requester has rung.
bool ServiceThreads::linger(Worker& worker, SlotServer& server) {
  if (others_ready() || !begin_watching()) return false;
  const auto longest = (Clock::now() + watch_time(worker)).time_since_epoch().count();
  const Clock::rep end = std::min(longest, look_at_all_.load(std::memory_order_relaxed));
  std::uint32_t seen = bell().bell.rings();
  bool submitted = false;
  bool alone = !others_ready();
  const auto look = [&] {
    submitted = server.waiting();
    if (const std::uint32_t rings = bell().bell.rings(); rings != seen) {
      seen = rings;
      alone = !others_ready() && leaving_.load() == 0 && !stopping_.load();
    }
    return submitted || !alone;
  };
  if (alone) {
    (void)Bell::look_until(Clock::time_point(Clock::duration(end)), !cores_to_spare(), look);
  }
  count(-1, 0);
  // Another requester that has rung meanwhile may have seen this thread watching, and so has not
  // woken a thread.
  if (submitted && others_ready()) bell().wake_one();
  worker.served = submitted;
  return submitted;
}

/// Returns whether a requester that is not being served has rung.
bool ServiceThreads::others_ready() const {
  const int seats = seats_used_.load();
  for (int word = 0; word * SeatBits::seats_a_word < seats; ++word) {
    if ((bell().ready.word(word) & ~served_.word(word)) != 0) return true;
  }
  return false;
}

bool ServiceThreads::serve_turns(Worker& worker, SlotServer& server, int seat) {
  bool any = false;
  for (int turn = 0; turn < turns_max; ++turn) {
    bool more = false;
    const bool turn_any = server.serve(more, worker.question);
    any |= turn_any;
    if (more) bell().ready.set(seat);
    if (!more && !(bell().ready.holds(seat) && bell().ready.take(seat))) break;
  }
  if (any) worker.called = std::max(worker.called, server.called());
  worker.served |= any;
  return any;
}

void ServiceThreads::wait(Worker& worker, std::uint32_t seen) {
  worker.waited = true;
  const bool rang = watch(worker, seen);
  worker.served = false;
  if (rang) return;
  count(0, 1);
  bell().bell.wait(seen, sleep_max, {});
  count(0, -1);
}

/// Watches the bell for a while, if this thread has recently had work and few others watch. Returns
/// whether the bell rang.
bool ServiceThreads::watch(const Worker& worker, std::uint32_t seen) {
  const auto longest = watch_time(worker);
  if (longest <= longest.zero() || !begin_watching()) return false;
  if (cores_to_spare()) {
    (void)bell().bell.watch(seen, longest);
  } else {
    bell().bell.wait(seen, longest, longest);
  }
  count(-1, 0);
  return bell().bell.rings() != seen;
}

/// Returns how long a thread watches from now on.
ServiceThreads::Clock::duration ServiceThreads::watch_time(const Worker& worker) const {
  const auto least = worker.served ? Clock::duration(watch_least) : Clock::duration::zero();
  return std::max(worker.called + options_.spin - Clock::now(), least);
}

/// Counts the calling thread as watching. Returns false if enough threads watch already.
bool ServiceThreads::begin_watching() {
  const auto lock = brief_lock(mutex_);
  if (watching_ >= watching_max_) return false;
  ++watching_;
  write_counts();
  return true;
}

/// Changes how many threads watch and sleep.
void ServiceThreads::count(int watching, int sleeping) {
  const auto lock = brief_lock(mutex_);
  watching_ += watching;
  sleeping_ += sleeping;
  write_counts();
}

/// Writes the counts to the doorbell, where requesters read them.
void ServiceThreads::write_counts() {
  bell().watching.store(static_cast<std::uint32_t>(watching_));
  bell().sleeping.store(static_cast<std::uint32_t>(sleeping_));
}

}  // namespace tranship::fabric
