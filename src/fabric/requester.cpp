#include "fabric/requester.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"

namespace tranship {
namespace {

constexpr std::int64_t piece_bytes_min = 64 * 1024;
constexpr std::int64_t pieces_wanted = 8;

/// Large enough to pay for the hand-over, small enough that both processes soon have work.
std::int64_t piece_bytes(std::int64_t request_bytes, std::int64_t slot_bytes) {
  const std::int64_t share = (request_bytes / pieces_wanted + 4095) / 4096 * 4096;
  return std::min(slot_bytes, std::max(piece_bytes_min, share));
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
    PieceCursor::Options options;
    options.piece_bytes =
        piece_bytes(transfer.request.bytes, options_.segment.geometry().slot_bytes);
    pending->cursor = PieceCursor(transfer.request.nests, options);
    pending->queue = std::move(queue);
    (last_ != nullptr ? last_->next : first_) = pending;
    last_ = pending;
    operations_.fetch_add(1, std::memory_order_release);
    end_if_done(*pending);
  }
  progress();
  return {};
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

bool Requester::fill_slot() {
  Pending* pending = first_;
  while (pending != nullptr && pending->cursor.finished()) pending = pending->next;
  const SlotSegment& segment = options_.segment;
  if (pending == nullptr || used_ == segment.geometry().slots) return false;
  const Transfer& transfer = pending->transfer;
  const bool write = transfer.operation == Operation::write;
  Slot& slot = slots_[static_cast<std::size_t>(head_)];
  slot.pending = pending;
  slot.local.clear();
  writer_.reset();
  LoopNest local;
  while (!pending->cursor.finished() &&
         writer_.add(pending->cursor.piece(), transfer.operation, local)) {
    slot.local.push_back(local);
    pending->cursor.advance();
  }
  CHECK(!slot.local.empty(), "a piece that does not fit an empty slot");
  if (write) {
    // Into the cache, whatever the transfer's size: the exporting process reads it back at once.
    options_.copy(slot.local, transfer.request.source.address, segment.data(head_), false);
  }
  CommandHeader header;
  header.sequence = ++sequence_;
  header.export_id = transfer.remote.id;
  header.operation = static_cast<std::uint32_t>(transfer.operation);
  header.cold = transfer.request.cold ? 1 : 0;
  const std::size_t command_bytes = writer_.write(header, segment.command(head_));
  segment.control(head_).state.store(static_cast<std::uint32_t>(SlotState::submitted),
                                     std::memory_order_release);
  options_.publish(head_, command_bytes, write ? writer_.bytes() : 0);
  ++pending->slots_out;
  ++used_;
  head_ = (head_ + 1) % segment.geometry().slots;
  return true;
}

bool Requester::take_answer() {
  if (used_ == 0) return false;
  const SlotSegment& segment = options_.segment;
  const int slots = segment.geometry().slots;
  const int tail = (head_ - used_ + slots) % slots;
  SlotControl& control = segment.control(tail);
  if (control.state.load(std::memory_order_acquire) !=
      static_cast<std::uint32_t>(SlotState::done)) {
    return false;
  }
  Slot& slot = slots_[static_cast<std::size_t>(tail)];
  Pending& pending = *slot.pending;
  const Status status = answer_of(tail);
  const Request& request = pending.transfer.request;
  if (!status && pending.status) {
    pending.status = status;
    pending.cursor = PieceCursor{};
  } else if (status && pending.transfer.operation == Operation::read) {
    options_.copy(slot.local, segment.data(tail), request.target.address, request.cold);
  }
  control.state.store(static_cast<std::uint32_t>(SlotState::free), std::memory_order_relaxed);
  --used_;
  --pending.slots_out;
  answers_.fetch_add(1, std::memory_order_relaxed);
  end_if_done(pending);
  return true;
}

Status Requester::answer_of(int slot) {
  const SlotControl& control = options_.segment.control(slot);
  const std::uint32_t code = control.error_code;
  if (code == 0) return {};
  const std::size_t length = std::min<std::size_t>(control.text_bytes, 1024);
  std::string text(reinterpret_cast<const char*>(options_.segment.command(slot)), length);
  const auto known = static_cast<std::uint32_t>(ErrorCode::closed) + 1;
  return Error{static_cast<ErrorCode>(std::min(code, known) - 1), options_.peer + ": " + text};
}

void Requester::end_if_done(Pending& pending) {
  if (!pending.cursor.finished() || pending.slots_out != 0) return;
  Pending* before = nullptr;
  for (Pending* other = first_; other != &pending; other = other->next) before = other;
  (before != nullptr ? before->next : first_) = pending.next;
  if (last_ == &pending) last_ = before;
  pending.queue->push({pending.transfer.request.tag, std::move(pending.status)});
  pending.queue.reset();
  pending.next = free_;
  free_ = &pending;
  operations_.fetch_sub(1, std::memory_order_release);
}

void Requester::fail(Error error) {
  std::lock_guard lock(mutex_);
  if (lost()) return;
  lost_ = std::move(error);
  lost_flag_.store(true, std::memory_order_release);
  while (first_ != nullptr) {
    first_->status = lost_;
    first_->cursor = PieceCursor{};
    first_->slots_out = 0;
    end_if_done(*first_);
  }
}

}  // namespace tranship
