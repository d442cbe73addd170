// Overlaps: two boxes overlap exactly if they share a byte, and the elements of a box share a byte
// exactly if one of its bytes is visited twice.
#include "data/overlap.hpp"

#include <set>

#include "data/arrays.hpp"
#include "data/reachable.hpp"
#include "support/test.hpp"

using namespace tranship;
using test::for_each_byte;

TEST(overlap_is_exact_on_small_boxes) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    const auto [source, target] = test::random_pair(random);
    const View a = test::random_view(random, source);
    const View b = test::random_view(random, target);
    const std::int64_t distance = random.between(-40, 40);
    std::set<std::int64_t> bytes;
    for_each_byte(a, [&](std::int64_t byte) { bytes.insert(byte); });
    bool shared = false;
    for_each_byte(b, [&](std::int64_t byte) { shared |= bytes.count(byte + distance) > 0; });
    found += shared ? 1 : 0;
    EXPECT_EQ(overlaps(a, b, distance), shared);
    EXPECT_EQ(overlaps(b, a, -distance), shared);
  }
  EXPECT(found > 100);
}

TEST(a_box_overlaps_itself_unless_it_is_empty) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const View view = test::random_view(random, test::random_pair(random).source);
    EXPECT_EQ(overlaps(view, view, 0), view.points() > 0);
  }
}

namespace {

/// Returns a box whose strides are any multiples of `unit`, so that its elements may share bytes.
View random_strided_view(Random& random, std::int64_t unit) {
  const int rank = static_cast<int>(random.between(0, 4));
  IndexSpace space;
  std::vector<std::int64_t> strides;
  for (int k = 0; k < rank; ++k) {
    space.push_back({"d" + std::to_string(k), random.between(1, 6)});
    strides.push_back(unit * random.between(-9, 9));
  }
  std::vector<Mapping::StridedField> fields{{{"a", "V", random.between(1, 9)}, 0, strides}};
  if (random.between(0, 2) == 0) {
    const std::int64_t first = fields[0].field.bytes;
    if (random.between(0, 1) == 0) {
      for (std::int64_t& stride : strides) stride *= 2;
    }
    fields.push_back({{"b", "V", random.between(1, 5)}, first + random.between(0, 20), strides});
  }
  return View::whole(*Mapping::make_strided(std::move(space), std::move(fields)));
}

}  // namespace

TEST(elements_share_bytes_exactly_if_a_byte_is_visited_twice) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    Random random(seed);
    const View view = random_strided_view(random, random.between(1, 12));
    std::set<std::int64_t> bytes;
    bool shared = false;
    for_each_byte(view, [&](std::int64_t byte) { shared |= !bytes.insert(byte).second; });
    found += shared ? 1 : 0;
    EXPECT_EQ(elements_share_bytes(view), shared);
  }
  EXPECT(found > 2000 && found < 18'000);
}

TEST(large_boxes_are_judged_by_their_strides) {
  constexpr std::int64_t side = 100'000;
  const auto box = [](std::int64_t rows, std::int64_t columns) {
    return View::whole(
        *Mapping::make_strided({{"y", side}, {"x", side}}, {{{"a", "f8", 8}, 0, {rows, columns}}}));
  };
  EXPECT(!elements_share_bytes(box(8 * side, 8)));
  EXPECT(elements_share_bytes(box(8, 8)));
  EXPECT(elements_share_bytes(box(8 * side - 8, 8)));
  EXPECT(!elements_share_bytes(box(8 * side + 8, 8)));
  EXPECT(!overlaps(box(16 * side, 16), box(16 * side, 16), 8));
  EXPECT(overlaps(box(16 * side, 16), box(16 * side, 16), 16 * side - 16));
}

TEST(a_sum_reaches_what_a_walk_over_all_of_its_terms_finds) {
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    Random random(seed);
    StrideSum sum;
    std::set<std::int64_t> values{0};
    for (std::int64_t k = random.between(0, 4); k > 0; --k) {
      const std::int64_t stride = random.between(-20, 20);
      const std::int64_t most = random.between(0, 4);
      sum.add(stride, most);
      std::set<std::int64_t> more;
      for (const std::int64_t value : values) {
        for (std::int64_t x = 0; x <= most; ++x) more.insert(value + x * stride);
      }
      values = std::move(more);
    }
    const std::int64_t low = random.between(-60, 60);
    const std::int64_t high = low + random.between(0, 5);
    const auto first = values.lower_bound(low);
    const bool reached = first != values.end() && *first <= high;
    std::int64_t steps = 1'000'000;
    const auto answer = sum.reaches(low, high, steps);
    EXPECT(answer == (reached ? StrideSum::Answer::yes : StrideSum::Answer::no));
  }
}
