#include "engine/checks.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <set>
#include <vector>

#include "base/at.hpp"
#include "base/lent_vector.hpp"
#include "data/lowering.hpp"
#include "data/overlap.hpp"
#include "data/piece_survey.hpp"
#include "engine/same_bytes.hpp"

namespace tranship {
namespace {

Status check_pages(const Array& array, std::span<const std::int64_t> pages, const char* side) {
  if (array.view.mapping->rank() == 0) {
    return invalid(std::string("the ") + side + " has no dimensions, and so no pages");
  }
  const std::int64_t count = array.view.extents[0];
  const auto outside = [count](std::int64_t page) { return page < 0 || page >= count; };
  bool any = false;  // without a branch for each page, so that vector instructions look at them
  for (const std::int64_t page : pages) any |= outside(page);
  if (!any) return {};
  const std::int64_t page = *std::find_if(pages.begin(), pages.end(), outside);
  return Error{ErrorCode::out_of_range, "page " + std::to_string(page) + " lies outside the " +
                                            side + ", which has " + std::to_string(count)};
}

/// Pages, one bit each.
class PageSet {
 public:
  explicit PageSet(std::int64_t count) {
    words_->assign(static_cast<std::size_t>(count / 64 + 1), 0);
  }

  bool contains(std::int64_t page) const { return ((*words_)[word_of(page)] & bit_of(page)) != 0; }
  /// Returns whether the page was in it. Has no branch, since lists are in any order.
  bool insert(std::int64_t page) {
    std::uint64_t& word = (*words_)[word_of(page)];
    const bool before = (word & bit_of(page)) != 0;
    word |= bit_of(page);
    return before;
  }

 private:
  static std::size_t word_of(std::int64_t page) { return static_cast<std::size_t>(page) / 64; }
  static std::uint64_t bit_of(std::int64_t page) {
    return std::uint64_t{1} << (static_cast<std::uint64_t>(page) % 64);
  }

  LentVector<std::uint64_t> words_;
};

bool is_written_twice(std::span<const std::int64_t> pages, std::int64_t count) {
  if (count <= marks_most * std::ssize(pages)) return !all_differ(pages, count, 0);
  PageSet written(count);
  bool twice = false;
  for (const std::int64_t page : pages) twice |= written.insert(page);
  return twice;
}

/// Returns the distances of pages in the list that are so near that they may share bytes; nothing
/// if there are too many pairs of such pages.
std::optional<std::set<std::int64_t>> near_distances(const Array& target,
                                                     std::span<const std::int64_t> pages) {
  constexpr std::int64_t pairs_most = 1'000'000;
  const Mapping& mapping = *target.view.mapping;
  const std::int64_t span = mapping.span_bytes();
  std::int64_t step = span;
  for (const Placement& placement : mapping.fields()) {
    step = std::min(step, std::abs(placement.dimension[0].level[0].stride));
  }
  std::vector<std::int64_t> sorted(pages.begin(), pages.end());
  std::sort(sorted.begin(), sorted.end());
  std::set<std::int64_t> distances;
  std::int64_t pairs = 0;
  for (std::size_t k = 0; k < sorted.size(); ++k) {
    for (std::size_t next = k + 1; next < sorted.size(); ++next) {
      const std::int64_t apart = sorted[next] - sorted[k];
      if (step > 0 && apart > span / step) break;
      if (++pairs > pairs_most) return std::nullopt;
      distances.insert(apart);
    }
  }
  return distances;
}

/// Checks that the pages in the list have memory of their own, whatever others have.
Status check_page_places(const Array& target, std::span<const std::int64_t> pages) {
  if (pages.empty() || !elements_share_bytes(target.view)) return {};
  Array page = target;
  page.view.extents[0] = 1;
  if (Status s = check_places(page); !s) return s;
  const auto distances = near_distances(target, pages);
  const bool apart =
      distances && std::none_of(distances->begin(), distances->end(), [&](std::int64_t distance) {
        View other = page.view;
        other.lower[0] += distance;
        return overlaps(page.view, other, 0);
      });
  if (apart) return {};
  return invalid("pages of the target " + box_text(target) + " share bytes",
                 "copy to pages with memory of their own");
}

/// Names the first page that is in the list twice.
Error named_twice(std::span<const std::int64_t> pages) {
  std::set<std::int64_t> before;
  const auto again = std::find_if(pages.begin(), pages.end(),
                                  [&](std::int64_t page) { return !before.insert(page).second; });
  return invalid("page " + std::to_string(*again) + " of the target is named twice");
}

}  // namespace

Error invalid(std::string message, std::string hint) {
  return Error{ErrorCode::invalid_argument, std::move(message), std::move(hint)};
}

std::string box_text(const Array& array) {
  std::string text = "(";
  for (int k = 0; k < array.view.mapping->rank(); ++k) {
    text += (k ? ", " : "") + array.view.mapping->space()[at(k)].name + "=" +
            std::to_string(array.view.extents[at(k)]);
  }
  text += ")";
  return text;
}

Result<View> matched_target(const Array& source, const Array& target) {
  const IndexSpace& from = source.view.mapping->space();
  const IndexSpace& to = target.view.mapping->space();
  if (from.size() != to.size()) {
    return invalid("the source has " + std::to_string(from.size()) + " dimensions " +
                       box_text(source) + " and the target " + std::to_string(to.size()) + " " +
                       box_text(target),
                   "give both the same");
  }
  if (!source.named || !target.named) return target.view;
  std::vector<int> order;
  bool in_order = true;
  for (std::size_t k = 0; k < from.size(); ++k) {
    const auto found = std::find_if(to.begin(), to.end(), [&](const Dimension& dimension) {
      return dimension.name == from[k].name;
    });
    if (found == to.end()) {
      return invalid("the source's dimension \"" + from[k].name + "\" is not in the target " +
                         box_text(target),
                     "name the dimensions of both alike");
    }
    order.push_back(static_cast<int>(found - to.begin()));
    in_order = in_order && order.back() == static_cast<int>(k);
  }
  if (in_order) return target.view;
  View view{target.view.mapping->permuted(order), {}, {}};
  for (std::size_t k = 0; k < order.size(); ++k) {
    view.lower[k] = target.view.lower[at(order[k])];
    view.extents[k] = target.view.extents[at(order[k])];
  }
  return view;
}

Status check_liveness(const std::shared_ptr<const Liveness>& source,
                      const std::shared_ptr<const Liveness>& target) {
  if (Status status = source ? source->check() : Status{}; !status) return status;
  return target ? target->check() : Status{};
}

bool is_resolved(const Array& array) {
  if (array.memory_kind == MemoryKind::device) return array.device >= 0;
  return array.memory_kind != MemoryKind::host && array.memory_kind != MemoryKind::shared;
}

Status check_writable(const Array& target) {
  if (target.writable) return {};
  return invalid("the target is read-only: " + target.name,
                 "copy to an array that can be written (NumPy: array.flags.writeable; a File: mode "
                 "\"r+\" or \"w\")");
}

Result<View> check_pair(const Array& source, const Array& target) {
  if (Status s = check_writable(target); !s) return s.error();
  if (Status s = check_liveness(source.liveness, target.liveness); !s) return s.error();
  if (Status status = check_view(source, "source"); !status) return status.error();
  if (Status status = check_view(target, "target"); !status) return status.error();
  auto view = matched_target(source, target);
  if (!view) return view;
  for (std::size_t k = 0; k < at(source.view.mapping->rank()); ++k) {
    if (source.view.extents[k] != view->extents[k]) {
      return invalid(
          "source " + box_text(source) + " and target " + box_text(target) + " differ in extent",
          "give a region, or slices of equal shape");
    }
  }
  if (Status status = check_places(target); !status) return status.error();
  return view;
}

Status check_view(const Array& array, const char* side) {
  const IndexSpace& space = array.view.mapping->space();
  for (std::size_t k = 0; k < space.size(); ++k) {
    const std::int64_t low = array.view.lower[k];
    const std::int64_t high = low + array.view.extents[k];
    if (low < 0 || array.view.extents[k] < 0 || high > space[k].extent) {
      return Error{ErrorCode::out_of_range,
                   std::string("the region [") + std::to_string(low) + ", " + std::to_string(high) +
                       ") of dimension \"" + space[k].name + "\" lies outside the " + side +
                       ", which has " + std::to_string(space[k].extent) + " indices there"};
    }
  }
  return {};
}

Status check_places(const Array& target) {
  if (!elements_share_bytes(target.view)) return {};
  for (std::size_t k = 0; k < target.view.mapping->space().size(); ++k) {
    const Levels& levels = target.view.mapping->fields()[0].dimension[k];
    if (target.view.extents[k] < 2 || levels.count > 1 || levels.level[0].stride != 0) continue;
    return invalid("all indices of the target's dimension \"" +
                       target.view.mapping->space()[k].name +
                       "\" lie at the same place (a broadcast array)",
                   "copy to an array with memory of its own");
  }
  return invalid("elements of the target " + box_text(target) + " share bytes",
                 "copy to an array with memory of its own");
}

bool same_place(const Array& a, const Array& b) {
  return a.memory_kind == b.memory_kind && a.device == b.device && a.opened_for == b.opened_for &&
         a.place.attachment == b.place.attachment &&
         (a.liveness == nullptr) == (b.liveness == nullptr);
}

Status check_overlap(const Array& source, const Array& target, const View& target_view) {
  const auto distance = distance_between(source, target);
  if (!distance) return {};
  if (lie_apart(*source.view.mapping, *target_view.mapping, *distance)) return {};
  if (!overlaps(source.view, target_view, *distance)) return {};
  return invalid("source and target overlap (" + source.name + ")",
                 "copy to an array of its own first");
}

Status check_pages(const Array& source, const Array& target,
                   std::span<const std::int64_t> source_pages,
                   std::span<const std::int64_t> target_pages) {
  if (source_pages.size() != target_pages.size()) {
    return invalid("there are " + std::to_string(source_pages.size()) + " source pages and " +
                       std::to_string(target_pages.size()) + " target pages",
                   "give as many of both");
  }
  if (Status s = check_pages(source, source_pages, "source"); !s) return s;
  if (Status s = check_pages(target, target_pages, "target"); !s) return s;
  if (is_written_twice(target_pages, target.view.extents[0])) return named_twice(target_pages);
  if (Status s = check_page_places(target, target_pages); !s) return s;
  const bool same = distance_between(source, target) == std::int64_t{0} &&
                    source.view.mapping->key() == target.view.mapping->key() &&
                    source.view.lower == target.view.lower;
  if (!same) return check_overlap(source, target, target.view);
  PageSet written(target.view.extents[0]);
  for (const std::int64_t page : target_pages) written.insert(page);
  for (const std::int64_t page : source_pages) {
    if (written.contains(page)) {
      return invalid("page " + std::to_string(page) + " is both read and written",
                     "copy to pages of their own first");
    }
  }
  return {};
}

namespace {

/// Why the owner of an array has taken it back.
Error gone(const Array& array) {
  const Status why = array.liveness->check();
  return why ? Error{ErrorCode::not_found, array.name + " was withdrawn", "look it up again"}
             : why.error();
}

bool held(const Array& array) { return array.liveness && array.liveness->begin_copy(); }

}  // namespace

Result<std::shared_ptr<void>> lease_of(const Array& array) {
  auto lease = array.liveness->hold();
  if (!lease) return gone(array);
  return lease;
}

CopyHere::CopyHere(const Array& source, const Array& target)
    : source_(source), target_(target), source_held_(held(source)), target_held_(held(target)) {}

CopyHere::~CopyHere() {
  if (source_held_) source_.liveness->end_copy();
  if (target_held_) target_.liveness->end_copy();
}

Status CopyHere::status() const {
  if (source_.liveness && !source_held_) return gone(source_);
  if (target_.liveness && !target_held_) return gone(target_);
  return {};
}

}  // namespace tranship
