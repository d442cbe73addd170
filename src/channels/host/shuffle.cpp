#include "channels/host/shuffle.hpp"

#include <algorithm>
#include <cstring>

namespace tranship::host {
namespace {

constexpr int vector_bytes = 16;
constexpr std::uint8_t of_other_window = 0x80;

/// Offsets in the source of the 16 bytes of one vector.
struct VectorBytes {
  std::int64_t offsets[vector_bytes];
};

/// Returns the source offset of byte `at` of an element.
std::int64_t offset_in_element(const ShuffledRun& run, std::int64_t at) {
  for (const ElementPiece& piece : run.pieces) {
    if (at >= piece.target && at < piece.target + piece.bytes) {
      return piece.source + at - piece.target;
    }
  }
  return at;
}

VectorBytes bytes_at(const ShuffledRun& run, std::int64_t first) {
  VectorBytes bytes;
  for (int k = 0; k < vector_bytes; ++k) {
    const std::int64_t element = (first + k) / run.element_bytes;
    const std::int64_t at = (first + k) % run.element_bytes;
    bytes.offsets[k] = run.sources[static_cast<std::size_t>(element)] + offset_in_element(run, at);
  }
  return bytes;
}

/// Covers the first `count` bytes of a vector by windows, the lowest first; returns how many there
/// are, or 0 if there are more than `most`. Fills the rest of `most` windows so that they read the
/// same bytes.
int cover(const VectorBytes& bytes, int count, int most, std::int64_t* offsets,
          std::uint8_t (*masks)[16]) {
  bool covered[vector_bytes] = {};
  for (int k = count; k < vector_bytes; ++k) covered[k] = true;
  int windows = 0;
  int left = count;
  while (left > 0) {
    if (windows == most) return 0;
    std::int64_t low = INT64_MAX;
    for (int k = 0; k < vector_bytes; ++k) {
      if (!covered[k]) low = std::min(low, bytes.offsets[k]);
    }
    offsets[windows] = low;
    for (int k = 0; k < vector_bytes; ++k) {
      masks[windows][k] = of_other_window;
      const std::int64_t at = bytes.offsets[k] - low;
      if (covered[k] || at < 0 || at >= vector_bytes) continue;
      masks[windows][k] = static_cast<std::uint8_t>(at);
      covered[k] = true;
      --left;
    }
    ++windows;
  }
  for (int k = windows; k < most; ++k) {
    offsets[k] = offsets[0];
    std::memset(masks[k], of_other_window, vector_bytes);
  }
  return windows;
}

/// Returns the cost of moving a piece, in quarters of that of one window.
std::int64_t move_cost(std::int64_t bytes, bool alone) {
  if (alone) return 4;
  return (bytes & (bytes - 1)) == 0 ? 5 : 9;  // others take two moves, which overlap
}

/// Returns the largest number of windows with which shuffles are faster than moves.
int windows_worth(const ShuffledRun& run) {
  std::int64_t cost = run.pieces.empty() ? move_cost(run.element_bytes, true) : 0;
  for (const ElementPiece& piece : run.pieces) cost += move_cost(piece.bytes, false);
  const std::int64_t worth = (vector_bytes * cost / 4 - 1) / run.element_bytes;
  return static_cast<int>(std::min<std::int64_t>(worth, ShuffleProgram::windows_max));
}

}  // namespace

bool make_record_program(std::int64_t record_bytes, std::span<const ElementPiece> pieces,
                         RecordProgram& program) {
  if (record_bytes > vector_bytes * RecordProgram::vectors_max) return false;
  const std::int64_t first_source = 0;
  const ShuffledRun run{record_bytes, pieces, {&first_source, 1}};
  program.record_bytes = record_bytes;
  program.vectors = static_cast<int>((record_bytes + vector_bytes - 1) / vector_bytes);
  const auto count = static_cast<int>(std::min<std::int64_t>(record_bytes, vector_bytes));
  const auto vector_at = [&](int vector) {
    const std::int64_t at = std::min<std::int64_t>(std::int64_t{vector_bytes} * vector,
                                                   std::max<std::int64_t>(record_bytes - 16, 0));
    VectorBytes bytes{};
    for (int k = 0; k < count; ++k) bytes.offsets[k] = offset_in_element(run, at + k);
    return bytes;
  };
  program.windows = 0;
  for (int v = 0; v < program.vectors; ++v) {
    const int windows = cover(vector_at(v), count, RecordProgram::windows_max, program.offsets[v],
                              program.masks[v]);
    if (windows == 0) return false;
    program.windows = std::max(program.windows, windows);
  }
  program.source_low = INT64_MAX;
  program.source_high = INT64_MIN;
  for (int v = 0; v < program.vectors; ++v) {
    cover(vector_at(v), count, program.windows, program.offsets[v], program.masks[v]);
    for (int w = 0; w < program.windows; ++w) {
      program.source_low = std::min(program.source_low, program.offsets[v][w]);
      program.source_high = std::max(program.source_high, program.offsets[v][w] + vector_bytes);
    }
  }
  return true;
}

bool make_program(const ShuffledRun& run, ShuffleProgram& program) {
  program.run_bytes = run.element_bytes * static_cast<std::int64_t>(run.sources.size());
  if (program.run_bytes < vector_bytes) return false;
  program.vectors = static_cast<int>((program.run_bytes + vector_bytes - 1) / vector_bytes);
  const auto first_byte = [&](int vector) {
    return std::min<std::int64_t>(std::int64_t{vector_bytes} * vector,
                                  program.run_bytes - vector_bytes);
  };
  const int worth = std::min(windows_worth(run), ShuffleProgram::entries_max / program.vectors);
  program.windows = 0;
  std::int64_t offsets[ShuffleProgram::windows_max];
  std::uint8_t masks[ShuffleProgram::windows_max][16];
  for (int vector = 0; vector < program.vectors; ++vector) {
    const int windows =
        cover(bytes_at(run, first_byte(vector)), vector_bytes, worth, offsets, masks);
    if (windows == 0) return false;
    program.windows = std::max(program.windows, windows);
  }
  program.source_low = INT64_MAX;
  program.source_high = INT64_MIN;
  for (int vector = 0; vector < program.vectors; ++vector) {
    const int at = vector * program.windows;
    cover(bytes_at(run, first_byte(vector)), vector_bytes, program.windows, program.offsets + at,
          program.masks + at);
    for (int k = 0; k < program.windows; ++k) {
      program.source_low = std::min(program.source_low, program.offsets[at + k]);
      program.source_high = std::max(program.source_high, program.offsets[at + k] + vector_bytes);
    }
  }
  return true;
}

}  // namespace tranship::host
