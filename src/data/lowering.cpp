#include "data/lowering.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.hpp"

namespace tranship {
namespace {

/// The boundaries between the blocks of one dimension: every index i with
/// (i + phase) % block == 0.
struct Boundary {
  std::int64_t block = 1;
  std::int64_t phase = 0;
};

/// A part of one dimension's range that is a product of loops on both sides.
struct Segment {
  std::int64_t first = 0;  ///< first index, counted from the box's first
  int rank = 0;
  struct Step {
    std::int64_t extent = 1;
    std::int64_t step = 1;  ///< indices from one iteration to the next
  };
  std::array<Step, 2 * levels_max> steps{};
};

/// Divides one dimension's range into segments. The levels are the block sizes of both sides,
/// smallest first; a segment of level k may cross boundaries of the first k block sizes only.
class Cutter {
 public:
  Cutter(const Levels& source, std::int64_t source_lower, const Levels& target,
         std::int64_t target_lower) {
    add(source, source_lower);
    add(target, target_lower);
  }

  void cut(std::int64_t extent, std::vector<Segment>& segments) {
    segments_ = &segments;
    if (extent > 0) cut_range(0, extent, count_, Segment{});
  }

 private:
  void add(const Levels& levels, std::int64_t lower) {
    std::int64_t block = 1;
    for (std::size_t k = 0; k + 1 < static_cast<std::size_t>(levels.count); ++k) {
      block *= levels.level[k].radix;
      const Boundary boundary{block, lower % block};
      const auto end = boundaries_.begin() + count_;
      const bool known = std::any_of(boundaries_.begin(), end, [&](const Boundary& b) {
        return b.block == boundary.block && b.phase == boundary.phase;
      });
      if (!known && block > 1) insert(boundary);
    }
  }

  void insert(const Boundary& boundary) {
    auto at = static_cast<std::size_t>(count_++);
    for (; at > 0 && boundaries_[at - 1].block > boundary.block; --at) {
      boundaries_[at] = boundaries_[at - 1];
    }
    boundaries_[at] = boundary;
  }

  std::int64_t period(int level) const {
    std::int64_t product = 1;
    for (std::size_t k = 0; k < static_cast<std::size_t>(level); ++k) {
      product = std::lcm(product, boundaries_[k].block);
      if (product > (std::int64_t{1} << 40)) return product;
    }
    return product;
  }

  void cut_range(std::int64_t low, std::int64_t high, int level, Segment outer) {
    if (low >= high) return;
    if (level == 0) {
      outer.first += low;
      if (high - low > 1) outer.steps[static_cast<std::size_t>(outer.rank++)] = {high - low, 1};
      segments_->push_back(outer);
      return;
    }
    const Boundary& top = boundaries_[static_cast<std::size_t>(level - 1)];
    const std::int64_t phase = (low + top.phase) % top.block;
    const std::int64_t aligned = phase == 0 ? low : low + top.block - phase;
    if (aligned >= high) return cut_range(low, high, level - 1, outer);
    cut_range(low, aligned, level - 1, outer);
    const std::int64_t step = period(level);
    const std::int64_t turns = (high - aligned) / step;
    std::int64_t rest = aligned;
    if (turns > 1 && outer.rank + level < static_cast<int>(outer.steps.size())) {
      Segment body = outer;
      body.steps[static_cast<std::size_t>(body.rank++)] = {turns, step};
      cut_blocks(aligned, aligned + step, level, body);
      rest = aligned + turns * step;
    }
    cut_blocks(rest, high, level, outer);
  }

  /// Divides [low, high), which begins at a boundary of the top level, at those boundaries.
  void cut_blocks(std::int64_t low, std::int64_t high, int level, const Segment& outer) {
    const std::int64_t block = boundaries_[static_cast<std::size_t>(level - 1)].block;
    for (std::int64_t at = low; at < high; at += block) {
      cut_range(at, std::min(at + block, high), level - 1, outer);
    }
  }

  std::array<Boundary, 2 * levels_max> boundaries_{};
  int count_ = 0;
  std::vector<Segment>* segments_ = nullptr;
};

/// Scratch memory of a lowering. Each thread keeps one, so that a copy does not allocate.
struct Scratch {
  std::array<std::vector<Segment>, dimensions_max> segments;
};

Scratch& scratch() {
  thread_local Scratch kept;
  return kept;
}

/// Appends the nests of a field's loops to `nests`: one, unless there are more loops than a nest
/// has. Then the shortest are walked here.
void add_nests(LoopNest first, std::vector<Loop> loops, std::vector<LoopNest>& nests) {
  if (loops.size() <= LoopNest::loops_max) {
    first.rank = static_cast<int>(loops.size());
    std::copy(loops.begin(), loops.end(), first.loops.begin());
    coalesce(first);
    nests.push_back(first);
    return;
  }
  const auto shortest = std::min_element(
      loops.begin(), loops.end(), [](const Loop& a, const Loop& b) { return a.extent < b.extent; });
  const Loop walked = *shortest;
  loops.erase(shortest);
  for (std::int64_t turn = 0; turn < walked.extent; ++turn) {
    add_nests(first, loops, nests);
    first.source_offset += walked.source_stride;
    first.target_offset += walked.target_stride;
  }
}

/// Returns what happens to the numbers of one field.
Conversion conversion_of(const Field& from, const Field& to, Numbers numbers) {
  if (numbers == Numbers::as_they_are || from.type == to.type) return {};
  const auto source = number_type_from(from.type);
  const auto target = number_type_from(to.type);
  CHECK(source && target && bytes_of(source->kind) == from.bytes &&
            bytes_of(target->kind) == to.bytes,
        "only numbers are converted");
  return *source == *target ? Conversion{} : Conversion{*source, *target};
}

/// Appends the nests of one field over one combination of segments.
void add_nests_of(const Corner& source, const Corner& target, const Placement& from,
                  const Placement& to, const std::array<const Segment*, dimensions_max>& chosen,
                  int rank, Numbers numbers, std::vector<LoopNest>& nests) {
  LoopNest nest;
  nest.element_bytes = to.field.bytes;
  nest.conversion = conversion_of(from.field, to.field, numbers);
  nest.source_offset = from.offset;
  nest.target_offset = to.offset;
  std::vector<Loop> further;  // beyond those that the nest has room for
  for (std::size_t k = 0; k < static_cast<std::size_t>(rank); ++k) {
    const Segment& segment = *chosen[k];
    const std::int64_t at_source = source.lower[k] + segment.first;
    const std::int64_t at_target = target.lower[k] + segment.first;
    const std::int64_t source_base = from.dimension[k].offset(at_source);
    const std::int64_t target_base = to.dimension[k].offset(at_target);
    nest.source_offset += source_base;
    nest.target_offset += target_base;
    for (std::size_t j = 0; j < static_cast<std::size_t>(segment.rank); ++j) {
      const auto [extent, step] = segment.steps[j];
      const Loop loop{extent, from.dimension[k].offset(at_source + step) - source_base,
                      to.dimension[k].offset(at_target + step) - target_base};
      if (nest.rank < LoopNest::loops_max) {
        nest.loops[static_cast<std::size_t>(nest.rank++)] = loop;
      } else {
        further.push_back(loop);
      }
    }
  }
  if (!further.empty()) {
    further.insert(further.end(), nest.loops.begin(), nest.loops.end());
    return add_nests(nest, std::move(further), nests);
  }
  coalesce(nest);
  nests.push_back(nest);
}

/// Returns whether the mapping has one field and no dimension with blocks, so that each dimension
/// has a single stride.
bool strided(const Mapping& mapping) {
  const Placement& field = mapping.fields()[0];
  return mapping.fields().size() == 1 &&
         std::all_of(field.dimension.begin(), field.dimension.begin() + mapping.rank(),
                     [](const Levels& levels) { return levels.count == 1; });
}

/// Appends the single nest between two strided mappings. Most copies are of this kind, and lists of
/// them are long.
void lower_strided(const Corner& source, const Corner& target, const Point& extents,
                   std::vector<LoopNest>& nests, Numbers numbers) {
  const Placement& from = source.mapping->fields()[0];
  const Placement& to = target.mapping->fields()[0];
  const auto rank = static_cast<std::size_t>(target.mapping->rank());
  if (std::any_of(extents.begin(), extents.begin() + rank, [](auto n) { return n <= 0; })) return;
  LoopNest& nest = nests.emplace_back();
  nest.element_bytes = to.field.bytes;
  nest.source_offset = from.offset;
  nest.target_offset = to.offset;
  nest.rank = static_cast<int>(rank);
  nest.conversion = conversion_of(from.field, to.field, numbers);
  for (std::size_t k = 0; k < rank; ++k) {
    const std::int64_t source_stride = from.dimension[k].level[0].stride;
    const std::int64_t target_stride = to.dimension[k].level[0].stride;
    nest.source_offset += source.lower[k] * source_stride;
    nest.target_offset += target.lower[k] * target_stride;
    nest.loops[k] = {extents[k], source_stride, target_stride};
  }
  coalesce(nest);
}

}  // namespace

void lower(const Corner& source, const Corner& target, const Point& extents,
           const std::vector<int>& field_of_target, std::vector<LoopNest>& nests, Numbers numbers) {
  if (strided(*source.mapping) && strided(*target.mapping)) {
    return lower_strided(source, target, extents, nests, numbers);
  }
  const int rank = target.mapping->rank();
  auto& segments = scratch().segments;
  for (std::size_t k = 0; k < static_cast<std::size_t>(rank); ++k) {
    if (extents[k] <= 0) return;
    segments[k].clear();
    Cutter(source.mapping->fields()[0].dimension[k], source.lower[k],
           target.mapping->fields()[0].dimension[k], target.lower[k])
        .cut(extents[k], segments[k]);
  }
  std::array<std::size_t, dimensions_max> turn{};
  std::array<const Segment*, dimensions_max> chosen{};
  while (true) {
    for (std::size_t k = 0; k < static_cast<std::size_t>(rank); ++k) {
      chosen[k] = &segments[k][turn[k]];
    }
    const std::size_t first = nests.size();
    for (std::size_t f = 0; f < target.mapping->fields().size(); ++f) {
      const std::size_t from =
          field_of_target.empty() ? f : static_cast<std::size_t>(field_of_target[f]);
      add_nests_of(source, target, source.mapping->fields()[from], target.mapping->fields()[f],
                   chosen, rank, numbers, nests);
    }
    merge(nests, first);
    std::size_t k = 0;
    for (; k < static_cast<std::size_t>(rank); ++k) {
      if (++turn[k] < segments[k].size()) break;
      turn[k] = 0;
    }
    if (k == static_cast<std::size_t>(rank)) return;
  }
}

void coalesce(LoopNest& nest) {
  int kept = 0;
  for (int k = 0; k < nest.rank; ++k) {
    Loop loop = nest.loops[static_cast<std::size_t>(k)];
    if (loop.extent == 1) continue;
    if (loop.target_stride < 0) {  // walk it from the other end
      nest.source_offset += (loop.extent - 1) * loop.source_stride;
      nest.target_offset += (loop.extent - 1) * loop.target_stride;
      loop = {loop.extent, -loop.source_stride, -loop.target_stride};
    }
    int at = kept++;
    for (; at > 0; --at) {
      const Loop& before = nest.loops[static_cast<std::size_t>(at - 1)];
      if (before.target_stride <= loop.target_stride) break;
      nest.loops[static_cast<std::size_t>(at)] = before;
    }
    nest.loops[static_cast<std::size_t>(at)] = loop;
  }
  nest.rank = kept;
  int joined = 0;
  for (int k = 0; k < nest.rank; ++k) {
    const Loop loop = nest.loops[static_cast<std::size_t>(k)];
    if (joined == 0 && loop.source_stride == nest.source_element_bytes() &&
        loop.target_stride == nest.element_bytes) {
      nest.element_bytes *= loop.extent;
      continue;
    }
    if (joined > 0) {
      Loop& inner = nest.loops[static_cast<std::size_t>(joined - 1)];
      if (loop.source_stride == inner.source_stride * inner.extent &&
          loop.target_stride == inner.target_stride * inner.extent) {
        inner.extent *= loop.extent;
        continue;
      }
    }
    nest.loops[static_cast<std::size_t>(joined++)] = loop;
  }
  nest.rank = joined;
}

namespace {

bool same_loops(const LoopNest& a, const LoopNest& b) {
  if (a.rank != b.rank) return false;
  for (std::size_t k = 0; k < static_cast<std::size_t>(a.rank); ++k) {
    if (!(a.loops[k] == b.loops[k])) return false;
  }
  return true;
}

/// Joins fields that are adjacent on both sides to one longer element.
void join_neighbours(std::vector<LoopNest>& nests, std::size_t first) {
  std::size_t kept = first;
  for (std::size_t k = first + 1; k < nests.size(); ++k) {
    LoopNest& last = nests[kept];
    const LoopNest& next = nests[k];
    const bool behind = next.source_offset == last.source_offset + last.source_element_bytes() &&
                        next.target_offset == last.target_offset + last.element_bytes;
    if (behind && last.conversion == next.conversion && same_loops(last, next)) {
      last.element_bytes += next.element_bytes;
    } else {
      nests[++kept] = next;
    }
  }
  nests.resize(kept + 1);
}

/// Returns how many nests, from number `k` on, are equally spaced copies of nest `k`.
std::size_t progression(const std::vector<LoopNest>& nests, std::size_t k) {
  std::size_t count = 1;
  for (; k + count < nests.size(); ++count) {
    const LoopNest& next = nests[k + count];
    const LoopNest& last = nests[k + count - 1];
    if (next.element_bytes != nests[k].element_bytes || next.conversion != nests[k].conversion ||
        !same_loops(next, nests[k])) {
      break;
    }
    if (next.source_offset - last.source_offset !=
            nests[k + 1].source_offset - nests[k].source_offset ||
        next.target_offset - last.target_offset !=
            nests[k + 1].target_offset - nests[k].target_offset) {
      break;
    }
  }
  return count;
}

}  // namespace

void merge(std::vector<LoopNest>& nests, std::size_t first) {
  if (nests.size() < first + 2) {
    return;
  }
  join_neighbours(nests, first);
  std::size_t kept = first;
  for (std::size_t k = first; k < nests.size();) {
    const std::size_t count = progression(nests, k);
    LoopNest nest = nests[k];
    if (count > 1 && nest.rank < LoopNest::loops_max) {
      nest.loops[static_cast<std::size_t>(nest.rank++)] = {
          static_cast<std::int64_t>(count), nests[k + 1].source_offset - nest.source_offset,
          nests[k + 1].target_offset - nest.target_offset};
      k += count;
    } else {
      ++k;
    }
    coalesce(nest);
    nests[kept++] = nest;
  }
  nests.resize(kept);
}

namespace {

std::string types_text(const Field& from, const Field& to) {
  return "field \"" + to.name + "\" is " + from.type + " in the source and " + to.type +
         " in the target";
}

/// Returns the narrowest rule that allows a conversion, as an argument; empty if none does.
std::string rule_for(NumberKind from, NumberKind to) {
  for (const Casting casting : {Casting::safe, Casting::same_kind, Casting::unsafe}) {
    if (can_cast(from, to, casting)) return std::string("cast=\"") + to_string(casting) + "\"";
  }
  return {};
}

/// Checks that a copy may convert one type to the other.
/// @error invalid_argument if it may not
Status check_cast(const Field& from, const Field& to, Casting casting) {
  const auto source = number_type_from(from.type);
  const auto target = number_type_from(to.type);
  const bool numbers = source && target && bytes_of(source->kind) == from.bytes &&
                       bytes_of(target->kind) == to.bytes;
  if (numbers && can_cast(source->kind, target->kind, casting)) return {};
  std::string why = ", and a copy does not convert types unless cast= allows it";
  std::string hint = "convert one of the arrays first";
  const std::string rule = numbers ? rule_for(source->kind, target->kind) : std::string();
  if (numbers && rule.empty()) {
    why = ", and there is no conversion between these two";
    hint = "convert one of the arrays to float32 first";
  } else if (numbers && casting == Casting::none) {
    hint += ", or give " + rule;
  } else if (numbers) {
    why = std::string(", and cast=\"") + to_string(casting) +
          "\" does not allow what may lose values";
    hint = rule + " allows it";
  } else if (casting != Casting::none) {
    why =
        ", and cast= converts numbers alone: booleans, integers, and floating-point numbers of "
        "up to 64 bits a part";
  }
  return Error{ErrorCode::invalid_argument, types_text(from, to) + why, hint};
}

}  // namespace

bool casts_fields(const Mapping& source, const Mapping& target,
                  const std::vector<int>& field_of_target) {
  for (std::size_t k = 0; k < target.fields().size(); ++k) {
    const std::size_t from =
        field_of_target.empty() ? k : static_cast<std::size_t>(field_of_target[k]);
    if (source.fields()[from].field.type != target.fields()[k].field.type) return true;
  }
  return false;
}

Result<std::vector<int>> match_fields(const Mapping& source, const Mapping& target,
                                      Casting casting) {
  const auto& from = source.fields();
  const auto& to = target.fields();
  if (from.size() != to.size()) {
    return Error{ErrorCode::invalid_argument,
                 "the source has " + std::to_string(from.size()) + " fields and the target " +
                     std::to_string(to.size()),
                 "give both the same fields"};
  }
  std::vector<int> matched;
  for (const Placement& field : to) {
    auto found = std::find_if(from.begin(), from.end(), [&](const Placement& other) {
      return other.field.name == field.field.name;
    });
    if (found == from.end() && to.size() == 1) found = from.begin();
    if (found == from.end()) {
      return Error{ErrorCode::invalid_argument,
                   "the target's field \"" + field.field.name + "\" is not in the source",
                   "give both the same fields"};
    }
    if (found->field.bytes != field.field.bytes || found->field.type != field.field.type) {
      if (Status s = check_cast(found->field, field.field, casting); !s) return s.error();
    }
    matched.push_back(static_cast<int>(found - from.begin()));
  }
  return matched;
}

}  // namespace tranship
