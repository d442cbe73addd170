#include "gpu/kernels/nest_list.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "base/check.hpp"

#include "gpu/kernels/kernel_body.hpp"
#include "gpu/kernels/normal_nest.hpp"

namespace tranship::gpu {
namespace {

constexpr std::int64_t blocks_most = (std::int64_t{1} << 31) - 1;
/// Bits of an address that determine its alignment.
constexpr std::int64_t alignment_bits = vector_bytes_max - 1;

struct ByShape {
  bool operator()(const LoopNest* a, const LoopNest* b) const {
    if (a->element_bytes != b->element_bytes) return a->element_bytes < b->element_bytes;
    if (a->rank != b->rank) return a->rank < b->rank;
    const auto key = [](const Loop& loop) {
      return std::tie(loop.extent, loop.source_stride, loop.target_stride);
    };
    return std::lexicographical_compare(
        a->loops.begin(), a->loops.begin() + a->rank, b->loops.begin(), b->loops.begin() + b->rank,
        [&](const Loop& one, const Loop& other) { return key(one) < key(other); });
  }
};

bool same_shape(const LoopNest& a, const LoopNest& b) {
  return a.element_bytes == b.element_bytes && a.rank == b.rank &&
         std::equal(a.loops.begin(), a.loops.begin() + a.rank, b.loops.begin());
}

/// The nests of one shape, and the or-ed bits of all the addresses at which they begin.
struct Alike {
  std::vector<const LoopNest*> nests;
  std::int64_t source_bits = 0;
  std::int64_t target_bits = 0;
  std::vector<KernelPlan> plans;

  /// Plans a nest of this shape for any of these addresses.
  void plan(const KernelTuning& tuning) {
    LoopNest any = *nests[0];
    any.source_offset = source_bits & alignment_bits;
    any.target_offset = target_bits & alignment_bits;
    plans.clear();
    plan_kernels(any, nullptr, nullptr, plans, tuning);
    for (KernelPlan& plan : plans) {
      plan.source_offset -= any.source_offset;
      plan.target_offset -= any.target_offset;
      plan.source_low -= any.source_offset;
      plan.source_high -= any.source_offset;
    }
  }

  /// Returns whether there are list kernels for all plans of this shape.
  bool listed() const {
    return std::all_of(plans.begin(), plans.end(), [](const KernelPlan& plan) {
      return plan.kind != KernelKind::box && plan.kind != KernelKind::records;
    });
  }

  bool shifted() const { return plans[0].kind == KernelKind::shifted; }

  /// Returns the bytes of the narrowest access.
  std::int32_t element_bytes() const {
    std::int32_t least = vector_bytes_max;
    for (const KernelPlan& plan : plans) least = std::min(least, plan.element_bytes);
    return least;
  }
};

using Shapes = std::map<const LoopNest*, Alike, ByShape>;

/// Returns whether a loop has a negative target stride: then the nest's first address is not its
/// lowest.
bool walks_backwards(const LoopNest& nest) {
  return std::any_of(nest.loops.begin(), nest.loops.begin() + nest.rank,
                     [](const Loop& loop) { return loop.target_stride < 0; });
}

Shapes shapes_of(std::span<const LoopNest> nests, const std::byte* source, const std::byte* target,
                 std::vector<LoopNest>& rest) {
  Shapes shapes;
  auto last = shapes.end();
  for (const LoopNest& nest : nests) {
    if (nest.bytes() == 0) continue;
    if (walks_backwards(nest)) {
      rest.push_back(nest);
      continue;
    }
    const bool again = last != shapes.end() && same_shape(nest, *last->first);
    if (!again) last = shapes.try_emplace(&nest).first;
    last->second.nests.push_back(&nest);
    last->second.source_bits |= address_bits(source, nest.source_offset);
    last->second.target_bits |= address_bits(target, nest.target_offset);
  }
  return shapes;
}

/// A nest of a list under construction, and the number of its blocks.
struct CountedNest {
  ListedNest nest;
  std::int64_t blocks;
};

void append(const Alike& alike, NestList& list, std::vector<CountedNest>& entries) {
  for (const KernelPlan& plan : alike.plans) {
    const auto number = static_cast<std::int32_t>(list.plans.size());
    list.plans.push_back(plan);
    for (const LoopNest* nest : alike.nests) {
      entries.push_back({{nest->source_offset, nest->target_offset, number}, plan.blocks});
    }
  }
}

/// Returns the end of the band that begins with entry `first`: its nests' numbers of blocks differ
/// by an eighth at most.
std::size_t band_end(const std::vector<CountedNest>& entries, std::size_t first,
                     std::int64_t nests_max) {
  std::int64_t most = entries[first].blocks, least = most;
  std::size_t end = first;
  for (; end < entries.size() && static_cast<std::int64_t>(end - first) < nests_max; ++end) {
    most = std::max(most, entries[end].blocks);
    least = std::min(least, entries[end].blocks);
    if (8 * (most - least) > most) break;
  }
  return end;
}

/// Sorts the nests by target and divides them into bands. Returns false if they need too many
/// blocks.
bool complete(NestList& list, std::vector<CountedNest>& entries, std::int64_t nests_max) {
  const auto by_target = [](const CountedNest& a, const CountedNest& b) {
    return a.nest.target < b.nest.target;
  };
  if (!std::is_sorted(entries.begin(), entries.end(), by_target)) {
    std::stable_sort(entries.begin(), entries.end(), by_target);
  }
  for (std::size_t first = 0; first < entries.size();) {
    const std::size_t end = band_end(entries, first, nests_max);
    const auto count = static_cast<std::int64_t>(end - first);
    list.bands.push_back({static_cast<std::uint32_t>(list.blocks), static_cast<std::int32_t>(first),
                          make_divisor(count)});
    std::int64_t most = 0;
    for (; first < end; ++first) {
      most = std::max(most, entries[first].blocks);
      list.nests.push_back(entries[first].nest);
    }
    list.blocks += most * count;
    if (list.blocks > blocks_most) return false;
  }
  return true;
}

template <typename Item>
std::int64_t size_of(const std::vector<Item>& entries) {
  return static_cast<std::int64_t>(entries.size() * sizeof(Item));
}

template <typename Item>
std::byte* put(const std::vector<Item>& entries, std::byte* at) {
  static_assert(sizeof(Item) % alignof(std::int64_t) == 0);
  if (!entries.empty()) std::memcpy(at, entries.data(), entries.size() * sizeof(Item));
  return at + size_of(entries);
}

}  // namespace

std::int64_t table_bytes(const NestList& list) {
  return size_of(list.plans) + size_of(list.nests) + size_of(list.bands);
}

void write_table(const NestList& list, std::byte* at) {
  put(list.bands, put(list.nests, put(list.plans, at)));
}

NestTable table_of(const NestList& list, const std::byte* at) {
  NestTable table;
  table.plans = reinterpret_cast<const NestPlan*>(at);
  table.nests = reinterpret_cast<const ListedNest*>(at += size_of(list.plans));
  table.bands = reinterpret_cast<const NestBand*>(at += size_of(list.nests));
  table.nests_count = static_cast<std::int32_t>(list.nests.size());
  table.bands_count = static_cast<std::int32_t>(list.bands.size());
  table.shifted = list.shifted;
  table.element_bytes = list.element_bytes;
  table.blocks = list.blocks;
  return table;
}

HeldTable hold(const NestTable& table) {
  const auto* plans = reinterpret_cast<const std::byte*>(table.plans);
  const auto* nests = reinterpret_cast<const std::byte*>(table.nests);
  const auto* bands = reinterpret_cast<const std::byte*>(table.bands);
  HeldTable held;
  held.table = table;
  held.nests_at = static_cast<std::int32_t>(nests - plans);
  held.bands_at = static_cast<std::int32_t>(bands - plans);
  const auto bands_count = static_cast<std::size_t>(table.bands_count);
  const std::size_t bytes =
      static_cast<std::size_t>(bands - plans) + bands_count * sizeof(NestBand);
  CHECK(bytes <= held_bytes_max, "a table is longer than the parameters of a launch");
  std::memcpy(held.bytes, table.on_host, bytes);
  return held;
}

void plan_lists(std::span<const LoopNest> nests, const std::byte* source, const std::byte* target,
                NestLists& lists, std::vector<LoopNest>& rest, const KernelTuning& given) {
  lists = {};
  lists.shifted.shifted = true;
  std::int32_t& narrowest = lists.aligned.element_bytes;
  Shapes shapes = shapes_of(nests, source, target, rest);
  KernelTuning tuning = given;
  tuning.in_list = true;
  for (const LoopNest& nest : nests) tuning.list_bytes += nest.bytes();
  for (auto& [nest, alike] : shapes) {
    alike.plan(tuning);
    if (alike.listed()) narrowest = std::min(narrowest, alike.element_bytes());
  }
  // Long runs that would be moved in narrower accesses because of other nests are shifted, too.
  tuning.element_bytes_max = narrowest;
  std::vector<CountedNest> aligned, shifted;
  for (auto& [nest, alike] : shapes) {
    if (!alike.listed()) {
      for (const LoopNest* one : alike.nests) rest.push_back(*one);
      continue;
    }
    if (!alike.shifted() && alike.element_bytes() != narrowest) alike.plan(tuning);
    const bool misaligned = alike.shifted();
    append(alike, misaligned ? lists.shifted : lists.aligned, misaligned ? shifted : aligned);
  }
  const bool fit = complete(lists.aligned, aligned, tuning.band_nests) &&
                   complete(lists.shifted, shifted, tuning.band_nests);
  if (fit) return;
  lists = {};
  rest.assign(nests.begin(), nests.end());
}

}  // namespace tranship::gpu
