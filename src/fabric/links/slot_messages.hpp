// The slots of a link over a network: both sides have their own, and messages copy one across.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "fabric/messages/slots.hpp"
#include "fabric/wires/wire.hpp"

namespace tranship::fabric {

/// Whether bytes of one nest that is dense on the side of an array go past the slot there.
bool goes_straight(const SlotGeometry& geometry, std::span<const LoopNest> nests, Side side);

/// Bytes of a slot's command that are sent: those of the slot, or those of an array.
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

/// Puts what send_submitted() has sent into this side's slot, which it then marks as submitted.
/// False if the message is not one that a well-behaved requester sends.
bool take_submitted(const SlotSegment& segment, int slot, std::span<const std::byte> body);

/// The same of send_answered().
bool take_answered(const SlotSegment& segment, int slot, std::span<const std::byte> body);

/// Whether a message may bring bytes for a slot now: a requester waits for the answers of what it
/// has submitted, an exporter for what is new.
bool takes_bytes(const SlotSegment& segment, bool requester, int slot);

/// Room for bytes of a slot's command from `offset` on. Those that no array takes any more go round
/// and round in the slot.
std::span<std::byte> place_in_slot(const SlotSegment& segment, int slot, std::int64_t offset);

/// The command inside the body of a message that send_submitted() has sent, and empty for others.
std::span<const std::byte> command_in(std::span<const std::byte> body);

}  // namespace tranship::fabric
