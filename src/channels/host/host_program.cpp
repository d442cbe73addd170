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

/// Bytes of the run that one entry names, if the list names runs.
std::int64_t run_bytes(const IndexedNest& list, const IndexedEntry& entry) {
  return list.nest.element_bytes * entry.count;
}

/// The offsets of one side of a list.
struct Offsets {
  std::int64_t begin = 0;
  std::int64_t span = 0;
  bool dense = true;
};

template <typename Offset>
Offsets offsets_of(std::span<const IndexedEntry> entries, std::int64_t bytes,
                   const Offset& offset) {
  Offsets found{offset(entries[0]), 0, true};
  std::int64_t high = found.begin;
  std::int64_t next = found.begin;
  for (const IndexedEntry& entry : entries) {
    const std::int64_t at = offset(entry);
    found.dense = found.dense && at == next;
    next = at + bytes;
    high = std::max(high, at);
    found.begin = std::min(found.begin, at);
  }
  found.span = high + bytes - found.begin;
  return found;
}

}  // namespace

bool HostProgram::compile(const IndexedNest& list, ShortRuns& runs) {
  if (list.nest.rank != 0 || list.entries.size() < 2) return false;
  const std::int64_t bytes = run_bytes(list, list.entries[0]);
  if (bytes > short_run_bytes_max) return false;
  const bool even =
      std::all_of(list.entries.begin(), list.entries.end(), [&](const IndexedEntry& entry) {
        return run_bytes(list, entry) == bytes && (entry.count == 1 || list.moves_touch());
      });
  if (!even) return false;
  const auto source = [](const IndexedEntry& entry) { return entry.source_offset; };
  const auto target = [](const IndexedEntry& entry) { return entry.target_offset; };
  const Offsets from = offsets_of(list.entries, bytes, source);
  const Offsets to = offsets_of(list.entries, bytes, target);
  constexpr std::int64_t span_max = std::numeric_limits<std::uint32_t>::max();
  if (std::max(from.span, to.span) > span_max) return false;
  runs.bytes = bytes;
  runs.count = list.entries.size();
  runs.source_begin = list.nest.source_offset + from.begin;
  runs.target_begin = list.nest.target_offset + to.begin;
  runs.far = std::max(from.dense ? 0 : from.span, to.dense ? 0 : to.span) > near_bytes_max;
  for (const IndexedEntry& entry : list.entries) {
    // One side at least keeps its list, which the kernel needs.
    if (!from.dense || to.dense) {
      runs.sources.push_back(static_cast<std::uint32_t>(entry.source_offset - from.begin));
    }
    if (!to.dense) {
      runs.targets.push_back(static_cast<std::uint32_t>(entry.target_offset - to.begin));
    }
  }
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
