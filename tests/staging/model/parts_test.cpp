// Boxes and their index, compared with a slow, simple computation.
#include <algorithm>
#include <random>

#include "staging/model/box_index.hpp"
#include "staging/model/boxes.hpp"
#include "staging/model/parts.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;
using tranship::test::box_of;

namespace {

Box random_box(std::mt19937_64& random, int rank, std::int64_t room) {
  std::vector<std::int64_t> lower;
  std::vector<std::int64_t> upper;
  for (int k = 0; k < rank; ++k) {
    const auto a =
        static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(room)) - room / 3;
    const auto longest = std::int64_t{1} << (random() % 6);
    lower.push_back(a);
    upper.push_back(a + 1 +
                    static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(longest)));
  }
  return box_of(lower, upper);
}

}  // namespace

TEST(boxes_are_checked) {
  EXPECT(!Box::make({0}, {0}).ok());
  EXPECT(!Box::make({3}, {2}).ok());
  EXPECT(!Box::make({0, 0}, {1}).ok());
  EXPECT(!Box::make(std::vector<std::int64_t>(17, 0), std::vector<std::int64_t>(17, 1)).ok());
  const std::int64_t far = std::int64_t{1} << 62;
  EXPECT(!Box::make({-far, -far}, {far, far}).ok());
  EXPECT_EQ(box_of({}, {}).points(), 1);
  EXPECT_EQ(box_of({-2, 3}, {2, 8}).points(), 20);
  EXPECT_EQ(box_of({-2, 3}, {2, 8}).text(), "(-2:2, 3:8)");
}

TEST(what_is_left_of_a_box_and_what_is_not_are_the_box) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 500; ++round) {
    const Box box = random_box(random, 3, 20);
    const Box hole = random_box(random, 3, 20);
    std::vector<Box> parts;
    subtract(box, hole, parts);
    const auto shared = intersection(box, hole);
    std::int64_t points = shared ? shared->points() : 0;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      points += parts[k].points();
      EXPECT(!intersection(parts[k], hole));
      EXPECT(intersection(parts[k], box) == parts[k]);
      for (std::size_t j = 0; j < k; ++j) EXPECT(!intersection(parts[k], parts[j]));
    }
    EXPECT_EQ(points, box.points());
  }
}

TEST(the_index_finds_what_a_scan_finds) {
  std::mt19937_64 random(2);
  for (const int rank : {0, 1, 2, 3, 8}) {
    BoxIndex index;
    std::vector<Box> boxes;
    std::vector<bool> there;
    for (int k = 0; k < 400; ++k) {
      boxes.push_back(random_box(random, rank, 200));
      index.add(boxes.size() - 1, boxes.back());
      there.push_back(true);
      const std::size_t gone = random() % boxes.size();
      if (k % 3 == 0 && there[gone]) {
        index.remove(gone, boxes[gone]);
        there[gone] = false;
      }
    }
    for (int k = 0; k < 100; ++k) {
      const Box box = random_box(random, rank, 200);
      std::vector<std::uint64_t> found;
      index.find(box, found);
      std::sort(found.begin(), found.end());
      std::vector<std::uint64_t> expected;
      for (std::size_t j = 0; j < boxes.size(); ++j) {
        if (there[j] && intersection(boxes[j], box)) expected.push_back(j);
      }
      EXPECT(found == expected);
    }
    EXPECT_EQ(index.size(), static_cast<std::size_t>(std::count(there.begin(), there.end(), true)));
  }
}

TEST(a_nest_copies_a_part_between_two_boxes) {
  const Box source = box_of({0, 10, 0}, {4, 16, 5});
  const Box target = box_of({1, 9, -2}, {3, 15, 8});
  const Box part = *intersection(source, target);
  const LoopNest nest = nest_of(part, source, target, 2);
  EXPECT_EQ(nest.bytes(), part.points() * 2);
  EXPECT_EQ(nest.source_offset, ((1 * 6 + 0) * 5 + 0) * 2);
  EXPECT_EQ(nest.target_offset, ((0 * 6 + 1) * 10 + 2) * 2);
  EXPECT_EQ(nest.element_bytes, 5 * 2);  // the last dimension is whole in the source
}

TEST(indices_have_limits_and_bounds_may_hold_any_number_of_points) {
  const std::int64_t most = index_most;
  EXPECT(Box::make({-most}, {-most + 1}).ok());
  EXPECT(Box::make({most - 1}, {most}).ok());
  EXPECT(Box::make({-most}, {most}).ok());
  for (const auto& [lower, upper] : {std::pair<std::int64_t, std::int64_t>{INT64_MIN, 0},
                                     {INT64_MIN, INT64_MIN + 1},
                                     {INT64_MAX - 1, INT64_MAX},
                                     {most, most + 1},
                                     {-most - 1, 0}}) {
    const auto refused = Box::make({lower}, {upper});
    EXPECT(!refused.ok() &&
           refused.error().text().find(
               "beyond the limit of indices, 4611686018427387903 to either side") !=
               std::string::npos);
  }
  const std::vector<std::int64_t> zeros(8, 0);
  const std::vector<std::int64_t> sides(8, 256);
  const auto large = Box::make(zeros, sides);
  EXPECT(!large.ok() && large.error().text().find("more points than") != std::string::npos);
  EXPECT(Box::make_bounds(zeros, sides).ok());
}
