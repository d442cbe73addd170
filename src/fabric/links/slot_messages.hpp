// The slots of a link over a network: both sides have their own, and messages copy one across.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "fabric/messages/slots.hpp"
#include "fabric/wires/wire.hpp"

namespace tranship::fabric {

/// Returns whether the bytes go straight out of or into the array on that side, without a slot:
/// they are those of one nest that is dense there.
bool goes_straight(const SlotGeometry& geometry, std::span<const LoopNest> nests, Side side);

/// The bytes that go along with a slot's command or answer: of the slot, or of an array.
struct SlotBytes {
  std::int64_t bytes = 0;
  const std::byte* array = nullptr;             ///< Null: they lie in the slot.
  std::shared_ptr<const void> owner = nullptr;  ///< Held while the array may be read.
};

/// Sends a slot's command of `command_bytes`, and the bytes to write. Threads: all.
void send_submitted(Wire& wire, ConnectionId connection, const SlotSegment& segment, int slot,
                    std::size_t command_bytes, const SlotBytes& bytes);

/// Sends how a slot's command ended, and the bytes that were read. Threads: all.
void send_answered(Wire& wire, ConnectionId connection, const SlotSegment& segment, int slot,
                   const SlotBytes& bytes);

/// Copies a message of send_submitted() into this side's slot, and marks the slot as submitted.
/// Returns false if a well-behaved requester does not send such a message.
bool take_submitted(const SlotSegment& segment, int slot, std::span<const std::byte> body);

/// Does the same with a message of send_answered().
bool take_answered(const SlotSegment& segment, int slot, std::span<const std::byte> body);

/// Returns whether a message may bring bytes for a slot now: to a requester for submitted slots, to
/// an exporter for all others.
bool takes_bytes(const SlotSegment& segment, bool requester, int slot);

/// Returns where to write bytes of a slot's command from `offset` on: in the slot, around which
/// they wrap. For bytes whose array is not available any more.
std::span<std::byte> place_in_slot(const SlotSegment& segment, int slot, std::int64_t offset);

/// Returns the command inside the body of a message of send_submitted(); empty for other bodies.
std::span<const std::byte> command_in(std::span<const std::byte> body);

}  // namespace tranship::fabric
