// Which servers store and index an object: one pure function, which every client evaluates alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "staging/model/box.hpp"

namespace tranship::staging {

/// Returns a cell's position along a Hilbert curve in up to 16 dimensions, which repeats itself
/// after 2^min(16, 64 / rank) cells in each (Skilling, "Programming the Hilbert curve", AIP
/// Conference Proceedings 707, 2004). Neighbours along it are neighbours in space.
std::uint64_t hilbert_index(const Point& cell, int rank);

/// The cells of a box of cells in Hilbert order, without the cells outside the box. Where the sides
/// of the box are no powers of two, every n-th cell of the whole curve may lie outside.
class CellOrder {
 public:
  static constexpr std::int64_t cells_max = 1 << 16;

  /// Orders the cells from `lower` to below `upper`. Returns null if there are none, more than
  /// `cells_max`, or more along one side than the curve has before it repeats itself. Cost: some
  /// 200 ns a cell.
  static std::shared_ptr<const CellOrder> of(const Point& lower, const Point& upper, int rank);

  /// Returns a cell's position, counted from 0; nothing for a cell outside the box.
  std::optional<std::uint64_t> position(const Point& cell) const;

 private:
  CellOrder(const Point& lower, const Point& upper, int rank);

  int rank_;
  Point lower_;
  Point upper_;
  std::vector<std::uint32_t> positions_;  ///< Of each cell, the first dimension fastest.
};

/// The cells into which a variable's index space is cut. They are as large as the variable's first
/// box and aligned with it, so that each box of a regular decomposition lies in one; those of small
/// boxes are larger.
struct Cells {
  /// Smallest cell in bytes: spreading smaller pieces over servers costs more than it gains.
  static constexpr std::int64_t bytes_least = 64 * 1024;

  int rank = 0;
  Point origin{};   ///< Where a cell begins: at least 0, below the extent.
  Point extents{};  ///< At least 1.
  Point lower{};  ///< The first cell of the domain, and one past the last, if the domain was known
  Point upper{};  ///< when the cells were made; otherwise equal.
  std::shared_ptr<const CellOrder> order{};

  /// Makes cells of at least `cell_bytes` each.
  static Cells around(const Box& first, std::int64_t element_bytes, std::int64_t cell_bytes,
                      const std::optional<Box>& domain = {});
  /// Computes the order of the domain's cells. Call it before placing boxes.
  void find_order();
  /// Returns the cell of a point, by its number in each dimension.
  Point cell_of(const Point& point) const;
};

/// Assigns cells to servers round-robin in Hilbert order. Any compact box is spread evenly over as
/// many servers as it has cells (Faloutsos and Bhagwat, PDIS'93), and a domain that was known from
/// the start as evenly as possible. The domain may grow in any direction: the assignment of a cell
/// never changes. A value type. index_servers() looks at cells_max cells at most.
class Distribution {
 public:
  /// Boxes that meet more cells than this are indexed by all servers.
  static constexpr int cells_max = 64;

  explicit Distribution(int servers) : servers_(servers) {}

  int servers() const { return servers_; }
  /// Returns the server that keeps a variable's type, dimensions, cells and producers.
  int metadata_server(const std::string& variable) const;
  /// Servers after the preferred one that are asked to store an object, at most.
  static constexpr int overflow_servers_max = 8;

  /// Returns the servers that may store an object, in the order in which they are asked for room.
  /// The first, the preferred one, indexes a part of the box; the others follow it along the curve.
  std::vector<int> storage_servers(const std::string& variable, const Cells& cells,
                                   const Box& box) const;
  /// Returns the servers that index the objects which share a point with `box`, in rising order.
  std::vector<int> index_servers(const std::string& variable, const Cells& cells,
                                 const Box& box) const;

 private:
  int server_of(const std::string& variable, const Cells& cells, const Point& cell) const;

  int servers_;
};

}  // namespace tranship::staging
