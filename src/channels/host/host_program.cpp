#include "channels/host/host_program.hpp"

#include <algorithm>
#include <limits>

#include "channels/host/copy.hpp"
#include "channels/host/moves.hpp"

namespace tranship {
namespace {

/// Longer runs gain nothing from shorter lists.
constexpr std::int64_t short_run_bytes_max = 64;
/// Most entries of a list that become plain nests.
constexpr std::size_t nests_most = 64;
/// Bytes that the inner caches hold of what a list names.
constexpr std::int64_t near_bytes_max = 1 << 20;

/// Most elements for each entry of a list of runs that are a few elements long.
constexpr std::int64_t elements_each_max = 2;

/// The offsets of one side of a list.
struct Offsets {
  std::int64_t begin = 0;
  std::int64_t span = 0;
  bool dense = true;
};

/// Calls `visit` with the offsets of each element of a list whose nest is one.
template <typename Visit>
void each_element(const IndexedNest& list, const Visit& visit) {
  for (const IndexedEntry& entry : list.entries) {
    for (std::int64_t k = 0; k < entry.count; ++k) {
      visit(entry.source_offset + k * list.source_step, entry.target_offset + k * list.target_step);
    }
  }
}

/// Adds an element's offset to those of its side.
void widen(Offsets& side, std::int64_t offset, std::int64_t bytes, bool first, std::int64_t& next) {
  side.dense = first || (side.dense && offset == next);
  next = offset + bytes;
  const std::int64_t end = first ? next : std::max(side.begin + side.span, next);
  side.begin = first ? offset : std::min(side.begin, offset);
  side.span = end - side.begin;
}

}  // namespace

bool HostProgram::compile(const IndexedNest& list, ShortRuns& runs) {
  const std::int64_t bytes = list.nest.element_bytes;
  const auto entries = static_cast<std::int64_t>(list.entries.size());
  if (list.nest.rank != 0 || entries < 2 || bytes > short_run_bytes_max) return false;
  if (list.moves() > elements_each_max * entries) return false;
  Offsets from;
  Offsets to;
  bool first = true;
  std::int64_t next_source = 0;
  std::int64_t next_target = 0;
  each_element(list, [&](std::int64_t source, std::int64_t target) {
    widen(from, source, bytes, first, next_source);
    widen(to, target, bytes, first, next_target);
    first = false;
  });
  constexpr std::int64_t span_max = std::numeric_limits<std::uint32_t>::max();
  if (std::max(from.span, to.span) > span_max) return false;
  runs.bytes = bytes;
  runs.count = static_cast<std::size_t>(list.moves());
  runs.source_begin = list.nest.source_offset + from.begin;
  runs.target_begin = list.nest.target_offset + to.begin;
  runs.far = std::max(from.dense ? 0 : from.span, to.dense ? 0 : to.span) > near_bytes_max;
  // One side at least keeps its list, which the kernel needs.
  const bool keeps_sources = !from.dense || to.dense;
  if (keeps_sources) runs.sources.reserve(runs.count);
  if (!to.dense) runs.targets.reserve(runs.count);
  each_element(list, [&](std::int64_t source, std::int64_t target) {
    if (keeps_sources) runs.sources.push_back(static_cast<std::uint32_t>(source - from.begin));
    if (!to.dense) runs.targets.push_back(static_cast<std::uint32_t>(target - to.begin));
  });
  return true;
}

HostProgram::HostProgram(std::span<const IndexedNest> lists) {
  std::size_t entries = 0;
  for (const IndexedNest& list : lists) entries += list.entries.size();
  rest_entries_.reserve(entries);  // the lists of the rest refer to it
  for (const IndexedNest& list : lists) {
    ShortRuns runs;
    if (compile(list, runs)) {
      short_runs_.push_back(std::move(runs));
    } else if (list.entries.size() <= nests_most) {
      for (const IndexedEntry& entry : list.entries) nests_.push_back(nest_of(list, entry));
    } else {
      IndexedNest rest = list;
      const std::size_t first = rest_entries_.size();
      rest_entries_.insert(rest_entries_.end(), list.entries.begin(), list.entries.end());
      rest.entries = std::span(rest_entries_).subspan(first);
      rest_.push_back(rest);
    }
  }
}

void HostProgram::copy(const std::byte* source, std::byte* target, bool cold) const {
  copy_nests(nests_, source, target, cold);
  for (const ShortRuns& runs : short_runs_) {
    const host::MoveList list{runs.bytes, runs.count,
                              runs.sources.empty() ? nullptr : runs.sources.data(),
                              runs.targets.empty() ? nullptr : runs.targets.data(), runs.far};
    host::list_kernel(runs.bytes)(list, source + runs.source_begin, target + runs.target_begin);
  }
  copy_indexed(rest_, source, target, cold);
}

}  // namespace tranship
