#include <cstring>
#include <map>

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
  const auto parts = combine(source.type.form(), target.type.form());
  REQUIRE(parts.ok());
  IndexedCopy copy;
  lower_parts(*parts, 0, 0, entry_bytes_max, copy);
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
  const TypeAndMap rows = vector_map(64, 8, 12, element);
  const TypeAndMap columns =
      vector_map(8, 1, 64, vector_map(64, 1, 1, resized_map(0, 32, element)));
  const auto straight = combine(rows.type.form(), vector_map(32, 16, 20, element).type.form());
  REQUIRE(straight.ok());
  EXPECT_EQ(straight->size(), 1U);
  EXPECT_EQ((*straight)[0].entries.size(), 1U);
  EXPECT_EQ((*straight)[0].nest.element_bytes, 32);
  EXPECT_EQ((*straight)[0].nest.rank, 2);
  const auto odd =
      combine(vector_map(6, 2, 3, element).type.form(), vector_map(4, 3, 4, element).type.form());
  REQUIRE(odd.ok());
  EXPECT_EQ((*odd)[0].entries.size(), 8U);  // runs of 8 bytes against runs of 12
  EXPECT_EQ(columns.type.bytes(), 2048);
}

TEST(huge_types_are_lowered_without_counting_them_out) {
  const Datatype element = Datatype::element("f8").value();
  const Datatype plane = Datatype::vector(1'000'000, 1'000, 4'000, element).value();
  const Datatype all = Datatype::hvector(1'000, 1, std::int64_t{1} << 46, plane).value();
  EXPECT_EQ(all.bytes(), std::int64_t{8} * 1'000'000'000'000);
  EXPECT_EQ(all.form().parts().size(), 1U);
  EXPECT_EQ(all.form().runs(), 1'000'000'000);
  EXPECT(all.disjoint());
  const auto parts = combine(all.form(), Datatype::contiguous(all.bytes() / 8, element)->form());
  REQUIRE(parts.ok());
  IndexedCopy copy;
  lower_parts(*parts, 0, 0, INT64_MAX, copy);
  copy.finish();
  EXPECT_EQ(copy.bytes(), all.bytes());
  const auto cut = combine(
      all.form(), Datatype::vector(std::int64_t{1'000'000'000'000} / 7 + 1, 7, 8, element)->form());
  EXPECT(!cut.ok());
}
