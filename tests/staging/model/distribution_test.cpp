// The servers on which objects lie: all clients agree, neighbouring cells are spread evenly, and
// each server that lists an object is asked.
#include "staging/model/distribution.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "staging/model/boxes.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;
using tranship::test::box_of;

namespace {

std::int64_t distance(const Point& a, const Point& b) {
  std::int64_t sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += std::abs(a[k] - b[k]);
  return sum;
}

Cells ordered(Cells cells) {
  cells.find_order();
  return cells;
}

}  // namespace

TEST(the_curve_visits_each_cell_once_and_goes_to_a_neighbour) {
  // 2^16 cells a side are too many to walk along; a cube at the origin is visited as a whole.
  for (const int rank : {1, 2, 3, 4}) {
    const std::int64_t side = rank == 4 ? 4 : 8;
    std::vector<std::pair<std::uint64_t, Point>> visited;
    Point cell{};
    for (bool more = true; more;) {
      visited.emplace_back(hilbert_index(cell, rank), cell);
      more = false;
      for (std::size_t k = 0; k < static_cast<std::size_t>(rank) && !more; ++k) {
        more = ++cell[k] < side;
        if (!more) cell[k] = 0;
      }
    }
    std::sort(visited.begin(), visited.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    EXPECT_EQ(visited.front().first, 0U);
    for (std::size_t k = 1; k < visited.size(); ++k) {
      EXPECT_EQ(visited[k].first, visited[k - 1].first + 1);
      EXPECT_EQ(distance(visited[k].second, visited[k - 1].second), 1);
    }
  }
}

TEST(boxes_of_a_regular_decomposition_lie_in_one_cell_each) {
  const Cells cells = Cells::around(box_of({100, -300}, {356, 0}), 8, Cells::bytes_least);
  const Distribution distribution(7);
  std::set<int> storage_servers;
  for (std::int64_t i = -5; i < 5; ++i) {
    for (std::int64_t j = -5; j < 5; ++j) {
      const std::int64_t x = 100 + 256 * i;
      const std::int64_t y = 300 * j;
      const Box box = box_of({x, y}, {x + 256, y + 300});
      EXPECT_EQ(distribution.index_servers("v", cells, box).size(), 1U);
      storage_servers.insert(distribution.storage_servers("v", cells, box).front());
    }
  }
  EXPECT_EQ(storage_servers.size(), 7U);
}

TEST(cells_of_small_boxes_are_larger) {
  const Cells cells =
      Cells::around(box_of({3, 0}, {4, 512}), 8, Cells::bytes_least);  // rows of 4 KiB
  EXPECT_EQ(cells.extents[1], 512);
  EXPECT_EQ(cells.extents[0], 16);
  EXPECT_EQ(cells.origin[0], 3);
  EXPECT_EQ(Cells::around(box_of({}, {}), 8, Cells::bytes_least).rank, 0);
}

TEST(a_compact_box_is_spread_evenly) {
  const Cells cells = Cells::around(box_of({0, 0, 0}, {32, 32, 32}), 8, Cells::bytes_least);
  const Distribution distribution(8);
  for (std::int64_t x = 0; x < 8; x += 2) {
    std::map<int, int> cells_of_server;
    for (std::int64_t k = 0; k < 64; ++k) {
      const std::int64_t a = 32 * (x + k / 16);
      const std::int64_t b = 32 * (k / 4 % 4);
      const std::int64_t c = 32 * (k % 4);
      ++cells_of_server[distribution
                            .storage_servers("v", cells,
                                             box_of({a, b, c}, {a + 32, b + 32, c + 32}))
                            .front()];
    }
    EXPECT_EQ(cells_of_server.size(), 8U);
    for (const auto& [server, count] : cells_of_server) EXPECT(count >= 4 && count <= 12);
  }
}

TEST(boxes_of_a_known_domain_are_spread_as_evenly_as_can_be) {
  const Box first = box_of({7, 0, 7}, {39, 32, 39});
  for (const std::int64_t side : {1, 3, 4, 5, 6}) {
    const Box domain = box_of({7, 0, 7}, {7 + 32 * side, 32 * side, 7 + 32 * side});
    const Cells cells = ordered(Cells::around(first, 8, Cells::bytes_least, domain));
    for (const int servers : {1, 2, 5, 16, 40}) {
      const Distribution distribution(servers);
      std::vector<std::int64_t> boxes(static_cast<std::size_t>(servers));
      for (std::int64_t k = 0; k < side * side * side; ++k) {
        const std::int64_t a = 7 + 32 * (k / (side * side));
        const std::int64_t b = 32 * (k / side % side);
        const std::int64_t c = 7 + 32 * (k % side);
        const Box box = box_of({a, b, c}, {a + 32, b + 32, c + 32});
        EXPECT_EQ(distribution.index_servers("v", cells, box).size(), 1U);
        ++boxes[static_cast<std::size_t>(distribution.storage_servers("v", cells, box).front())];
      }
      const auto [least, most] = std::minmax_element(boxes.begin(), boxes.end());
      EXPECT(*most - *least <= 1);
    }
  }
}

TEST(a_domain_that_grows_or_has_many_cells_is_spread_too) {
  const Box cell = box_of({0, 0}, {128, 128});
  const Box domain = box_of({0, 0}, {384, 384});
  const Cells known = ordered(Cells::around(cell, 8, 64, domain));
  const Cells unknown = Cells::around(cell, 8, 64);
  const Distribution distribution(16);
  for (std::int64_t k = 3; k < 50; ++k) {  // outside of the known domain
    const Box box = box_of({128 * k, 0}, {128 * k + 128, 128});
    EXPECT(distribution.storage_servers("v", known, box) ==
           distribution.storage_servers("v", unknown, box));
  }
  const Cells many = ordered(Cells::around(cell, 8, 64, box_of({0, 0}, {1 << 30, 1 << 30})));
  EXPECT(many.order == nullptr);
  EXPECT(distribution.storage_servers("v", many, cell) ==
         distribution.storage_servers("v", unknown, cell));
  // A row longer than the curve in eight dimensions, whose cells would come together, has no order.
  const Box small = box_of({0, 0, 0, 0, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 1, 1, 1});
  const Box row = box_of({0, 0, 0, 0, 0, 0, 0, 0}, {257, 1, 1, 1, 1, 1, 1, 1});
  EXPECT(ordered(Cells::around(small, 8, 8, row)).order == nullptr);
  // The indices are the largest that are allowed.
  const std::int64_t far = index_most - 3;
  const Box edge = box_of({0, far}, {2, far + 1});
  const Cells last = ordered(Cells::around(edge, 8, 8, box_of({0, far}, {6, far + 3})));
  REQUIRE(last.order != nullptr);
  std::set<std::uint64_t> places;
  for (std::int64_t k = 0; k < 9; ++k) {
    places.insert(last.order->position({last.lower[0] + k % 3, last.lower[1] + k / 3}).value());
  }
  EXPECT_EQ(places.size(), 9U);
  EXPECT_EQ(*places.rbegin(), 8U);
  // Where all sides are the same power of two, both orders are the same curve.
  const Cells square = ordered(Cells::around(cell, 8, 64, box_of({0, 0}, {512, 512})));
  for (std::int64_t k = 0; k < 16; ++k) {
    const Box box = box_of({128 * (k / 4), 128 * (k % 4)}, {128 * (k / 4 + 1), 128 * (k % 4 + 1)});
    EXPECT(distribution.storage_servers("v", square, box) ==
           distribution.storage_servers("v", unknown, box));
  }
}

TEST(whoever_looks_for_a_box_asks_somebody_who_knows) {
  std::mt19937_64 random(5);
  const auto number = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low));
  };
  for (std::uint64_t run = 0; run < test::seed_count(20000); ++run) {
    const int rank = static_cast<int>(number(1, 5));
    const auto any_box = [&](std::int64_t longest) {
      std::vector<std::int64_t> lower;
      std::vector<std::int64_t> upper;
      for (int k = 0; k < rank; ++k) {
        lower.push_back(number(-200, 200));
        upper.push_back(lower.back() + number(1, longest));
      }
      return box_of(lower, upper);
    };
    const Box first = any_box(40);
    const std::optional<Box> domain = run % 2 == 0 ? std::optional(any_box(300)) : std::nullopt;
    const Cells cells = ordered(Cells::around(first, number(1, 17), number(1, 4096), domain));
    const Distribution distribution(static_cast<int>(number(1, 40)));
    const Box put = any_box(300);
    const Box get = any_box(300);
    const auto index_servers = distribution.index_servers("v", cells, put);
    EXPECT(std::is_sorted(index_servers.begin(), index_servers.end()));
    const int primary = distribution.storage_servers("v", cells, put).front();
    EXPECT(std::binary_search(index_servers.begin(), index_servers.end(), primary));
    if (!intersection(put, get)) continue;
    const auto asked = distribution.index_servers("v", cells, get);
    const auto knows = [&](int server) {
      return std::binary_search(index_servers.begin(), index_servers.end(), server);
    };
    EXPECT(std::any_of(asked.begin(), asked.end(), knows));
  }
}

TEST(indices_may_be_as_far_as_they_go) {
  const std::int64_t far = index_most - 1;
  const Cells cells =
      Cells::around(box_of({-index_most}, {-index_most + 100000}), 8, Cells::bytes_least);
  const Distribution distribution(5);
  EXPECT_EQ(distribution.index_servers("v", cells, box_of({far}, {far + 1})).size(), 1U);
  EXPECT_EQ(distribution.index_servers("v", cells, box_of({0}, {far})).size(), 5U);
}

TEST(an_object_is_stored_by_its_preferred_server_or_its_neighbours) {
  const Box box = box_of({0, 64}, {32, 96});
  const Cells cells = Cells::around(box, 8, 64);
  for (const int servers : {1, 2, 5, 9, 40}) {
    const Distribution distribution(servers);
    const auto storage_servers = distribution.storage_servers("v", cells, box);
    const int expected = std::min(servers, 1 + Distribution::overflow_servers_max);
    EXPECT_EQ(std::ssize(storage_servers), expected);
    const auto index_servers = distribution.index_servers("v", cells, box);
    EXPECT(std::count(index_servers.begin(), index_servers.end(), storage_servers.front()) == 1);
    EXPECT_EQ(std::ssize(std::set<int>(storage_servers.begin(), storage_servers.end())),
              std::ssize(storage_servers));
    for (std::size_t k = 1; k < storage_servers.size(); ++k) {
      EXPECT_EQ(storage_servers[k], (storage_servers[k - 1] + 1) % servers);
    }
  }
}
