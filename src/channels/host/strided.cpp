#include "channels/host/strided.hpp"

#include <cstring>

namespace tranship::host {
namespace {

/// Copies elements of exactly `bytes`, which the compiler turns into single moves.
template <std::size_t bytes>
struct Exact {
  static void copy(const std::byte* source, std::byte* target, std::int64_t) {
    std::memcpy(target, source, bytes);
  }
};

/// Copies elements of `half` to twice `half` bytes as two moves that may overlap in the middle.
template <std::size_t half>
struct Halves {
  static void copy(const std::byte* source, std::byte* target, std::int64_t bytes) {
    struct Half {
      std::byte content[half];
    } low, high;
    const std::int64_t second = bytes - static_cast<std::int64_t>(half);
    std::memcpy(&low, source, half);
    std::memcpy(&high, source + second, half);
    std::memcpy(target, &low, half);
    std::memcpy(target + second, &high, half);
  }
};

/// Copies longer elements in steps of 64 bytes, the last one overlapping the one before.
struct Steps {
  static void copy(const std::byte* source, std::byte* target, std::int64_t bytes) {
    if (bytes > 1024) {
      std::memcpy(target, source, static_cast<std::size_t>(bytes));
      return;
    }
    std::int64_t at = 0;
    for (; at + 64 < bytes; at += 64) std::memcpy(target + at, source + at, 64);
    std::memcpy(target + bytes - 64, source + bytes - 64, 64);
  }
};

template <typename Element>
void strided(const Grid& grid) {
  const std::int64_t element_bytes = grid.element_bytes;
  const std::int64_t source_step = grid.source_0;
  const std::int64_t target_step = grid.target_0;
  for (std::int64_t j = 0; j < grid.extent_1; ++j) {
    const std::byte* source = grid.source + j * grid.source_1;
    std::byte* target = grid.target + j * grid.target_1;
    std::int64_t left = grid.extent_0;
    for (; left >= 4; left -= 4) {
      Element::copy(source, target, element_bytes);
      Element::copy(source + source_step, target + target_step, element_bytes);
      Element::copy(source + 2 * source_step, target + 2 * target_step, element_bytes);
      Element::copy(source + 3 * source_step, target + 3 * target_step, element_bytes);
      source += 4 * source_step;
      target += 4 * target_step;
    }
    for (; left > 0; --left) {
      Element::copy(source, target, element_bytes);
      source += source_step;
      target += target_step;
    }
  }
}

}  // namespace

GridKernel strided_kernel(std::int64_t element_bytes) {
  switch (element_bytes) {
    case 1: return strided<Exact<1>>;
    case 2: return strided<Exact<2>>;
    case 4: return strided<Exact<4>>;
    case 8: return strided<Exact<8>>;
    case 12: return strided<Exact<12>>;
    case 16: return strided<Exact<16>>;
    case 24: return strided<Exact<24>>;
    case 32: return strided<Exact<32>>;
    case 64: return strided<Exact<64>>;
    default: break;
  }
  if (element_bytes < 4) return strided<Halves<2>>;
  if (element_bytes < 8) return strided<Halves<4>>;
  if (element_bytes < 16) return strided<Halves<8>>;
  if (element_bytes < 32) return strided<Halves<16>>;
  if (element_bytes < 64) return strided<Halves<32>>;
  return strided<Steps>;
}

}  // namespace tranship::host
