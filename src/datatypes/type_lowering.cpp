#include "datatypes/type_lowering.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/at.hpp"
#include "base/check.hpp"
#include "data/lowering.hpp"

namespace tranship {
namespace {

/// Most pieces of a copy between two types whose runs do not divide each other.
constexpr std::size_t pieces_max = std::size_t{1} << 24;

/// Most places of a part that are cut between the moves of each.
constexpr std::size_t places_few = 16;

/// Returns the parts that copy the other way.
std::vector<TypePart> reversed(std::vector<TypePart> parts) {
  for (TypePart& part : parts) {
    std::swap(part.nest.source_offset, part.nest.target_offset);
    for (int k = 0; k < part.nest.rank; ++k) {
      std::swap(part.nest.loops[at(k)].source_stride, part.nest.loops[at(k)].target_stride);
    }
    coalesce(part.nest);
    std::swap(part.source_step, part.target_step);
    for (IndexedEntry& entry : part.entries) std::swap(entry.source_offset, entry.target_offset);
  }
  return parts;
}

/// One nest of a form at one place: a range of the packed bytes, in their order.
struct PackedNest {
  LoopNest nest;
  std::int64_t offset = 0;  ///< in memory
  std::int64_t packed = 0;
  std::int64_t bytes = 0;
};

/// Returns the nests of a form in the order of its packed bytes, if each of them is a range of
/// those, and if there are few.
std::optional<std::vector<PackedNest>> packed_nests(const TypeForm& form) {
  constexpr std::size_t nests_max = 4096;
  std::vector<PackedNest> nests;
  for (const TypePart& part : form.parts()) {
    if (nests.size() + part.entries.size() > nests_max) return {};
    std::int64_t packed = part.nest.element_bytes;
    for (int k = 0; k < part.nest.rank; ++k) {
      if (part.nest.loops[at(k)].target_stride != packed) return {};  // others lie between
      packed *= part.nest.loops[at(k)].extent;
    }
    for (const IndexedEntry& entry : part.entries) {
      PackedNest one{part.nest, part.nest.source_offset + entry.source_offset,
                     part.nest.target_offset + entry.target_offset, packed * entry.count};
      if (part.nest.rank == 0) one.nest.element_bytes *= entry.count;
      nests.push_back(one);
    }
  }
  std::sort(nests.begin(), nests.end(),
            [](const PackedNest& a, const PackedNest& b) { return a.packed < b.packed; });
  return nests;
}

/// Returns the distance in memory from one packed byte to the one that lies `step` bytes behind it,
/// where `step` is the size of a loop's turn, or divides one, or is a multiple of one within the
/// loop around it.
std::int64_t stride_at(const LoopNest& nest, std::int64_t step) {
  std::int64_t stride = 1;
  std::int64_t turn = 1;
  std::int64_t around = nest.element_bytes;
  for (int k = 0; k < nest.rank && step >= around; ++k) {
    turn = around;
    stride = nest.loops[at(k)].source_stride;
    around *= nest.loops[at(k)].extent;
  }
  return step / turn * stride;
}

/// Returns one nest that moves the bytes of one nest to those of another; nothing if their loops do
/// not divide each other.
std::optional<LoopNest> refine(const PackedNest& source, const PackedNest& target) {
  std::vector<std::int64_t> turns;
  for (const PackedNest* side : {&source, &target}) {
    std::int64_t turn = side->nest.element_bytes;
    turns.push_back(turn);
    for (int k = 0; k < side->nest.rank; ++k) {
      turn *= side->nest.loops[at(k)].extent;
      turns.push_back(turn);
    }
  }
  std::sort(turns.begin(), turns.end());
  turns.erase(std::unique(turns.begin(), turns.end()), turns.end());
  if (turns.size() > at(LoopNest::loops_max)) return {};
  LoopNest nest;
  nest.element_bytes = turns[0];
  nest.source_offset = source.offset;
  nest.target_offset = target.offset;
  for (std::size_t k = 0; k + 1 < turns.size(); ++k) {
    if (turns[k + 1] % turns[k] != 0) return {};
    nest.loops[at(nest.rank++)] = {turns[k + 1] / turns[k], stride_at(source.nest, turns[k]),
                                   stride_at(target.nest, turns[k])};
  }
  coalesce(nest);
  return nest;
}

TypePart single(const LoopNest& nest) { return {nest, 0, 0, {{0, 0, 1}}}; }

/// Returns the parts if both forms are nests of the same ranges of packed bytes, which refine each
/// other.
std::optional<std::vector<TypePart>> pair_up(const TypeForm& source, const TypeForm& target) {
  const auto from = packed_nests(source);
  const auto to = packed_nests(target);
  if (!from || !to || from->size() != to->size()) return {};
  std::vector<TypePart> parts;
  for (std::size_t k = 0; k < from->size(); ++k) {
    if ((*from)[k].packed != (*to)[k].packed || (*from)[k].bytes != (*to)[k].bytes) return {};
    const auto nest = refine((*from)[k], (*to)[k]);
    if (!nest) return {};
    parts.push_back(single(*nest));
  }
  return parts;
}

/// Returns one part that lists the contiguous pieces of both.
Result<std::vector<TypePart>> pieces_of(const TypeForm& source, const TypeForm& target) {
  const Error too_many{ErrorCode::unsupported,
                       "the types of source and target divide each other into more than " +
                           std::to_string(pieces_max) + " pieces",
                       "pack the source, and unpack it to the target"};
  if (source.runs() + target.runs() > static_cast<std::int64_t>(pieces_max)) return too_many;
  std::vector<PackedRun> from;
  std::vector<PackedRun> to;
  append_runs(source, from);
  append_runs(target, to);
  TypePart part;
  std::int64_t unit = 0;
  for (std::size_t i = 0, j = 0; i < from.size();) {
    const std::int64_t bytes = std::min(from[i].bytes, to[j].bytes);
    part.entries.push_back({from[i].offset, to[j].offset, bytes});
    unit = std::gcd(unit, bytes);
    for (PackedRun* run : {&from[i], &to[j]}) {
      run->offset += bytes;
      run->bytes -= bytes;
    }
    if (from[i].bytes == 0) ++i;
    if (to[j].bytes == 0) ++j;
  }
  for (IndexedEntry& entry : part.entries) entry.count /= unit;
  part.nest.element_bytes = unit;
  part.source_step = unit;
  part.target_step = unit;
  return std::vector<TypePart>{std::move(part)};
}

/// Returns the largest divisor of `bytes` of at most `most`, among its powers of two; 1 at least.
std::int64_t unit_of(std::int64_t bytes, std::int64_t most) {
  std::int64_t unit = 1;
  while (2 * unit <= most && bytes % (2 * unit) == 0) unit *= 2;
  return unit;
}

/// Adds contiguous runs, whose entries may be cut anywhere between two units.
void lower_runs(const TypePart& part, const LoopNest& begin, std::int64_t entry_bytes_max,
                IndexedCopy& copy) {
  LoopNest nest = begin;
  std::int64_t factor = 1;
  if (nest.element_bytes > entry_bytes_max) {
    nest.element_bytes = unit_of(nest.element_bytes, entry_bytes_max);
    factor = part.nest.element_bytes / nest.element_bytes;
  }
  const std::int64_t unit = nest.element_bytes;
  copy.add_group({&nest, 1}, unit, unit, part.entries.size(), entry_bytes_max / unit,
                 [&](std::size_t k) {
                   IndexedEntry entry = part.entries[k];
                   entry.count *= factor;
                   return entry;
                 });
}

/// Adds a nest with loops, cut so that no entry is longer than allowed: the entries stand for the
/// outer loops.
void lower_nest(const TypePart& part, LoopNest nest, std::int64_t entry_bytes_max,
                IndexedCopy& copy) {
  if (nest.element_bytes > entry_bytes_max) {
    const std::int64_t unit = unit_of(nest.element_bytes, entry_bytes_max);
    CHECK(nest.rank < LoopNest::loops_max, "a type's nest leaves room for a loop");
    std::copy_backward(nest.loops.begin(), nest.loops.begin() + nest.rank,
                       nest.loops.begin() + nest.rank + 1);
    nest.loops[0] = {nest.element_bytes / unit, unit, unit};
    nest.element_bytes = unit;
    ++nest.rank;
  }
  LoopNest inner = nest;
  inner.rank = 0;
  std::int64_t bytes = nest.element_bytes;
  while (inner.rank < nest.rank) {
    const std::int64_t extent = nest.loops[at(inner.rank)].extent;
    if (bytes > entry_bytes_max / extent) break;
    bytes *= extent;
    ++inner.rank;
  }
  // The last loop is that of an entry's moves, so that tiles can be cut between them; between the
  // places of a long list they can be cut anyway.
  const bool is_list = part.entries.size() > places_few;
  if (inner.rank == nest.rank && !is_list) bytes /= nest.loops[at(--inner.rank)].extent;
  const Loop moves = inner.rank < nest.rank ? nest.loops[at(inner.rank)] : Loop{1, 0, 0};
  std::vector<IndexedEntry> turns{{0, 0, 1}};  // of the loops around that one
  for (int k = inner.rank + 1; k < nest.rank; ++k) {
    const Loop& loop = nest.loops[at(k)];
    std::vector<IndexedEntry> more;
    more.reserve(turns.size() * static_cast<std::size_t>(loop.extent));
    for (std::int64_t turn = 0; turn < loop.extent; ++turn) {
      for (const IndexedEntry& one : turns) {
        more.push_back({one.source_offset + turn * loop.source_stride,
                        one.target_offset + turn * loop.target_stride, 1});
      }
    }
    turns = std::move(more);
  }
  // The same moves of all places lie in one tile, since they often are parts of one record.
  const auto places = static_cast<std::int64_t>(part.entries.size());
  const std::int64_t count_max = std::max<std::int64_t>(entry_bytes_max / (bytes * places), 1);
  std::vector<IndexedEntry> entries;
  for (const IndexedEntry& turn : turns) {
    for (std::int64_t first = 0; first < moves.extent; first += count_max) {
      const std::int64_t count = std::min(count_max, moves.extent - first);
      for (const IndexedEntry& place : part.entries) {
        entries.push_back({place.source_offset + turn.source_offset + first * moves.source_stride,
                           place.target_offset + turn.target_offset + first * moves.target_stride,
                           count});
      }
    }
  }
  copy.add_group({&inner, 1}, moves.source_stride, moves.target_stride, entries.size(), count_max,
                 [&](std::size_t k) { return entries[k]; });
}

/// Adds the parts to `copy`, a group for each.
void lower_parts(const std::vector<TypePart>& parts, std::int64_t source_begin,
                 std::int64_t target_begin, std::int64_t entry_bytes_max, IndexedCopy& copy) {
  for (const TypePart& part : parts) {
    LoopNest nest = part.nest;
    nest.source_offset += source_begin;
    nest.target_offset += target_begin;
    if (nest.rank == 0) {
      lower_runs(part, nest, entry_bytes_max, copy);
    } else {
      lower_nest(part, nest, entry_bytes_max, copy);
    }
  }
}

}  // namespace

Status lower_types(const TypeForm& source, const TypeForm& target, std::int64_t source_begin,
                   std::int64_t target_begin, std::int64_t entry_bytes_max, IndexedCopy& copy) {
  if (const auto begin = target.run_offset()) {
    lower_parts(source.parts(), source_begin, target_begin + *begin, entry_bytes_max, copy);
    return {};
  }
  if (const auto begin = source.run_offset()) {
    lower_parts(reversed(target.parts()), source_begin + *begin, target_begin, entry_bytes_max,
                copy);
    return {};
  }
  auto parts = pair_up(source, target);
  if (!parts) {
    auto pieces = pieces_of(source, target);
    if (!pieces) return pieces.error();
    parts = std::move(*pieces);
  }
  lower_parts(*parts, source_begin, target_begin, entry_bytes_max, copy);
  return {};
}

}  // namespace tranship
