// The slots of a link over a network: each side has its own, and messages copy a slot across.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "fabric/messages/slots.hpp"
#include "fabric/wires/wire.hpp"

namespace tranship::fabric {

/// Returns whether the bytes go directly out of or into the array on that side, without a slot:
/// whether they belong to one nest that is dense there.
bool goes_straight(const SlotGeometry& geometry, std::span<const LoopNest> nests, Side side);

/// The bytes that accompany a slot's command or answer, in the slot or in an array.
struct SlotBytes {
  std::int64_t bytes = 0;
  const std::byte* array = nullptr;             ///< Null: the bytes are in the slot.
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

/// Copies a message of send_answered() into this side's slot, as take_submitted() does.
bool take_answered(const SlotSegment& segment, int slot, std::span<const std::byte> body);

/// Returns whether a message may now bring bytes for a slot: to a requester for submitted slots, to
/// an exporter for all others.
bool takes_bytes(const SlotSegment& segment, bool requester, int slot);

/// Returns where to write bytes of a slot's command from `offset` on: in the slot, where they wrap
/// around. Used when the bytes' array is no longer available.
std::span<std::byte> place_in_slot(const SlotSegment& segment, int slot, std::int64_t offset);

/// Returns the command inside the body of a message of send_submitted(); empty for other bodies.
std::span<const std::byte> command_in(std::span<const std::byte> body);

}  // namespace tranship::fabric
