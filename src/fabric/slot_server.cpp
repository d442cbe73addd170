#include "fabric/slot_server.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/refusals.hpp"

namespace tranship {

SlotServer::SlotServer(Options options)
    : options_(std::move(options)),
      work_(static_cast<std::size_t>(options_.segment.geometry().slots)) {}

bool SlotServer::serve(bool& more) {
  const SlotSegment& segment = options_.segment;
  const auto waits = [&] {
    return segment.state(head_) == SlotState::submitted &&
           !work_[static_cast<std::size_t>(head_)].busy.load(std::memory_order_acquire);
  };
  bool any = false;
  for (int k = 0; k < segment.geometry().slots; ++k) {
    if (stopping_.load(std::memory_order_relaxed) || !waits()) return any;
    carry_out(head_);
    head_ = (head_ + 1) % segment.geometry().slots;
    any = true;
  }
  more = waits();
  return any;
}

bool SlotServer::executing() const {
  std::lock_guard lock(executing_mutex_);
  return executing_ > 0;
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
                                              "' is exported read-only: its process can "
                                              "export an array that is writable instead"};
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
  const auto written = refusals_as_errors([&] {
    return options_.answer(options_.id, work.question, std::span(segment.data(slot), room));
  });
  if (!written) return written.error();
  work.reply_bytes = *written;
  called_.store(std::chrono::steady_clock::now().time_since_epoch().count(),
                std::memory_order_relaxed);
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
  std::lock_guard lock(executing_mutex_);
  --executing_;
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
