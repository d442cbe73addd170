// Messages of the staging service: what is written is read, and garbage is refused.
#include "staging/messages.hpp"

#include <random>

#include "staging/boxes.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;
using tranship::test::box_of;

TEST(what_is_written_is_read) {
  PutRequest put{"energy", -7, box_of({-1, 2, 3}, {4, 5, 6}), "f8", 8};
  MessageWriter out;
  add(out, put);
  const GetRequest get{"x", Which::next, 12, box_of({}, {})};
  add(out, get);
  Found found{3, "f4", 4, 77, {{2, 15, box_of({0}, {9}), 21, {1, 256, 512}}}};
  EXPECT_EQ(add(out, found, 0, 1000), 0U);
  VariableInfo info{"v", "c16", 16, box_of({0, 0}, {3, 4}), {{5, 6, 7}}, 2};
  info.traffic.puts.add(1, 96, message_path);
  info.traffic.gets.add(1, 1000, "a > b");
  info.traffic.gets.add(0, 24, "a > b");
  add(out, info);
  const Box first = box_of({1}, {2});
  const Box domain = box_of({-100}, {400});
  Facts facts{"f2", 2, first, Cells::around(first, 2, 64, domain), domain, 7, 5, 3, true};
  add(out, facts);
  facts.domain.reset();
  facts.cells = Cells::around(first, 2, 64);
  add(out, facts);
  add(out, Leased{Leased::State::here, 9, {4, 5, 6}});
  MessageReader in(out.bytes());
  PutRequest put_read;
  GetRequest get_read;
  Found found_read;
  std::size_t left = 9;
  VariableInfo info_read;
  Facts facts_read;
  Facts undefined_read;
  Leased leased_read;
  REQUIRE(read(in, put_read) && read(in, get_read) && read(in, found_read, left) &&
          read(in, info_read) && read(in, facts_read) && read(in, undefined_read) &&
          read(in, leased_read));
  EXPECT_EQ(put_read.variable, put.variable);
  EXPECT_EQ(put_read.version, put.version);
  EXPECT(put_read.box == put.box && put_read.type == put.type && put_read.element_bytes == 8);
  EXPECT(get_read.which == Which::next && get_read.version == 12 && get_read.box.rank == 0);
  REQUIRE(found_read.objects.size() == 1);
  EXPECT(found_read.lease == 77 && found_read.objects[0].range.offset == 256);
  EXPECT(found_read.objects[0].box == box_of({0}, {9}));
  EXPECT(found_read.objects[0].home == 2 && found_read.objects[0].object == 15);
  EXPECT_EQ(found_read.objects[0].order, 21U);
  EXPECT_EQ(left, 0U);
  EXPECT(info_read.versions.size() == 1 && info_read.versions[0].objects == 6);
  const VariableTraffic& traffic = info_read.traffic;
  EXPECT(traffic.puts.count == 1 && traffic.puts.bytes == 96 && traffic.puts.paths.size() == 1);
  EXPECT(traffic.gets.count == 1 && traffic.gets.bytes == 1024);
  EXPECT_EQ(traffic.gets.paths.at("a > b"), 1);
  EXPECT(facts_read.type == "f2" && facts_read.producers == 3 && facts_read.cells.origin[0] == 1 &&
         facts_read.cells.extents[0] == 32 && facts_read.lost_producer());
  EXPECT_EQ(facts_read.cells.lower[0], -4);
  EXPECT_EQ(facts_read.cells.upper[0], 13);
  EXPECT(undefined_read.cells.lower == undefined_read.cells.upper);
  EXPECT(facts_read.domain == domain && facts_read.writers == 7 && facts_read.came == 5);
  EXPECT(!undefined_read.domain.has_value());
  EXPECT(leased_read.order == 9 && leased_read.range.offset == 5);
}

TEST(only_so_many_paths_are_told_apart_and_sums_have_an_end) {
  Moved moved;
  for (int k = 0; k < 20; ++k) moved.add(1, 8, std::string(200, static_cast<char>('a' + k)));
  EXPECT_EQ(moved.count, 20);
  EXPECT_EQ(moved.paths.size(), 5U);
  EXPECT_EQ(moved.paths.at("others"), 16);
  EXPECT_EQ(moved.paths.begin()->first.size(), 96U);
  moved.add(0, INT64_MAX, "");
  EXPECT_EQ(moved.bytes, INT64_MAX);
  EXPECT_EQ(moved.paths.size(), 5U);
}

TEST(many_objects_go_in_pages) {
  Found found{3, "f4", 4, 77, {}};
  for (int k = 0; k < 1000; ++k) {
    found.objects.push_back({0, 5, box_of({k, 0}, {k + 1, 9}), 1, {k, 256, 512}});
  }
  Found found_read;
  std::size_t left = found.objects.size();
  int pages = 0;
  for (; left > 0 && pages < 1000; ++pages) {
    MessageWriter out;
    const std::size_t after = add(out, found, found_read.objects.size(), 4096);
    EXPECT(out.bytes().size() <= 4096);
    MessageReader in(out.bytes());
    REQUIRE(read(in, found_read, left));
    EXPECT_EQ(left, after);
    EXPECT_EQ(found_read.objects.size() + left, found.objects.size());
  }
  EXPECT(pages > 10 && pages < 50);
  REQUIRE(found_read.objects.size() == found.objects.size());
  for (std::size_t k = 0; k < found.objects.size(); ++k) {
    EXPECT(found_read.objects[k].box == found.objects[k].box);
    EXPECT_EQ(found_read.objects[k].range.segment, found.objects[k].range.segment);
  }
}

TEST(garbage_is_refused_and_nothing_else) {
  std::mt19937_64 random(1);
  int read_well = 0;
  for (int k = 0; k < 200000; ++k) {
    std::vector<std::byte> bytes(random() % 200);
    for (auto& one : bytes) one = static_cast<std::byte>(random() % 3 == 0 ? random() : 0);
    PutRequest put;
    GetRequest get;
    Found found;
    VariableInfo info;
    MessageReader one(bytes);
    MessageReader two(bytes);
    MessageReader three(bytes);
    MessageReader four(bytes);
    read_well += read(one, put) ? 1 : 0;
    read_well += read(two, get) ? 1 : 0;
    std::size_t left = 0;
    read_well += read(three, found, left) ? 1 : 0;
    read_well += read(four, info) ? 1 : 0;
    Facts facts;
    Leased leased;
    MessageReader five(bytes);
    MessageReader six(bytes);
    read_well += read(five, facts) ? 1 : 0;
    read_well += read(six, leased) ? 1 : 0;
    if (put.box.rank > 0) EXPECT(put.box.points() > 0);
  }
  EXPECT(read_well < 200000);
}

TEST(an_object_lies_inside_its_segment_whatever_a_server_says) {
  EXPECT(lies_inside({0, 0, 100}, 100, 100));
  EXPECT(lies_inside({0, 36, 64}, 64, 100));
  EXPECT(!lies_inside({0, 37, 64}, 64, 100));
  EXPECT(!lies_inside({0, -1, 64}, 64, 100));
  EXPECT(!lies_inside({0, 0, 64}, 101, 100));
  EXPECT(!lies_inside({0, INT64_MAX, 64}, 64, 100));
  EXPECT(!lies_inside({0, INT64_MIN, 64}, 64, 100));
}

TEST(boxes_of_more_dimensions_than_there_are_are_refused) {
  for (const int rank : {dimensions_max, dimensions_max + 1}) {
    MessageWriter out;
    out.add(static_cast<std::uint32_t>(rank));
    for (int k = 0; k < rank; ++k) out.add(std::int64_t{0}).add(std::int64_t{1});
    MessageReader in(out.bytes());
    bool ok = true;
    (void)read_bounds(in, ok);
    EXPECT_EQ(ok, rank == dimensions_max);
  }
}
