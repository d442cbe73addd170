#include "channels/host/host_program.hpp"

#include <algorithm>
#include <limits>

#include "base/at.hpp"
#include "base/check.hpp"
#include "channels/host/copy.hpp"
#include "channels/host/moves.hpp"
#include "channels/host/short_runs.hpp"

namespace tranship {
namespace {

/// Most entries of a list that become plain nests.
constexpr std::size_t nests_most = 64;
/// Most runs of one list that are compiled.
constexpr std::int64_t runs_most = std::int64_t{1} << 18;
/// Bytes that the inner caches hold of what a list names.
constexpr std::int64_t near_bytes_max = 1 << 20;

/// The offsets of one side of some runs.
struct Offsets {
  std::int64_t begin = 0;
  std::int64_t span = 0;
  bool dense = true;
};

template <typename Offset>
Offsets offsets_of(std::span<const Run> runs, const Offset& offset) {
  Offsets found{offset(runs[0]), 0, true};
  std::int64_t next = found.begin;
  std::int64_t end = found.begin;
  for (const Run& run : runs) {
    found.dense = found.dense && offset(run) == next;
    next = offset(run) + run.bytes;
    found.begin = std::min(found.begin, offset(run));
    end = std::max(end, next);
  }
  found.span = end - found.begin;
  return found;
}

/// Returns whether the list is copied fastest point by point, as compiled offsets.
bool names_short_runs(const IndexedNest& list) {
  if (list.entries.size() < 2 || list.nest.element_bytes > host::short_run_bytes_max) return false;
  if (list.nest.rank > 0 && !host::names_short_nests(list)) return false;
  const std::int64_t points = list.nest.bytes() / list.nest.element_bytes;
  if (list.moves_touch()) return static_cast<std::int64_t>(list.entries.size()) <= runs_most;
  // One entry of many moves is a loop.
  const auto entries = static_cast<std::int64_t>(list.entries.size());
  return list.moves() * points <= runs_most &&
         list.moves() <= entries * host::short_nest_points_max;
}

}  // namespace

bool HostProgram::compile(const IndexedNest& given) {
  IndexedNest list = given;
  LoopNest loops;
  if (host::is_list_in_loops(given)) {  // compiled once, and repeated
    loops = given.nest;
    loops.source_offset = 0;
    loops.target_offset = 0;
    list.nest.rank = 0;
  }
  if (!names_short_runs(list)) return false;
  std::vector<std::vector<Run>> by_length(at(host::short_run_bytes_max + 1));
  const std::int64_t usual =
      list.nest.element_bytes * (list.moves_touch() ? list.entries[0].count : 1);
  if (usual <= host::short_run_bytes_max) by_length[at(usual)].reserve(list.entries.size());
  std::vector<Run> longer;
  host::each_run(list, [&](const Run& run) {
    if (run.bytes <= host::short_run_bytes_max) {
      by_length[static_cast<std::size_t>(run.bytes)].push_back(run);
    } else {
      longer.push_back(run);
    }
  });
  if (longer.size() > (loops.rank > 0 ? 0 : list.entries.size() / 2)) return false;
  for (const std::vector<Run>& runs : by_length) {
    if (!runs.empty() && !add(runs, loops)) return false;
  }
  if (!longer.empty()) {
    IndexedNest rest;
    rest.nest.element_bytes = rest.source_step = rest.target_step = 1;
    std::vector<IndexedEntry> entries;
    for (const Run& run : longer) {
      entries.push_back({run.source_offset, run.target_offset, run.bytes});
    }
    leave(rest, entries);
  }
  return true;
}

/// Adds runs of one length.
bool HostProgram::add(std::span<const Run> runs, const LoopNest& loops) {
  const auto source = [](const Run& run) { return run.source_offset; };
  const auto target = [](const Run& run) { return run.target_offset; };
  const Offsets from = offsets_of(runs, source);
  const Offsets to = offsets_of(runs, target);
  constexpr std::int64_t span_max = std::numeric_limits<std::uint32_t>::max();
  if (std::max(from.span, to.span) > span_max) return false;
  ShortRuns made;
  made.bytes = runs[0].bytes;
  made.count = runs.size();
  made.loops = loops;
  made.source_begin = from.begin;
  made.target_begin = to.begin;
  made.far = std::max(from.dense ? 0 : from.span, to.dense ? 0 : to.span) > near_bytes_max;
  // The kernel needs a list for one side, even if both are dense.
  const bool keeps_sources = !from.dense || to.dense;
  if (keeps_sources) made.sources.reserve(runs.size());
  if (!to.dense) made.targets.reserve(runs.size());
  for (const Run& run : runs) {
    if (keeps_sources) {
      made.sources.push_back(static_cast<std::uint32_t>(run.source_offset - from.begin));
    }
    if (!to.dense) {
      made.targets.push_back(static_cast<std::uint32_t>(run.target_offset - to.begin));
    }
  }
  short_runs_.push_back(std::move(made));
  return true;
}

HostProgram::HostProgram(std::span<const IndexedNest> lists) {
  std::size_t entries = 0;
  for (const IndexedNest& list : lists) entries += list.entries.size();
  rest_entries_.reserve(entries);  // lists in `rest_` refer to its elements
  for (const IndexedNest& list : lists) {
    const std::size_t compiled = short_runs_.size();
    if (compile(list)) continue;
    short_runs_.resize(compiled);  // drops the part that was compiled
    if (list.entries.size() <= nests_most) {
      for (const IndexedEntry& entry : list.entries) nests_.push_back(nest_of(list, entry));
    } else {
      leave(list, list.entries);
    }
  }
}

/// Keeps a list as it is.
void HostProgram::leave(IndexedNest list, std::span<const IndexedEntry> entries) {
  const std::size_t first = rest_entries_.size();
  CHECK(first + entries.size() <= rest_entries_.capacity(), "lists do not grow");
  rest_entries_.insert(rest_entries_.end(), entries.begin(), entries.end());
  list.entries = std::span(rest_entries_).subspan(first);
  rest_.push_back(list);
}

void HostProgram::copy(const std::byte* source, std::byte* target, bool cold) const {
  copy_nests(nests_, source, target, cold);
  for (const ShortRuns& runs : short_runs_) {
    const host::MoveList list{runs.bytes, runs.count,
                              runs.sources.empty() ? nullptr : runs.sources.data(),
                              runs.targets.empty() ? nullptr : runs.targets.data(), runs.far};
    const host::ListKernel kernel = host::list_kernel(runs.bytes);
    each_point(runs.loops, runs.source_begin, runs.target_begin, [&](const Run& point) {
      kernel(list, source + point.source_offset, target + point.target_offset);
    });
  }
  copy_indexed(rest_, source, target, cold);
}

}  // namespace tranship
