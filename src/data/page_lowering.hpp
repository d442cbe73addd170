// Lowering of pages: lists of indices along the first dimension become indexed nests.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/indexed_nest.hpp"
#include "data/lowering.hpp"
#include "data/run_list.hpp"

namespace tranship {

/// Indices along the first dimension, counted from each corner. Page k of one list is copied to
/// page k of the other.
struct PageLists {
  std::span<const std::int64_t> source;
  std::span<const std::int64_t> target;  ///< as many
};

/// Adds the copy of all pages to `copy` as one group: a page is the box of `extents`, whose first
/// extent is 1. One entry holds at most `count_max` pages (0: no limit). Returns false and adds
/// nothing if no single list fits all fields, since their pages lie differently.
bool lower_pages(const Corner& source, const Corner& target, const Point& extents,
                 const std::vector<int>& field_of_target, const PageLists& pages,
                 std::int64_t count_max, IndexedCopy& copy);

/// Returns the copy of all pages as runs; nothing if a page is no contiguous run on both sides, or
/// pages are not at equal distances. It refers to the lists.
std::optional<RunList> page_runs(const Corner& source, const Corner& target, const Point& extents,
                                 const std::vector<int>& field_of_target, const PageLists& pages);

}  // namespace tranship
