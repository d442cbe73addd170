// The slots of a link over a network: each side has its own, and messages copy a slot across.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "fabric/messages/slots.hpp"
#include "fabric/wires/wire.hpp"

namespace tranship::fabric {

/// The array's side of a slot's command: nests, or runs. The other side is the slot, in which the
/// bytes lie one after another.
struct ArraySide {
  std::span<const LoopNest> nests;
  std::span<const Run> runs;
  Side side;
};

/// Returns whether bytes that lie in so many runs of an array go directly out of or into it,
/// without a slot: whether they are many, and the runs long.
bool goes_straight(const SlotGeometry& geometry, std::int64_t bytes, std::int64_t runs);
bool goes_straight(const SlotGeometry& geometry, const ArraySide& array);

/// Returns the number of contiguous runs of a nest on one side; the other side is packed.
std::int64_t runs_of(const LoopNest& nest, Side side);

/// Returns the bytes of an array at `base`, in the order in which a slot would hold them.
GatheredBytes bytes_in_array(const ArraySide& array, const std::byte* base);

/// Returns where the bytes of a slot from `offset` on belong in an array at `base`: the first runs
/// of the `left` bytes that are still to come.
ReceiveBuffer place_in_array(const ArraySide& array, std::byte* base, std::int64_t offset,
                             std::int64_t left);

/// The bytes that accompany a slot's command or answer, in the slot or in an array.
struct SlotBytes {
  std::int64_t bytes = 0;
  GatheredBytes array{};                        ///< Empty: the bytes are in the slot.
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
