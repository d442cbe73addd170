#include "datatypes/compression.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace tranship {
namespace {

/// Most parts of a group that is repeated.
constexpr std::size_t period_max = 8;
/// Fewest repetitions that become a loop: of single parts, so that lists of random places stay
/// lists, and of groups.
constexpr std::size_t parts_least = 4;
constexpr std::size_t groups_least = 3;

/// A part at its place; equal parts have equal numbers.
struct Item {
  std::int64_t offset = 0;
  int part = 0;
};
using Items = std::vector<Item>;

class Compressor {
 public:
  explicit Compressor(std::span<const TypeRun> runs) {
    std::map<std::int64_t, int> numbers;
    items_.reserve(runs.size());
    std::int64_t last_bytes = 0;
    int last_number = 0;
    for (const TypeRun& run : runs) {
      if (run.bytes != last_bytes) {
        const auto [found, is_new] =
            numbers.try_emplace(run.bytes, static_cast<int>(parts_.size()));
        if (is_new) parts_.push_back(TypeTree::run(run.bytes));
        last_bytes = run.bytes;
        last_number = found->second;
      }
      items_.push_back({run.offset, last_number});
    }
  }

  std::optional<TypeTree> tree() {
    if (auto nest = nest_of(items_)) return nest;
    Items items = with_loops(items_);
    if (items.size() == items_.size()) return {};
    return tree_of(std::move(items));
  }

 private:
  TypeTree tree_of(Items items) {
    while (true) {
      if (const auto nest = nest_of(items)) return *nest;
      const std::size_t before = items.size();
      items = with_loops(items);
      if (items.size() == before) break;
    }
    std::vector<TypeTree> parts;
    parts.reserve(items.size());
    for (const Item& item : items) parts.push_back(part(item).shifted(item.offset));
    return TypeTree::sequence(parts);
  }

  const TypeTree& part(const Item& item) const {
    return parts_[static_cast<std::size_t>(item.part)];
  }

  /// Returns the number of a part; equal parts, whatever they were made of, get the same.
  int number_of(const TypeTree& tree, std::vector<std::int64_t> key) {
    const auto [found, is_new] =
        numbers_.try_emplace(std::move(key), static_cast<int>(parts_.size()));
    if (is_new) parts_.push_back(tree);
    return found->second;
  }

  /// Returns the items as a nest of loops over one part if they are one: the innermost loop is as
  /// long as the offsets keep their distance.
  std::optional<TypeTree> nest_of(const Items& items) const {
    const bool same = std::all_of(items.begin(), items.end(),
                                  [&](const Item& item) { return item.part == items[0].part; });
    if (!same) return {};
    std::vector<std::int64_t> offsets;
    offsets.reserve(items.size());
    for (const Item& item : items) offsets.push_back(item.offset);
    TypeTree tree = part(items[0]);
    while (offsets.size() > 1) {
      const std::size_t count = even_count(offsets);
      const std::int64_t step = offsets[1] - offsets[0];
      if (offsets.size() % count != 0) return {};
      std::vector<std::int64_t> begins;
      for (std::size_t k = 0; k < offsets.size(); k += count) {
        for (std::size_t j = 1; j < count; ++j) {
          if (offsets[k + j] - offsets[k + j - 1] != step) return {};
        }
        begins.push_back(offsets[k]);
      }
      tree = TypeTree::loop(static_cast<std::int64_t>(count), step, tree);
      offsets = std::move(begins);
    }
    return tree.shifted(offsets[0]);
  }

  /// Returns how many of the offsets, from the first on, are equally far apart.
  static std::size_t even_count(const std::vector<std::int64_t>& offsets) {
    std::size_t count = 2;
    while (count < offsets.size() &&
           offsets[count] - offsets[count - 1] == offsets[1] - offsets[0]) {
      ++count;
    }
    return count;
  }

  /// Returns how often the `period` items from number `first` on are repeated at equal distances,
  /// or 1 if that is too seldom for a loop.
  static std::size_t repetitions(const Items& items, std::size_t first, std::size_t period) {
    const std::size_t least = period == 1 ? parts_least : groups_least;
    if (first + least * period > items.size()) return 1;
    const std::int64_t step = items[first + period].offset - items[first].offset;
    // The first item of the last repetition tells most lists of random places.
    const Item& last = items[first + (least - 1) * period];
    if (last.offset - items[first].offset != static_cast<std::int64_t>(least - 1) * step) return 1;
    std::size_t k = first + period;
    while (k < items.size() && items[k].part == items[k - period].part &&
           items[k].offset - items[k - period].offset == step) {
      ++k;
    }
    return (k - first) / period;
  }

  /// Returns whether the offsets of the first items from number `first` on allow a repetition of
  /// any period: none, in most places of a list of random places.
  static bool may_repeat(const Items& items, std::size_t first) {
    if (first + groups_least * period_max > items.size()) return true;
    const Item* at = items.data() + first;
    bool may = false;
    for (std::size_t period = 1; period <= period_max; ++period) {
      const std::int64_t step = at[period].offset - at[0].offset;
      may |= at[2 * period].offset - at[period].offset == step;
    }
    return may;
  }

  /// Replaces groups that are repeated by loops, from the first item on: at each place the period
  /// that covers most, of equal ones the shortest.
  Items with_loops(const Items& items) {
    Items made;
    made.reserve(items.size());
    for (std::size_t k = 0; k < items.size();) {
      if (!may_repeat(items, k)) {
        made.push_back(items[k++]);
        continue;
      }
      std::size_t best_period = 1;
      std::size_t best_count = 1;
      for (std::size_t period = 1; period <= std::min(period_max, items.size() - k); ++period) {
        const std::size_t count = repetitions(items, k, period);
        if (count < (period == 1 ? parts_least : groups_least)) continue;
        if (count * period > best_count * best_period) {
          best_period = period;
          best_count = count;
        }
      }
      if (best_count == 1) {
        made.push_back(items[k++]);
        continue;
      }
      made.push_back(loop_of(items, k, best_period, best_count));
      k += best_count * best_period;
    }
    return made;
  }

  Item loop_of(const Items& items, std::size_t first, std::size_t period, std::size_t count) {
    const std::int64_t begin = items[first].offset;
    const std::int64_t step = items[first + period].offset - begin;
    Items group(items.begin() + static_cast<std::ptrdiff_t>(first),
                items.begin() + static_cast<std::ptrdiff_t>(first + period));
    std::vector<std::int64_t> key{static_cast<std::int64_t>(count), step};
    for (Item& item : group) {
      item.offset -= begin;
      key.insert(key.end(), {item.offset, item.part});
    }
    const TypeTree body = period == 1 ? part(group[0]) : tree_of(group);
    return {begin, number_of(TypeTree::loop(static_cast<std::int64_t>(count), step, body),
                             std::move(key))};
  }

  std::vector<TypeTree> parts_;
  std::map<std::vector<std::int64_t>, int> numbers_;
  Items items_;
};

}  // namespace

std::optional<TypeTree> compress(std::span<const TypeRun> runs) { return Compressor(runs).tree(); }

}  // namespace tranship
