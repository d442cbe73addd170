#include "channels/host/moves.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tranship::host {
namespace {

/// Rows that are copied for one column after another: their source lines stay in the L1 cache.
constexpr std::int64_t rows_at_once = 64;

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
void move_loop(const MoveLoop& loop, const std::byte* source, std::byte* target) {
  const std::int64_t bytes = loop.element_bytes;
  const std::int64_t from = loop.source_stride;
  const std::int64_t to = loop.target_stride;
  std::int64_t left = loop.extent;
  for (; left >= 4; left -= 4) {
    Element::copy(source, target, bytes);
    Element::copy(source + from, target + to, bytes);
    Element::copy(source + 2 * from, target + 2 * to, bytes);
    Element::copy(source + 3 * from, target + 3 * to, bytes);
    source += 4 * from;
    target += 4 * to;
  }
  for (; left > 0; --left) {
    Element::copy(source, target, bytes);
    source += from;
    target += to;
  }
}

/// Elements ahead of the copy whose lines are on their way to the caches.
constexpr std::size_t list_ahead = 32;

/// Calls `move(k)` for each element, and `fetch(k)` some elements before.
template <typename Fetch, typename Move>
void each_of_list(const MoveList& list, const Fetch& fetch, const Move& move) {
  std::size_t k = 0;
  if (list.far) {
    for (; k + list_ahead < list.count; ++k) {
      fetch(k + list_ahead);
      move(k);
    }
  }
  for (; k + 4 <= list.count; k += 4) {
    move(k);
    move(k + 1);
    move(k + 2);
    move(k + 3);
  }
  for (; k < list.count; ++k) move(k);
}

template <typename Element>
void move_list(const MoveList& list, const std::byte* source, std::byte* target) {
  const std::int64_t bytes = list.element_bytes;
  const auto step = static_cast<std::size_t>(bytes);
  const std::uint32_t* from = list.sources;
  const std::uint32_t* to = list.targets;
  if (to == nullptr) {
    each_of_list(
        list, [=](std::size_t k) { __builtin_prefetch(source + from[k]); },
        [=](std::size_t k) { Element::copy(source + from[k], target + k * step, bytes); });
  } else if (from == nullptr) {
    each_of_list(
        list, [=](std::size_t k) { __builtin_prefetch(target + to[k], 1); },
        [=](std::size_t k) { Element::copy(source + k * step, target + to[k], bytes); });
  } else {
    each_of_list(
        list,
        [=](std::size_t k) {
          __builtin_prefetch(source + from[k]);
          __builtin_prefetch(target + to[k], 1);
        },
        [=](std::size_t k) { Element::copy(source + from[k], target + to[k], bytes); });
  }
}

template <typename Element>
void move_entries(std::span<const IndexedEntry> entries, std::int64_t element_bytes,
                  const std::byte* source, std::byte* target) {
  for (std::size_t k = 0; k < entries.size(); ++k) {
    if (k + list_ahead < entries.size()) {
      __builtin_prefetch(source + entries[k + list_ahead].source_offset);
    }
    Element::copy(source + entries[k].source_offset, target + entries[k].target_offset,
                  element_bytes);
  }
}

/// Copies the rows from `first` to `last` of every column.
template <typename Element>
void move_rows(const Grid& grid, std::int64_t first, std::int64_t last) {
  const std::int64_t element_bytes = grid.element_bytes;
  const std::int64_t* sources = grid.row_sources;
  const std::int64_t* targets = grid.row_targets;
  for (std::int64_t j = 0; j < grid.columns; ++j) {
    const std::byte* source = grid.source + grid.column_sources[j];
    std::byte* target = grid.target + grid.column_targets[j];
    std::int64_t i = first;
    for (; i + 4 <= last; i += 4) {
      const std::int64_t from[] = {sources[i], sources[i + 1], sources[i + 2], sources[i + 3]};
      const std::int64_t to[] = {targets[i], targets[i + 1], targets[i + 2], targets[i + 3]};
      Element::copy(source + from[0], target + to[0], element_bytes);
      Element::copy(source + from[1], target + to[1], element_bytes);
      Element::copy(source + from[2], target + to[2], element_bytes);
      Element::copy(source + from[3], target + to[3], element_bytes);
    }
    for (; i < last; ++i) {
      Element::copy(source + sources[i], target + targets[i], element_bytes);
    }
  }
}

/// Does as above for rows that are equally far apart on both sides.
template <typename Element>
void move_even_rows(const Grid& grid, std::int64_t first, std::int64_t last) {
  const MoveLoop loop{grid.element_bytes, last - first, grid.row_sources[1] - grid.row_sources[0],
                      grid.row_targets[1] - grid.row_targets[0]};
  for (std::int64_t j = 0; j < grid.columns; ++j) {
    const std::byte* source = grid.source + grid.column_sources[j] + grid.row_sources[first];
    std::byte* target = grid.target + grid.column_targets[j] + grid.row_targets[first];
    move_loop<Element>(loop, source, target);
  }
}

template <typename Element>
void move(const Grid& grid) {
  for (std::int64_t first = 0; first < grid.rows; first += rows_at_once) {
    const std::int64_t last = std::min(grid.rows, first + rows_at_once);
    if (grid.row_pitch != 0 && grid.even_targets) {
      move_even_rows<Element>(grid, first, last);
    } else {
      move_rows<Element>(grid, first, last);
    }
  }
}

/// Copies rows with `width` bytes each, of which those beyond the element are overwritten by the
/// next row; the last row exactly.
template <std::size_t width>
void move_wide(const Grid& grid) {
  const std::int64_t end = grid.rows - 1;
  for (std::int64_t first = 0; first < end; first += rows_at_once) {
    const std::int64_t last = std::min(end, first + rows_at_once);
    if (grid.row_pitch != 0) {
      move_even_rows<Exact<width>>(grid, first, last);
    } else {
      move_rows<Exact<width>>(grid, first, last);
    }
  }
  move_rows<Halves<width / 2>>(grid, end, grid.rows);
}

/// Calls `choose` with the way in which elements of `element_bytes` are copied.
template <typename Choose>
auto with_element(std::int64_t element_bytes, const Choose& choose) {
  switch (element_bytes) {
    case 1: return choose(Exact<1>());
    case 2: return choose(Exact<2>());
    case 4: return choose(Exact<4>());
    case 8: return choose(Exact<8>());
    case 12: return choose(Exact<12>());
    case 16: return choose(Exact<16>());
    case 20: return choose(Exact<20>());
    case 24: return choose(Exact<24>());
    case 32: return choose(Exact<32>());
    case 40: return choose(Exact<40>());
    case 48: return choose(Exact<48>());
    case 64: return choose(Exact<64>());
    default: break;
  }
  if (element_bytes < 4) return choose(Halves<2>());
  if (element_bytes < 8) return choose(Halves<4>());
  if (element_bytes < 16) return choose(Halves<8>());
  if (element_bytes < 32) return choose(Halves<16>());
  if (element_bytes < 64) return choose(Halves<32>());
  return choose(Steps());
}

}  // namespace

GridKernel move_kernel(std::int64_t element_bytes) {
  return with_element(element_bytes,
                      []<typename Element>(Element) -> GridKernel { return move<Element>; });
}

LoopKernel loop_kernel(std::int64_t element_bytes) {
  return with_element(element_bytes,
                      []<typename Element>(Element) -> LoopKernel { return move_loop<Element>; });
}

ListKernel list_kernel(std::int64_t element_bytes) {
  return with_element(element_bytes,
                      []<typename Element>(Element) -> ListKernel { return move_list<Element>; });
}

EntriesKernel entries_kernel(std::int64_t element_bytes) {
  return with_element(element_bytes, []<typename Element>(Element) -> EntriesKernel {
    return move_entries<Element>;
  });
}

std::int64_t wide_move_bytes(std::int64_t element_bytes) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(element_bytes)));
}

GridKernel wide_move_kernel(std::int64_t element_bytes) {
  const std::int64_t width = wide_move_bytes(element_bytes);
  if (width == element_bytes) return nullptr;
  switch (width) {
    case 4: return move_wide<4>;
    case 8: return move_wide<8>;
    case 16: return move_wide<16>;
    default: return nullptr;
  }
}

}  // namespace tranship::host
