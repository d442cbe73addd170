#include "gpu/kernels/nest_list.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.hpp"

#include "gpu/kernels/alike_nests.hpp"
#include "gpu/kernels/kernel_body.hpp"
#include "gpu/kernels/normal_nest.hpp"

namespace tranship::gpu {
namespace {

constexpr std::int64_t blocks_most = (std::int64_t{1} << 31) - 1;
/// The nests of one shape, and its plans in a list.
struct ListedShape {
  AlikeNests alike;
  std::vector<KernelPlan> plans;

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

/// A nest of a list under construction, and the number of its blocks.
struct CountedNest {
  ListedNest nest;
  std::int64_t blocks;
};

void append(const ListedShape& shape, NestList& list, std::vector<CountedNest>& entries) {
  for (const KernelPlan& plan : shape.plans) {
    const auto number = static_cast<std::int32_t>(list.plans.size());
    list.plans.push_back(plan);
    for (const LoopNest* nest : shape.alike.nests) {
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
  KernelTuning tuning = given;
  tuning.in_list = true;
  for (const LoopNest& nest : nests) tuning.list_bytes += nest.bytes();
  std::vector<ListedShape> shapes;
  for (AlikeNests& alike : group_by_shape(nests, source, target, rest)) {
    std::vector<KernelPlan> plans = alike.plan(tuning);
    const ListedShape& shape = shapes.emplace_back(ListedShape{std::move(alike), std::move(plans)});
    if (shape.listed()) narrowest = std::min(narrowest, shape.element_bytes());
  }
  // Long runs that would be moved in narrower accesses because of other nests are shifted, too.
  tuning.element_bytes_max = narrowest;
  std::vector<CountedNest> aligned, shifted;
  for (ListedShape& shape : shapes) {
    if (!shape.listed()) {
      for (const LoopNest* one : shape.alike.nests) rest.push_back(*one);
      continue;
    }
    if (!shape.shifted() && shape.element_bytes() != narrowest) {
      shape.plans = shape.alike.plan(tuning);
    }
    const bool misaligned = shape.shifted();
    append(shape, misaligned ? lists.shifted : lists.aligned, misaligned ? shifted : aligned);
  }
  const bool fit = complete(lists.aligned, aligned, tuning.band_nests) &&
                   complete(lists.shifted, shifted, tuning.band_nests);
  if (fit) return;
  lists = {};
  rest.assign(nests.begin(), nests.end());
}

}  // namespace tranship::gpu
