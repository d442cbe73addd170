#include "fabric/links/requester.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.hpp"
#include "base/refusals.hpp"
#include "fabric/messages/error_message.hpp"
#include "os/cores.hpp"

namespace tranship::fabric {
namespace {

constexpr std::int64_t command_bytes_min = 64 * 1024;
constexpr std::int64_t commands_wanted = 8;
/// Longest time that a caller sleeps before it checks again.
constexpr std::chrono::milliseconds call_sleep_max{50};

/// Returns how long a caller polls before it sleeps. With spare cores, this is longer than the
/// wake-up of the answering thread, so that the caller itself need not be woken.
std::chrono::microseconds call_watch() {
  return std::chrono::microseconds(cores_to_spare() ? 200 : 10);
}

/// Reads a value that the peer may change at any time exactly once, so that all later code uses the
/// same value.
std::uint32_t read_once(const std::uint32_t& value) {
  return *static_cast<const volatile std::uint32_t*>(&value);
}

/// Returns the bytes of a command: enough to pay for the hand-over, and few enough that both
/// processes soon have work.
std::int64_t command_bytes(std::int64_t request_bytes, std::int64_t at_most) {
  const std::int64_t share = (request_bytes / commands_wanted + 4095) / 4096 * 4096;
  return std::min(at_most, std::max(command_bytes_min, share));
}

}  // namespace

void FinishedQueue::push(Finished finished) {
  std::lock_guard lock(mutex_);
  ends_.push_back(std::move(finished));
  count_.store(ends_.size(), std::memory_order_release);
}

std::size_t FinishedQueue::take(std::span<Finished> finished) {
  if (empty()) return 0;
  std::lock_guard lock(mutex_);
  const std::size_t taken = std::min(finished.size(), ends_.size());
  const auto end = ends_.begin() + static_cast<std::ptrdiff_t>(taken);
  std::move(ends_.begin(), end, finished.begin());
  ends_.erase(ends_.begin(), end);
  count_.store(ends_.size(), std::memory_order_release);
  return taken;
}

Requester::Requester(Options options)
    : options_(std::move(options)),
      slots_(static_cast<std::size_t>(options_.segment.geometry().slots)),
      writer_(options_.segment.geometry().slot_bytes) {
  for (auto& slot : slots_) slot.local.reserve(64);
}

Error Requester::lost_error() const {
  std::lock_guard lock(mutex_);
  return lost_;
}

Status Requester::submit(const Transfer& transfer, std::shared_ptr<FinishedQueue> queue) {
  {
    std::lock_guard lock(mutex_);
    if (lost()) return lost_;
    Pending* pending = new_pending();
    pending->transfer = transfer;
    const SlotGeometry& geometry = options_.segment.geometry();
    pending->command_bytes =
        command_bytes(transfer.request.bytes,
                      passes_slots(transfer) ? geometry.straight_bytes : geometry.slot_bytes);
    PieceCursor::Options options;
    options.piece_bytes = one_run(transfer) ? pending->command_bytes
                                            : std::min(pending->command_bytes, geometry.slot_bytes);
    pending->cursor = PieceCursor(transfer.request.payload.nests(), options);
    pending->runs = RunCursor(transfer.request.payload.indexed());
    pending->queue = std::move(queue);
    enqueue(*pending);
    end_if_done(*pending);
  }
  progress();
  return {};
}

/// Returns whether bytes of long runs go from memory to memory, without the slots of either side.
bool Requester::passes_slots(const Transfer& transfer) const {
  return options_.keep_bulk && transfer.remote.plain;
}

/// Returns whether a transfer is one run, which passes the slots.
bool Requester::one_run(const Transfer& transfer) const {
  const auto& nests = transfer.request.payload.nests();
  return passes_slots(transfer) && nests.size() == 1 && nests[0].rank == 0 &&
         transfer.request.payload.indexed().empty();
}

void Requester::enqueue(Pending& pending) {
  (last_ != nullptr ? last_->next : first_) = &pending;
  last_ = &pending;
  operations_.fetch_add(1, std::memory_order_release);
}

Status Requester::check_question(std::span<const std::byte> question) const {
  const std::int64_t room = options_.segment.geometry().slot_bytes;
  if (static_cast<std::int64_t>(question.size()) <= room) return {};
  return Error{ErrorCode::invalid_argument, "a call of " + std::to_string(question.size()) +
                                                " bytes does not fit a slot of the link"};
}

Status Requester::tell(std::span<const std::byte> question) {
  if (Status status = check_question(question); !status) return status;
  {
    std::lock_guard lock(mutex_);
    if (lost()) return lost_;
    Pending* pending = new_pending();
    pending->told.assign(question.begin(), question.end());
    pending->to_send = true;
    leave_unattended(*pending);
    enqueue(*pending);
  }
  progress();
  return {};
}

Status Requester::submit_notice(const Transfer& notice, std::vector<std::byte> body,
                                std::shared_ptr<FinishedQueue> queue) {
  if (Status status = check_question(body); !status) return status;
  {
    std::lock_guard lock(mutex_);
    if (lost()) return lost_;
    Pending* pending = new_pending();
    pending->transfer = notice;
    pending->transfer.operation = Operation::notice;
    pending->told = std::move(body);
    pending->to_send = true;
    pending->queue = std::move(queue);
    enqueue(*pending);
  }
  progress();
  return {};
}

std::optional<Status> Requester::notice_here(const Transfer& notice, std::vector<std::byte> body,
                                             const std::shared_ptr<FinishedQueue>& queue,
                                             std::chrono::nanoseconds at_most, Bell& bell) {
  const auto end = std::chrono::steady_clock::now() + at_most;
  if (Status status = submit_notice(notice, std::move(body), queue); !status) return status;
  return wait_for_one(*queue, end, bell);
}

std::optional<Status> Requester::wait_for_one(FinishedQueue& queue,
                                              std::chrono::steady_clock::time_point end,
                                              Bell& bell) {
  std::array<Finished, 1> finished;
  while (true) {
    const std::uint32_t seen = bell.rings();
    progress();
    if (queue.take(finished) == 1) return std::move(finished[0].status);
    const auto left = end - std::chrono::steady_clock::now();
    if (left <= left.zero()) return std::nullopt;
    if (attended()) {
      attend(seen, left);
    } else if (!bell.watch(seen, std::min<std::chrono::nanoseconds>(left, call_watch()))) {
      bell.wait(seen, left, {});
    }
  }
}

void Requester::leave_unattended(Pending& pending) {
  pending.unattended = true;
  unattended_.fetch_add(1, std::memory_order_release);
}

Result<std::size_t> Requester::call(std::span<const std::byte> question, std::span<std::byte> reply,
                                    std::chrono::milliseconds timeout, Bell& bell,
                                    const std::function<bool()>& interrupted) {
  Call call;
  call.question = question;
  call.reply = reply;
  if (Status status = start(call); !status) return status.error();
  return finish(call, timeout, bell, interrupted);
}

Result<std::size_t> Requester::finish(Call& call, std::chrono::milliseconds timeout, Bell& bell,
                                      const std::function<bool()>& interrupted) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (int looks = 0; true;) {
    const std::uint32_t seen = bell.rings();
    progress();
    if (call.ended.load(std::memory_order_acquire)) break;
    const auto left = end - std::chrono::steady_clock::now();
    const bool given_up = looks > 0 && interrupted && interrupted();
    if (left > left.zero() && !given_up) {
      const auto sleep = std::min<std::chrono::nanoseconds>(left, call_sleep_max);
      if (attended()) {
        attend(seen, sleep);
      } else {
        if (bell.watch(seen, call_watch())) continue;
        // Yielding the core instead would cost a whole time slice of another thread.
        bell.wait(seen, sleep, {});
      }
      ++looks;
      continue;
    }
    if (!abandon(call)) break;
    if (given_up) return Error{ErrorCode::cancelled, "interrupted"};
    return Error{ErrorCode::timeout, options_.peer + " did not answer within " +
                                         std::to_string(timeout.count()) + " ms"};
  }
  if (!call.status) return call.status.error();
  return call.reply_bytes;
}

Status Requester::start(Call& call) {
  if (Status status = check_question(call.question); !status) return status;
  std::lock_guard lock(mutex_);
  if (lost()) return lost_;
  Pending* pending = new_pending();
  pending->call = &call;
  pending->to_send = true;
  enqueue(*pending);
  return {};
}

bool Requester::abandon(Call& call) {
  std::lock_guard lock(mutex_);
  if (call.ended.load(std::memory_order_relaxed)) return false;
  for (Pending* pending = first_; pending != nullptr; pending = pending->next) {
    if (pending->call != &call) continue;
    pending->call = nullptr;
    pending->to_send = false;
    leave_unattended(*pending);
    end_if_done(*pending);
    break;
  }
  return true;
}

Requester::Pending* Requester::new_pending() {
  if (free_ == nullptr) {
    all_.push_back(std::make_unique<Pending>());
    return all_.back().get();
  }
  Pending* pending = free_;
  free_ = pending->next;
  *pending = Pending{};
  return pending;
}

bool Requester::progress() {
  bool any = false;
  std::lock_guard lock(mutex_);
  if (lost()) return false;
  for (bool more = true; more;) {
    more = take_answer();
    more |= fill_slot();
    any |= more;
  }
  return any;
}

/// Returns whether the next command could arrive before an earlier one whose caller no longer waits
/// for it, since a connection over a network may have several sockets. The bytes of a cancelled
/// copy would then overwrite those of a later command, or memory that has another use.
bool Requester::overtakes() const {
  if (!options_.keep_bulk || !unattended()) return false;
  const int slots = options_.segment.geometry().slots;
  for (int k = 1; k <= used_; ++k) {
    const Slot& slot = slots_[static_cast<std::size_t>((head_ - k + slots) % slots)];
    if (slot.bulk && slot.pending->unattended) return true;
  }
  return false;
}

bool Requester::fill_slot() {
  Pending* pending = first_;
  while (pending != nullptr && pending->sent()) pending = pending->next;
  const SlotSegment& segment = options_.segment;
  if (pending == nullptr || used_ == segment.geometry().slots || overtakes()) return false;
  // If all slots are free, the one that was filled last is in the caches of both sides.
  if (used_ == 0) head_ = (head_ + segment.geometry().slots - 1) % segment.geometry().slots;
  slots_[static_cast<std::size_t>(head_)].pending = pending;
  CommandHeader header;
  header.sequence = ++sequence_;
  std::size_t command_bytes = sizeof header;
  SlotBytes bytes;
  if (pending->to_send) {
    fill_call(*pending, header);
    bytes.bytes = header.bytes;
    std::memcpy(segment.command(head_), &header, sizeof header);
  } else {
    const Status filled = refusals_as_errors([&]() -> Status {
      bytes = fill_transfer(*pending, header);
      return {};
    });
    if (!filled) {
      pending->status = filled;
      pending->stop();
      end_if_done(*pending);
      return true;
    }
    command_bytes = writer_.write(header, segment.command(head_));
  }
  slots_[static_cast<std::size_t>(head_)].bulk =
      options_.keep_bulk && bytes.bytes > segment.geometry().inside_bytes;
  segment.set_state(head_, SlotState::submitted);
  options_.publish(head_, command_bytes, bytes);
  ++pending->slots_out;
  ++used_;
  head_ = (head_ + 1) % segment.geometry().slots;
  return true;
}

void Requester::fill_call(Pending& pending, CommandHeader& header) {
  const bool told = pending.call == nullptr;
  const std::span<const std::byte> question = told ? pending.told : pending.call->question;
  const bool notice = pending.transfer.operation == Operation::notice;
  header.operation = static_cast<std::uint32_t>(notice ? Operation::notice : Operation::call);
  header.export_id = pending.transfer.remote.id;
  header.bytes = static_cast<std::int64_t>(question.size());
  if (!question.empty()) {
    std::memcpy(options_.segment.data(head_), question.data(), question.size());
  }
  pending.to_send = false;
}

SlotBytes Requester::fill_transfer(Pending& pending, CommandHeader& header) {
  const Transfer& transfer = pending.transfer;
  Slot& slot = slots_[static_cast<std::size_t>(head_)];
  slot.local.clear();
  slot.runs.clear();
  if (pending.cursor.finished()) {
    fill_runs(pending, slot);
  } else {
    fill_nests(pending, slot);
  }
  header.export_id = transfer.remote.id;
  header.operation = static_cast<std::uint32_t>(transfer.operation);
  header.cold = transfer.request.cold ? 1 : 0;
  header.bytes = writer_.bytes();
  if (transfer.operation == Operation::write) return pack(slot, transfer);
  expect(slot, transfer);
  return {};
}

/// Fills a command with pieces. Of those that pass the slots on both sides there may be more bytes
/// than a slot holds.
void Requester::fill_nests(Pending& pending, Slot& slot) {
  const Transfer& transfer = pending.transfer;
  const SlotGeometry& geometry = options_.segment.geometry();
  writer_.reset(pending.command_bytes);
  const bool passes = passes_slots(transfer);
  std::int64_t source_runs = 0;
  std::int64_t target_runs = 0;
  LoopNest local;
  while (!pending.cursor.finished()) {
    const LoopNest& piece = pending.cursor.piece();
    const std::int64_t bytes = writer_.bytes() + piece.bytes();
    if (passes) {
      source_runs += runs_of(piece, Side::source);
      target_runs += runs_of(piece, Side::target);
    }
    const bool straight =
        passes && goes_straight(geometry, bytes, std::max(source_runs, target_runs));
    const bool fits = slot.local.empty() || bytes <= geometry.slot_bytes || straight;
    if (!fits || !writer_.add(piece, transfer.operation, local)) break;
    slot.local.push_back(local);
    pending.cursor.advance();
  }
  CHECK(!slot.local.empty(), "a piece that does not fit an empty slot");
}

/// Fills a command with runs, as fill_nests() does with pieces.
void Requester::fill_runs(Pending& pending, Slot& slot) {
  const SlotGeometry& geometry = options_.segment.geometry();
  writer_.reset(pending.command_bytes);
  while (!pending.runs.finished() && writer_.room_for_run()) {
    // Whatever the length of the next run.
    const bool straight = passes_slots(pending.transfer) &&
                          goes_straight(geometry, writer_.bytes(), std::ssize(slot.runs) + 1);
    const std::int64_t room =
        straight ? writer_.bytes_left()
                 : std::min(writer_.bytes_left(), geometry.slot_bytes - writer_.bytes());
    if (room <= 0) break;
    const Run run = pending.runs.take(room);
    slot.runs.push_back(writer_.add(run, pending.transfer.operation));
  }
}

/// Returns the bytes to write: packed into the slot under the head, or in the caller's memory.
SlotBytes Requester::pack(Slot& slot, const Transfer& transfer) {
  const std::byte* source = transfer.request.source.address;
  const ArraySide array{slot.local, slot.runs, Side::source};
  if (options_.keep_bulk && goes_straight(options_.segment.geometry(), array)) {
    auto sending = std::make_shared<char>();
    slot.sending = sending;
    return {writer_.bytes(), bytes_in_array(array, source), std::move(sending)};
  }
  // The copy goes through the cache whatever the transfer's size: the exporting process reads it at
  // once.
  std::byte* const data = options_.segment.data(head_);
  options_.copy.nests(slot.local, source, data, false);
  options_.copy.runs(slot.runs, source, data, false);
  return {writer_.bytes()};
}

/// Sets where the bytes of a read go if they bypass the slot.
void Requester::expect(Slot& slot, const Transfer& transfer) {
  const ArraySide array{slot.local, slot.runs, Side::target};
  if (!options_.keep_bulk || !goes_straight(options_.segment.geometry(), array)) return;
  std::lock_guard placing(placing_mutex_);
  slot.straight_bytes = writer_.bytes();
  slot.straight = transfer.request.target.address;
  slot.placed = false;
}

ReceiveBuffer Requester::place(int number, std::int64_t offset, std::int64_t left) {
  const SlotSegment& segment = options_.segment;
  if (!takes_bytes(segment, true, number)) return {};
  auto lock = std::make_shared<std::unique_lock<std::mutex>>(placing_mutex_);
  Slot& slot = slots_[static_cast<std::size_t>(number)];
  const bool straight = slot.straight_bytes > 0;
  const bool fits = straight ? offset + left == slot.straight_bytes
                             : offset + left <= segment.geometry().slot_bytes;
  if (!fits) return {};
  slot.placed = true;
  if (!straight || slot.straight == nullptr) return {place_in_slot(segment, number, offset), {}};
  ReceiveBuffer room =
      place_in_array({slot.local, slot.runs, Side::target}, slot.straight, offset, left);
  room.held = std::move(lock);
  return room;
}

/// Ends all access to the caller's memory, for one transfer or (null) for all.
void Requester::let_go(const Pending* pending) {
  if (!options_.keep_bulk) return;
  bool sending = false;
  {
    std::lock_guard placing(placing_mutex_);
    for (Slot& slot : slots_) {
      if (pending != nullptr && slot.pending != pending) continue;
      slot.straight = nullptr;
      sending |= !slot.sending.expired();
    }
  }
  if (sending) options_.keep_bulk();
}

bool Requester::take_answer() {
  if (used_ == 0) return false;
  const SlotSegment& segment = options_.segment;
  const int slots = segment.geometry().slots;
  const int tail = (head_ - used_ + slots) % slots;
  if (segment.state(tail) != SlotState::done) return false;
  Slot& slot = slots_[static_cast<std::size_t>(tail)];
  Pending& pending = *slot.pending;
  if (!pending.queue) {
    take_reply(pending, tail);
  } else if (const Status status = answer_of(tail); !status && pending.status) {
    pending.status = status;
    pending.stop();
  } else if (status && pending.transfer.operation == Operation::read) {
    if (Status brought = unpack(slot, tail, pending.transfer.request); !brought && pending.status) {
      pending.status = brought;
      pending.stop();
    }
  }
  release(slot);
  segment.set_state(tail, SlotState::free);
  --used_;
  --pending.slots_out;
  answers_.fetch_add(1, std::memory_order_relaxed);
  end_if_done(pending);
  return true;
}

/// Copies the bytes of a read from the slot to the target, unless they were received there.
Status Requester::unpack(const Slot& slot, int number, const Request& request) {
  if (slot.straight_bytes == 0) {
    const std::byte* const data = options_.segment.data(number);
    options_.copy.nests(slot.local, data, request.target.address, request.cold);
    options_.copy.runs(slot.runs, data, request.target.address, request.cold);
  } else if (!slot.placed) {
    return Error{ErrorCode::peer_lost,
                 options_.peer + " answered without the bytes that it was asked for"};
  }
  return {};
}

/// Ends all access to the caller's memory for a slot whose answer has been taken.
void Requester::release(Slot& slot) {
  if (!options_.keep_bulk) return;
  {
    std::lock_guard placing(placing_mutex_);
    slot.straight_bytes = 0;
    slot.straight = nullptr;
  }
  // If a peer answers before it has received the bytes, they are copied now, since they would
  // otherwise be read after the caller has returned.
  if (!slot.sending.expired()) options_.keep_bulk();
}

void Requester::take_reply(Pending& pending, int slot) {
  pending.status = answer_of(slot);
  if (pending.call == nullptr || !pending.status) return;
  Call& call = *pending.call;
  const std::size_t bytes = read_once(options_.segment.control(slot).reply_bytes);
  if (bytes > static_cast<std::size_t>(options_.segment.geometry().slot_bytes) ||
      bytes > call.reply.size()) {
    pending.status =
        Error{ErrorCode::out_of_range, options_.peer + ": an answer of " + std::to_string(bytes) +
                                           " bytes does not fit the caller's buffer"};
    return;
  }
  if (bytes > 0) std::memcpy(call.reply.data(), options_.segment.data(slot), bytes);
  call.reply_bytes = bytes;
}

Status Requester::answer_of(int slot) {
  const SlotControl& control = options_.segment.control(slot);
  const std::uint32_t code = read_once(control.error_code);
  if (code == 0) return {};
  const std::size_t length =
      std::min<std::size_t>(read_once(control.text_bytes), slot_error_bytes_max);
  const std::string text(reinterpret_cast<const char*>(options_.segment.command(slot)), length);
  Error error = error_of_slot(code, text);
  error.message.insert(0, options_.peer + ": ");
  return error;
}

void Requester::end_if_done(Pending& pending) {
  if (!pending.sent() || pending.slots_out != 0) return;
  Pending* before = nullptr;
  for (Pending* other = first_; other != &pending; other = other->next) before = other;
  (before != nullptr ? before->next : first_) = pending.next;
  if (last_ == &pending) last_ = before;
  if (pending.unattended) unattended_.fetch_sub(1, std::memory_order_release);
  if (pending.queue) {
    pending.queue->push({pending.transfer.request.tag, std::move(pending.status)});
    pending.queue.reset();
  } else if (pending.call != nullptr) {
    pending.call->status = std::move(pending.status);
    pending.call->ended.store(true,
                              std::memory_order_release);  // its caller may return from now on
    pending.call = nullptr;
  }
  pending.next = free_;
  free_ = &pending;
  operations_.fetch_sub(1, std::memory_order_release);
}

/// Ends a request early. Slots that the peer owns stay in use until it answers, or is lost.
void Requester::end_early(Pending& pending, const Error& error) {
  let_go(&pending);
  pending.status = error;
  pending.stop();
  if (!pending.queue) return;
  pending.queue->push({pending.transfer.request.tag, error});
  pending.queue.reset();
}

std::optional<Status> Requester::carry_here(const Transfer& transfer,
                                            std::chrono::nanoseconds at_most, Bell& bell) {
  const bool fits = transfer.request.bytes <= options_.segment.geometry().inside_bytes;
  if (!attended() || !fits || outstanding()) return std::nullopt;
  thread_local const auto queue = std::make_shared<FinishedQueue>();
  constexpr std::uint64_t tag = 0;
  Transfer tagged = transfer;
  tagged.request.tag = tag;
  const auto end = std::chrono::steady_clock::now() + at_most;
  if (Status status = submit(tagged, queue); !status) return status;
  if (auto status = wait_for_one(*queue, end, bell)) return status;
  cancel(*queue, tag);
  std::array<Finished, 1> finished;
  const bool ended = queue->take(finished) == 1;
  CHECK(ended, "a cancelled transfer that did not end");
  if (finished[0].status || finished[0].status.error().code != ErrorCode::cancelled) {
    return std::move(finished[0].status);
  }
  return std::nullopt;
}

void Requester::cancel(const FinishedQueue& queue, std::uint64_t tag) {
  std::lock_guard lock(mutex_);
  for (Pending* pending = first_; pending != nullptr; pending = pending->next) {
    if (pending->queue.get() != &queue || pending->transfer.request.tag != tag) continue;
    end_early(*pending, {ErrorCode::cancelled, "the copy was cancelled"});
    leave_unattended(*pending);
    end_if_done(*pending);
    return;
  }
}

void Requester::fail(Error error) {
  std::lock_guard lock(mutex_);
  if (lost()) return;
  lost_ = std::move(error);
  lost_flag_.store(true, std::memory_order_release);
  let_go(nullptr);
  while (first_ != nullptr) {
    first_->status = lost_;
    first_->stop();
    first_->slots_out = 0;
    end_if_done(*first_);
  }
}

}  // namespace tranship::fabric
