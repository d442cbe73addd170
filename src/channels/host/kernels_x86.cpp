#include "channels/host/kernels_x86.hpp"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>
#include <type_traits>

#include "channels/host/shape.hpp"
#include "channels/host/transpose.hpp"

#define TRANSHIP_AVX2 __attribute__((target("avx2")))
#define TRANSHIP_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

namespace tranship::host {
namespace {

/// Copies what precedes the target's next cache line; returns how many bytes that was.
TRANSHIP_INLINE std::int64_t copy_head(const std::byte* source, std::byte* target,
                                       std::int64_t bytes) {
  const auto past = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(target) %
                                              static_cast<std::uintptr_t>(line_bytes));
  std::int64_t head = past == 0 ? 0 : line_bytes - past;
  if (head > bytes) head = bytes;
  std::memcpy(target, source, static_cast<std::size_t>(head));
  return head;
}

TRANSHIP_INLINE void copy_tail(const std::byte* source, std::byte* target, std::int64_t at,
                               std::int64_t bytes) {
  if (at < bytes) std::memcpy(target + at, source + at, static_cast<std::size_t>(bytes - at));
}

void stream_sse2(const std::byte* source, std::byte* target, std::int64_t bytes) {
  std::int64_t at = copy_head(source, target, bytes);
  for (; at + line_bytes <= bytes; at += line_bytes) {
    const auto* from = reinterpret_cast<const __m128i*>(source + at);
    auto* to = reinterpret_cast<__m128i*>(target + at);
    const __m128i a = _mm_loadu_si128(from);
    const __m128i b = _mm_loadu_si128(from + 1);
    const __m128i c = _mm_loadu_si128(from + 2);
    const __m128i d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
  }
  copy_tail(source, target, at, bytes);
}

TRANSHIP_AVX2 void stream_avx2(const std::byte* source, std::byte* target, std::int64_t bytes) {
  std::int64_t at = copy_head(source, target, bytes);
  for (; at + line_bytes <= bytes; at += line_bytes) {
    const auto* from = reinterpret_cast<const __m256i*>(source + at);
    auto* to = reinterpret_cast<__m256i*>(target + at);
    const __m256i a = _mm256_loadu_si256(from);
    const __m256i b = _mm256_loadu_si256(from + 1);
    _mm256_stream_si256(to, a);
    _mm256_stream_si256(to + 1, b);
  }
  copy_tail(source, target, at, bytes);
}

TRANSHIP_AVX512 void stream_avx512(const std::byte* source, std::byte* target, std::int64_t bytes) {
  std::int64_t at = copy_head(source, target, bytes);
  for (; at + line_bytes <= bytes; at += line_bytes) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(target + at), _mm512_loadu_si512(source + at));
  }
  copy_tail(source, target, at, bytes);
}

/// Gathers each 16 bytes of the runs from `windows` windows.
template <int windows>
TRANSHIP_AVX2 void shuffle_columns(const ShuffleProgram& program, const Grid& grid) {
  // Values of their own, since stores of bytes might change what references refer to.
  const std::int64_t columns = grid.columns;
  const std::int64_t* column_sources = grid.column_sources;
  const std::int64_t* column_targets = grid.column_targets;
  const std::byte* first_source = grid.source;
  std::byte* first_target = grid.target;
  const int vectors = program.vectors;
  const std::int64_t last_at = program.run_bytes - 16;
  for (std::int64_t j = 0; j < columns; ++j) {
    const std::byte* source = first_source + column_sources[j];
    std::byte* target = first_target + column_targets[j];
    const std::int64_t* offset = program.offsets;
    const auto* mask = reinterpret_cast<const __m128i*>(program.masks);
    for (int vector = 0; vector < vectors; ++vector) {
      __m128i bytes = _mm_setzero_si128();
#pragma GCC unroll 8
      for (int k = 0; k < windows; ++k) {
        const auto* window = reinterpret_cast<const __m128i*>(source + offset[k]);
        bytes = _mm_or_si128(bytes, _mm_shuffle_epi8(_mm_loadu_si128(window), mask[k]));
      }
      const std::int64_t at = std::min(std::int64_t{16} * vector, last_at);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(target + at), bytes);
      offset += windows;
      mask += windows;
    }
  }
}

TRANSHIP_AVX2 void shuffle_avx2(const ShuffleProgram& program, const Grid& grid) {
  switch (program.windows) {
    case 1: return shuffle_columns<1>(program, grid);
    case 2: return shuffle_columns<2>(program, grid);
    case 3: return shuffle_columns<3>(program, grid);
    case 4: return shuffle_columns<4>(program, grid);
    case 5: return shuffle_columns<5>(program, grid);
    case 6: return shuffle_columns<6>(program, grid);
    case 7: return shuffle_columns<7>(program, grid);
    default: return shuffle_columns<8>(program, grid);
  }
}

/// Stores the first `bytes` of a vector, 1 to 15.
TRANSHIP_AVX2 void store_part(__m128i vector, std::byte* target, std::int64_t bytes) {
  alignas(16) std::byte content[16];
  _mm_store_si128(reinterpret_cast<__m128i*>(content), vector);
  const auto copy_halves = [&]<std::size_t half>(std::integral_constant<std::size_t, half>) {
    const std::int64_t second = bytes - static_cast<std::int64_t>(half);
    std::memcpy(target, content, half);
    std::memcpy(target + second, content + second, half);
  };
  if (bytes >= 8) return copy_halves(std::integral_constant<std::size_t, 8>());
  if (bytes >= 4) return copy_halves(std::integral_constant<std::size_t, 4>());
  for (std::int64_t k = 0; k < bytes; ++k) target[k] = content[k];
}

/// Gathers a record and stores it; `Store` stores the last vector.
template <int vectors, int windows, typename Store>
TRANSHIP_INLINE TRANSHIP_AVX2 void move_record(const __m128i (&masks)[vectors][windows],
                                               const std::int64_t (&offsets)[vectors][windows],
                                               const std::byte* source, std::byte* target,
                                               Store store) {
#pragma GCC unroll 3
  for (int v = 0; v < vectors; ++v) {
    __m128i gathered = _mm_setzero_si128();
#pragma GCC unroll 2
    for (int w = 0; w < windows; ++w) {
      const auto* window = reinterpret_cast<const __m128i*>(source + offsets[v][w]);
      gathered = _mm_or_si128(gathered, _mm_shuffle_epi8(_mm_loadu_si128(window), masks[v][w]));
    }
    if (v + 1 == vectors) {
      store(gathered, target);
    } else {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(target + std::int64_t{16} * v), gathered);
    }
  }
}

/// Copies the records of a grid. What a vector writes beyond a short record is overwritten by the
/// records behind it; the last ones of each column, behind which too few follow, are stored
/// exactly.
template <int vectors, int windows, typename Sources>
TRANSHIP_INLINE TRANSHIP_AVX2 void move_rows(const RecordProgram& program, const Grid& grid,
                                             Sources sources) {
  // Values of their own, since stores of bytes might change what references refer to.
  __m128i masks[vectors][windows];
  std::int64_t offsets[vectors][windows];
  for (int v = 0; v < vectors; ++v) {
    for (int w = 0; w < windows; ++w) {
      masks[v][w] = _mm_load_si128(reinterpret_cast<const __m128i*>(program.masks[v][w]));
      offsets[v][w] = program.offsets[v][w];
    }
  }
  const std::int64_t bytes = program.record_bytes;
  const std::int64_t last_at = bytes < 16 ? 0 : bytes - 16;
  const std::int64_t* targets = grid.row_targets;
  const std::int64_t rows = grid.rows;
  const std::int64_t exact = bytes < 16 ? std::min<std::int64_t>(rows, 15 / bytes) : 0;
  for (std::int64_t j = 0; j < grid.columns; ++j) {
    const std::byte* source = grid.source + grid.column_sources[j] + grid.row_sources[0];
    std::byte* target = grid.target + grid.column_targets[j];
    std::int64_t i = 0;
    for (; i < rows - exact; ++i) {
      move_record(masks, offsets, source + sources[i], target + targets[i],
                  [=](__m128i vector, std::byte* at) TRANSHIP_AVX2 {
                    _mm_storeu_si128(reinterpret_cast<__m128i*>(at + last_at), vector);
                  });
    }
    for (; i < rows; ++i) {
      move_record(masks, offsets, source + sources[i], target + targets[i],
                  [=](__m128i vector, std::byte* at)
                      TRANSHIP_AVX2 { store_part(vector, at, bytes); });
    }
  }
}

template <int vectors, int windows>
TRANSHIP_AVX2 void move_records(const RecordProgram& program, const Grid& grid) {
  if (grid.row_pitch != 0) {
    move_rows<vectors, windows>(program, grid, Multiples{grid.row_pitch});
  } else {
    Grid from_first = grid;
    from_first.source -= grid.row_sources[0];
    move_rows<vectors, windows>(program, from_first, Listed{grid.row_sources});
  }
}

TRANSHIP_AVX2 void records_avx2(const RecordProgram& program, const Grid& grid) {
  if (program.windows == 1) {
    switch (program.vectors) {
      case 1: return move_records<1, 1>(program, grid);
      case 2: return move_records<2, 1>(program, grid);
      default: return move_records<3, 1>(program, grid);
    }
  }
  switch (program.vectors) {
    case 1: return move_records<1, 2>(program, grid);
    case 2: return move_records<2, 2>(program, grid);
    default: return move_records<3, 2>(program, grid);
  }
}

/// Least number of rows and of columns of a transpose: those of its smallest square.
template <typename T>
constexpr int least_of = sizeof(T) <= 4 ? 4 : 2;
template <>
constexpr int least_of<Wide> = 4;

template <typename T, int width>
void transpose_sse2(const Grid& grid) {
  transpose_grid<T, width, least_of<T>>(grid);
}

template <typename T, int width>
TRANSHIP_AVX2 void transpose_avx2(const Grid& grid) {
  transpose_grid<T, width, least_of<T>>(grid);
}

template <typename T, int width>
TRANSHIP_AVX512 void transpose_avx512(const Grid& grid) {
  transpose_grid<T, width, least_of<T>>(grid);
}

template <typename T>
TRANSHIP_AVX2 void interleave_avx2(const Grid& grid) {
  interleave_grid<T>(grid);
}

/// Transposes for elements of 1, 2, 4, 8, 16 and 3 bytes.
struct Transposes {
  GridKernel of[6];
};

constexpr Kernels make_kernels(const char* name, decltype(Kernels::stream) stream,
                               decltype(Kernels::shuffle) shuffle, Transposes transposes) {
  Kernels kernels{name, stream, shuffle, nullptr, {}, {}, {}, {}};
  constexpr std::int64_t bytes[6] = {1, 2, 4, 8, 16, 3};
  constexpr std::int64_t least[6] = {least_of<std::uint8_t>,  least_of<std::uint16_t>,
                                     least_of<std::uint32_t>, least_of<std::uint64_t>,
                                     least_of<Wide>,          least_of<Triple>};
  for (int k = 0; k < 6; ++k) {
    kernels.transpose[bytes[k]] = transposes.of[k];
    kernels.transpose_least[bytes[k]] = least[k];
  }
  if (shuffle == nullptr) return kernels;
  kernels.records = records_avx2;
  kernels.interleave[1] = interleave_avx2<std::uint8_t>;
  kernels.interleave[2] = interleave_avx2<std::uint16_t>;
  kernels.interleave[4] = interleave_avx2<std::uint32_t>;
  kernels.interleave_most[1] = 8;
  kernels.interleave_most[2] = 7;
  kernels.interleave_most[4] = 3;
  return kernels;
}

}  // namespace

constinit const Kernels sse2_kernels =
    make_kernels("sse2", stream_sse2, nullptr,
                 {{transpose_sse2<std::uint8_t, 16>, transpose_sse2<std::uint16_t, 8>,
                   transpose_sse2<std::uint32_t, 4>, transpose_sse2<std::uint64_t, 2>,
                   transpose_sse2<Wide, 4>, nullptr}});

constinit const Kernels avx2_kernels =
    make_kernels("avx2", stream_avx2, shuffle_avx2,
                 {{transpose_avx2<std::uint8_t, 16>, transpose_avx2<std::uint16_t, 8>,
                   transpose_avx2<std::uint32_t, 8>, transpose_avx2<std::uint64_t, 4>,
                   transpose_avx2<Wide, 4>, transpose_avx2<Triple, 4>}});

constinit const Kernels avx512_kernels =
    make_kernels("avx512", stream_avx512, shuffle_avx2,
                 {{transpose_avx512<std::uint8_t, 16>, transpose_avx512<std::uint16_t, 8>,
                   transpose_avx512<std::uint32_t, 16>, transpose_avx512<std::uint64_t, 8>,
                   transpose_avx512<Wide, 4>, transpose_avx512<Triple, 4>}});

bool has_avx2() { return __builtin_cpu_supports("avx2") != 0; }

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
}

}  // namespace tranship::host

#endif
