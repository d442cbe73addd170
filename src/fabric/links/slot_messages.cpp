#include "fabric/links/slot_messages.hpp"

#include <algorithm>
#include <cstring>

#include "base/at.hpp"
#include "fabric/messages/command.hpp"
#include "fabric/messages/runs.hpp"

namespace tranship::fabric {
namespace {

/// Most runs of a command that goes straight, whatever the geometry that a peer asks for.
constexpr std::int64_t straight_runs_max = 1024;
/// Most runs that are asked of one read of the socket.
constexpr std::size_t runs_placed_max = 128;

std::int64_t stride_of(const Loop& loop, Side side) {
  return side == Side::source ? loop.source_stride : loop.target_stride;
}

/// The fastest loops of a nest, as far as they are dense on one side. The other side, which is
/// packed, is dense in all loops.
struct DenseLoops {
  DenseLoops(const LoopNest& nest, Side side) : bytes(nest.element_bytes) {
    while (count < nest.rank && stride_of(nest.loops[at(count)], side) == bytes) {
      bytes *= nest.loops[at(count++)].extent;
    }
  }
  std::int64_t bytes;  ///< of a run
  int count = 0;
};

/// Returns the nest with its dense loops joined to runs.
LoopNest joined(const LoopNest& nest, Side side) {
  const DenseLoops dense(nest, side);
  LoopNest result{dense.bytes, nest.source_offset, nest.target_offset, nest.rank - dense.count, {}};
  std::copy_n(nest.loops.begin() + dense.count, result.rank, result.loops.begin());
  return result;
}

/// Splits bytes into those that go inside the body and those that follow it.
struct Parts {
  std::span<const std::byte> inside;
  GatheredBytes bulk;
};

Parts parts_of(const SlotSegment& segment, int slot, const SlotBytes& bytes) {
  if (!bytes.array.empty()) return {{}, bytes.array};
  const std::span<const std::byte> all(segment.data(slot), static_cast<std::size_t>(bytes.bytes));
  return bytes.bytes <= segment.geometry().inside_bytes ? Parts{all, {}} : Parts{{}, all};
}

void send_parts(Wire& wire, ConnectionId connection, const SlotSegment& segment,
                const WireMessage& head, const SlotBytes& bytes, const Parts& parts) {
  WireMessage message = head;
  message.bulk = parts.bulk;
  if (!parts.bulk.empty()) {
    // A slot is filled again only when its answer has arrived.
    message.bulk_stays = bytes.array.empty();
    message.owner = message.bulk_stays ? segment.memory() : bytes.owner;
  }
  wire.send(connection, message);
}

bool slot_exists(const SlotSegment& segment, int slot) {
  return segment.memory() && slot >= 0 && slot < segment.geometry().slots;
}

}  // namespace

std::int64_t runs_of(const LoopNest& nest, Side side) {
  const DenseLoops dense(nest, side);
  return dense.bytes == 0 ? 0 : nest.bytes() / dense.bytes;
}

bool goes_straight(const SlotGeometry& geometry, std::int64_t bytes, std::int64_t runs) {
  return bytes > geometry.inside_bytes && runs <= straight_runs_max &&
         bytes >= runs * geometry.straight_run_bytes();
}

bool goes_straight(const SlotGeometry& geometry, const ArraySide& array) {
  std::int64_t bytes = 0;
  std::int64_t runs = static_cast<std::int64_t>(array.runs.size());
  for (const LoopNest& nest : array.nests) {
    bytes += nest.bytes();
    runs += runs_of(nest, array.side);
  }
  for (const Run& run : array.runs) bytes += run.bytes;
  return goes_straight(geometry, bytes, runs);
}

GatheredBytes bytes_in_array(const ArraySide& array, const std::byte* base) {
  GatheredBytes bytes;
  const auto add = [&](const Run& run) {
    bytes.add({base + run.source_offset, static_cast<std::size_t>(run.bytes)});
    return true;
  };
  for (const LoopNest& nest : array.nests) for_each_run(joined(nest, array.side), add);
  for (const Run& run : array.runs) add(run);
  return bytes;
}

ReceiveBuffer place_in_array(const ArraySide& array, std::byte* base, std::int64_t offset,
                             std::int64_t left) {
  ReceiveBuffer room;
  const auto add = [&](const Run& run) {
    const std::int64_t skipped = std::max<std::int64_t>(offset - run.source_offset, 0);
    const std::int64_t bytes = std::min(run.bytes - skipped, left);
    if (bytes <= 0) return true;
    const std::span part(base + run.target_offset + skipped, static_cast<std::size_t>(bytes));
    if (room.bytes.empty()) {
      room.bytes = part;
    } else {
      room.more.push_back(part);
    }
    left -= bytes;
    return left > 0 && room.more.size() < runs_placed_max;
  };
  const auto placed = [&](std::int64_t packed, std::int64_t bytes) {
    return packed + bytes <= offset;
  };
  const auto nest = std::partition_point(
      array.nests.begin(), array.nests.end(),
      [&](const LoopNest& one) { return placed(one.source_offset, one.bytes()); });
  for (const LoopNest& one : std::span(nest, array.nests.end())) {
    const LoopNest runs = joined(one, array.side);
    if (runs.element_bytes == 0) continue;
    const std::int64_t skipped = std::max<std::int64_t>(offset - runs.source_offset, 0);
    if (!for_each_run(runs, add, skipped / runs.element_bytes)) return room;
  }
  const auto run = std::partition_point(array.runs.begin(), array.runs.end(), [&](const Run& one) {
    return placed(one.source_offset, one.bytes);
  });
  for (const Run& one : std::span(run, array.runs.end())) {
    if (!add(one)) return room;
  }
  return room;
}

void send_submitted(Wire& wire, ConnectionId connection, const SlotSegment& segment, int slot,
                    std::size_t command_bytes, const SlotBytes& bytes) {
  const Parts parts = parts_of(segment, slot, bytes);
  MessageWriter out;
  out.add(std::span<const std::byte>(segment.command(slot), command_bytes));
  out.add(parts.inside);
  WireMessage head;
  head.header = {MessageType::submitted, static_cast<std::uint32_t>(slot), 0};
  head.body = out.bytes();
  send_parts(wire, connection, segment, head, bytes, parts);
}

void send_answered(Wire& wire, ConnectionId connection, const SlotSegment& segment, int slot,
                   const SlotBytes& bytes) {
  const Parts parts = parts_of(segment, slot, bytes);
  const SlotControl& control = segment.control(slot);
  MessageWriter out;
  out.add(control.error_code).add(control.reply_bytes);
  out.add(std::span<const std::byte>(segment.command(slot), control.text_bytes));
  out.add(parts.inside);
  WireMessage head;
  head.header = {MessageType::answered, static_cast<std::uint32_t>(slot), 0};
  head.body = out.bytes();
  send_parts(wire, connection, segment, head, bytes, parts);
}

std::span<const std::byte> command_in(std::span<const std::byte> body) {
  MessageReader in(body);
  const auto command = in.data();
  const bool usable = in.ok() && command.size() >= sizeof(CommandHeader) &&
                      command.size() <= static_cast<std::size_t>(command_bytes_max);
  return usable ? command : std::span<const std::byte>{};
}

bool take_submitted(const SlotSegment& segment, int slot, std::span<const std::byte> body) {
  MessageReader in(body);
  const auto command = in.data();
  const auto inside = in.data();
  const bool usable = in.ok() && slot_exists(segment, slot) && !command_in(body).empty() &&
                      inside.size() <= static_cast<std::size_t>(segment.geometry().slot_bytes) &&
                      segment.state(slot) != SlotState::submitted;
  if (!usable) return false;
  std::memcpy(segment.command(slot), command.data(), command.size());
  if (!inside.empty()) std::memcpy(segment.data(slot), inside.data(), inside.size());
  segment.set_state(slot, SlotState::submitted);
  return true;
}

bool take_answered(const SlotSegment& segment, int slot, std::span<const std::byte> body) {
  MessageReader in(body);
  const auto error_code = in.get<std::uint32_t>();
  const auto reply_bytes = in.get<std::uint32_t>();
  const auto text = in.data();
  const auto inside = in.data();
  const bool usable = in.ok() && slot_exists(segment, slot) &&
                      text.size() <= slot_error_bytes_max &&
                      inside.size() <= static_cast<std::size_t>(segment.geometry().slot_bytes) &&
                      segment.state(slot) == SlotState::submitted;
  if (!usable) return false;
  SlotControl& control = segment.control(slot);
  control.error_code = error_code;
  control.reply_bytes = reply_bytes;
  control.text_bytes = static_cast<std::uint32_t>(text.size());
  if (!text.empty()) std::memcpy(segment.command(slot), text.data(), text.size());
  if (!inside.empty()) std::memcpy(segment.data(slot), inside.data(), inside.size());
  segment.set_state(slot, SlotState::done);
  return true;
}

bool takes_bytes(const SlotSegment& segment, bool requester, int slot) {
  return slot_exists(segment, slot) && (segment.state(slot) == SlotState::submitted) == requester;
}

std::span<std::byte> place_in_slot(const SlotSegment& segment, int slot, std::int64_t offset) {
  const std::int64_t slot_bytes = segment.geometry().slot_bytes;
  const std::int64_t at = offset % slot_bytes;
  return {segment.data(slot) + at, static_cast<std::size_t>(slot_bytes - at)};
}

}  // namespace tranship::fabric
