// Kernel bodies that convert numbers on the way. `load_cast` puts the numbers of a box into shared
// memory in the source's order, at their places in the target's; after a barrier `store_cast`
// converts and writes them. `move_cast` does both at once for boxes that both sides walk alike.
#pragma once

#include "gpu/kernels/cast_numbers.hpp"
#include "gpu/kernels/cast_plan.hpp"

namespace tranship::gpu {

/// Returns the place in shared memory of a box's number: a gap after each 32 spreads the banks.
TRANSHIP_DEVICE std::uint32_t shared_place(std::uint32_t number) { return number + number / 32; }

/// Where a block's box begins, and its extents, which edges cut.
struct CastPlace {
  const std::byte* source;
  std::byte* target;
  std::uint32_t count;
  std::uint32_t extents[kernel_loops_max];
};

TRANSHIP_DEVICE CastPlace locate_cast(const CastPlan& plan, std::uint32_t block,
                                      const std::byte* source, std::byte* target) {
  CastPlace place{source + plan.source_offset, target + plan.target_offset, 1, {}};
  for (int k = 0; k < plan.rank; ++k) {
    const std::uint32_t next = divide(block, plan.boxes[k]);
    const std::int64_t first =
        static_cast<std::int64_t>(block - next * plan.boxes[k].divisor) * plan.box[k];
    block = next;
    place.source += first * plan.loops[k].source_stride;
    place.target += first * plan.loops[k].target_stride;
    const std::int64_t left = plan.loops[k].extent - first;
    place.extents[k] = static_cast<std::uint32_t>(left < plan.box[k] ? left : plan.box[k]);
    place.count *= place.extents[k];
  }
  return place;
}

/// Reads the stored bits of one part of a number at its own alignment, whatever that is.
TRANSHIP_DEVICE std::uint64_t read_part(const std::byte* address, int bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  std::uint64_t bits = 0;
  if (bytes == 1) return read<1>(address).word[0];
  if (at % static_cast<std::uintptr_t>(bytes) == 0) {
    if (bytes == 2) return read<2>(address).word[0];
    if (bytes == 4) return read<4>(address).word[0];
    const Words<8> words = read<8>(address);
    return static_cast<std::uint64_t>(words.word[1]) << 32 | words.word[0];
  }
  for (int k = 0; k < bytes; ++k) {
    bits |= static_cast<std::uint64_t>(read<1>(address + k).word[0]) << (8 * k);
  }
  return bits;
}

TRANSHIP_DEVICE void write_part(std::byte* address, std::uint64_t bits, int bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto low = static_cast<std::uint32_t>(bits);
  if (at % static_cast<std::uintptr_t>(bytes) != 0) {
    for (int k = 0; k < bytes; ++k) {
      write(address + k, Words<1>{{static_cast<std::uint32_t>(bits >> (8 * k))}});
    }
  } else if (bytes == 1) {
    write(address, Words<1>{{low}});
  } else if (bytes == 2) {
    write(address, Words<2>{{low}});
  } else if (bytes == 4) {
    write(address, Words<4>{{low}});
  } else {
    write(address, Words<8>{{low, static_cast<std::uint32_t>(bits >> 32)}});
  }
}

/// Reads number `k` of some.
template <int count>
TRANSHIP_DEVICE void read_number(const std::byte* address, NumberKind kind, int k,
                                 Parts<count>& parts) {
  const auto bytes = static_cast<int>(bytes_of(part_of(kind)));
  parts.real[k] = read_part(address, bytes);
  if (is_complex(kind)) parts.imaginary[k] = read_part(address + bytes, bytes);
}

template <int count>
TRANSHIP_DEVICE void write_number(std::byte* address, NumberKind kind, int k,
                                  const Parts<count>& parts) {
  const auto bytes = static_cast<int>(bytes_of(part_of(kind)));
  write_part(address, parts.real[k], bytes);
  if (is_complex(kind)) write_part(address + bytes, parts.imaginary[k], bytes);
}

/// Reads `cast_together` numbers that follow each other, as vectors.
TRANSHIP_DEVICE void read_numbers(const std::byte* address, NumberKind kind,
                                  Parts<cast_together>& parts) {
  static_assert(cast_together == 4);
  std::uint32_t word[16] = {};
  const std::int64_t bytes = bytes_of(kind);
  if (bytes == 1) {
    word[0] = read<4>(address).word[0];
  } else if (bytes == 2) {
    const Words<8> two = read<8>(address);
    word[0] = two.word[0];
    word[1] = two.word[1];
  } else {
    TRANSHIP_UNROLL
    for (int v = 0; v < 4; ++v) {
      if (v * 4 >= bytes) continue;
      const Words<16> four = read<16>(address + v * 16);
      TRANSHIP_UNROLL
      for (int k = 0; k < 4; ++k) word[v * 4 + k] = four.word[k];
    }
  }
  const auto wide = [&word](int k) {
    return static_cast<std::uint64_t>(word[2 * k + 1]) << 32 | word[2 * k];
  };
  TRANSHIP_UNROLL
  for (int k = 0; k < 4; ++k) {
    parts.imaginary[k] = 0;
    if (bytes == 1) {
      parts.real[k] = word[0] >> (8 * k) & 0xff;
    } else if (bytes == 2) {
      parts.real[k] = word[k / 2] >> (16 * (k % 2)) & 0xffff;
    } else if (bytes == 4) {
      parts.real[k] = word[k];
    } else if (kind == NumberKind::complex64) {
      parts.real[k] = word[2 * k];
      parts.imaginary[k] = word[2 * k + 1];
    } else if (bytes == 8) {
      parts.real[k] = wide(k);
    } else {
      parts.real[k] = wide(2 * k);
      parts.imaginary[k] = wide(2 * k + 1);
    }
  }
}

/// Writes `cast_together` numbers that follow each other, as vectors.
TRANSHIP_DEVICE void write_numbers(std::byte* address, NumberKind kind,
                                   const Parts<cast_together>& parts) {
  std::uint32_t word[16] = {};
  const std::int64_t bytes = bytes_of(kind);
  const auto put = [&word](int k, std::uint64_t bits) {
    word[2 * k] = static_cast<std::uint32_t>(bits);
    word[2 * k + 1] = static_cast<std::uint32_t>(bits >> 32);
  };
  TRANSHIP_UNROLL
  for (int k = 0; k < 4; ++k) {
    const auto low = static_cast<std::uint32_t>(parts.real[k]);
    if (bytes == 1) {
      word[0] |= low << (8 * k);
    } else if (bytes == 2) {
      word[k / 2] |= low << (16 * (k % 2));
    } else if (bytes == 4) {
      word[k] = low;
    } else if (kind == NumberKind::complex64) {
      word[2 * k] = low;
      word[2 * k + 1] = static_cast<std::uint32_t>(parts.imaginary[k]);
    } else if (bytes == 8) {
      put(k, parts.real[k]);
    } else {
      put(2 * k, parts.real[k]);
      put(2 * k + 1, parts.imaginary[k]);
    }
  }
  if (bytes == 1) return write(address, Words<4>{{word[0]}});
  if (bytes == 2) return write(address, Words<8>{{word[0], word[1]}});
  TRANSHIP_UNROLL
  for (int v = 0; v < 4; ++v) {
    if (v * 4 >= bytes) continue;
    write(address + v * 16,
          Words<16>{{word[4 * v], word[4 * v + 1], word[4 * v + 2], word[4 * v + 3]}});
  }
}

/// Moves both addresses to a number of the box, counted in the target's order.
TRANSHIP_DEVICE void go_to(const CastPlan& plan, const CastPlace& place, std::uint32_t number,
                           const std::byte*& source, std::byte*& target) {
  source = place.source;
  target = place.target;
  for (int k = 0; k < plan.rank; ++k) {
    const std::uint32_t next = number / place.extents[k];
    const std::int64_t index = number - next * place.extents[k];
    source += index * plan.loops[k].source_stride;
    target += index * plan.loops[k].target_stride;
    number = next;
  }
}

/// Converts the whole vectors of a box, and one by one the numbers at the ends of its rows.
TRANSHIP_DEVICE void move_cast_vectors(const CastPlan& plan, const CastPlace& place,
                                       std::uint32_t thread) {
  const NumberKind from = plan.conversion.from.kind;
  const NumberKind to = plan.conversion.to.kind;
  const std::uint32_t row = plan.rank > 0 ? place.extents[0] : 1;
  const std::uint32_t groups = (row + cast_together - 1) / cast_together;
  const std::uint32_t rows = place.count / row;
  for (std::uint32_t group = thread; group < groups * rows; group += kernel_threads) {
    const std::uint32_t first = group % groups * cast_together;
    const std::byte* source;
    std::byte* target;
    go_to(plan, place, group / groups * row + first, source, target);
    Parts<cast_together> parts = {};
    if (first + cast_together <= row) {
      read_numbers(source, from, parts);
      cast_numbers(plan.conversion, parts);
      write_numbers(target, to, parts);
      continue;
    }
    for (std::uint32_t k = 0; first + k < row; ++k) {
      Parts<1> one = {};
      read_number(source + k * bytes_of(from), from, 0, one);
      cast_numbers(plan.conversion, one);
      write_number(target + k * bytes_of(to), to, 0, one);
    }
  }
}

/// Converts a box without shared memory. Reads several numbers before it writes the first.
TRANSHIP_DEVICE void move_cast(const CastPlan& plan, const CastPlace& place, std::uint32_t thread) {
  if (plan.vectors) return move_cast_vectors(plan, place, thread);
  const NumberKind from = plan.conversion.from.kind;
  const NumberKind to = plan.conversion.to.kind;
  for (std::uint32_t first = thread; first < place.count; first += cast_together * kernel_threads) {
    Parts<cast_together> parts = {};
    std::byte* targets[cast_together] = {};
    TRANSHIP_UNROLL
    for (int k = 0; k < cast_together; ++k) {
      const std::uint32_t number = first + static_cast<std::uint32_t>(k * kernel_threads);
      if (number >= place.count) continue;
      const std::byte* source;
      go_to(plan, place, number, source, targets[k]);
      read_number(source, from, k, parts);
    }
    cast_numbers(plan.conversion, parts);
    TRANSHIP_UNROLL
    for (int k = 0; k < cast_together; ++k) {
      if (targets[k] != nullptr) write_number(targets[k], to, k, parts);
    }
  }
}

/// First phase of a box that passes through shared memory.
TRANSHIP_DEVICE void load_cast(const CastPlan& plan, const CastPlace& place, std::uint32_t thread,
                               std::byte* shared) {
  const NumberKind from = plan.conversion.from.kind;
  const std::int64_t bytes = bytes_of(from);
  std::uint32_t steps[kernel_loops_max];  // of each loop, in the target's order
  std::uint32_t step = 1;
  for (int k = 0; k < plan.rank; ++k) {
    steps[k] = step;
    step *= place.extents[k];
  }
  for (std::uint32_t number = thread; number < place.count; number += kernel_threads) {
    const std::byte* source = place.source;
    std::uint32_t in_target = 0;
    std::uint32_t rest = number;
    for (int k = 0; k < plan.rank; ++k) {
      const int loop = plan.in_source[k];
      const std::uint32_t next = rest / place.extents[loop];
      const std::uint32_t index = rest - next * place.extents[loop];
      source += static_cast<std::int64_t>(index) * plan.loops[loop].source_stride;
      in_target += index * steps[loop];
      rest = next;
    }
    Parts<1> one = {};
    read_number(source, from, 0, one);
    write_number(shared + shared_place(in_target) * bytes, from, 0, one);
  }
}

/// Second phase: converts the numbers in the target's order.
TRANSHIP_DEVICE void store_cast(const CastPlan& plan, const CastPlace& place, std::uint32_t thread,
                                const std::byte* shared) {
  const NumberKind from = plan.conversion.from.kind;
  const NumberKind to = plan.conversion.to.kind;
  const std::int64_t bytes = bytes_of(from);
  for (std::uint32_t first = thread; first < place.count; first += cast_together * kernel_threads) {
    Parts<cast_together> parts = {};
    TRANSHIP_UNROLL
    for (int k = 0; k < cast_together; ++k) {
      const std::uint32_t number = first + static_cast<std::uint32_t>(k * kernel_threads);
      if (number >= place.count) continue;
      read_number(shared + shared_place(number) * bytes, from, k, parts);
    }
    cast_numbers(plan.conversion, parts);
    TRANSHIP_UNROLL
    for (int k = 0; k < cast_together; ++k) {
      const std::uint32_t number = first + static_cast<std::uint32_t>(k * kernel_threads);
      if (number >= place.count) continue;
      const std::byte* source;
      std::byte* target;
      go_to(plan, place, number, source, target);
      write_number(target, to, k, parts);
    }
  }
}

}  // namespace tranship::gpu
