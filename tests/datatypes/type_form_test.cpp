#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include "base/random.hpp"
#include "datatypes/type_form.hpp"
#include "datatypes/type_lowering.hpp"
#include "support/test.hpp"
#include "typemap.hpp"

using namespace tranship;

namespace {

std::vector<std::int64_t> bytes_of(const TypeForm& form) {
  std::vector<PackedRun> runs;
  append_runs(form, runs);
  std::vector<std::int64_t> all(static_cast<std::size_t>(form.bytes()), INT64_MIN);
  for (const PackedRun& run : runs) {
    for (std::int64_t k = 0; k < run.bytes; ++k) {
      all[static_cast<std::size_t>(run.packed + k)] = run.offset + k;
    }
  }
  return all;
}

std::string form_text(const TypeForm& form) {
  std::ostringstream out;
  for (const TypePart& part : form.parts()) {
    out << part.nest.element_bytes << "B@" << part.nest.source_offset;
    for (int k = 0; k < part.nest.rank; ++k) {
      const Loop& loop = part.nest.loops[static_cast<std::size_t>(k)];
      out << " x" << loop.extent << ":" << loop.source_stride << ">" << loop.target_stride;
    }
    out << " {";
    for (const IndexedEntry& entry : part.entries) {
      out << " " << entry.source_offset << ">" << entry.target_offset << "*" << entry.count;
    }
    out << " } ";
  }
  return out.str();
}

/// Types of one level around `base`: what they are made of is small and complete.
std::vector<TypeAndMap> level_around(const TypeAndMap& base) {
  std::vector<TypeAndMap> made{base};
  for (std::int64_t count = 1; count <= 4; ++count) {
    for (std::int64_t length = 1; length <= 2; ++length) {
      for (const std::int64_t stride : {-3, -1, 0, 1, 2, 3}) {
        made.push_back(vector_map(count, length, stride, base));
      }
      for (const std::int64_t stride : {1, 2, 5}) {
        made.push_back(hvector_map(count, length, stride, base));
      }
    }
  }
  for (const std::vector<std::int64_t>& places :
       {std::vector<std::int64_t>{0, 4}, {4, 0}, {0, 2, 4}, {0, 3, 4}, {6, 0, 2}, {0, 2, 6, 8}}) {
    made.push_back(hindexed_block_map(1, places, base));
    made.push_back(hindexed_block_map(2, places, base));
    std::vector<std::int64_t> lengths(places.size());
    std::iota(lengths.begin(), lengths.end(), 1);
    made.push_back(hindexed_map(lengths, places, base));
  }
  made.push_back(struct_map({0, 3}, {base, base}));
  made.push_back(struct_map({1, 4, 9}, {base, vector_map(2, 1, 2, base), base}));
  made.push_back(resized_map(-1, base.extent() + 2, base));
  return made;
}

std::vector<TypeAndMap> small_types() {
  std::vector<TypeAndMap> all;
  for (const TypeAndMap& first : level_around(element_map("u1"))) {
    for (const TypeAndMap& second : level_around(first)) all.push_back(second);
  }
  return all;
}

}  // namespace

TEST(a_form_lists_the_bytes_of_the_type_in_their_order) {
  for (const TypeAndMap& one : small_types()) {
    const std::vector<std::int64_t> bytes = one.bytes();
    EXPECT_EQ(one.type.bytes(), static_cast<std::int64_t>(bytes.size()));
    if (bytes_of(one.type.form()) != bytes) {
      test::record_failure(__FILE__, __LINE__,
                           one.type.text() + " became " + form_text(one.type.form()));
    }
    EXPECT_EQ(one.type.lower_bound(), one.lower);
    EXPECT_EQ(one.type.lower_bound() + one.type.extent(), one.upper);
    if (bytes.empty()) continue;
    EXPECT_EQ(one.type.true_lower_bound(), *std::min_element(bytes.begin(), bytes.end()));
    EXPECT_EQ(one.type.true_upper_bound(), *std::max_element(bytes.begin(), bytes.end()) + 1);
    const bool disjoint = std::set<std::int64_t>(bytes.begin(), bytes.end()).size() == bytes.size();
    EXPECT_EQ(one.type.disjoint(), disjoint);
  }
}

TEST(types_of_the_same_bytes_have_one_form_however_they_were_built) {
  std::map<std::vector<std::int64_t>, Datatype> first;
  int shared = 0;
  for (const TypeAndMap& one : small_types()) {
    const auto [found, is_new] = first.try_emplace(one.bytes(), one.type);
    if (is_new) continue;
    ++shared;
    if (found->second.form() == one.type.form()) continue;
    test::record_failure(__FILE__, __LINE__,
                         found->second.text() + " and " + one.type.text() + ": " +
                             form_text(found->second.form()) + "against " +
                             form_text(one.type.form()));
  }
  EXPECT(shared > 1000);
}

TEST(long_lists_share_no_bytes_however_often_they_are_repeated) {
  std::vector<std::int64_t> places(5000);
  std::iota(places.begin(), places.end(), 0);
  Random random(7);
  for (std::size_t k = places.size(); k > 1; --k) {
    std::swap(places[k - 1],
              places[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(k)))]);
  }
  for (std::int64_t& place : places) place *= 12;
  const Datatype list =
      Datatype::hindexed_block(1, places, Datatype::element("f4").value()).value();
  const std::int64_t extent = list.extent();
  const std::int64_t often = 20'000;  // 100 million runs
  EXPECT(Datatype::hvector(often, 1, extent, list).value().disjoint());
  EXPECT(Datatype::hvector(often, 1, -extent, list).value().disjoint());
  EXPECT(Datatype::hvector(300, 1, 4, list).value().disjoint() == false);
  EXPECT(Datatype::hvector(3, 1, 4, list).value().disjoint());   // side by side
  EXPECT(!Datatype::hvector(4, 1, 4, list).value().disjoint());  // the fourth meets the first
  EXPECT(!Datatype::hvector(1000, 1, extent - 4, list).value().disjoint());
}

TEST(records_share_no_bytes_however_many_there_are) {
  const std::vector<Datatype> members{Datatype::element("u1").value(),
                                      Datatype::element("f8").value(),
                                      Datatype::element("u1").value()};
  const std::vector<std::int64_t> ones{1, 1, 1};
  const std::vector<std::int64_t> places{0, 9, 20};
  const Datatype record = Datatype::structure(ones, places, members).value();
  const Datatype row = Datatype::contiguous(400, record).value();
  const std::int64_t often = 100'000;  // 120 million runs
  const Datatype grid = Datatype::hvector(often, 1, row.extent() + 100, row).value();
  EXPECT(grid.form().parts().size() > 1);
  EXPECT(grid.disjoint());
  EXPECT(!Datatype::hvector(400, 1, row.extent() - record.extent(), row).value().disjoint());
}

TEST(members_that_touch_are_one_run_in_any_number_of_records) {
  const std::vector<Datatype> members{Datatype::element("u1").value(),
                                      Datatype::element("i2").value(),
                                      Datatype::element("u1").value()};
  const std::vector<std::int64_t> ones{1, 1, 1};
  const std::vector<std::int64_t> places{0, 1, 3};
  const Datatype record = Datatype::structure(ones, places, members).value();
  const Datatype many = Datatype::contiguous(100'000, record).value();
  EXPECT_EQ(many.form().runs(), 1);
  EXPECT(many.form().run_offset() == 0);
}

TEST(types_of_the_same_bytes_whose_turns_touch_have_one_form) {
  const TypeAndMap byte = element_map("u1");
  const TypeAndMap rows = hvector_map(10, 1, 28, hvector_map(10, 1, 3, byte));  // 27 + 1 = 28
  std::vector<std::int64_t> places;
  for (const std::int64_t offset : rows.bytes()) places.push_back(offset);
  const TypeAndMap listed = hindexed_block_map(1, places, byte);
  EXPECT_EQ(rows.type.form().runs(), 91);
  if (!(rows.type.form() == listed.type.form())) {
    test::record_failure(__FILE__, __LINE__,
                         form_text(rows.type.form()) + "against " + form_text(listed.type.form()));
  }
}
