// The slots of a link over a network: both sides have their own, and messages copy one across.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "fabric/slots.hpp"
#include "fabric/wire.hpp"

namespace tranship {

/// A slot that a requester has filled.
struct SubmittedSlot {
  int slot = 0;
  std::size_t command_bytes = 0;
  std::int64_t write_bytes = 0;  ///< Packed bytes that belong to the command.
};

/// Sends a slot's command, and its packed bytes. Threads: all.
void send_submitted(Wire& wire, ConnectionId connection, const SlotSegment& segment,
                    const SubmittedSlot& submitted);

/// Sends how a slot's command ended, and `read_bytes` packed bytes. Threads: all.
void send_answered(Wire& wire, ConnectionId connection, const SlotSegment& segment, int slot,
                   std::int64_t read_bytes);

/// Puts what send_submitted() has sent into this side's slot, which it then marks as submitted.
/// False if the message is not one that a well-behaved requester sends.
bool take_submitted(const SlotSegment& segment, int slot, std::span<const std::byte> body);

/// The same of send_answered().
bool take_answered(const SlotSegment& segment, int slot, std::span<const std::byte> body);

/// Returns where the packed bytes of a message belong; null if it may bring none now.
std::byte* place_in_slot(const SlotSegment& segment, bool requester, int slot, std::int64_t bytes);

}  // namespace tranship
