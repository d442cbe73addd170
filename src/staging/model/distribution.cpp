#include "staging/model/distribution.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/at.hpp"
#include "base/hash.hpp"

namespace tranship::staging {
namespace {

/// Returns the bits of a cell's number in each dimension: the curve repeats itself after 2^bits.
int bits_of(int rank) { return rank == 0 ? 16 : std::min(16, 64 / rank); }

std::int64_t remainder_of(std::int64_t index, std::int64_t extent) {
  const std::int64_t rest = index % extent;
  return rest < 0 ? rest + extent : rest;
}

}  // namespace

CellOrder::CellOrder(const Point& lower, const Point& upper, int rank)
    : rank_(rank), lower_(lower), upper_(upper) {
  Point last{};
  for (std::size_t k = 0; k < at(rank); ++k) last[k] = upper[k] - lower[k] - 1;
  std::vector<std::pair<std::uint64_t, std::uint32_t>>
      along;  // cells by number, which step() counts
  Point cell{};
  do {
    along.emplace_back(hilbert_index(cell, rank), static_cast<std::uint32_t>(along.size()));
  } while (step(cell, {}, last, rank));
  std::sort(along.begin(), along.end());
  positions_.resize(along.size());
  for (std::size_t place = 0; place < along.size(); ++place) {
    positions_[along[place].second] = static_cast<std::uint32_t>(place);
  }
}

std::shared_ptr<const CellOrder> CellOrder::of(const Point& lower, const Point& upper, int rank) {
  std::int64_t count = 1;
  const std::int64_t side_max = std::int64_t{1} << bits_of(rank);
  for (std::size_t k = 0; k < at(rank); ++k) {
    std::int64_t extent = 0;
    if (__builtin_sub_overflow(upper[k], lower[k], &extent) || extent < 1) return nullptr;
    if (extent > side_max || extent > cells_max / count) return nullptr;
    count *= extent;
  }
  return std::shared_ptr<const CellOrder>(new CellOrder(lower, upper, rank));
}

std::optional<std::uint64_t> CellOrder::position(const Point& cell) const {
  for (std::size_t k = 0; k < at(rank_); ++k) {
    if (cell[k] < lower_[k] || cell[k] >= upper_[k]) return std::nullopt;
  }
  std::int64_t number = 0;
  for (std::size_t k = at(rank_); k-- > 0;) {
    number = number * (upper_[k] - lower_[k]) + (cell[k] - lower_[k]);
  }
  return positions_[static_cast<std::size_t>(number)];
}

Cells Cells::around(const Box& first, std::int64_t element_bytes, std::int64_t cell_bytes,
                    const std::optional<Box>& domain) {
  Cells cells;
  cells.rank = first.rank;
  cells.extents.fill(1);
  for (int k = 0; k < first.rank; ++k) cells.extents[at(k)] = first.extent(k);
  std::int64_t bytes = first.points() * element_bytes;
  while (first.rank > 0 && bytes < cell_bytes) {
    *std::min_element(cells.extents.begin(), cells.extents.begin() + first.rank) *= 2;
    bytes *= 2;
  }
  for (std::size_t k = 0; k < at(first.rank); ++k) {
    cells.origin[k] = remainder_of(first.lower[k], cells.extents[k]);
  }
  if (!domain) return cells;
  Point last = domain->upper;
  for (std::size_t k = 0; k < at(first.rank); ++k) --last[k];
  last = cells.cell_of(last);
  cells.lower = cells.cell_of(domain->lower);
  for (std::size_t k = 0; k < at(first.rank); ++k) cells.upper[k] = last[k] + 1;
  return cells;
}

void Cells::find_order() {
  if (lower != upper) order = CellOrder::of(lower, upper, rank);
}

Point Cells::cell_of(const Point& point) const {
  Point cell{};
  for (std::size_t k = 0; k < at(rank); ++k) {
    const std::int64_t rest = remainder_of(point[k], extents[k]);
    // Rounded down, below zero too; nothing here can overflow.
    const std::int64_t whole = point[k] / extents[k] - (point[k] % extents[k] < 0 ? 1 : 0);
    cell[k] = whole - (rest < origin[k] ? 1 : 0);
  }
  return cell;
}

std::uint64_t hilbert_index(const Point& cell, int rank) {
  if (rank == 0) return 0;
  const int bits = bits_of(rank);
  std::array<std::uint32_t, dimensions_max> x{};
  for (std::size_t k = 0; k < at(rank); ++k) {
    x[k] = static_cast<std::uint32_t>(cell[k]) & ((std::uint32_t{1} << bits) - 1);
  }
  // Undo the turns of each level, the coarsest first.
  for (std::uint32_t q = std::uint32_t{1} << (bits - 1); q > 1; q >>= 1) {
    const std::uint32_t low = q - 1;
    for (std::size_t k = 0; k < at(rank); ++k) {
      const std::uint32_t swapped = (x[0] ^ x[k]) & low;
      if ((x[k] & q) != 0) {
        x[0] ^= low;
      } else {
        x[0] ^= swapped;
        x[k] ^= swapped;
      }
    }
  }
  // Gray code.
  for (std::size_t k = 1; k < at(rank); ++k) x[k] ^= x[k - 1];
  std::uint32_t flips = 0;
  for (std::uint32_t q = std::uint32_t{1} << (bits - 1); q > 1; q >>= 1) {
    if ((x[at(rank - 1)] & q) != 0) flips ^= q - 1;
  }
  std::uint64_t index = 0;
  for (int bit = bits - 1; bit >= 0; --bit) {
    for (std::size_t k = 0; k < at(rank); ++k) index = index << 1 | (((x[k] ^ flips) >> bit) & 1);
  }
  return index;
}

int Distribution::metadata_server(const std::string& variable) const {
  return static_cast<int>(hash_of(variable) % static_cast<std::uint64_t>(servers_));
}

int Distribution::server_of(const std::string& variable, const Cells& cells,
                            const Point& cell) const {
  const auto position = cells.order ? cells.order->position(cell) : std::nullopt;
  // Both numbers are reduced before they are added: the sum must not wrap, or neighbours along the
  // curve would not be neighbouring servers.
  const auto servers = static_cast<std::uint64_t>(servers_);
  const std::uint64_t place = position ? *position : hilbert_index(cell, cells.rank);
  return static_cast<int>(
      (static_cast<std::uint64_t>(metadata_server(variable)) + place % servers) % servers);
}

std::vector<int> Distribution::storage_servers(const std::string& variable, const Cells& cells,
                                               const Box& box) const {
  const int first = server_of(variable, cells, cells.cell_of(box.lower));
  std::vector<int> storage_servers;
  for (int k = 0; k < std::min(servers_, 1 + overflow_servers_max); ++k) {
    storage_servers.push_back((first + k) % servers_);
  }
  return storage_servers;
}

std::vector<int> Distribution::index_servers(const std::string& variable, const Cells& cells,
                                             const Box& box) const {
  std::vector<int> index_servers;
  Point last_point{};
  for (std::size_t k = 0; k < at(box.rank); ++k) last_point[k] = box.upper[k] - 1;
  const Point first = cells.cell_of(box.lower);
  const Point last = cells.cell_of(last_point);
  double count = 1;
  for (std::size_t k = 0; k < at(box.rank); ++k) {
    count *= static_cast<double>(last[k]) - static_cast<double>(first[k]) + 1;
  }
  if (servers_ == 1 || count > cells_max) {
    for (int server = 0; server < servers_; ++server) index_servers.push_back(server);
    return index_servers;
  }
  std::vector<bool> is_index_server(at(servers_));
  Point cell = first;
  do {
    is_index_server[at(server_of(variable, cells, cell))] = true;
  } while (step(cell, first, last, box.rank));
  for (int server = 0; server < servers_; ++server) {
    if (is_index_server[at(server)]) index_servers.push_back(server);
  }
  return index_servers;
}

}  // namespace tranship::staging
