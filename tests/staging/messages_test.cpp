// Messages of the staging service: what is written is read, and garbage is refused.
#include "staging/messages.hpp"

#include <random>

#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

Box box_of(std::vector<std::int64_t> lower, std::vector<std::int64_t> upper) {
  return *Box::make(lower, upper);
}

}  // namespace

TEST(what_is_written_is_read) {
  PutRequest put{"energy", -7, box_of({-1, 2, 3}, {4, 5, 6}), "f8", 8};
  MessageWriter out;
  add(out, put);
  const GetRequest get{"x", Which::next, 12, box_of({}, {})};
  add(out, get);
  Found found{3, "f4", 4, {{{1, 256, 512}, box_of({0}, {9}), box_of({2}, {5})}}, 77};
  EXPECT_EQ(add(out, found, 0, 1000), 0U);
  const VariableInfo info{"v", "c16", 2, box_of({0, 0}, {3, 4}), {{5, 6, 7}}, 2};
  add(out, info);
  MessageReader in(out.bytes());
  PutRequest put_read;
  GetRequest get_read;
  Found found_read;
  std::size_t left = 9;
  VariableInfo info_read;
  REQUIRE(read(in, put_read) && read(in, get_read) && read(in, found_read, left) &&
          read(in, info_read));
  EXPECT_EQ(put_read.variable, put.variable);
  EXPECT_EQ(put_read.version, put.version);
  EXPECT(put_read.box == put.box && put_read.type == put.type && put_read.element_bytes == 8);
  EXPECT(get_read.which == Which::next && get_read.version == 12 && get_read.box.rank == 0);
  REQUIRE(found_read.parts.size() == 1);
  EXPECT(found_read.lease == 77 && found_read.parts[0].range.offset == 256);
  EXPECT(found_read.parts[0].box == box_of({2}, {5}));
  EXPECT_EQ(left, 0U);
  EXPECT(info_read.versions.size() == 1 && info_read.versions[0].objects == 6);
}

TEST(many_parts_go_in_pages) {
  Found found{3, "f4", 4, {}, 77};
  for (int k = 0; k < 1000; ++k) {
    found.parts.push_back({{k, 256, 512}, box_of({k, 0}, {k + 1, 9}), box_of({k, 2}, {k + 1, 5})});
  }
  Found found_read;
  std::size_t left = found.parts.size();
  int pages = 0;
  for (; left > 0 && pages < 1000; ++pages) {
    MessageWriter out;
    const std::size_t after = add(out, found, found_read.parts.size(), 4096);
    EXPECT(out.bytes().size() <= 4096);
    MessageReader in(out.bytes());
    REQUIRE(read(in, found_read, left));
    EXPECT_EQ(left, after);
    EXPECT_EQ(found_read.parts.size() + left, found.parts.size());
  }
  EXPECT(pages > 10 && pages < 50);
  REQUIRE(found_read.parts.size() == found.parts.size());
  for (std::size_t k = 0; k < found.parts.size(); ++k) {
    EXPECT(found_read.parts[k].box == found.parts[k].box);
    EXPECT_EQ(found_read.parts[k].range.segment, found.parts[k].range.segment);
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
    if (put.box.rank > 0) EXPECT(put.box.points() > 0);
  }
  EXPECT(read_well < 200000);
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
