// An index that finds the boxes which share points with a given one.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "staging/model/box.hpp"

namespace tranship::staging {

/// Boxes by number. A box lies in a grid whose cells are as large as itself, to a power of two, so
/// that it reaches into the next cell at most. Adding and removing cost the logarithm of the number
/// of boxes of that size. Finding visits, for each size, the cells that the box and its neighbours
/// take, or all boxes of that size if they are fewer. Not thread-safe.
class BoxIndex {
 public:
  void add(std::uint64_t number, const Box& box);
  void remove(std::uint64_t number, const Box& box);

  /// Appends the numbers of the boxes that share a point with `box`, in no particular order.
  void find(const Box& box, std::vector<std::uint64_t>& numbers) const;

  /// Returns whether find() would find a box.
  bool meets(const Box& box) const;
  /// Appends all numbers.
  void all(std::vector<std::uint64_t>& numbers) const;

  std::size_t size() const { return size_; }

 private:
  struct NumberedBox {
    std::uint64_t number = 0;
    Box box;
  };
  using Cells = std::multimap<Point, NumberedBox>;

  /// Calls `visit` with the number of each box that shares a point with `box`, until it returns
  /// false; returns whether it never did.
  template <typename Visit>
  bool visit(const Box& box, const Visit& visit) const;

  std::map<int, Cells> sizes_;  ///< By the power of two.
  std::size_t size_ = 0;
};

}  // namespace tranship::staging
