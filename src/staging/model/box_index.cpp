#include "staging/model/box_index.hpp"

#include <algorithm>
#include <bit>

namespace tranship::staging {
namespace {

int size_of(const Box& box) {
  std::int64_t longest = 1;
  for (int k = 0; k < box.rank; ++k) longest = std::max(longest, box.extent(k));
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(longest - 1)));
}

/// Returns the cell of an index. An arithmetic shift rounds down, also below zero.
std::int64_t cell_of(std::int64_t index, int size) { return index >> size; }

Point cell_of(const Box& box, int size) {
  Point cell{};
  for (std::size_t k = 0; k < static_cast<std::size_t>(box.rank); ++k) {
    cell[k] = cell_of(box.lower[k], size);
  }
  return cell;
}

}  // namespace

void BoxIndex::add(std::uint64_t number, const Box& box) {
  const int size = size_of(box);
  sizes_[size].emplace(cell_of(box, size), NumberedBox{number, box});
  ++size_;
}

void BoxIndex::remove(std::uint64_t number, const Box& box) {
  const int size = size_of(box);
  const auto cells = sizes_.find(size);
  if (cells == sizes_.end()) return;
  const auto [begin, end] = cells->second.equal_range(cell_of(box, size));
  for (auto one = begin; one != end; ++one) {
    if (one->second.number != number) continue;
    cells->second.erase(one);
    --size_;
    if (cells->second.empty()) sizes_.erase(cells);
    return;
  }
}

void BoxIndex::all(std::vector<std::uint64_t>& numbers) const {
  for (const auto& [size, cells] : sizes_) {
    for (const auto& [cell, entry] : cells) numbers.push_back(entry.number);
  }
}

void BoxIndex::find(const Box& box, std::vector<std::uint64_t>& numbers) const {
  visit(box, [&](std::uint64_t number) {
    numbers.push_back(number);
    return true;
  });
}

bool BoxIndex::meets(const Box& box) const {
  return !visit(box, [](std::uint64_t) { return false; });
}

template <typename Visit>
bool BoxIndex::visit(const Box& box, const Visit& visit) const {
  const auto look_at = [&](const NumberedBox& entry) {
    return !intersection(entry.box, box) || visit(entry.number);
  };
  for (const auto& [size, cells] : sizes_) {
    Point first{};
    Point last{};
    double count = 1;
    for (std::size_t k = 0; k < static_cast<std::size_t>(box.rank); ++k) {
      first[k] = cell_of(box.lower[k], size) - 1;
      last[k] = cell_of(box.upper[k] - 1, size);
      count *= static_cast<double>(last[k] - first[k] + 1);
    }
    if (count >= static_cast<double>(cells.size())) {
      for (const auto& [cell, entry] : cells) {
        if (!look_at(entry)) return false;
      }
      continue;
    }
    Point cell = first;
    do {
      const auto [begin, end] = cells.equal_range(cell);
      for (auto one = begin; one != end; ++one) {
        if (!look_at(one->second)) return false;
      }
    } while (step(cell, first, last, box.rank));
  }
  return true;
}

}  // namespace tranship::staging
