#include <cstring>
#include <map>
#include <set>

#include "datatypes/type_lowering.hpp"
#include "random_types.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

/// The moves of an indexed copy, byte by byte: where each byte of the target comes from.
std::map<std::int64_t, std::int64_t> moves_of(const IndexedCopy& copy) {
  std::map<std::int64_t, std::int64_t> moves;
  std::vector<LoopNest> nests;
  expand(copy.nests(), nests);
  for (const LoopNest& nest : nests) {
    std::vector<std::pair<std::int64_t, std::int64_t>> points{
        {nest.source_offset, nest.target_offset}};
    for (int k = 0; k < nest.rank; ++k) {
      const Loop& loop = nest.loops[static_cast<std::size_t>(k)];
      std::vector<std::pair<std::int64_t, std::int64_t>> next;
      for (std::int64_t turn = 0; turn < loop.extent; ++turn) {
        for (const auto& [from, to] : points) {
          next.emplace_back(from + turn * loop.source_stride, to + turn * loop.target_stride);
        }
      }
      points = next;
    }
    for (const auto& [from, to] : points) {
      for (std::int64_t k = 0; k < nest.element_bytes; ++k) {
        EXPECT(moves.emplace(to + k, from + k).second);  // no byte is written twice
      }
    }
  }
  return moves;
}

std::map<std::int64_t, std::int64_t> wanted_moves(const TypeAndMap& source,
                                                  const TypeAndMap& target) {
  std::map<std::int64_t, std::int64_t> moves;
  const auto from = source.bytes();
  const auto to = target.bytes();
  for (std::size_t k = 0; k < from.size(); ++k) moves[to[k]] = from[k];
  return moves;
}

void expect_moves(const TypeAndMap& source, const TypeAndMap& target,
                  std::int64_t entry_bytes_max) {
  IndexedCopy copy;
  REQUIRE(lower_types(source.type.form(), target.type.form(), 0, 0, entry_bytes_max, copy).ok());
  copy.finish();
  EXPECT_EQ(copy.bytes(), source.type.bytes());
  if (moves_of(copy) != wanted_moves(source, target)) {
    test::record_failure(__FILE__, __LINE__, source.type.text() + " to " + target.type.text());
  }
  for (const IndexedNest& nest : copy.nests()) {
    for (const IndexedEntry& entry : nest.entries) {
      EXPECT(nest.nest.bytes() * entry.count <= entry_bytes_max);
    }
  }
}

/// Returns contiguous bytes that begin at `offset`.
TypeAndMap packed(std::int64_t bytes, std::int64_t offset) {
  return hindexed_map({bytes}, {offset}, element_map("V1"));
}

/// Returns as many items of a type as have `bytes` bytes.
TypeAndMap items_of(const TypeAndMap& base, std::int64_t bytes) {
  const std::int64_t count = bytes / std::max<std::int64_t>(base.type.bytes(), 1);
  return vector_map(count, 1, 1, base);
}

}  // namespace

TEST(random_types_are_packed_and_unpacked_as_they_are_defined) {
  for (std::uint64_t seed = 0; seed < test::seed_count(6000); ++seed) {
    Random random(seed);
    const TypeAndMap one = random_type(random, static_cast<int>(random.between(1, 4)), 200);
    if (one.type.bytes() == 0) continue;
    const std::int64_t longest = random.chance(0.5) ? random.between(1, 64) : INT64_MAX;
    expect_moves(one, packed(one.type.bytes(), 7), longest);
    if (one.type.disjoint()) expect_moves(packed(one.type.bytes(), -5), one, longest);
  }
}

TEST(random_types_are_copied_to_others_of_the_same_bytes) {
  int copied = 0;
  for (std::uint64_t seed = 0; seed < test::seed_count(6000); ++seed) {
    Random random(seed);
    const TypeAndMap one = random_type(random, static_cast<int>(random.between(1, 3)), 30);
    const TypeAndMap other = random_type(random, static_cast<int>(random.between(1, 3)), 30);
    if (one.type.bytes() == 0 || other.type.bytes() == 0) continue;
    const std::int64_t bytes = std::lcm(one.type.bytes(), other.type.bytes());
    if (bytes > 2000) continue;
    const TypeAndMap source = items_of(one, bytes);
    const TypeAndMap target = items_of(other, bytes);
    if (!target.type.disjoint()) continue;
    expect_moves(source, target, random.chance(0.5) ? random.between(1, 64) : INT64_MAX);
    ++copied;
  }
  EXPECT(copied > static_cast<int>(test::seed_count(6000) / 6));
}

TEST(loops_that_divide_each_other_stay_one_nest) {
  const TypeAndMap element = element_map("f4");
  IndexedCopy straight;
  const TypeAndMap rows = vector_map(64, 8, 12, element);
  const TypeAndMap longer = vector_map(32, 16, 20, element);
  REQUIRE(lower_types(rows.type.form(), longer.type.form(), 0, 0, INT64_MAX, straight).ok());
  straight.finish();
  REQUIRE(straight.nests().size() == 1);
  EXPECT_EQ(straight.nests()[0].entries.size(), 1U);
  EXPECT_EQ(straight.nests()[0].nest.element_bytes, 32);
  IndexedCopy odd;
  const TypeAndMap twos = vector_map(6, 2, 3, element);
  const TypeAndMap threes = vector_map(4, 3, 4, element);
  REQUIRE(lower_types(twos.type.form(), threes.type.form(), 0, 0, INT64_MAX, odd).ok());
  odd.finish();
  REQUIRE(odd.nests().size() == 1);
  EXPECT_EQ(odd.nests()[0].entries.size(), 8U);  // runs of 8 bytes against runs of 12
}

TEST(huge_types_are_lowered_without_counting_them_out) {
  const Datatype element = Datatype::element("f8").value();
  const Datatype plane = Datatype::vector(1'000'000, 1'000, 4'000, element).value();
  const Datatype all = Datatype::hvector(1'000, 1, std::int64_t{1} << 46, plane).value();
  EXPECT_EQ(all.bytes(), std::int64_t{8} * 1'000'000'000'000);
  EXPECT_EQ(all.form().parts().size(), 1U);
  EXPECT_EQ(all.form().runs(), 1'000'000'000);
  EXPECT(all.disjoint());
  IndexedCopy copy;
  const Datatype packed = Datatype::contiguous(all.bytes() / 8, element).value();
  REQUIRE(lower_types(all.form(), packed.form(), 0, 0, INT64_MAX, copy).ok());
  copy.finish();
  EXPECT_EQ(copy.bytes(), all.bytes());
  const Datatype sevens = Datatype::vector(all.bytes() / 8 / 7, 7, 8, element).value();
  IndexedCopy none;
  const Status cut = lower_types(all.form(), sevens.form(), 0, 0, INT64_MAX, none);
  REQUIRE(!cut.ok());
  EXPECT(cut.error().code == ErrorCode::unsupported);
}

TEST(bytes_that_two_types_share_are_found) {
  int shared = 0;
  for (std::uint64_t seed = 0; seed < test::seed_count(3000); ++seed) {
    Random random(seed);
    const TypeAndMap one = random_type(random, static_cast<int>(random.between(1, 3)), 20);
    const TypeAndMap other = random_type(random, static_cast<int>(random.between(1, 3)), 20);
    const std::int64_t distance = random.between(-100, 100);
    const auto bytes = one.bytes();
    const std::set<std::int64_t> first(bytes.begin(), bytes.end());
    bool share = false;
    for (const std::int64_t byte : other.bytes()) share |= first.contains(byte + distance);
    EXPECT_EQ(share_bytes(one.type.form(), other.type.form(), distance), share);
    shared += share ? 1 : 0;
  }
  EXPECT(shared > 20);
}
