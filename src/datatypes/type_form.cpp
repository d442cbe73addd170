#include "datatypes/type_form.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <utility>

#include "base/at.hpp"
#include "base/check.hpp"
#include "data/lowering.hpp"
#include "data/points.hpp"
#include "datatypes/compression.hpp"
#include "datatypes/datatype.hpp"

namespace tranship {
namespace {

/// Types whose runs are counted out have at most so many times as many runs as numbers that state
/// them: lists of runs are, and boxes of arrays are not.
constexpr std::int64_t runs_for_each_number = 4;
/// Runs of one type that is_disjoint() compares at most, in some 3 s; once for each type.
constexpr std::int64_t runs_disjoint_max = std::int64_t{1} << 24;
/// Runs of each type that share_bytes() sorts at most, for every copy.
constexpr std::int64_t runs_sorted_max = std::int64_t{1} << 22;

/// Returns the greatest common divisor, at little cost if `unit` divides `length`.
std::int64_t common_unit(std::int64_t unit, std::int64_t length) {
  if (length == unit) return unit;
  return length % unit == 0 ? unit : std::gcd(unit, length);
}

/// Returns one part of all runs, of the largest unit that divides their lengths.
/// packed_at: Called for each run in turn, returns where it begins in the packed bytes.
template <typename AnyRun, typename PackedAt>
TypePart list_of(const std::vector<AnyRun>& runs, const PackedAt& packed_at) {
  std::int64_t unit = runs[0].bytes;
  for (const AnyRun& run : runs) unit = common_unit(unit, run.bytes);
  TypePart part;
  part.nest.element_bytes = unit;
  part.source_step = unit;
  part.target_step = unit;
  part.entries.reserve(runs.size());
  for (const AnyRun& run : runs) {
    const std::int64_t count = run.bytes == unit ? 1 : run.bytes / unit;
    part.entries.push_back({run.offset, packed_at(run), count});
  }
  return part;
}

TypePart list_of(const std::vector<PackedRun>& runs) {
  return list_of(runs, [](const PackedRun& run) { return run.packed; });
}

TypePart list_of(const std::vector<TypeRun>& runs) {
  std::int64_t end = 0;
  return list_of(runs, [&](const TypeRun& run) { return std::exchange(end, end + run.bytes); });
}

/// Collects the nests of a tree: those of equal shape are one part, which lists their places.
class PartCollector {
 public:
  void add(const TypeTree& tree) {
    if (!tree.node) return;
    std::vector<IndexedEntry> places{{tree.offset, 0, 1}};
    visit(*tree.node, places, 0, 0);
  }

  std::vector<TypePart> parts() {
    add_runs();
    return std::move(parts_);
  }

 private:
  /// Adds what a node lists at each of `places`, shifted by `offset`, and `packed` in the packed
  /// bytes, inside the loops of `loops_`.
  void visit(const TypeNode& node, const std::vector<IndexedEntry>& places, std::int64_t offset,
             std::int64_t packed) {
    switch (node.kind) {
      case TypeNode::Kind::run: return add_leaf(node.bytes, places, offset, packed);
      case TypeNode::Kind::loop: {
        const TypeNode& part = *node.parts[0].node;
        loops_.push_back({node.count, node.stride, part.bytes});
        visit(part, places, offset, packed);
        loops_.pop_back();
        return;
      }
      case TypeNode::Kind::list: {
        const TypeNode& part = *node.parts[0].node;
        std::vector<IndexedEntry> inner;
        inner.reserve(places.size() * node.displacements.size());
        for (const IndexedEntry& place : places) {
          std::int64_t at_packed = place.target_offset;
          for (const std::int64_t displacement : node.displacements) {
            inner.push_back({place.source_offset + displacement, at_packed, 1});
            at_packed += part.bytes;
          }
        }
        visit(part, inner, offset, packed);
        return;
      }
      case TypeNode::Kind::sequence:
        for (const TypeTree& part : node.parts) {
          visit(*part.node, places, offset + part.offset, packed);
          packed += part.node->bytes;
        }
        return;
    }
  }

  void add_leaf(std::int64_t bytes, const std::vector<IndexedEntry>& places, std::int64_t offset,
                std::int64_t packed) {
    LoopNest nest;
    nest.element_bytes = bytes;
    nest.rank = static_cast<int>(loops_.size());
    CHECK(nest.rank < LoopNest::loops_max, "types of more loops are refused");
    std::reverse_copy(loops_.begin(), loops_.end(), nest.loops.begin());
    coalesce(nest);
    if (nest.rank == 0) {
      for (const IndexedEntry& place : places) {
        runs_.push_back(
            {place.source_offset + offset, place.target_offset + packed, nest.element_bytes});
      }
      if (run_part_ < 0) {
        run_part_ = static_cast<int>(parts_.size());
        parts_.emplace_back();
      }
      return;
    }
    TypePart& part = part_of(nest);
    for (const IndexedEntry& place : places) {
      part.entries.push_back({place.source_offset + offset, place.target_offset + packed, 1});
    }
  }

  TypePart& part_of(const LoopNest& nest) {
    std::vector<std::int64_t> key{nest.element_bytes};
    for (int k = 0; k < nest.rank; ++k) {
      const Loop& loop = nest.loops[at(k)];
      key.insert(key.end(), {loop.extent, loop.source_stride, loop.target_stride});
    }
    const auto [found, is_new] = numbers_.try_emplace(std::move(key), parts_.size());
    if (is_new) {
      parts_.emplace_back();
      parts_.back().nest = nest;
    }
    return parts_[found->second];
  }

  void add_runs() {
    if (run_part_ >= 0) parts_[at(run_part_)] = list_of(runs_);
  }

  std::vector<Loop> loops_;  ///< outermost first
  std::vector<TypePart> parts_;
  std::map<std::vector<std::int64_t>, std::size_t> numbers_;
  std::vector<PackedRun> runs_;
  int run_part_ = -1;  ///< the part that lists them
};

/// Whether a run of the nest ends where the next one begins.
bool runs_touch(const LoopNest& nest) {
  std::int64_t last = nest.element_bytes;  // the end of the last run of the loops before
  for (int k = 0; k < nest.rank; ++k) {
    const Loop& loop = nest.loops[at(k)];
    if (loop.source_stride == last) return true;
    last += (loop.extent - 1) * loop.source_stride;
  }
  return false;
}

std::vector<TypePart> parts_of(const TypeTree& tree) {
  PartCollector collector;
  collector.add(tree);
  return collector.parts();
}

std::int64_t count_runs(const std::vector<TypePart>& parts) {
  __int128 runs = 0;
  for (const TypePart& part : parts) {
    const std::int64_t of_nest = part.nest.bytes() / part.nest.element_bytes;
    runs += static_cast<__int128>(of_nest) * static_cast<std::int64_t>(part.entries.size());
  }
  return static_cast<std::int64_t>(std::min<__int128>(runs, TypeNode::runs_most));
}

/// Calls `visit` with the offset in memory and in the packed bytes of each run of a part.
template <typename Visit>
void for_each_run_of(const TypePart& part, const Visit& visit) {
  const LoopNest& nest = part.nest;
  for (const IndexedEntry& entry : part.entries) {
    each_point(
        nest, nest.source_offset + entry.source_offset, nest.target_offset + entry.target_offset,
        [&](const Run& point) {
          visit(PackedRun{point.source_offset, point.target_offset, point.bytes * entry.count});
        });
  }
}

/// Whether the strides of the nest alone show that its runs do not share bytes.
bool is_spread(const LoopNest& nest) {
  std::vector<std::pair<std::int64_t, std::int64_t>> loops;  // distance and extent
  for (int k = 0; k < nest.rank; ++k) {
    loops.emplace_back(std::abs(nest.loops[at(k)].source_stride), nest.loops[at(k)].extent);
  }
  std::sort(loops.begin(), loops.end());
  std::int64_t span = nest.element_bytes;
  for (const auto& [distance, extent] : loops) {
    if (distance < span) return false;
    span += distance * (extent - 1);
  }
  return true;
}

}  // namespace

TypeForm TypeForm::of(const TypeTree& tree) {
  TypeForm form;
  form.bytes_ = tree.bytes();
  if (!tree.node) return form;
  const bool lists_runs = tree.node->runs <= runs_for_each_number * tree.node->stated;
  if (!lists_runs) {
    form.parts_ = parts_of(tree);
    form.runs_ = count_runs(form.parts_);
    const bool one_nest = form.parts_.size() == 1 && form.parts_[0].entries.size() == 1;
    if (one_nest && !runs_touch(form.parts_[0].nest)) return form;
    if (tree.node->runs > runs_canonical) return form;
  }
  std::vector<TypeRun> runs;
  tranship::append_runs(tree, runs);
  form.runs_ = static_cast<std::int64_t>(runs.size());
  const auto compressed = compress(runs);
  const bool is_list = !compressed || compressed->node->depth > Datatype::depth_max;
  form.parts_ = is_list ? std::vector<TypePart>{list_of(runs)} : parts_of(*compressed);
  return form;
}

std::optional<std::int64_t> TypeForm::run_offset() const {
  if (parts_.size() != 1 || parts_[0].nest.rank != 0 || parts_[0].entries.size() != 1) return {};
  return parts_[0].nest.source_offset + parts_[0].entries[0].source_offset;
}

void append_runs(const TypeForm& form, std::vector<PackedRun>& runs) {
  const std::size_t first = runs.size();
  for (const TypePart& part : form.parts()) {
    for_each_run_of(part, [&](const PackedRun& run) { runs.push_back(run); });
  }
  const auto begin = runs.begin() + static_cast<std::ptrdiff_t>(first);
  const auto earlier = [](const PackedRun& a, const PackedRun& b) { return a.packed < b.packed; };
  if (!std::is_sorted(begin, runs.end(), earlier)) std::sort(begin, runs.end(), earlier);
}

namespace {

void sort_by_offset(std::vector<PackedRun>& runs) {
  std::sort(runs.begin(), runs.end(),
            [](const PackedRun& a, const PackedRun& b) { return a.offset < b.offset; });
}

/// Bytes of memory from the first to the last that the runs of a part have.
struct RunRange {
  std::int64_t low = 0;
  std::int64_t end = 0;
};

RunRange range_of(const TypePart& part) {
  const LoopNest& nest = part.nest;
  RunRange of_nest{nest.source_offset, nest.source_offset};
  for (int k = 0; k < nest.rank; ++k) {
    const std::int64_t last = (nest.loops[at(k)].extent - 1) * nest.loops[at(k)].source_stride;
    (last < 0 ? of_nest.low : of_nest.end) += last;
  }
  RunRange range{INT64_MAX, INT64_MIN};
  for (const IndexedEntry& entry : part.entries) {
    range.low = std::min(range.low, of_nest.low + entry.source_offset);
    range.end =
        std::max(range.end, of_nest.end + entry.source_offset + nest.element_bytes * entry.count);
  }
  return range;
}

RunRange range_of(std::span<const TypePart> parts) {
  RunRange all{INT64_MAX, INT64_MIN};
  for (const TypePart& part : parts) {
    const RunRange range = range_of(part);
    all.low = std::min(all.low, range.low);
    all.end = std::max(all.end, range.end);
  }
  return all;
}

/// Whether all parts have an outermost loop, and it is the same.
bool turn_together(std::span<const TypePart> parts) {
  const auto outermost = [](const TypePart& part) {
    return part.nest.loops[at(part.nest.rank - 1)];
  };
  return std::all_of(parts.begin(), parts.end(), [&](const TypePart& part) {
    return part.nest.rank > 0 && outermost(part).extent == outermost(parts[0]).extent &&
           outermost(part).source_stride == outermost(parts[0]).source_stride;
  });
}

/// Removes the outer loops of which no turn reaches another turn's bytes.
void keep_one_turn(std::vector<TypePart>& parts) {
  while (turn_together(parts)) {
    const LoopNest& first = parts[0].nest;
    const std::int64_t stride = std::abs(first.loops[at(first.rank - 1)].source_stride);
    for (TypePart& part : parts) --part.nest.rank;
    const RunRange range = range_of(parts);
    if (stride >= range.end - range.low) continue;
    for (TypePart& part : parts) ++part.nest.rank;
    return;
  }
}

/// Whether no two runs share a byte, by one bit for each unit that divides all of them; nothing if
/// they lie too far apart for that.
std::optional<bool> distinct_units(std::span<const TypePart> parts, std::int64_t runs) {
  constexpr std::int64_t bits_each = 256;
  constexpr std::int64_t bits_most = std::int64_t{1} << 33;
  const auto [low, end] = range_of(parts);
  const auto for_each_run = [&](const auto& visit) {
    for (const TypePart& part : parts) for_each_run_of(part, visit);
  };
  std::int64_t unit = parts[0].nest.element_bytes;
  for_each_run([&](const PackedRun& run) {
    unit = common_unit(common_unit(unit, run.bytes), run.offset - low);
  });
  const std::int64_t units = (end - low) / unit;
  if (units > std::min(bits_each * runs, bits_most)) return {};
  std::vector<bool> taken(static_cast<std::size_t>(units));
  bool distinct = true;
  for_each_run([&](const PackedRun& run) {
    const auto first = static_cast<std::size_t>((run.offset - low) / unit);
    const auto last = first + static_cast<std::size_t>(run.bytes / unit);
    for (std::size_t k = first; distinct && k < last; ++k) {
      distinct = !taken[k];
      taken[k] = true;
    }
  });
  return distinct;
}

/// Returns the runs of a form in the order of memory, shifted by `distance`.
std::vector<PackedRun> sorted_runs(const TypeForm& form, std::int64_t distance) {
  std::vector<PackedRun> runs;
  runs.reserve(static_cast<std::size_t>(form.runs()));
  append_runs(form, runs);
  sort_by_offset(runs);
  for (PackedRun& run : runs) run.offset += distance;
  return runs;
}

}  // namespace

bool is_disjoint(const TypeForm& form) {
  if (form.parts().empty()) return true;
  const TypePart& first = form.parts()[0];
  if (form.parts().size() == 1 && first.entries.size() == 1 && is_spread(first.nest)) return true;
  std::vector<TypePart> turn;
  if (turn_together(form.parts())) {
    turn = form.parts();
    keep_one_turn(turn);
  }
  const std::vector<TypePart>& parts = turn.empty() ? form.parts() : turn;
  const std::int64_t count = count_runs(parts);
  if (count > runs_disjoint_max) return false;
  if (const auto distinct = distinct_units(parts, count)) return *distinct;
  std::vector<PackedRun> runs;
  runs.reserve(static_cast<std::size_t>(count));
  for (const TypePart& part : parts) {
    for_each_run_of(part, [&](const PackedRun& run) { runs.push_back(run); });
  }
  sort_by_offset(runs);
  return std::adjacent_find(runs.begin(), runs.end(), [](const PackedRun& a, const PackedRun& b) {
           return a.offset + a.bytes > b.offset;
         }) == runs.end();
}

bool share_bytes(const TypeForm& first, const TypeForm& second, std::int64_t distance) {
  if (first.runs() > runs_sorted_max || second.runs() > runs_sorted_max) return true;
  const std::vector<PackedRun> a = sorted_runs(first, 0);
  const std::vector<PackedRun> b = sorted_runs(second, distance);
  std::int64_t end = INT64_MIN;  // of the runs of `a` that begin before the one of `b`
  std::size_t i = 0;
  for (const PackedRun& run : b) {
    for (; i < a.size() && a[i].offset < run.offset + run.bytes; ++i) {
      end = std::max(end, a[i].offset + a[i].bytes);
    }
    if (end > run.offset) return true;
  }
  return false;
}

}  // namespace tranship
