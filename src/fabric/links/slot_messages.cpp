#include "fabric/links/slot_messages.hpp"

#include <cstring>

#include "fabric/messages/command.hpp"

namespace tranship::fabric {
namespace {

/// Splits bytes into those that go inside the body and those that follow it.
struct Parts {
  std::span<const std::byte> inside;
  std::span<const std::byte> bulk;
};

Parts parts_of(const SlotSegment& segment, int slot, const SlotBytes& bytes) {
  const std::byte* from = bytes.array != nullptr ? bytes.array : segment.data(slot);
  const std::span<const std::byte> all(from, static_cast<std::size_t>(bytes.bytes));
  return bytes.bytes <= segment.geometry().inside_bytes ? Parts{all, {}} : Parts{{}, all};
}

void send_parts(Wire& wire, ConnectionId connection, const SlotSegment& segment,
                const WireMessage& head, const SlotBytes& bytes, const Parts& parts) {
  WireMessage message = head;
  message.bulk = parts.bulk;
  if (!parts.bulk.empty()) {
    // A slot is filled again only when its answer has arrived.
    message.bulk_stays = bytes.array == nullptr;
    message.owner = message.bulk_stays ? segment.memory() : bytes.owner;
  }
  wire.send(connection, message);
}

bool slot_exists(const SlotSegment& segment, int slot) {
  return segment.memory() && slot >= 0 && slot < segment.geometry().slots;
}

}  // namespace

bool goes_straight(const SlotGeometry& geometry, std::span<const LoopNest> nests, Side side) {
  if (nests.size() != 1 || nests[0].bytes() <= geometry.inside_bytes) return false;
  std::int64_t dense = nests[0].element_bytes;
  for (std::size_t k = 0; k < static_cast<std::size_t>(nests[0].rank); ++k) {
    const Loop& loop = nests[0].loops[k];
    if ((side == Side::source ? loop.source_stride : loop.target_stride) != dense) return false;
    dense *= loop.extent;
  }
  return true;
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
