// Lowering: the loop nests of a copy move exactly the bytes that indexing moves.
#include "data/lowering.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "data/arrays.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

using Moves = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// Appends the bytes that a nest moves, as pairs of source and target offsets.
void append_moves(const LoopNest& nest, int rank, std::int64_t source, std::int64_t target,
                  Moves& moves) {
  if (rank == 0) {
    for (std::int64_t i = 0; i < nest.element_bytes; ++i) moves.push_back({source + i, target + i});
    return;
  }
  const Loop& outer = nest.loops[static_cast<std::size_t>(rank - 1)];
  for (std::int64_t i = 0; i < outer.extent; ++i) {
    append_moves(nest, rank - 1, source + i * outer.source_stride, target + i * outer.target_stride,
                 moves);
  }
}

/// Returns the bytes that nests move, as sorted pairs of source and target offsets.
Moves moves_of(const std::vector<LoopNest>& nests) {
  Moves moves;
  for (const LoopNest& nest : nests) {
    append_moves(nest, nest.rank, nest.source_offset, nest.target_offset, moves);
  }
  std::sort(moves.begin(), moves.end());
  return moves;
}

LoopNest random_nest(Random& random) {
  LoopNest nest;
  nest.element_bytes = random.between(1, 4);
  nest.source_offset = random.between(0, 100);
  nest.target_offset = random.between(0, 100);
  nest.rank = static_cast<int>(random.between(0, 4));
  for (std::size_t k = 0; k < static_cast<std::size_t>(nest.rank); ++k) {
    nest.loops[k] = {random.between(1, 4), random.between(-9, 9), random.between(-9, 9)};
  }
  return nest;
}

std::vector<LoopNest> nests_between(const Mapping& source, const Mapping& target,
                                    const Point& extents) {
  std::vector<LoopNest> nests;
  lower({&source, {}}, {&target, {}}, extents, {}, nests);
  return nests;
}

}  // namespace

TEST(lowering_equals_indexing) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    const auto [source, target] = test::random_pair(random);
    const View box = test::random_view(random, source);
    const Corner from{source.get(), box.lower};
    Corner to{target.get(), {}};
    for (std::size_t k = 0; k < static_cast<std::size_t>(source->rank()); ++k) {
      to.lower[k] = random.between(0, source->space()[k].extent - box.extents[k]);
    }
    std::vector<std::byte> input(static_cast<std::size_t>(source->end_bytes()));
    for (auto& byte : input) byte = static_cast<std::byte>(random.next());
    std::vector<std::byte> expected(static_cast<std::size_t>(target->end_bytes()), std::byte{0x5a});
    auto output = expected;
    test::for_each_point(box.extents, source->rank(), [&](const Point& point) {
      Point in = point;
      Point out = point;
      for (std::size_t k = 0; k < point.size(); ++k) {
        in[k] += from.lower[k];
        out[k] += to.lower[k];
      }
      for (std::size_t f = 0; f < source->fields().size(); ++f) {
        std::memcpy(&expected[static_cast<std::size_t>(test::offset_of(*target, f, out))],
                    &input[static_cast<std::size_t>(test::offset_of(*source, f, in))],
                    static_cast<std::size_t>(source->fields()[f].field.bytes));
      }
    });
    std::vector<LoopNest> nests;
    lower(from, to, box.extents, {}, nests);
    std::int64_t moved = 0;
    for (const LoopNest& nest : nests) {
      test::run_nest(nest, input.data(), output.data());
      moved += nest.bytes();
    }
    EXPECT_EQ(moved, box.bytes());
    EXPECT(output == expected);
    if (output != expected) {
      test::record_failure(__FILE__, __LINE__, "seed " + std::to_string(seed));
      break;
    }
  }
}

TEST(more_loops_than_a_nest_has_become_several_nests) {
  IndexSpace space;
  std::string blocks;
  std::string rest;
  for (int k = 0; k < 13; ++k) {
    const std::string name = "d" + std::to_string(k);
    space.push_back({name, k < 12 ? 4 : 2});
    if (k < 12) blocks += name + ":2, ";
    rest += (k > 0 ? ", " : "") + name;
  }
  // Twelve dimensions in blocks of two, those in one order and the rest in the other: no two of the
  // 25 loops join.
  const FieldSpace fields{{"f0", "u1", 1}};
  const auto source = *Mapping::make(space, fields, *Layout::parse("F, " + blocks + rest));
  std::reverse(space.begin(), space.end());
  std::string reversed;
  for (const Dimension& dimension : space) {
    reversed += (reversed.empty() ? "" : ", ") + dimension.name;
  }
  std::reverse(space.begin(), space.end());
  const auto target = *Mapping::make(space, fields, *Layout::parse("F, " + reversed));
  const Point extents = View::whole(source).extents;
  const std::vector<LoopNest> nests = nests_between(*source, *target, extents);
  std::int64_t moved = 0;
  for (const LoopNest& nest : nests) moved += nest.bytes();
  EXPECT_EQ(moved, View::whole(source).bytes());
  EXPECT(nests.size() > 1);
  // Single points of the copy, found by indexing.
  Random random(5);
  for (int turn = 0; turn < 20; ++turn) {
    Point point{};
    for (std::size_t k = 0; k < space.size(); ++k)
      point[k] = random.between(0, space[k].extent - 1);
    const std::int64_t from = test::offset_of(*source, 0, point);
    const std::int64_t to = test::offset_of(*target, 0, point);
    const bool found = std::any_of(nests.begin(), nests.end(), [&](const LoopNest& nest) {
      std::int64_t source_at = nest.source_offset;
      std::int64_t target_at = to - nest.target_offset;
      for (int k = nest.rank; k-- > 0 && target_at >= 0;) {
        const Loop& loop = nest.loops[static_cast<std::size_t>(k)];
        const std::int64_t index = std::min(target_at / loop.target_stride, loop.extent - 1);
        target_at -= index * loop.target_stride;
        source_at += index * loop.source_stride;
      }
      return target_at >= 0 && target_at < nest.element_bytes && source_at + target_at == from;
    });
    EXPECT(found);
  }
}

/// Appends the numbers that a nest converts, as pairs of source and target offsets.
void append_numbers(const LoopNest& nest, int rank, std::int64_t source, std::int64_t target,
                    Moves& moves) {
  const std::int64_t from = nest.conversion.source_bytes();
  const std::int64_t to = nest.conversion.target_bytes();
  if (rank == 0) {
    for (std::int64_t i = 0; i < nest.element_bytes / to; ++i) {
      moves.push_back({source + i * from, target + i * to});
    }
    return;
  }
  const Loop& outer = nest.loops[static_cast<std::size_t>(rank - 1)];
  for (std::int64_t i = 0; i < outer.extent; ++i) {
    append_numbers(nest, rank - 1, source + i * outer.source_stride,
                   target + i * outer.target_stride, moves);
  }
}

TEST(lowering_converts_each_number_once) {
  const Field types[] = {{"", "f8", 8}, {"", ">i2", 2}, {"", "b1", 1}, {"", "c16", 16}};
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    Random random(seed);
    const IndexSpace space = test::random_space(random);
    FieldSpace from;
    FieldSpace to;
    const std::int64_t count = random.between(1, 3);
    for (std::int64_t f = 0; f < count; ++f) {
      for (FieldSpace* fields : {&from, &to}) {
        Field field = types[random.between(0, 3)];
        field.name = "f" + std::to_string(f);
        fields->push_back(field);
      }
    }
    const auto source = Mapping::make(space, from, test::random_layout(random, space)).value();
    const auto target = Mapping::make(space, to, test::random_layout(random, space)).value();
    const Point extents = View::whole(source).extents;
    std::vector<LoopNest> nests;
    lower({source.get(), {}}, {target.get(), {}}, extents, {}, nests, Numbers::converted);
    for (std::size_t f = 0; f < from.size(); ++f) {
      Moves expected;
      test::for_each_point(extents, source->rank(), [&](const Point& point) {
        expected.push_back(
            {test::offset_of(*source, f, point), test::offset_of(*target, f, point)});
      });
      std::sort(expected.begin(), expected.end());
      Moves moves;
      for (const LoopNest& nest : nests) {
        const Conversion wanted =
            from[f].type == to[f].type
                ? Conversion{}
                : Conversion{*number_type_from(from[f].type), *number_type_from(to[f].type)};
        if (nest.conversion != wanted) continue;
        if (nest.conversion) {
          append_numbers(nest, nest.rank, nest.source_offset, nest.target_offset, moves);
        } else {
          append_moves(nest, nest.rank, nest.source_offset, nest.target_offset, moves);
        }
      }
      std::sort(moves.begin(), moves.end());
      EXPECT(std::includes(moves.begin(), moves.end(), expected.begin(), expected.end()));
    }
    std::int64_t bytes = 0;
    for (const LoopNest& nest : nests) bytes += nest.bytes();
    EXPECT_EQ(bytes, View::whole(target).bytes());
    EXPECT(casts_fields(*source, *target, {}) ==
           std::any_of(nests.begin(), nests.end(),
                       [](const LoopNest& n) { return static_cast<bool>(n.conversion); }));
  }
}

TEST(equal_orders_of_other_types_become_one_run) {
  const IndexSpace space{{"x", 8}, {"y", 6}};
  const auto make = [&](const char* type, std::int64_t bytes) {
    return Mapping::make(space, {{"a", type, bytes}}, Layout::parse("x, y").value()).value();
  };
  const auto source = make("f4", 4);
  const auto target = make("c16", 16);
  std::vector<LoopNest> nests;
  lower({source.get(), {}}, {target.get(), {}}, View::whole(source).extents, {}, nests,
        Numbers::converted);
  REQUIRE(nests.size() == 1u);
  EXPECT_EQ(nests[0].rank, 0);
  EXPECT_EQ(nests[0].element_bytes, 8 * 6 * 16);
  EXPECT_EQ(nests[0].source_element_bytes(), 8 * 6 * 4);
}

TEST(the_way_back_is_the_same_way) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const auto [source, target] = test::random_pair(random);
    const Point extents = View::whole(source).extents;
    Moves back = moves_of(nests_between(*target, *source, extents));
    for (auto& [from, to] : back) std::swap(from, to);
    std::sort(back.begin(), back.end());
    EXPECT(moves_of(nests_between(*source, *target, extents)) == back);
  }
}

TEST(coalescing_changes_no_move_and_is_done_once) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    LoopNest nest = random_nest(random);
    const Moves moves = moves_of({nest});
    coalesce(nest);
    EXPECT(moves_of({nest}) == moves);
    for (std::size_t k = 0; k < static_cast<std::size_t>(nest.rank); ++k) {
      EXPECT(nest.loops[k].extent > 1);
      EXPECT(nest.loops[k].target_stride >= 0);
    }
    const LoopNest once = nest;
    coalesce(nest);
    EXPECT(nest == once);
  }
}

TEST(merging_changes_no_move) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    Random random(seed);
    const LoopNest first = random_nest(random);
    const std::int64_t source_step = random.between(-20, 20);
    const std::int64_t target_step = random.chance(0.5) ? first.element_bytes : 50;
    std::vector<LoopNest> nests;
    for (int k = 0; k < 5; ++k) {
      nests.push_back(first);
      nests.back().source_offset += k * source_step;
      nests.back().target_offset += k * target_step;
      if (random.chance(0.1)) nests.push_back(random_nest(random));
    }
    const Moves moves = moves_of(nests);
    const std::size_t before = nests.size();
    merge(nests, 0);
    EXPECT(nests.size() <= before);
    EXPECT(moves_of(nests) == moves);
  }
}

TEST(whole_copies_of_one_layout_become_one_run) {
  for (const char* text : {"F, x, y", "x, F, y", "x, y, F", "x:4, F, x, y", "y, x:2, F, x"}) {
    const auto mapping =
        Mapping::make({{"x", 8}, {"y", 6}}, {{"a", "f4", 4}, {"b", "f8", 8}, {"c", "i2", 2}},
                      Layout::parse(text).value())
            .value();
    const auto nests = nests_between(*mapping, *mapping, View::whole(mapping).extents);
    REQUIRE(nests.size() == 1u);
    EXPECT_EQ(nests[0].rank, 0);
    EXPECT_EQ(nests[0].element_bytes, 8 * 6 * 14);
  }
}

TEST(records_to_arrays_become_one_transpose) {
  const IndexSpace space{{"x", 1000}};
  FieldSpace fields;
  for (int f = 0; f < 8; ++f) fields.push_back({"f" + std::to_string(f), "f4", 4});
  const auto records = Mapping::make(space, fields, Layout::parse("F, x").value()).value();
  const auto arrays = Mapping::make(space, fields, Layout::parse("x, F").value()).value();
  const auto nests = nests_between(*records, *arrays, View::whole(records).extents);
  REQUIRE(nests.size() == 1u);
  EXPECT_EQ(nests[0].rank, 2);
  EXPECT_EQ(nests[0].element_bytes, 4);
  EXPECT(nests[0].loops[0] == (Loop{1000, 32, 4}));
  EXPECT(nests[0].loops[1] == (Loop{8, 4, 4000}));
}

TEST(fields_are_matched_by_name_and_type) {
  const auto make = [](const FieldSpace& fields) {
    return Mapping::make({{"x", 2}}, fields, Layout::parse("F, x").value()).value();
  };
  const auto source = make({{"a", "f4", 4}, {"b", "i4", 4}});
  EXPECT(match_fields(*source, *make({{"b", "i4", 4}, {"a", "f4", 4}})).value() ==
         (std::vector<int>{1, 0}));
  EXPECT(match_fields(*make({{"a", "f4", 4}}), *make({{"b", "f4", 4}})).value() ==
         (std::vector<int>{0}));
  const struct {
    FieldSpace target;
    const char* reason;
  } cases[] = {
      {{{"a", "f4", 4}}, "2 fields and the target 1"},
      {{{"a", "f4", 4}, {"c", "i4", 4}}, "field \"c\" is not in the source"},
      {{{"a", "f4", 4}, {"b", "f4", 4}}, "field \"b\" is i4 in the source and f4 in the target"},
  };
  for (const auto& one : cases) {
    const auto matched = match_fields(*source, *make(one.target));
    REQUIRE(!matched.ok());
    EXPECT(matched.error().text().find(one.reason) != std::string::npos);
  }
}

TEST(types_differ_as_far_as_casting_allows) {
  const auto make = [](const char* type, std::int64_t bytes) {
    return Mapping::make({{"x", 2}}, {{"a", type, bytes}}, Layout::parse("F, x").value()).value();
  };
  const auto single = make("f4", 4);
  const auto twice = make("f8", 8);
  EXPECT(match_fields(*single, *twice, Casting::safe).ok());
  EXPECT(match_fields(*twice, *single, Casting::same_kind).ok());
  const struct {
    std::shared_ptr<const Mapping> source;
    std::shared_ptr<const Mapping> target;
    Casting casting;
    const char* reason;
    const char* hint;
  } cases[] = {
      {single, twice, Casting::none, "does not convert types", "cast=\"safe\""},
      {twice, make("i8", 8), Casting::none, "does not convert types", "cast=\"unsafe\""},
      {twice, single, Casting::safe, "cast=\"safe\" does not allow", "cast=\"same_kind\""},
      {make("c8", 8), single, Casting::same_kind, "may lose values", "cast=\"unsafe\""},
      {make("S4", 4), single, Casting::unsafe, "numbers alone", "convert one of the arrays"},
  };
  for (const auto& one : cases) {
    const auto matched = match_fields(*one.source, *one.target, one.casting);
    REQUIRE(!matched.ok());
    EXPECT(matched.error().message.find(one.reason) != std::string::npos);
    EXPECT(matched.error().hint.find(one.hint) != std::string::npos);
  }
}
