#include "fabric/slot_server.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

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

SlotServer::SlotServer(Options options) : options_(std::move(options)) {
  for (auto& work : work_) work.command.nests.reserve(64);
}

void SlotServer::begin() {
  thread_ = std::thread([this] { run(); });
}

SlotServer::~SlotServer() { stop(); }

void SlotServer::stop() {
  stopping_.store(true);
  options_.segment.header().doorbell.ring();
  if (thread_.joinable()) thread_.join();
}

void SlotServer::run() {
  const SlotSegment& segment = options_.segment;
  int head = 0;
  while (!stopping_.load(std::memory_order_relaxed)) {
    const std::uint32_t seen = segment.header().doorbell.rings();
    Work& work = work_[static_cast<std::size_t>(head)];
    if (segment.state(head) != SlotState::submitted || work.busy.load(std::memory_order_acquire)) {
      wait_for_command(seen);
      continue;
    }
    carry_out(head);
    head = (head + 1) % segment.geometry().slots;
  }
}

void SlotServer::wait_for_command(std::uint32_t seen) {
  Bell& doorbell = options_.segment.header().doorbell;
  const auto left = called_ + options_.spin - std::chrono::steady_clock::now();
  if (left > spin_least) {
    const bool may = awake.fetch_add(1, std::memory_order_relaxed) < awake_max();
    if (may) doorbell.wait(seen, left, left);
    awake.fetch_sub(1, std::memory_order_relaxed);
    if (doorbell.rings() != seen) return;
  }
  doorbell.wait(seen, sleep_max, spin_least);
}

void SlotServer::carry_out(int slot) {
  work_[static_cast<std::size_t>(slot)].busy.store(true, std::memory_order_relaxed);
  bool pending = false;
  const Status status = start(slot, pending);
  if (!pending) finish(slot, status);
}

Status SlotServer::start(int slot, bool& pending) {
  const SlotSegment& segment = options_.segment;
  Work& work = work_[static_cast<std::size_t>(slot)];
  Command& command = work.command;
  command.header = read_header(segment.command(slot));
  work.reply_bytes = 0;
  if (command.header.operation == static_cast<std::uint32_t>(Operation::call)) return answer(slot);
  const auto one = options_.exports->use(command.header.export_id);
  if (!one) {
    return Error{ErrorCode::not_found,
                 "the array is no longer exported: its process withdrew it; look it up again"};
  }
  const ExportedArray& array = one->array();
  Status status = read_nests(segment.command(slot), segment.geometry().slot_bytes, array.bytes,
                             work.scratch, command);
  const bool write = command.header.operation == static_cast<std::uint32_t>(Operation::write);
  if (status && write && !array.writable) {
    status = Error{ErrorCode::permission, "'" + array.name +
                                              "' is exported read-only: export it "
                                              "with writable=true to let others write it"};
  }
  if (status && array.place.attachment != nullptr) {
    status = execute(slot, one, pending);
  } else if (status && write) {
    options_.copy(command.nests, segment.data(slot), array.place.address, command.header.cold != 0);
  } else if (status) {
    options_.copy(command.nests, array.place.address, segment.data(slot), false);
  }
  if (!pending) options_.exports->release(*one);
  return status;
}

Status SlotServer::answer(int slot) {
  const SlotSegment& segment = options_.segment;
  Work& work = work_[static_cast<std::size_t>(slot)];
  const std::int64_t bytes = work.command.header.bytes;
  if (bytes < 0 || bytes > segment.geometry().slot_bytes) {
    return Error{ErrorCode::invalid_argument, "a peer's call has an impossible length"};
  }
  if (!options_.answer) {
    return Error{ErrorCode::unsupported, "this process answers no calls: it exports arrays alone"};
  }
  work.question.assign(segment.data(slot), segment.data(slot) + bytes);
  const auto room = static_cast<std::size_t>(segment.geometry().slot_bytes);
  const auto written =
      options_.answer(options_.id, work.question, std::span(segment.data(slot), room));
  if (!written) return written.error();
  work.reply_bytes = *written;
  called_ = std::chrono::steady_clock::now();
  return {};
}

Status SlotServer::execute(int slot, const std::shared_ptr<Export>& one, bool& pending) {
  if (!options_.execute) {
    return Error{ErrorCode::unsupported,
                 "'" + one->array().name +
                     "' is not plain memory, and its process has no channel "
                     "that carries it"};
  }
  const Command& command = work_[static_cast<std::size_t>(slot)].command;
  const bool write = command.header.operation == static_cast<std::uint32_t>(Operation::write);
  Request request;
  request.nests = command.nests;
  request.source = write ? Place{options_.segment.data(slot), nullptr} : one->array().place;
  request.target = write ? one->array().place : Place{options_.segment.data(slot), nullptr};
  request.bytes = command.header.bytes;
  request.cold = command.header.cold != 0;
  pending = true;
  {
    std::lock_guard lock(executing_mutex_);
    ++executing_;
  }
  options_.execute(request, [self = shared_from_this(), slot, held = one](Status status) {
    self->options_.exports->release(*held);
    self->finish(slot, status);
    self->executed();
  });
  return {};
}

void SlotServer::executed() {
  std::function<void()> then;
  {
    std::lock_guard lock(executing_mutex_);
    if (--executing_ == 0) then = std::exchange(when_idle_, nullptr);
  }
  if (then) then();
}

bool SlotServer::call_when_idle(std::function<void()> then) {
  std::lock_guard lock(executing_mutex_);
  if (executing_ > 0) when_idle_ = std::move(then);
  return executing_ > 0;
}

void SlotServer::finish(int slot, const Status& status) {
  const SlotSegment& segment = options_.segment;
  SlotControl& control = segment.control(slot);
  Work& work = work_[static_cast<std::size_t>(slot)];
  control.error_code = 0;
  control.text_bytes = 0;
  control.reply_bytes = 0;
  std::int64_t read_bytes = 0;
  if (!status) {
    const std::string& text = status.error().message;
    const std::size_t length = std::min<std::size_t>(text.size(), 1024);
    std::memcpy(segment.command(slot), text.data(), length);
    control.error_code = 1 + static_cast<std::uint32_t>(status.error().code);
    control.text_bytes = static_cast<std::uint32_t>(length);
  } else if (work.command.header.operation == static_cast<std::uint32_t>(Operation::read)) {
    read_bytes = work.command.header.bytes;
  } else if (work.reply_bytes > 0) {
    control.reply_bytes = static_cast<std::uint32_t>(work.reply_bytes);
    read_bytes = static_cast<std::int64_t>(work.reply_bytes);
  }
  work.busy.store(false, std::memory_order_release);
  segment.set_state(slot, SlotState::done);
  options_.answered(slot, read_bytes);
}

}  // namespace tranship
