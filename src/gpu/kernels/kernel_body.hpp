// Kernel bodies: what one thread of one block does, on the GPU and, phase by phase, on the CPU. A
// block moves a box of the nest: `load_box` and `store_box`, with a barrier between them, pass the
// box through shared memory. There the box lies in the source's order with a gap after each 128
// bytes, so that reads across it are spread over the banks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/check.hpp"
#include "gpu/kernels/nest_plan.hpp"

#ifdef __CUDACC__
#define TRANSHIP_DEVICE __host__ __device__ __forceinline__
#define TRANSHIP_UNROLL _Pragma("unroll")
#define TRANSHIP_ROLLED _Pragma("unroll 1")
#else
#define TRANSHIP_DEVICE inline
#define TRANSHIP_UNROLL
#define TRANSHIP_ROLLED
#endif

namespace tranship::gpu {

/// Bytes that memory moves at least.
constexpr std::uint32_t sector_bytes = 32;

/// `bytes` bytes of memory, as registers hold them.
template <int bytes>
struct alignas(bytes < 4 ? 4 : bytes) Words {
  static constexpr int count = bytes < 4 ? 1 : bytes / 4;
  std::uint32_t word[count];
};

/// Reads aligned memory in one access.
template <int bytes>
TRANSHIP_DEVICE Words<bytes> read(const std::byte* address) {
  Words<bytes> words{};
#ifdef __CUDA_ARCH__
  if constexpr (bytes == 16) {
    const auto* four = reinterpret_cast<const uint4*>(address);
    *reinterpret_cast<uint4*>(words.word) = *four;
  } else if constexpr (bytes == 8) {
    const auto* two = reinterpret_cast<const uint2*>(address);
    *reinterpret_cast<uint2*>(words.word) = *two;
  } else if constexpr (bytes == 4) {
    words.word[0] = *reinterpret_cast<const std::uint32_t*>(address);
  } else if constexpr (bytes == 2) {
    words.word[0] = *reinterpret_cast<const std::uint16_t*>(address);
  } else {
    words.word[0] = *reinterpret_cast<const std::uint8_t*>(address);
  }
#else
  CHECK(reinterpret_cast<std::uintptr_t>(address) % bytes == 0, "a kernel reads a misaligned word");
  std::memcpy(&words, address, bytes);
#endif
  return words;
}

template <int bytes>
TRANSHIP_DEVICE void write(std::byte* address, const Words<bytes>& words) {
#ifdef __CUDA_ARCH__
  if constexpr (bytes == 16) {
    *reinterpret_cast<uint4*>(address) =
        make_uint4(words.word[0], words.word[1], words.word[2], words.word[3]);
  } else if constexpr (bytes == 8) {
    *reinterpret_cast<uint2*>(address) = make_uint2(words.word[0], words.word[1]);
  } else if constexpr (bytes == 4) {
    *reinterpret_cast<std::uint32_t*>(address) = words.word[0];
  } else if constexpr (bytes == 2) {
    *reinterpret_cast<std::uint16_t*>(address) = static_cast<std::uint16_t>(words.word[0]);
  } else {
    *reinterpret_cast<std::uint8_t*>(address) = static_cast<std::uint8_t>(words.word[0]);
  }
#else
  CHECK(reinterpret_cast<std::uintptr_t>(address) % bytes == 0,
        "a kernel writes a misaligned word");
  std::memcpy(address, &words, bytes);
#endif
}

/// Sets element `number` of a vector; the compiler knows both counts.
template <int element_bytes, int vector_bytes>
TRANSHIP_DEVICE void insert(Words<vector_bytes>& vector, int number,
                            const Words<element_bytes>& element) {
  if constexpr (element_bytes >= 4) {
    constexpr int words = element_bytes / 4;
    TRANSHIP_UNROLL
    for (int k = 0; k < words; ++k) vector.word[number * words + k] = element.word[k];
  } else {
    constexpr int in_word = 4 / element_bytes;
    const int shift = 8 * element_bytes * (number % in_word);
    vector.word[number / in_word] |= element.word[0] << shift;
  }
}

template <int element_bytes, int vector_bytes>
TRANSHIP_DEVICE Words<element_bytes> extract(const Words<vector_bytes>& vector, int number) {
  Words<element_bytes> element{};
  if constexpr (element_bytes >= 4) {
    constexpr int words = element_bytes / 4;
    TRANSHIP_UNROLL
    for (int k = 0; k < words; ++k) element.word[k] = vector.word[number * words + k];
  } else {
    constexpr int in_word = 4 / element_bytes;
    element.word[0] = vector.word[number / in_word] >> (8 * element_bytes * (number % in_word));
  }
  return element;
}

/// Returns the bytes of the gap after each 128 bytes of shared memory.
constexpr TRANSHIP_DEVICE std::uint32_t gap_bytes(int element_bytes) {
  return element_bytes < 4 ? 4u : static_cast<std::uint32_t>(element_bytes);
}

/// Returns log2 of the bytes between second gaps: of the bytes after which the first gaps add up to
/// 128 bytes.
constexpr TRANSHIP_DEVICE int second_gap_log2(int element_bytes) {
  return element_bytes <= 4 ? 12 : element_bytes == 8 ? 11 : 10;
}

/// Returns where byte `at` of a box lies in shared memory. The second gap keeps strides of whole
/// multiples of 128 bytes on different banks.
template <int element_bytes>
TRANSHIP_DEVICE std::uint32_t in_shared(std::uint32_t at) {
  constexpr std::uint32_t gap = gap_bytes(element_bytes);
  constexpr int second = second_gap_log2(element_bytes);
  return at + (at >> 7) * gap + (at >> second) * gap;
}

/// Returns the bytes of shared memory that a box of `bytes` bytes takes, gaps included.
inline std::uint32_t shared_size(std::uint32_t bytes, int element_bytes) {
  const std::uint32_t gap = gap_bytes(element_bytes);
  const int second = second_gap_log2(element_bytes);
  const std::uint32_t size = bytes + (bytes >> 7) * gap + (bytes >> second) * gap;
  return (size + 15) / 16 * 16;
}

TRANSHIP_DEVICE std::uint32_t divide(std::uint32_t number, const Divisor& by) {
#ifdef __CUDA_ARCH__
  return (__umulhi(number, by.multiplier) + number) >> by.shift;
#else
  const std::uint64_t product = static_cast<std::uint64_t>(number) * by.multiplier;
  return (static_cast<std::uint32_t>(product >> 32) + number) >> by.shift;
#endif
}

/// Where a block's box begins, and how much of it lies inside the nest.
struct BlockBox {
  const std::byte* source;
  std::byte* target;
  /// Indices inside the nest for each loop of the box, 16 bits each: an array would be in memory.
  std::uint64_t limits;
  bool full;
};

TRANSHIP_DEVICE std::uint32_t limit_of(const BlockBox& place, int loop) {
  return static_cast<std::uint32_t>(place.limits >> (16 * loop)) & 0xffffu;
}

/// Moves `place` to the block's box along one loop, and leaves in `block` its number along the
/// following loops; returns the box's first index.
template <typename AnyBox>
TRANSHIP_DEVICE std::int64_t enter_loop(const NestPlan& plan, int loop, std::uint32_t& block,
                                        AnyBox& place) {
  const std::uint32_t next = divide(block, plan.boxes[loop]);
  const std::int64_t first =
      static_cast<std::int64_t>(block - next * plan.boxes[loop].divisor) * plan.box[loop];
  block = next;
  place.source += first * plan.loops[loop].source_stride;
  place.target += first * plan.loops[loop].target_stride;
  return first;
}

TRANSHIP_DEVICE BlockBox locate(const NestPlan& plan, std::uint32_t block, const std::byte* source,
                                std::byte* target) {
  BlockBox place{source + plan.source_offset, target + plan.target_offset, 0x0001000100010001u,
                 true};
  TRANSHIP_UNROLL
  for (int k = 0; k < kernel_loops_max; ++k) {
    if (k >= plan.rank) continue;
    const std::int64_t first = enter_loop(plan, k, block, place);
    const std::int64_t left = plan.loops[k].extent - first;
    const bool cut = left < plan.box[k];
    place.full = place.full && !cut;
    if (k < plan.box_rank) {
      const auto limit = static_cast<std::uint64_t>(cut ? left : plan.box[k]);
      place.limits += (limit - 1) << (16 * k);
    }
  }
  return place;
}

/// The indices of one element of a box, in the target's order.
template <int loops>
struct Indices {
  std::uint32_t at[loops];
};

template <int loops>
TRANSHIP_DEVICE Indices<loops> target_indices(const NestPlan& plan, std::uint32_t element) {
  Indices<loops> indices{};
  TRANSHIP_UNROLL
  for (int k = 0; k < loops; ++k) {
    std::uint32_t next = 0;
    indices.at[k] = element;
    if (k + 1 < plan.box_rank) {
      next = divide(element, plan.target_steps[k].extent);
      indices.at[k] = element - next * plan.target_steps[k].extent.divisor;
    }
    element = next;
  }
  return indices;
}

template <int loops>
TRANSHIP_DEVICE bool inside(const Indices<loops>& indices, const BlockBox& place) {
  bool all = true;
  TRANSHIP_UNROLL
  for (int k = 0; k < loops; ++k) all = all && indices.at[k] < limit_of(place, k);
  return all;
}

/// Reads a vector of the source, whose elements may lie beyond the edge.
template <int element_bytes, int vector_bytes, int loops, bool full>
TRANSHIP_DEVICE Words<vector_bytes> read_vector(const NestPlan& plan, const BlockBox& place,
                                                std::uint32_t vector) {
  constexpr int elements = vector_bytes / element_bytes;
  std::uint32_t rest = vector * static_cast<std::uint32_t>(elements);
  std::int64_t from = 0;
  std::uint32_t left = 0;
  bool inside_all = true;
  TRANSHIP_UNROLL
  for (int k = 0; k < loops; ++k) {
    if (k >= plan.source_rank) continue;
    const SourceStep& step = plan.source_steps[k];
    std::uint32_t index = rest;
    if (k + 1 < plan.source_rank) {
      rest = divide(index, step.extent);
      index -= rest * step.extent.divisor;
    }
    from += index * step.stride;
    if constexpr (!full) {
      const std::uint32_t limit =
          limit_of(place, step.cut) * static_cast<std::uint32_t>(step.factor);
      inside_all = inside_all && index < limit;
      if (k == 0) left = limit - index;
    }
  }
  if constexpr (full) return read<vector_bytes>(place.source + from);
  Words<vector_bytes> words{};
  if (!inside_all) return words;
  if (left >= static_cast<std::uint32_t>(elements)) return read<vector_bytes>(place.source + from);
  TRANSHIP_UNROLL
  for (int j = 0; j < elements; ++j) {
    if (static_cast<std::uint32_t>(j) < left) {
      insert<element_bytes>(words, j, read<element_bytes>(place.source + from + j * element_bytes));
    }
  }
  return words;
}

/// First phase: copies the box from the source, in its order, to shared memory.
template <int element_bytes, int vector_bytes, int loops, bool full>
TRANSHIP_DEVICE void load_box(const NestPlan& plan, const BlockBox& place, std::uint32_t thread,
                              std::byte* shared) {
  constexpr int together = vector_bytes == 16 ? 4 : 8;
  constexpr int piece = vector_bytes < 4 ? vector_bytes : element_bytes < 4 ? 4 : element_bytes;
  const std::uint32_t count =
      static_cast<std::uint32_t>(plan.box_elements / (vector_bytes / element_bytes));
  for (std::uint32_t first = thread; first < count; first += together * kernel_threads) {
    Words<vector_bytes> held[together] = {};
    TRANSHIP_UNROLL
    for (int r = 0; r < together; ++r) {
      const std::uint32_t vector = first + static_cast<std::uint32_t>(r * kernel_threads);
      if (vector < count) {
        held[r] = read_vector<element_bytes, vector_bytes, loops, full>(plan, place, vector);
      }
    }
    TRANSHIP_UNROLL
    for (int r = 0; r < together; ++r) {
      const std::uint32_t vector = first + static_cast<std::uint32_t>(r * kernel_threads);
      if (vector >= count) continue;
      std::byte* to = shared + in_shared<element_bytes>(vector * vector_bytes);
      TRANSHIP_UNROLL
      for (int j = 0; j < vector_bytes / piece; ++j) {
        write(to + j * piece, extract<piece>(held[r], j));
      }
    }
  }
}

/// Moves on to the next element in the target's order: its indices, and its number in shared
/// memory.
template <int loops>
TRANSHIP_DEVICE void advance(const NestPlan& plan, Indices<loops>& indices, std::int32_t& at) {
  bool carry = true;
  at += plan.target_steps[0].shared_stride;
  TRANSHIP_UNROLL
  for (int k = 0; k < loops - 1; ++k) {
    indices.at[k] += carry ? 1u : 0u;
    carry = carry && indices.at[k] == plan.target_steps[k].extent.divisor;
    indices.at[k] = carry ? 0u : indices.at[k];
    at += carry ? plan.target_steps[k].shared_carry : 0;
  }
}

/// Returns the elements of a vector of the target, read from shared memory.
template <int element_bytes, int vector_bytes, int loops>
TRANSHIP_DEVICE Words<vector_bytes> gather(const NestPlan& plan, Indices<loops> indices,
                                           const std::byte* shared) {
  constexpr int elements = vector_bytes / element_bytes;
  Words<vector_bytes> words{};
  std::int32_t at = 0;
  TRANSHIP_UNROLL
  for (int k = 0; k < loops; ++k) {
    at += static_cast<std::int32_t>(indices.at[k]) * plan.target_steps[k].shared_stride;
  }
  const auto byte_of = [](std::int32_t number) {
    return in_shared<element_bytes>(static_cast<std::uint32_t>(number) * element_bytes);
  };
  if (plan.shared_step != 0) {
    // The usual case of small elements: one addition for each.
    std::uint32_t byte = byte_of(at);
    TRANSHIP_UNROLL
    for (int j = 0; j < elements; ++j) {
      insert<element_bytes>(words, j, read<element_bytes>(shared + byte));
      byte += static_cast<std::uint32_t>(plan.shared_step);
    }
  } else if (!plan.straddles) {
    TRANSHIP_UNROLL
    for (int j = 0; j < elements; ++j) {
      insert<element_bytes>(words, j, read<element_bytes>(shared + byte_of(at)));
      at += plan.target_steps[0].shared_stride;
    }
  } else {
    TRANSHIP_UNROLL
    for (int j = 0; j < elements; ++j) {
      insert<element_bytes>(words, j, read<element_bytes>(shared + byte_of(at)));
      advance(plan, indices, at);
    }
  }
  return words;
}

/// Writes the elements of a vector that lie inside the nest, one by one; the vector lies within one
/// loop.
template <int element_bytes, int vector_bytes>
TRANSHIP_DEVICE void write_some(std::byte* target, const Words<vector_bytes>& words,
                                std::uint32_t inside_count) {
  TRANSHIP_UNROLL
  for (int j = 0; j < vector_bytes / element_bytes; ++j) {
    if (static_cast<std::uint32_t>(j) < inside_count) {
      write(target + j * element_bytes, extract<element_bytes>(words, j));
    }
  }
}

template <int loops>
TRANSHIP_DEVICE std::int64_t target_offset(const NestPlan& plan, const Indices<loops>& indices) {
  std::int64_t offset = 0;
  TRANSHIP_UNROLL
  for (int k = 0; k < loops; ++k) offset += indices.at[k] * plan.loops[k].target_stride;
  return offset;
}

/// Second phase: copies the box from shared memory to the target, in its order.
template <int element_bytes, int vector_bytes, int loops, bool full>
TRANSHIP_DEVICE void store_box(const NestPlan& plan, const BlockBox& place, std::uint32_t thread,
                               const std::byte* shared) {
  // A cut box whose vectors extend over several loops is written element by element.
  constexpr std::uint32_t elements = vector_bytes / element_bytes;
  const std::uint32_t count = static_cast<std::uint32_t>(plan.box_elements);
  if (!full && plan.straddles) {
    for (std::uint32_t number = thread; number < count; number += kernel_threads) {
      const Indices<loops> indices = target_indices<loops>(plan, number);
      if (!inside(indices, place)) continue;
      write(place.target + target_offset(plan, indices),
            gather<element_bytes, element_bytes, loops>(plan, indices, shared));
    }
    return;
  }
  for (std::uint32_t number = thread * elements; number < count;
       number += kernel_threads * elements) {
    const Indices<loops> indices = target_indices<loops>(plan, number);
    if (!full && !inside(indices, place)) continue;
    std::byte* to = place.target + target_offset(plan, indices);
    const auto words = gather<element_bytes, vector_bytes, loops>(plan, indices, shared);
    if (full || indices.at[0] + elements <= limit_of(place, 0)) {
      write(to, words);
    } else {
      write_some<element_bytes>(to, words, limit_of(place, 0) - indices.at[0]);
    }
  }
}

}  // namespace tranship::gpu
