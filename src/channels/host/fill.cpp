#include "channels/host/fill.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>

namespace tranship::host {
namespace {

/// Longest element that is repeated in a block.
constexpr std::int64_t element_bytes_most = 512;
/// Shortest run, in bytes, that is written in blocks if the element's size is no power of two.
constexpr std::int64_t run_bytes_least = 64;
/// Shortest run, in bytes, that is written in blocks of repeated elements.
constexpr std::int64_t blocked_run_bytes = 1024;
constexpr std::int64_t block_bytes_most = 2048;

template <typename Value>
void repeat(const std::byte* source, std::byte* target, std::int64_t count) {
  constexpr auto bytes = static_cast<std::int64_t>(sizeof(Value));
  Value value;
  std::memcpy(&value, source, sizeof value);
  for (std::int64_t k = 0; k < count; ++k) std::memcpy(target + k * bytes, &value, sizeof value);
}

/// Writes an element `count` times, one behind the other. For sizes without a loop of their own,
/// each step copies all that has been written, and so doubles it.
void repeat(const std::byte* source, std::byte* target, std::int64_t bytes, std::int64_t count) {
  switch (bytes) {
    case 1: std::memset(target, static_cast<int>(*source), static_cast<std::size_t>(count)); return;
    case 2: return repeat<std::uint16_t>(source, target, count);
    case 4: return repeat<std::uint32_t>(source, target, count);
    case 8: return repeat<std::uint64_t>(source, target, count);
    case 16: return repeat<std::array<std::uint64_t, 2>>(source, target, count);
    default: break;
  }
  std::memcpy(target, source, static_cast<std::size_t>(bytes));
  const std::int64_t end = bytes * count;
  for (std::int64_t done = bytes; done < end;) {
    const std::int64_t more = std::min(done, end - done);
    std::memcpy(target + done, target, static_cast<std::size_t>(more));
    done += more;
  }
}

/// Writes a run of 16 to 64 bytes, or a shorter one, of elements whose size divides 8 bytes. The
/// last piece overlaps the one before.
void write_short(std::uint64_t value, std::byte* target, std::int64_t bytes) {
  const std::uint64_t twice[] = {value, value};
  if (bytes >= 16) {
    for (std::int64_t at = 0; at + 16 < bytes; at += 16) std::memcpy(target + at, twice, 16);
    std::memcpy(target + bytes - 16, twice, 16);
  } else if (bytes >= 8) {
    std::memcpy(target, twice, 8);
    std::memcpy(target + bytes - 8, twice, 8);
  } else if (bytes >= 4) {
    std::memcpy(target, twice, 4);
    std::memcpy(target + bytes - 4, twice, 4);
  } else {
    std::memcpy(target, twice, 2);
    std::memcpy(target + bytes - 2, twice, 2);
  }
}

/// Copies runs of up to 64 bytes of elements of the size of `Value`.
template <typename Value>
void copy_short_runs(const Shape& shape) {
  constexpr std::uint64_t ones = ~std::uint64_t{0} / std::numeric_limits<Value>::max();
  const std::int64_t run = shape.axes[0].extent * shape.element_bytes;
  std::int64_t index[Shape::rank_max] = {};
  const std::byte* source = shape.source;
  std::byte* target = shape.target;
  do {
    Value value;
    std::memcpy(&value, source, sizeof value);
    write_short(ones * value, target, run);
  } while (next_turn(shape, 1, index, source, target));
}

/// Copies elements of the size of `Value` to places that lie apart.
template <typename Value>
void copy_apart(const Shape& shape) {
  const Axis inner = shape.axes[0];
  std::int64_t index[Shape::rank_max] = {};
  const std::byte* source = shape.source;
  std::byte* target = shape.target;
  do {
    Value value;
    std::memcpy(&value, source, sizeof value);
    std::byte* at = target;
#pragma GCC unroll 8
    for (std::int64_t k = 0; k < inner.extent; ++k, at += inner.target_stride) {
      std::memcpy(at, &value, sizeof value);
    }
  } while (next_turn(shape, 1, index, source, target));
}

/// Calls `copy` with a number of `bytes` bytes, which are 1, 2, 4 or 8.
template <typename Copy>
void with_number(std::int64_t bytes, const Copy& copy) {
  switch (bytes) {
    case 1: return copy(std::uint8_t{});
    case 2: return copy(std::uint16_t{});
    case 4: return copy(std::uint32_t{});
    default: return copy(std::uint64_t{});
  }
}

bool divides_eight(std::int64_t bytes) {
  return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
}

/// A block of elements of the target, made again when the element changes. Blocks are whole cache
/// lines where that is a few elements, and one element more is behind each, so that a run can begin
/// anywhere in a line.
class Block {
 public:
  explicit Block(std::int64_t element_bytes) : element_bytes_(element_bytes) {
    const std::int64_t lines = std::lcm(element_bytes, line_bytes);
    const std::int64_t step = lines <= block_bytes_most ? lines : element_bytes;
    bytes_ = block_bytes_most / step * step;
  }

  void set(const std::byte* element) {
    if (element == element_) return;
    element_ = element;
    repeat(element, content_, element_bytes_, bytes_ / element_bytes_ + 1);
  }

  void write(std::byte* target, std::int64_t bytes, const Kernels& kernels, bool cold) const {
    const auto past_line = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(target) %
                                                     static_cast<std::uintptr_t>(line_bytes));
    const std::int64_t first = (line_bytes - past_line) % line_bytes;
    std::memcpy(target, content_, static_cast<std::size_t>(first));
    const std::byte* source = content_ + first % element_bytes_;
    for (std::int64_t at = first; at < bytes; at += bytes_) {
      const std::int64_t part = std::min(bytes_, bytes - at);
      if (cold) {
        kernels.stream(source, target + at, part);
      } else {
        std::memcpy(target + at, source, static_cast<std::size_t>(part));
      }
    }
  }

 private:
  std::int64_t element_bytes_;
  std::int64_t bytes_ = 0;
  const std::byte* element_ = nullptr;
  alignas(line_bytes) std::byte content_[block_bytes_most + element_bytes_most];
};

}  // namespace

bool suits_fill(const Shape& shape) {
  if (!shape.pieces.empty() || shape.rank == 0 || shape.element_bytes > element_bytes_most) {
    return false;
  }
  const Axis& inner = shape.axes[0];
  if (inner.source_stride != 0) return false;
  if (inner.target_stride != shape.element_bytes) return divides_eight(shape.element_bytes);
  return (divides_eight(shape.element_bytes) || shape.element_bytes == 16 ||
          inner.extent * shape.element_bytes >= run_bytes_least);
}

void copy_fill(const Shape& shape, const Kernels& set, bool cold) {
  const std::int64_t count = shape.axes[0].extent;
  const std::int64_t run = count * shape.element_bytes;
  std::int64_t index[Shape::rank_max] = {};
  const std::byte* source = shape.source;
  std::byte* target = shape.target;
  if (shape.axes[0].target_stride != shape.element_bytes) {
    return with_number(shape.element_bytes,
                       [&](auto number) { copy_apart<decltype(number)>(shape); });
  }
  if (run <= run_bytes_least && divides_eight(shape.element_bytes)) {
    return with_number(shape.element_bytes,
                       [&](auto number) { copy_short_runs<decltype(number)>(shape); });
  }
  if (run < blocked_run_bytes) {
    do {
      repeat(source, target, shape.element_bytes, count);
    } while (next_turn(shape, 1, index, source, target));
    return;
  }
  Block block(shape.element_bytes);
  do {
    block.set(source);
    block.write(target, run, set, cold);
  } while (next_turn(shape, 1, index, source, target));
}

}  // namespace tranship::host
