#include "fabric/slot_messages.hpp"

#include <cstring>

#include "fabric/command.hpp"

namespace tranship {
namespace {

/// Bytes that go inside a message's body: the sender is not kept from what it does next by them.
constexpr std::int64_t inline_bytes_max = 8 * 1024;
constexpr std::size_t text_bytes_max = 1024;

/// Splits packed bytes into those that go inside the body and those that follow it.
struct Packed {
  std::span<const std::byte> inside;
  std::span<const std::byte> bulk;
};

Packed packed_of(const SlotSegment& segment, int slot, std::int64_t bytes) {
  const std::span<const std::byte> all(segment.data(slot), static_cast<std::size_t>(bytes));
  return bytes <= inline_bytes_max ? Packed{all, {}} : Packed{{}, all};
}

void send_packed(Wire& wire, ConnectionId connection, const SlotSegment& segment,
                 const MessageHeader& header, const MessageWriter& body, const Packed& packed) {
  WireMessage message;
  message.header = header;
  message.body = body.bytes();
  message.bulk = packed.bulk;
  if (!packed.bulk.empty()) message.owner = segment.memory();
  wire.send(connection, message);
}

bool slot_exists(const SlotSegment& segment, int slot) {
  return segment.memory() && slot >= 0 && slot < segment.geometry().slots;
}

}  // namespace

void send_submitted(Wire& wire, ConnectionId connection, const SlotSegment& segment,
                    const SubmittedSlot& submitted) {
  const Packed packed = packed_of(segment, submitted.slot, submitted.write_bytes);
  MessageWriter out;
  out.add(std::span<const std::byte>(segment.command(submitted.slot), submitted.command_bytes));
  out.add(packed.inside);
  send_packed(wire, connection, segment,
              {MessageType::submitted, static_cast<std::uint32_t>(submitted.slot), 0}, out, packed);
}

void send_answered(Wire& wire, ConnectionId connection, const SlotSegment& segment, int slot,
                   std::int64_t read_bytes) {
  const Packed packed = packed_of(segment, slot, read_bytes);
  const SlotControl& control = segment.control(slot);
  MessageWriter out;
  out.add(control.error_code).add(control.reply_bytes);
  out.add(std::span<const std::byte>(segment.command(slot), control.text_bytes));
  out.add(packed.inside);
  send_packed(wire, connection, segment,
              {MessageType::answered, static_cast<std::uint32_t>(slot), 0}, out, packed);
}

bool take_submitted(const SlotSegment& segment, int slot, std::span<const std::byte> body) {
  MessageReader in(body);
  const auto command = in.data();
  const auto inside = in.data();
  const bool usable = in.ok() && slot_exists(segment, slot) &&
                      command.size() >= sizeof(CommandHeader) &&
                      command.size() <= static_cast<std::size_t>(command_bytes_max) &&
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
  const bool usable = in.ok() && slot_exists(segment, slot) && text.size() <= text_bytes_max &&
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

std::byte* place_in_slot(const SlotSegment& segment, bool requester, int slot, std::int64_t bytes) {
  if (!slot_exists(segment, slot) || bytes > segment.geometry().slot_bytes) return nullptr;
  // A requester waits for the answers of what it has submitted; an exporter for what is new.
  const bool submitted = segment.state(slot) == SlotState::submitted;
  return submitted == requester ? segment.data(slot) : nullptr;
}

}  // namespace tranship
