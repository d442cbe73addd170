// Which server holds what: one function for all clients, so that none has to ask.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "staging/model/box.hpp"

namespace tranship::staging {

/// A cell's place along a Hilbert curve in up to 8 dimensions, which repeats itself after
/// 2^min(16, 64 / rank) cells in each (Skilling, "Programming the Hilbert curve", AIP Conference
/// Proceedings 707, 2004). Neighbours along it are neighbours in space.
std::uint64_t hilbert_index(const Point& cell, int rank);

/// The order of the cells of a box of cells along a Hilbert curve, all others left out: where the
/// sides are no powers of two, every n-th cell of the whole curve may be none of the box's.
class CellOrder {
 public:
  static constexpr std::int64_t cells_max = 1 << 16;

  /// Of the cells from `lower` to below `upper`. Null if there are none, more than `cells_max`, or
  /// more along one side than the curve has before it repeats itself. Cost: some 200 ns a cell.
  static std::shared_ptr<const CellOrder> of(const Point& lower, const Point& upper, int rank);

  /// Counted from 0; nothing for a cell that is none of the box's.
  std::optional<std::uint64_t> place(const Point& cell) const;

 private:
  CellOrder(const Point& lower, const Point& upper, int rank);

  int rank_;
  Point lower_;
  Point upper_;
  std::vector<std::uint32_t> places_;  ///< by number, the first dimension fastest
};

/// The cells into which a variable's index space is cut. They are as large as the variable's first
/// box and aligned with it, so that each box of a regular decomposition lies in one; those of small
/// boxes are larger.
struct Cells {
  /// Less is not worth a server of its own.
  static constexpr std::int64_t bytes_least = 64 * 1024;

  int rank = 0;
  Point origin{};   ///< where one of them begins, from 0 to the extent
  Point extents{};  ///< at least 1
  Point lower{};    ///< the first cell of the domain, and one past the last, if it was known when
  Point upper{};    ///< the cells were made; else equal
  std::shared_ptr<const CellOrder> order{};

  /// Of at least `cell_bytes` each.
  static Cells around(const Box& first, std::int64_t element_bytes, std::int64_t cell_bytes,
                      const std::optional<Box>& domain = {});
  /// The order of the domain's cells: whoever places boxes must have it.
  void find_order();
  /// The cell of a point, by its number in each dimension.
  Point cell_of(const Point& point) const;
};

/// Cells go to the servers round about along a Hilbert curve: any compact box is spread evenly over
/// as many servers as it has cells (Faloutsos and Bhagwat, PDIS'93), and a domain that was known
/// from the start as evenly as can be. It may grow in any direction: nothing that is placed changes
/// with it. Values. Cost: of owners(), at most cells_max cells.
class Distribution {
 public:
  /// Boxes that meet more cells belong to all servers.
  static constexpr int cells_max = 64;

  explicit Distribution(int servers) : servers_(servers) {}

  int servers() const { return servers_; }
  /// The server that knows a variable's type, dimensions, cells and producers.
  int keeper(const std::string& variable) const;
  /// Those after the first that are asked to hold an object: at most so many.
  static constexpr int guests_max = 8;

  /// The servers that may hold an object, in the order in which they are asked for room. The first
  /// is an owner; the others follow it along the curve.
  std::vector<int> homes(const std::string& variable, const Cells& cells, const Box& box) const;
  /// The servers that know the objects which share a point with `box`, in rising order.
  std::vector<int> owners(const std::string& variable, const Cells& cells, const Box& box) const;

 private:
  int owner_of(const std::string& variable, const Cells& cells, const Point& cell) const;

  int servers_;
};

}  // namespace tranship::staging
