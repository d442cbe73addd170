#include "gpu/kernels/table_box.hpp"

#include <algorithm>
#include <numeric>

#include "gpu/kernels/kernel_body.hpp"

namespace tranship::gpu {
namespace {

/// Largest share of gaps in a period of the target and in a source row, in their spans over their
/// bytes.
constexpr std::int64_t gaps_max = 4;
/// What a run costs beside its bytes, in bytes that could be moved in that time: at aligned ends
/// memory goes to another place, at others it also moves parts of sectors in vain. Found by varying
/// them over 180 random shapes on an H100.
constexpr double read_end_bytes = 48;
constexpr double aligned_read_end_bytes = 32;
constexpr double write_end_bytes = 96;
constexpr double aligned_write_end_bytes = 64;
constexpr double margin_end_bytes = 24;
/// Bytes that could be moved in the time that a block takes beside moving its own.
constexpr double block_bytes = 2048;

}  // namespace

BoxSearch::BoxSearch(const RecordParts& records, const std::byte* source, const std::byte* target,
                     const KernelTuning& tuning)
    : records_(records), loops_(records.loops) {
  std::int64_t bits = part_bits(records.parts) | address_bits(source, records.source_offset) |
                      address_bits(target, records.target_offset);
  source_bits_ = address_bits(source, records.source_offset);
  target_bits_ = address_bits(target, records.target_offset);
  for (const Loop& loop : loops_) bits |= loop.source_stride | loop.target_stride;
  unit_ = std::min(common_bytes(bits), table_unit_bytes_max);
  word_ = std::max<std::int64_t>(unit_, 4);
  std::int64_t payload = records.bytes;
  for (const Loop& loop : loops_) payload *= loop.extent;
  const std::int64_t most = unit_ < 4 ? tuning.tile_bytes * 4 / 3 : tuning.tile_bytes;
  constexpr std::int64_t least = 4096;
  budget_ = std::clamp(payload / tuning.tile_blocks, least, std::max(most, least));
  for (std::size_t k = 0; k < loops_.size(); ++k) {
    if (loops_[k].source_stride != 0) order_.push_back(k);
  }
  std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
    return std::llabs(loops_[a].source_stride) < std::llabs(loops_[b].source_stride);
  });
}

Box BoxSearch::best() {
  Box best;
  const std::size_t target_loops = chain_in_target();
  for (std::size_t along = 0; along <= target_loops; ++along) {
    for (std::size_t in_row = 0; in_row <= order_.size(); ++in_row) {
      Box box;
      if (!assign(along, in_row, box)) continue;
      search_extents(box, best);
    }
  }
  if (best.more >= 0) best.roles[index(best.more)] = Role::rows;
  return best;
}

std::size_t BoxSearch::chain_in_target() const {
  std::int64_t span = records_.target_span, bytes = records_.bytes;
  std::size_t count = 0;
  while (count < loops_.size()) {
    const Loop& loop = loops_[count];
    if (loop.target_stride > gaps_max * bytes || loop.target_stride < span) break;
    ++count;
    span += (loop.extent - 1) * loop.target_stride;
    bytes *= loop.extent;
  }
  return count;
}

bool BoxSearch::assign(std::size_t along, std::size_t in_row, Box& box) const {
  box.roles.fill(Role::outside);
  box.period_bytes = records_.target_span;
  box.moved_bytes = records_.bytes;
  for (std::size_t k = 0; k < along; ++k) {
    box.roles[k] = k + 1 < along ? Role::period : Role::chunk;
    if (k + 1 < along) box.moved_bytes *= loops_[k].extent;
  }
  if (along > 0) {
    box.chunk = static_cast<int>(along - 1);
    box.period_bytes = loops_[along - 1].target_stride;
  }
  if (box.period_bytes % unit_ != 0 || box.period_bytes / unit_ > table_units_max) return false;
  return assign_rows(in_row, box) && count_rows(box);
}

bool BoxSearch::assign_rows(std::size_t in_row, Box& box) const {
  std::int64_t span = records_.source_span, bytes = records_.bytes;
  int loops_across = 0;
  for (std::size_t number = 0; number < in_row; ++number) {
    const std::size_t k = order_[number];
    const Loop& loop = loops_[k];
    const std::int64_t step = std::llabs(loop.source_stride);
    const bool last = number + 1 == in_row;
    if (step > gaps_max * bytes || step < span) return false;
    if (box.roles[k] == Role::outside) {
      box.roles[k] = Role::across;
      if (++loops_across > tile_loops_max) return false;
      if (box.across_inner * loop.extent > table_extent_max) return false;
      if (!last) box.across_inner *= loop.extent;
    }
    box.in_row[k] = true;
    if (last) {
      box.last_in_row = static_cast<int>(k);
      box.row_step = step;
      box.row_inner = span;
    }
    span += (loop.extent - 1) * step;
    bytes *= loop.extent;
    if (!last && span > shared_bytes_max) return false;
  }
  if (in_row == 0) box.row_inner = span;
  return true;
}

bool BoxSearch::count_rows(Box& box) const {
  int loops_in = 0;
  for (std::size_t k = 0; k < loops_.size(); ++k) {
    if (box.roles[k] != Role::period || !has_rows(box, k)) continue;
    box.rows_in *= loops_[k].extent;
    if (++loops_in > tile_loops_max || box.rows_in > shared_bytes_max) return false;
  }
  return true;
}

void BoxSearch::search_extents(Box& box, Box& best) const {
  const std::int64_t count = box.chunk < 0 ? 1 : loops_[index(box.chunk)].extent;
  const bool whole = box.chunk >= 0 && box.in_row[index(box.chunk)] && box.chunk != box.last_in_row;
  const std::int64_t end_bytes = target_end_bytes(box);
  const std::int64_t step =
      box.chunk < 0 ? 1 : sector_bytes / std::gcd<std::int64_t>(box.period_bytes, sector_bytes);
  const bool last_across =
      box.last_in_row >= 0 && box.roles[index(box.last_in_row)] == Role::across;
  const std::int64_t across_count = last_across ? loops_[index(box.last_in_row)].extent : 1;
  for (std::int64_t wished = whole ? count : 1;; wished *= 2) {
    std::int64_t chunks = std::min(wished, count);
    if (chunks < count) {
      chunks = ceil_divide(count, ceil_divide(count, chunks));
      if (chunks > step) chunks = std::min(round_up(chunks, step), count);
    }
    bool fits = false;
    for (std::int64_t across = 1;; across *= 2) {
      std::int64_t some = std::min(across, across_count);
      if (some < across_count) some = ceil_divide(across_count, ceil_divide(across_count, some));
      box.chunks = chunks;
      box.across = box.across_inner * some;
      bool this_fits = false;
      for (const bool margin : {false, true}) {
        if (margin && (end_bytes == 0 || box.gaps() || chunks == count || chunks % step != 0))
          continue;
        box.margin = margin ? ceil_divide(end_bytes, box.period_bytes) : 0;
        this_fits |= weigh(box, best);
      }
      fits |= this_fits;
      if (some == across_count || !this_fits) break;
    }
    if (chunks == count || !fits) break;
  }
}

bool BoxSearch::weigh(Box& box, Box& best) const {
  box.more = -1;
  box.more_rows = 1;
  if (shared_bytes(box) > budget_ + tables(box) || box.across > table_extent_max) return false;
  // Where a loop stands still in the source, a tile may write far more than it holds.
  if (written_bytes(box) > budget_ || !table_fits(box)) return false;
  add_rows(box);
  const double payload =
      static_cast<double>(box.moved_bytes * box.chunks * box.across * box.more_rows);
  const double rows = static_cast<double>(source_rows(box) * box.more_rows);
  const bool source_aligned = source_end_bits(box) % sector_bytes == 0;
  const double read = rows * (static_cast<double>(bytes_in_row(box)) +
                              (source_aligned ? aligned_read_end_bytes : read_end_bytes));
  const double runs = static_cast<double>(box.across * box.more_rows);
  const double run = static_cast<double>(box.chunks * box.period_bytes) * (box.gaps() ? 2 : 1);
  const bool aligned =
      target_end_bytes(box) == 0 && (box.chunks * box.period_bytes) % sector_bytes == 0;
  const double written = runs * (run + (aligned          ? aligned_write_end_bytes
                                        : box.margin > 0 ? margin_end_bytes
                                                         : write_end_bytes));
  box.cost = (read + written + block_bytes) / payload;
  if (box.cost < best.cost) best = box;
  return true;
}

void BoxSearch::add_rows(Box& box) const {
  const std::int64_t bytes = std::max(shared_bytes(box) - tables(box), written_bytes(box));
  const std::int64_t fit = budget_ / bytes;
  if (fit < 2) return;
  for (std::size_t k = 0; k < loops_.size(); ++k) {
    if (box.roles[k] != Role::outside) continue;
    const std::int64_t some = std::min(fit, loops_[k].extent);
    if (some <= box.more_rows) continue;
    box.more = static_cast<int>(k);
    box.more_rows = ceil_divide(loops_[k].extent, ceil_divide(loops_[k].extent, some));
  }
}

bool BoxSearch::table_fits(const Box& box) const {
  constexpr std::int64_t most = std::numeric_limits<std::uint16_t>::max();
  const std::int64_t rows = box.rows_in * pitch_of(bytes_in_row(box));
  const std::int64_t periods = vector_bytes_max / box.period_bytes + 2;
  std::int64_t step = 0;
  if (by_rows(box)) step = rows;
  if (box.chunk >= 0 && box.in_row[index(box.chunk)]) {
    step = std::llabs(loops_[index(box.chunk)].source_stride);
  }
  return rows + periods * step < most && rows < most;
}

std::int64_t BoxSearch::shared_bytes(const Box& box) const {
  const std::int64_t rows = source_rows(box) * box.more_rows;
  const std::int64_t runs = box.across * box.more_rows;
  return round_up(rows * pitch_of(bytes_in_row(box)), 16) + table_row_bytes * (rows + runs) +
         table_base_bytes * runs + tables(box);
}

std::int64_t BoxSearch::tables(const Box& box) const {
  const std::int64_t units = box.period_bytes / unit_;
  return static_cast<std::int64_t>(sizeof(std::uint16_t)) * (3 * units + vector_bytes_max / unit_) +
         16;
}

std::int64_t BoxSearch::piece_bits(const Box& box) const {
  std::int64_t bits = target_bits_;
  for (std::size_t k = 0; k < loops_.size(); ++k) {
    bits |= box.roles[k] == Role::period ? 0 : loops_[k].target_stride;
  }
  return bits;
}

std::int64_t BoxSearch::target_end_bytes(const Box& box) const {
  std::int64_t bits = target_bits_;
  for (std::size_t k = 0; k < loops_.size(); ++k) {
    if (box.roles[k] != Role::period && box.roles[k] != Role::chunk) {
      bits |= loops_[k].target_stride;
    }
  }
  return sector_bytes - lowest_bit(bits, sector_bytes);
}

std::int64_t BoxSearch::last_count(const Box& box, std::int64_t held) const {
  if (box.last_in_row < 0) return 1;
  const std::size_t last = index(box.last_in_row);
  if (box.roles[last] == Role::chunk) return std::min(held, loops_[last].extent);
  if (box.roles[last] == Role::across) return box.across / box.across_inner;
  return loops_[last].extent;
}

std::int64_t BoxSearch::source_end_bits(const Box& box) const {
  std::int64_t bits = source_bits_ | bytes_in_row(box);
  for (std::size_t k = 0; k < loops_.size(); ++k) {
    if (!box.in_row[k]) bits |= loops_[k].source_stride;
  }
  return bits;
}

}  // namespace tranship::gpu
