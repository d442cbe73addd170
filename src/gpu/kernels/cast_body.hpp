// Kernel bodies that convert numbers on the way. `convert_box` reads the numbers of a box along the
// source's runs, converts them, and writes them to the target, or at their places in the target's
// order to shared memory; after a barrier `store_box` writes them from there along the target's
// runs.
#pragma once

#include "gpu/kernels/cast_numbers.hpp"
#include "gpu/kernels/cast_plan.hpp"

namespace tranship::gpu {

/// Where a block's box begins, and how much of it lies inside the nest.
struct CastPlace {
  const std::byte* source;
  std::byte* target;
  /// The last index inside the nest along each loop of the box, 16 bits each.
  std::uint64_t last;
  bool full;            ///< all items are whole
  std::uint32_t items;  ///< of the walk that reads
};

TRANSHIP_DEVICE CastPlace locate_cast(const CastPlan& plan, std::uint32_t block,
                                      const std::byte* source, std::byte* target) {
  CastPlace place{source + plan.source_offset, target + plan.target_offset, 0, plan.whole, 0};
  place.items = static_cast<std::uint32_t>(plan.read.items);
  int in_box = 0;
  for (int k = 0; k < plan.rank; ++k) {
    const std::uint32_t next = divide(block, plan.boxes[k]);
    const std::int64_t first =
        static_cast<std::int64_t>(block - next * plan.boxes[k].divisor) * plan.box[k];
    block = next;
    place.source += first * plan.loops[k].source_stride;
    place.target += first * plan.loops[k].target_stride;
    if (plan.box[k] == 1) continue;
    const std::int64_t left = plan.loops[k].extent - first;
    const bool cut = left < plan.box[k];
    if (cut) {
      const auto rest = static_cast<std::uint32_t>(left);
      const auto run = static_cast<std::uint32_t>(plan.last_run);
      if (in_box + 1 == plan.box_rank && plan.last_items > 0 && rest % run == 0) {
        place.items = static_cast<std::uint32_t>(plan.last_items) * (rest / run);
      } else {
        place.full = false;
      }
    }
    const auto last = static_cast<std::uint64_t>(cut ? left : plan.box[k]) - 1;
    place.last |= last << (16 * in_box++);
  }
  return place;
}

/// Where an item of a walk lies, from the box's beginning.
struct CastItem {
  std::int64_t source = 0;
  std::int64_t target = 0;
  std::int32_t shared = 0;
  std::uint64_t indices = 0;  ///< of its first number along each loop of the box, 16 bits each
};

/// full: The box lies inside the nest as a whole, so that nobody asks for indices.
TRANSHIP_DEVICE CastItem locate_item(const CastWalk& walk, std::uint32_t item, bool full) {
  CastItem at;
  TRANSHIP_UNROLL
  for (int k = 0; k < cast_steps_max; ++k) {
    if (k >= walk.rank) continue;
    const CastStep& step = walk.steps[k];
    std::uint32_t index = item;
    if (k + 1 < walk.rank) {
      item = divide(index, step.extent);
      index -= item * step.extent.divisor;
    }
    at.source += index * step.source_stride;
    at.target += index * step.target_stride;
    at.shared += static_cast<std::int32_t>(index) * step.shared_stride;
    if (!full) at.indices += index * step.indices;
  }
  return at;
}

/// Returns where a thread's item `number` of those that it takes together lies. at: Its item
/// before.
TRANSHIP_DEVICE CastItem next_item(const CastWalk& walk, const CastItem& at, std::uint32_t item,
                                   int number, bool full) {
  if (number == 0 || !walk.regular) return locate_item(walk, item, full);
  CastItem next = at;
  next.source += walk.advance.source_stride;
  next.target += walk.advance.target_stride;
  next.shared += walk.advance.shared_stride;
  if (!full) next.indices += walk.advance.indices;
  return next;
}

/// Returns how many of an item's numbers lie inside the nest. numbers: of a whole item.
TRANSHIP_DEVICE int numbers_inside(const CastWalk& walk, const CastPlace& place, const CastItem& at,
                                   int numbers) {
  if (place.full) return numbers;
  constexpr std::uint64_t above = 0x8000800080008000u;
  // A field keeps its highest bit unless the index is beyond the last one.
  if ((((place.last | above) - at.indices) & above) != above) return 0;
  const int shift = 16 * walk.run_loop;
  const auto left =
      static_cast<int>(((place.last >> shift & 0x7fffu) - (at.indices >> shift & 0x7fffu)) + 1);
  return left < numbers ? left : numbers;
}

/// Reads a number of at most 8 bytes at any address.
TRANSHIP_DEVICE std::uint64_t read_bytes(const std::byte* address, int bytes) {
  std::uint64_t bits = 0;
  TRANSHIP_ROLLED
  for (int k = bytes - 1; k >= 0; --k) bits = bits << 8 | read<1>(address + k).word[0];
  return bits;
}

/// Writes a number at any address. Its bytes beyond 8 are zero.
TRANSHIP_DEVICE void write_bytes(std::byte* address, std::uint64_t bits, int bytes) {
  TRANSHIP_ROLLED
  for (int k = 0; k < bytes; ++k) {
    write(address + k, Words<1>{{static_cast<std::uint32_t>(bits & 0xff)}});
    bits >>= 8;
  }
}

/// Reads a number that is not aligned, or both parts of a complex one that becomes a boolean: the
/// signs of zeros do not count.
TRANSHIP_DEVICE std::uint64_t read_slowly(const CastPlan& plan, const std::byte* address,
                                          int bytes) {
  const std::uint64_t real = read_bytes(address, bytes);
  if (!plan.either_part) return real;
  const int sign = plan.from_swapped ? 7 : 8 * bytes - 1;
  return (real | read_bytes(address + bytes, bytes)) & ~(std::uint64_t{1} << sign);
}

/// Returns the bits of words that are the `number`th of `bytes` bytes.
template <int bytes, typename Bits, int vector_bytes>
TRANSHIP_DEVICE Bits bits_in(const Words<vector_bytes>& words, int number) {
  const Words<bytes> one = extract<bytes>(words, number);
  if constexpr (bytes == 8) {
    return static_cast<Bits>(static_cast<std::uint64_t>(one.word[1]) << 32 | one.word[0]);
  } else {
    return one.word[0] & (bytes == 4 ? 0xffffffffu : (1u << (8 * bytes % 32)) - 1);
  }
}

/// Returns the words of a number, of which those that `bits` lacks are zero.
template <int bytes, typename Bits>
TRANSHIP_DEVICE Words<bytes> words_of(Bits bits) {
  Words<bytes> words{};
  words.word[0] = static_cast<std::uint32_t>(bits);
  if constexpr (bytes >= 8) {
    words.word[1] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(bits) >> 32);
  }
  return words;
}

/// How runs of numbers of `bytes` bytes lie in vectors.
template <int bytes, int run>
struct RunVectors {
  static constexpr int vector_bytes = run * bytes < 16 ? run * bytes : 16;
  static constexpr int in_vector = vector_bytes / bytes;  ///< numbers
  static constexpr int count = run / in_vector;           ///< vectors of a run
  using Vector = Words<vector_bytes>;
};

/// Writes a whole run of numbers of `bytes` bytes each.
template <int bytes, int run, typename Bits>
TRANSHIP_DEVICE void write_run(std::byte* address, const Bits* bits) {
  using Vectors = RunVectors<bytes, run>;
  TRANSHIP_UNROLL
  for (int first = 0; first < run; first += Vectors::in_vector) {
    typename Vectors::Vector words{};
    TRANSHIP_UNROLL
    for (int k = 0; k < Vectors::in_vector; ++k) {
      insert<bytes>(words, k, words_of<bytes>(bits[first + k]));
    }
    write(address + first * bytes, words);
  }
}

/// The items that a thread holds at a time.
template <typename Form>
struct CastHeld {
  const std::byte* from[Form::groups];
  std::byte* to[Form::groups];
  int inside[Form::groups];  ///< numbers of each item that lie inside the nest
  typename Form::Source source[Form::held];
  typename Form::Target target[Form::held];
};

/// Reads the whole runs among the items. All vectors are under way before the first is taken apart.
template <int bytes, typename Form>
TRANSHIP_DEVICE void read_runs(CastHeld<Form>& held) {
  using Vectors = RunVectors<bytes, Form::run>;
  typename Vectors::Vector words[Form::groups * Vectors::count] = {};
  TRANSHIP_UNROLL
  for (int k = 0; k < Form::groups * Vectors::count; ++k) {
    const int group = k / Vectors::count;
    if (held.inside[group] < Form::run) continue;
    words[k] =
        read<Vectors::vector_bytes>(held.from[group] + k % Vectors::count * Vectors::vector_bytes);
  }
  TRANSHIP_UNROLL
  for (int k = 0; k < Form::held; ++k) {
    held.source[k] = bits_in<bytes, typename Form::Source>(words[k / Vectors::in_vector],
                                                           k % Vectors::in_vector);
  }
}

/// Reads the items' numbers one by one; with `cut`, those of items that are no whole runs.
template <int bytes, bool aligned, bool cut, typename Form>
TRANSHIP_DEVICE void read_singly(const CastPlan& plan, CastHeld<Form>& held) {
  using Bits = typename Form::Source;
  TRANSHIP_UNROLL
  for (int k = 0; k < Form::held; ++k) {
    const int inside = held.inside[k / Form::run];
    if (k % Form::run >= inside || (cut && inside == Form::run)) continue;
    const std::byte* from = held.from[k / Form::run] + k % Form::run * plan.source_run_stride;
    if constexpr (aligned) {
      held.source[k] = bits_in<bytes, Bits>(read<bytes>(from), 0);
    } else {
      held.source[k] = static_cast<Bits>(read_slowly(plan, from, bytes));
    }
  }
}

/// Reads one number of the source for each run, which repeats it.
template <int bytes, typename Form>
TRANSHIP_DEVICE void repeat_numbers(CastHeld<Form>& held) {
  using Bits = typename Form::Source;
  TRANSHIP_UNROLL
  for (int group = 0; group < Form::groups; ++group) {
    if (held.inside[group] == 0) continue;
    const Bits bits = bits_in<bytes, Bits>(read<bytes>(held.from[group]), 0);
    TRANSHIP_UNROLL
    for (int k = 0; k < Form::run; ++k) held.source[group * Form::run + k] = bits;
  }
}

/// Reads all items, whose numbers have `bytes` bytes in the source.
template <int bytes, typename Form>
TRANSHIP_DEVICE void read_items(const CastPlan& plan, const CastPlace& place,
                                CastHeld<Form>& held) {
  if constexpr (bytes <= Form::source_bytes_max) {
    if constexpr (Form::run > 1) {
      if (plan.source_vectors) {
        read_runs<bytes>(held);
        if (!place.full) read_singly<bytes, true, true>(plan, held);
        return;
      }
    }
    if constexpr (Form::way == CastWay::runs) {
      repeat_numbers<bytes>(held);
    } else if (plan.source_aligned) {
      read_singly<bytes, true, false>(plan, held);
    } else {
      read_singly<bytes, false, false>(plan, held);
    }
  }
}

/// Writes a patch to shared memory: of each of its groups the first numbers, then the second ones.
template <int bytes, typename Form>
TRANSHIP_DEVICE void hold_patch(const CastPlan& plan, const CastPlace& place,
                                const CastHeld<Form>& held) {
  TRANSHIP_UNROLL
  for (int k = 0; k < Form::run; ++k) {
    std::byte* to = held.to[0] + k * plan.shared_run_stride;
    if (place.full) {
      constexpr int vector = Form::groups * bytes < 16 ? Form::groups * bytes : 16;
      constexpr int in_vector = vector / bytes;
      TRANSHIP_UNROLL
      for (int first = 0; first < Form::groups; first += in_vector) {
        Words<vector> words{};
        TRANSHIP_UNROLL
        for (int j = 0; j < in_vector; ++j) {
          insert<bytes>(words, j, words_of<bytes>(held.target[(first + j) * Form::run + k]));
        }
        write(to + first * bytes, words);
      }
      continue;
    }
    TRANSHIP_UNROLL
    for (int group = 0; group < Form::groups; ++group) {
      if (k >= held.inside[group]) continue;
      write(to + group * bytes, words_of<bytes>(held.target[group * Form::run + k]));
    }
  }
}

/// Writes all items, whose numbers have `bytes` bytes in the target: to the target, or to shared
/// memory.
template <int bytes, typename Form>
TRANSHIP_DEVICE void write_items(const CastPlan& plan, const CastPlace& place,
                                 const CastHeld<Form>& held) {
  constexpr bool is_taken =
      bytes <= Form::target_bytes_max && (Form::is_wide ? bytes >= 8 : bytes <= 8);
  if constexpr (is_taken && Form::shared) {
    hold_patch<bytes>(plan, place, held);
  } else if constexpr (is_taken) {
    const bool slowly = Form::way == CastWay::singles && plan.target_vector < bytes;
    TRANSHIP_UNROLL
    for (int group = 0; group < Form::groups; ++group) {
      const typename Form::Target* const bits = held.target + group * Form::run;
      if constexpr (Form::way == CastWay::runs) {
        if (held.inside[group] == Form::run) {
          write_run<bytes, Form::run>(held.to[group], bits);
          continue;
        }
      }
      TRANSHIP_UNROLL
      for (int k = 0; k < Form::run; ++k) {
        if (k >= held.inside[group]) continue;
        std::byte* to = held.to[group] + k * bytes;
        if (slowly) {
          write_bytes(to, bits[k], bytes);
        } else {
          write(to, words_of<bytes>(bits[k]));
        }
      }
    }
  }
}

/// Finds the patch of an item: a run, and as many as a thread holds beside it along the target's
/// runs.
template <typename Form>
TRANSHIP_DEVICE void locate_patch(const CastPlan& plan, const CastPlace& place, const CastItem& at,
                                  std::byte* shared, CastHeld<Form>& held) {
  const int inside = numbers_inside(plan.read, place, at, Form::run);
  int rows = Form::groups;
  if (!place.full) {
    const auto left = static_cast<int>((place.last & 0x7fffu) - (at.indices & 0x7fffu)) + 1;
    rows = left < rows ? left : rows;
  }
  TRANSHIP_UNROLL
  for (int k = 0; k < Form::groups; ++k) {
    held.inside[k] = k < rows ? inside : 0;
    held.from[k] = place.source + at.source + k * plan.source_row_stride;
  }
  held.to[0] = shared + at.shared;
}

/// Converts a box. Reads several items before it writes the first.
template <typename Form>
TRANSHIP_DEVICE void convert_box(const CastPlan& plan, const CastPlace& place, std::uint32_t thread,
                                 std::byte* shared) {
  const std::uint32_t items = place.items;
  constexpr std::uint32_t together = Form::shared ? 1 : Form::groups;
  CastItem at;
  for (std::uint32_t first = thread; first < items; first += together * kernel_threads) {
    CastHeld<Form> held{};
    if constexpr (Form::shared) {
      at = next_item(plan.read, at, first, first == thread ? 0 : 1, place.full);
      locate_patch(plan, place, at, shared, held);
    }
    TRANSHIP_UNROLL
    for (int k = 0; k < Form::groups && !Form::shared; ++k) {
      const std::uint32_t item = first + static_cast<std::uint32_t>(k * kernel_threads);
      if (item >= items) continue;
      at = next_item(plan.read, at, item, k, place.full);
      held.inside[k] = numbers_inside(plan.read, place, at, Form::run);
      held.from[k] = place.source + at.source;
      held.to[k] = place.target + at.target;
    }
    switch (bytes_of(plan.from)) {
      case 1: read_items<1>(plan, place, held); break;
      case 2: read_items<2>(plan, place, held); break;
      case 4: read_items<4>(plan, place, held); break;
      default: read_items<8>(plan, place, held);
    }
    cast_numbers<Form>(plan, held.source, held.target);
    switch (plan.target_bytes) {
      case 1: write_items<1>(plan, place, held); break;
      case 2: write_items<2>(plan, place, held); break;
      case 4: write_items<4>(plan, place, held); break;
      case 8: write_items<8>(plan, place, held); break;
      default: write_items<16>(plan, place, held);
    }
  }
}

/// Writes a box from shared memory, in vectors of `vector_bytes` that the target's alignment
/// allows.
template <int vector_bytes>
TRANSHIP_DEVICE void store_vectors(const CastPlan& plan, const CastPlace& place,
                                   std::uint32_t thread, const std::byte* shared) {
  const auto items = static_cast<std::uint32_t>(plan.write.items);
  const int bytes = plan.target_bytes;
  const int numbers = vector_bytes > bytes ? vector_bytes / bytes : 1;
  CastItem at;
  for (std::uint32_t item = thread; item < items; item += kernel_threads) {
    at = next_item(plan.write, at, item, item == thread ? 0 : 1, place.full);
    const int inside = numbers_inside(plan.write, place, at, numbers);
    const std::byte* from = shared + at.shared;
    std::byte* to = place.target + at.target;
    if (inside == numbers) {
      for (int done = 0; done < numbers * bytes; done += vector_bytes) {
        write(to + done, read<vector_bytes>(from + done));
      }
      continue;
    }
    for (int k = 0; k < inside * bytes; ++k) write(to + k, read<1>(from + k));
  }
}

TRANSHIP_DEVICE void store_box(const CastPlan& plan, const CastPlace& place, std::uint32_t thread,
                               const std::byte* shared) {
  switch (plan.target_vector) {
    case 16: return store_vectors<16>(plan, place, thread, shared);
    case 8: return store_vectors<8>(plan, place, thread, shared);
    case 4: return store_vectors<4>(plan, place, thread, shared);
    case 2: return store_vectors<2>(plan, place, thread, shared);
    default: return store_vectors<1>(plan, place, thread, shared);
  }
}

}  // namespace tranship::gpu
