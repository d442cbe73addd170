// Memory that targets share with a peer: an array between guards, and the slots of a link.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "base/check.hpp"
#include "fabric/messages/slots.hpp"

namespace tranship::fuzz {

using namespace fabric;

constexpr std::size_t guard_bytes = 512;
constexpr std::size_t array_bytes = 2000;
constexpr std::byte guard{0xa5};

/// An array between two guards, which must stay unchanged.
struct Guarded {
  std::vector<std::byte> memory = std::vector<std::byte>(array_bytes + 2 * guard_bytes, guard);
  std::byte* data() { return memory.data() + guard_bytes; }
  void check(bool inside_too) const {
    for (std::size_t k = 0; k < memory.size(); ++k) {
      const bool inside = k >= guard_bytes && k < guard_bytes + array_bytes;
      CHECK((inside && !inside_too) || memory[k] == guard, "a byte that nobody may change");
    }
  }
};

/// Returns empty slots, in the same memory each time.
template <SlotGeometry geometry>
SlotSegment fresh_segment() {
  static const auto memory = *SharedMemory::allocate({SlotSegment::bytes(geometry), false, false});
  std::memset(memory->data(), 0, static_cast<std::size_t>(memory->bytes()));
  return SlotSegment(memory, geometry);
}

}  // namespace tranship::fuzz
