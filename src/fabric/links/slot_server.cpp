#include "fabric/links/slot_server.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/refusals.hpp"
#include "fabric/messages/error_message.hpp"

namespace tranship::fabric {
namespace {

/// Most nests of a command that is carried out at once.
constexpr std::uint32_t quick_nests_max = 16;

}  // namespace

SlotServer::SlotServer(Options options)
    : options_(std::move(options)),
      work_(static_cast<std::size_t>(options_.segment.geometry().slots)) {}

bool SlotServer::waits(int slot) const {
  if (options_.segment.state(slot) != SlotState::submitted) return false;
  // The state is checked again, and together with finish(): a slot whose command has just been
  // carried out must not be carried out twice.
  std::lock_guard lock(finishing_mutex_);
  return options_.segment.state(slot) == SlotState::submitted &&
         !work_[static_cast<std::size_t>(slot)].busy;
}

bool SlotServer::filled_before(int slot, int other) const {
  const std::uint64_t ahead = read_header(options_.segment.command(other)).sequence -
                              read_header(options_.segment.command(slot)).sequence;
  return static_cast<std::int64_t>(ahead) > 0;
}

/// Returns the earliest filled slot among those that have arrived over a network: commands with
/// bulk may arrive over other sockets, and later than commands that were submitted after them.
std::optional<int> SlotServer::next_of_any() const {
  std::optional<int> first;
  for (int slot = 0; slot < options_.segment.geometry().slots; ++slot) {
    if (waits(slot) && (!first || filled_before(slot, *first))) first = slot;
  }
  return first;
}

/// Returns the slot to carry out next: the one after the last, or the last one again, which the
/// requester fills when all its slots are free. If both wait, the one that was filled first.
std::optional<int> SlotServer::next() const {
  if (options_.network) return next_of_any();
  const SlotSegment& segment = options_.segment;
  const int head = head_.load(std::memory_order_relaxed);
  const int last = (head + segment.geometry().slots - 1) % segment.geometry().slots;
  const bool after = waits(head);
  if (!waits(last)) return after ? std::optional(head) : std::nullopt;
  // Slots that were filled before the last one are visible by now.
  if (!after && !waits(head)) return last;
  return filled_before(head, last) ? head : last;
}

bool SlotServer::serve(bool& more, std::vector<std::byte>& question) {
  std::lock_guard lock(serving_mutex_);
  bool any = false;
  for (int k = 0; k < options_.segment.geometry().slots; ++k) {
    const auto slot = next();
    if (stopping_.load(std::memory_order_relaxed) || !slot) return any;
    carry_out(*slot, question);
    any = true;
  }
  more = next().has_value();
  return any;
}

bool SlotServer::serve_quickly() {
  const std::unique_lock lock(serving_mutex_, std::try_to_lock);
  if (!lock) return false;
  std::vector<std::byte> none;  // no quick command is a call
  for (int k = 0; k < options_.segment.geometry().slots; ++k) {
    const auto slot = next();
    if (stopping_.load(std::memory_order_relaxed) || !slot) return true;
    if (!quick(*slot)) return false;
    carry_out(*slot, none);
  }
  return !next();
}

/// Returns whether a command moves few bytes, or a single run, of plain memory, or bytes that have
/// been placed there already, or is a notice.
bool SlotServer::quick(int slot) const {
  const CommandHeader header = read_header(options_.segment.command(slot));
  const bool small = header.bytes <= options_.segment.geometry().inside_bytes &&
                     header.nest_count >= 1 && header.nest_count <= quick_nests_max;
  const bool one_run = header.nest_count == 1 && header.word_count == command_words(0);
  if (header.operation == static_cast<std::uint32_t>(Operation::call)) return false;
  if (header.operation == static_cast<std::uint32_t>(Operation::notice)) return true;
  const bool placed = work_[static_cast<std::size_t>(slot)].placed == header.sequence;
  if (!small && !one_run && !placed) return false;
  auto one = options_.exports->use(header.export_id);
  return !one || held(std::move(one))->array().place.attachment == nullptr;
}

/// Returns the most bytes that a command moves.
std::int64_t SlotServer::bytes_max() const {
  const SlotGeometry& geometry = options_.segment.geometry();
  return options_.network ? std::max(geometry.slot_bytes, geometry.straight_bytes)
                          : geometry.slot_bytes;
}

/// Returns a reference that keeps an export in use until it is released.
std::shared_ptr<const Export> SlotServer::held(std::shared_ptr<Export> one) const {
  const Export* raw = one.get();
  return {raw, [exports = options_.exports, one = std::move(one)](const Export*) {
            exports->release(*one);
          }};
}

ReceiveBuffer SlotServer::place(int slot, std::span<const std::byte> command, std::int64_t offset,
                                std::int64_t left) {
  const SlotSegment& segment = options_.segment;
  if (!takes_bytes(segment, false, slot) || command.size() < sizeof(CommandHeader)) return {};
  const CommandHeader header = read_header(command.data());
  const std::int64_t bytes = offset + left;
  const bool write = header.operation == static_cast<std::uint32_t>(Operation::write);
  const std::size_t length = sizeof header + header.word_count * sizeof(std::int64_t);
  if (bytes != header.bytes || bytes > bytes_max() || command.size() < length) return {};
  if (auto one = write ? options_.exports->use(header.export_id) : nullptr) {
    const auto in_use = held(std::move(one));
    const ExportedArray& array = in_use->array();
    // A message's parts come one after another: its command is read with the first one.
    const bool begun = offset > 0 && slot == placing_slot_ && header == placing_.header;
    if (!begun) read_placing(slot, header, command, array);
    if (placing_straight_) {
      work_[static_cast<std::size_t>(slot)].placed = header.sequence;
      ReceiveBuffer room = place_in_array({placing_.nests, placing_.runs, Side::target},
                                          array.place.address, offset, left);
      room.held = in_use;
      return room;
    }
  }
  return {place_in_slot(segment, slot, offset), {}};
}

/// Reads the command of a message whose bytes are to be placed, and whether they go into the array.
void SlotServer::read_placing(int slot, const CommandHeader& header,
                              std::span<const std::byte> command, const ExportedArray& array) {
  placing_slot_ = -1;
  placing_.header = header;
  placing_straight_ =
      array.place.attachment == nullptr && array.writable &&
      read_nests(command.data(), bytes_max(), array.bytes, placing_scratch_, placing_).ok() &&
      goes_straight(options_.segment.geometry(), {placing_.nests, placing_.runs, Side::target});
  placing_slot_ = slot;
}

bool SlotServer::executing() const {
  std::lock_guard lock(executing_mutex_);
  return executing_ > 0;
}

void SlotServer::carry_out(int slot, std::vector<std::byte>& question) {
  head_.store((slot + 1) % options_.segment.geometry().slots, std::memory_order_relaxed);
  {
    std::lock_guard lock(finishing_mutex_);
    work_[static_cast<std::size_t>(slot)].busy = true;
  }
  bool pending = false;
  const Status status = start(slot, question, pending);
  if (!pending) finish(slot, status);
}

Status SlotServer::start(int slot, std::vector<std::byte>& question, bool& pending) {
  const SlotSegment& segment = options_.segment;
  SlotWork& work = work_[static_cast<std::size_t>(slot)];
  Command& command = work.command;
  command.header = read_header(segment.command(slot));
  work.reply_bytes = 0;
  work.read_straight.reset();
  if (command.header.operation == static_cast<std::uint32_t>(Operation::call)) {
    return answer(slot, question);
  }
  const auto one = options_.exports->use(command.header.export_id);
  if (!one) {
    return Error{ErrorCode::not_found, "the array is no longer exported: its process withdrew it",
                 "look it up again"};
  }
  if (command.header.operation == static_cast<std::uint32_t>(Operation::notice)) {
    return take_notice(slot, held(one)->array(), question);
  }
  const Status status = move(slot, one, pending);
  const bool used_on = pending || work.read_straight != nullptr;
  if (!used_on) options_.exports->release(*one);
  return status;
}

/// Copies between a slot and an array, unless the bytes bypass the slot.
Status SlotServer::move(int slot, const std::shared_ptr<Export>& one, bool& pending) {
  const SlotSegment& segment = options_.segment;
  SlotWork& work = work_[static_cast<std::size_t>(slot)];
  const Command& command = work.command;
  const ExportedArray& array = one->array();
  if (auto status =
          read_nests(segment.command(slot), bytes_max(), array.bytes, work.scratch, work.command);
      !status) {
    return status;
  }
  const bool write = command.header.operation == static_cast<std::uint32_t>(Operation::write);
  if (write && !array.writable) {
    return Error{ErrorCode::permission, "'" + array.name +
                                            "' is exported read-only: its process can "
                                            "export an array that is writable instead"};
  }
  const bool plain = array.place.attachment == nullptr;
  const ArraySide side{command.nests, command.runs, write ? Side::target : Side::source};
  const bool straight = options_.network && plain && goes_straight(segment.geometry(), side);
  if (!straight && command.header.bytes > segment.geometry().slot_bytes) {
    return Error{ErrorCode::invalid_argument, "a peer's command has more bytes than a slot holds"};
  }
  if (!plain) return execute(slot, one, pending);
  if (straight && !write) {
    work.read_bytes = bytes_in_array(side, array.place.address);
    work.read_straight = held(one);
  }
  if (straight) return {};
  if (write) {
    const bool cold = command.header.cold != 0;
    options_.copy.nests(command.nests, segment.data(slot), array.place.address, cold);
    options_.copy.runs(command.runs, segment.data(slot), array.place.address, cold);
  } else {
    options_.copy.nests(command.nests, array.place.address, segment.data(slot), false);
    options_.copy.runs(command.runs, array.place.address, segment.data(slot), false);
  }
  return {};
}

/// Takes a private copy of what a slot holds for a call or a notice.
Status SlotServer::copy_body(int slot, std::vector<std::byte>& body) const {
  const SlotSegment& segment = options_.segment;
  const std::int64_t bytes = work_[static_cast<std::size_t>(slot)].command.header.bytes;
  if (bytes < 0 || bytes > segment.geometry().slot_bytes) {
    return Error{ErrorCode::invalid_argument, "a peer's message has an impossible length"};
  }
  return refusals_as_errors([&]() -> Status {
    body.assign(segment.data(slot), segment.data(slot) + bytes);
    return {};
  });
}

Status SlotServer::take_notice(int slot, const ExportedArray& array, std::vector<std::byte>& body) {
  if (!array.takes_notices || !options_.take_notice) {
    return Error{ErrorCode::unsupported, "'" + array.name + "' is exported without notices"};
  }
  if (Status status = copy_body(slot, body); !status) return status;
  return refusals_as_errors([&]() -> Status {
    CopyNotice notice;
    if (!decode(body, notice)) {
      return Error{ErrorCode::invalid_argument, "a peer sent a notice that cannot be read"};
    }
    notice.array = array.name;
    notice.label = options_.requester;
    notice.sender = options_.identity;
    return options_.take_notice(std::move(notice));
  });
}

Status SlotServer::answer(int slot, std::vector<std::byte>& question) {
  const SlotSegment& segment = options_.segment;
  SlotWork& work = work_[static_cast<std::size_t>(slot)];
  if (!options_.answer) {
    return Error{ErrorCode::unsupported, "this process answers no calls: it exports arrays alone"};
  }
  if (Status status = copy_body(slot, question); !status) return status;
  const auto room = static_cast<std::size_t>(segment.geometry().slot_bytes);
  const auto written = refusals_as_errors(
      [&] { return options_.answer(options_.id, question, std::span(segment.data(slot), room)); });
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
  Command& command = work_[static_cast<std::size_t>(slot)].command;
  const bool write = command.header.operation == static_cast<std::uint32_t>(Operation::write);
  for (const Run& run : command.runs) {
    command.nests.push_back({run.bytes, run.source_offset, run.target_offset, 0, {}});
  }
  Request request;
  request.payload = command.nests;
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
  SlotWork& work = work_[static_cast<std::size_t>(slot)];
  control.error_code = 0;
  control.text_bytes = 0;
  control.reply_bytes = 0;
  SlotBytes bytes;
  if (!status) {
    const std::string text = slot_text_of(status.error());
    std::memcpy(segment.command(slot), text.data(), text.size());
    control.error_code = wire_code_of(status.error().code);
    control.text_bytes = static_cast<std::uint32_t>(text.size());
  } else if (work.command.header.operation == static_cast<std::uint32_t>(Operation::read)) {
    bytes.bytes = work.command.header.bytes;
    if (const auto one = std::move(work.read_straight)) {
      bytes.array = std::move(work.read_bytes);
      bytes.owner = one;
    }
  } else if (work.reply_bytes > 0) {
    control.reply_bytes = static_cast<std::uint32_t>(work.reply_bytes);
    bytes.bytes = static_cast<std::int64_t>(work.reply_bytes);
  }
  {
    std::lock_guard lock(finishing_mutex_);
    work.busy = false;
    segment.set_state(slot, SlotState::done);
  }
  options_.answered(slot, bytes);
}

}  // namespace tranship::fabric
