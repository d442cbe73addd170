// The engine of the C API: copies with layout changes, files, plans, events, peers, and arguments
// that are refused.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "c/opened.hpp"
#include "support/test.hpp"
#include "tranship/tranship.h"

using tranship::test::last;
using tranship::test::Opened;
using tranship::test::patience;
using tranship::test::profile_file;

namespace {

/// An array of x = 6 by y = 4 points with the fields a (f8) and b (i4), in one of two orders.
struct Described {
  std::array<tranship_dimension, 2> dimensions{{{"x", 6}, {"y", 4}}};
  std::array<tranship_field, 2> fields{{{"a", "f8"}, {"b", "i4"}}};
  tranship_layout layout{dimensions.data(), 2, fields.data(), 2, nullptr};

  explicit Described(const char* order) { layout.order = order; }
};

constexpr int points = 24;
struct Point {
  double a;
  std::int32_t b;
} __attribute__((packed));

std::vector<Point> rows() {
  std::vector<Point> made(points);
  for (int k = 0; k < points; ++k) made[static_cast<std::size_t>(k)] = {k + 0.5, -k};
  return made;
}

tranship_instance* instance_of(const Opened& engine, void* data, const tranship_layout& layout) {
  std::int64_t bytes = 0;
  REQUIRE(tranship_layout_bytes(&layout, &bytes) == TRANSHIP_OK);
  tranship_instance* made = nullptr;
  REQUIRE(tranship_instance_of_memory(engine.get(), data, bytes, &layout, &made) == TRANSHIP_OK);
  return made;
}

void copy_now(const Opened& engine, const tranship_instance* source,
              const tranship_instance* target, const tranship_copy_options* options = nullptr) {
  tranship_event* event = nullptr;
  REQUIRE(tranship_copy(engine.get(), source, target, options, &event) == TRANSHIP_OK);
  EXPECT_EQ(tranship_event_wait(event, patience), TRANSHIP_OK);
  tranship_event_free(event);
}

}  // namespace

TEST(a_copy_changes_the_layout) {
  const Opened engine;
  const Described by_point("F, y, x");
  const Described by_field("y, x, F");
  std::vector<Point> source = rows();
  std::vector<std::byte> target(points * sizeof(Point));
  tranship_instance* from = instance_of(engine, source.data(), by_point.layout);
  tranship_instance* to = instance_of(engine, target.data(), by_field.layout);
  EXPECT_EQ(tranship_instance_bytes(from), 24 * 12);
  EXPECT(tranship_instance_data(to) == target.data());
  copy_now(engine, from, to);
  std::array<double, points> a{};
  std::array<std::int32_t, points> b{};
  std::memcpy(a.data(), target.data(), sizeof a);
  std::memcpy(b.data(), target.data() + sizeof a, sizeof b);
  for (std::size_t k = 0; k < points; ++k) {
    EXPECT_EQ(a[k], source[k].a);
    EXPECT_EQ(b[k], source[k].b);
  }
  tranship_instance_free(from);
  tranship_instance_free(to);
}

TEST(numbers_are_cast_where_the_options_say_so) {
  const Opened engine;
  const tranship_dimension row{"x", 500};
  const tranship_field narrow{"a", "f4"};
  const tranship_field wide{"a", "f8"};
  const tranship_layout narrow_layout{&row, 1, &narrow, 1, nullptr};
  const tranship_layout wide_layout{&row, 1, &wide, 1, nullptr};
  std::vector<double> source(500);
  std::iota(source.begin(), source.end(), 0.25);
  std::vector<float> target(500);
  std::vector<double> back(500);
  tranship_instance* from = instance_of(engine, source.data(), wide_layout);
  tranship_instance* to = instance_of(engine, target.data(), narrow_layout);
  tranship_instance* last_one = instance_of(engine, back.data(), wide_layout);
  tranship_event* event = nullptr;
  EXPECT_EQ(tranship_copy(engine.get(), from, to, nullptr, &event), TRANSHIP_INVALID_ARGUMENT);
  tranship_copy_options options{};
  options.size = sizeof options;
  options.cast = "safe";
  EXPECT_EQ(tranship_copy(engine.get(), from, to, &options, &event), TRANSHIP_INVALID_ARGUMENT);
  EXPECT(last().find("does not allow") != std::string::npos);
  options.cast = "exact";
  EXPECT_EQ(tranship_copy(engine.get(), from, to, &options, &event), TRANSHIP_INVALID_ARGUMENT);
  EXPECT(last().find("no casting rule") != std::string::npos);
  options.cast = "same_kind";
  copy_now(engine, from, to, &options);
  EXPECT_EQ(target[499], 499.25F);
  const tranship_pair pair{to, last_one};
  REQUIRE(tranship_copy_all(engine.get(), &pair, 1, &options, &event) == TRANSHIP_OK);
  EXPECT_EQ(tranship_event_wait(event, patience), TRANSHIP_OK);
  tranship_event_free(event);
  EXPECT(back == source);
  const std::array<std::int64_t, 2> pages{7, 3};
  const std::array<std::int64_t, 2> places{0, 1};
  const tranship_pages lists{pages.data(), places.data(), 2};
  REQUIRE(tranship_copy_pages(engine.get(), from, to, &lists, &options, &event) == TRANSHIP_OK);
  EXPECT_EQ(tranship_event_wait(event, patience), TRANSHIP_OK);
  tranship_event_free(event);
  EXPECT(target[0] == 7.25F && target[1] == 3.25F && target[2] == 2.25F);
  const tranship_pieces pieces{pages.data(), places.data(), places.data(), 2};
  EXPECT_EQ(tranship_copy_pieces(engine.get(), from, to, &pieces, &options, &event),
            TRANSHIP_INVALID_ARGUMENT);
  EXPECT(last().find("move bytes") != std::string::npos);
  // Callers that were built without this member say so by the size.
  options.size = offsetof(tranship_copy_options, cast);
  EXPECT_EQ(tranship_copy(engine.get(), from, to, &options, &event), TRANSHIP_INVALID_ARGUMENT);
  for (tranship_instance* one : {from, to, last_one}) tranship_instance_free(one);
}

TEST(two_maps_of_one_memory_overlap) {
  const Opened engine;
  const int memory = memfd_create("test", MFD_CLOEXEC);
  REQUIRE(memory >= 0 && ftruncate(memory, 8192) == 0);
  const auto map = [&] {
    return static_cast<double*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0));
  };
  double* const one = map();
  double* const other = map();
  close(memory);
  const tranship_dimension row{"x", 500};
  const tranship_field field{"a", "f8"};
  const tranship_layout layout{&row, 1, &field, 1, nullptr};
  tranship_instance* from = instance_of(engine, one, layout);
  tranship_instance* near = instance_of(engine, other + 250, layout);
  tranship_instance* apart = instance_of(engine, other + 500, layout);
  tranship_event* event = nullptr;
  EXPECT_EQ(tranship_copy(engine.get(), from, near, nullptr, &event), TRANSHIP_INVALID_ARGUMENT);
  EXPECT(last().find("overlap") != std::string::npos);
  std::fill(one, one + 500, 3.0);
  copy_now(engine, from, apart);
  EXPECT_EQ(one[999], 3.0);
  EXPECT_EQ(one[1000], 0.0);
  for (tranship_instance* instance : {from, near, apart}) tranship_instance_free(instance);
  munmap(one, 8192);
  munmap(other, 8192);
}

TEST(regions_and_parts_name_the_same_box) {
  const Opened engine;
  const Described order("F, y, x");
  std::vector<Point> source = rows();
  std::vector<Point> by_region(points);
  std::vector<Point> by_part(points);
  tranship_instance* from = instance_of(engine, source.data(), order.layout);
  tranship_instance* to = instance_of(engine, by_region.data(), order.layout);
  const std::array<tranship_range, 2> box{{{"x", 1, 3}, {"y", 2, 4}}};
  tranship_copy_options options{};
  options.size = sizeof options;
  options.region = box.data();
  options.region_count = box.size();
  options.priority = 2;
  options.planner = "simple";
  copy_now(engine, from, to, &options);

  tranship_instance* whole = instance_of(engine, by_part.data(), order.layout);
  tranship_instance* from_part = nullptr;
  tranship_instance* to_part = nullptr;
  REQUIRE(tranship_instance_part(from, box.data(), 2, &from_part) == TRANSHIP_OK);
  REQUIRE(tranship_instance_part(whole, box.data(), 2, &to_part) == TRANSHIP_OK);
  copy_now(engine, from_part, to_part);
  for (int x = 0; x < 6; ++x) {
    for (int y = 0; y < 4; ++y) {
      const auto k = static_cast<std::size_t>(4 * x + y);
      const bool inside = x >= 1 && x < 3 && y >= 2;
      EXPECT_EQ(by_region[k].a, inside ? source[k].a : 0.0);
      EXPECT_EQ(by_part[k].b, inside ? source[k].b : 0);
    }
  }
  for (tranship_instance* one : {from, to, whole, from_part, to_part}) tranship_instance_free(one);
}

TEST(arrays_with_strides_match_by_position) {
  const Opened engine;
  std::vector<float> source(40);
  std::iota(source.begin(), source.end(), 0.0F);
  std::vector<float> target(20);
  const tranship_array every_second = {.data = source.data(),
                                       .type = "f4",
                                       .rank = 2,
                                       .order = TRANSHIP_C_ORDER,
                                       .extents = {4, 5},
                                       .strides = {40, 8},
                                       .lower = {7, 7}};
  const tranship_array dense = {.data = target.data(),
                                .type = "f4",
                                .rank = 2,
                                .order = TRANSHIP_FORTRAN_ORDER,
                                .extents = {4, 5},
                                .strides = {},
                                .lower = {}};
  tranship_instance* from = nullptr;
  tranship_instance* to = nullptr;
  REQUIRE(tranship_instance_of_array(engine.get(), &every_second, &from) == TRANSHIP_OK);
  REQUIRE(tranship_instance_of_array(engine.get(), &dense, &to) == TRANSHIP_OK);
  copy_now(engine, from, to);
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 5; ++j) {
      EXPECT_EQ(target[static_cast<std::size_t>(i + 4 * j)],
                source[static_cast<std::size_t>(10 * i + 2 * j)]);
    }
  }
  tranship_instance_free(from);
  tranship_instance_free(to);
}

TEST(files_take_their_name_when_they_are_closed) {
  const Opened engine;
  const Described by_point("F, y, x");
  const Described by_field("y, x, F");
  const std::string path = engine.path("field.bin");
  std::vector<Point> source = rows();
  std::vector<Point> found(points);
  tranship_instance* from = instance_of(engine, source.data(), by_point.layout);
  tranship_instance* to = instance_of(engine, found.data(), by_point.layout);
  tranship_file_options options{};
  options.size = sizeof options;
  options.mode = "w";
  options.offset = 4096;
  tranship_instance* file = nullptr;
  REQUIRE(tranship_file_open(engine.get(), path.c_str(), &by_field.layout, &options, &file) ==
          TRANSHIP_OK);
  EXPECT(tranship_instance_data(file) == nullptr);
  copy_now(engine, from, file);
  EXPECT(!std::filesystem::exists(path));
  EXPECT_EQ(tranship_file_flush(file), TRANSHIP_OK);
  EXPECT(std::filesystem::exists(path));
  EXPECT_EQ(tranship_file_close(file), TRANSHIP_OK);
  EXPECT_EQ(tranship_file_close(file), TRANSHIP_OK);
  tranship_instance_free(file);
  options.mode = "r";
  REQUIRE(tranship_file_open(engine.get(), path.c_str(), &by_field.layout, &options, &file) ==
          TRANSHIP_OK);
  copy_now(engine, file, to);
  EXPECT(std::memcmp(found.data(), source.data(), points * sizeof(Point)) == 0);
  tranship_event* event = nullptr;
  EXPECT_EQ(tranship_copy(engine.get(), from, file, nullptr, &event), TRANSHIP_INVALID_ARGUMENT);
  EXPECT(event == nullptr);
  EXPECT_EQ(tranship_file_flush(from), TRANSHIP_INVALID_ARGUMENT);
  tranship_instance* constant = nullptr;
  REQUIRE(tranship_instance_read_only(to, &constant) == TRANSHIP_OK);
  EXPECT_EQ(tranship_copy(engine.get(), from, constant, nullptr, &event),
            TRANSHIP_INVALID_ARGUMENT);
  tranship_instance_free(constant);
  tranship_instance_free(file);
  options.mode = "a";
  EXPECT_EQ(tranship_file_open(engine.get(), path.c_str(), &by_field.layout, &options, &file),
            TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(last(), "the mode is \"a\"|use \"r\", \"w\" or \"r+\"");
  options.mode = nullptr;
  const std::string nowhere = engine.path("nowhere.bin");
  EXPECT_EQ(tranship_file_open(engine.get(), nowhere.c_str(), &by_field.layout, &options, &file),
            TRANSHIP_NOT_FOUND);
  tranship_instance_free(from);
  tranship_instance_free(to);
}

TEST(several_copies_and_pages_end_together) {
  const Opened engine;
  constexpr std::size_t pages = 64;
  constexpr std::size_t page = 1000;
  std::vector<std::int64_t> source(pages * page);
  std::iota(source.begin(), source.end(), 0);
  std::vector<std::int64_t> target(pages * page, -1);
  std::vector<std::int64_t> second(pages * page, -1);
  const auto described = [&](std::vector<std::int64_t>& values) {
    const tranship_array array = {.data = values.data(),
                                  .type = "i8",
                                  .rank = 2,
                                  .order = 0,
                                  .extents = {pages, page},
                                  .strides = {},
                                  .lower = {}};
    tranship_instance* made = nullptr;
    REQUIRE(tranship_instance_of_array(engine.get(), &array, &made) == TRANSHIP_OK);
    return made;
  };
  const std::array<tranship_instance*, 3> ends{described(source), described(target),
                                               described(second)};
  const std::array<std::int64_t, 3> from{5, 63, 0};
  const std::array<std::int64_t, 3> to{0, 1, 62};
  const tranship_pages lists{from.data(), to.data(), 3};
  tranship_event* event = nullptr;
  REQUIRE(tranship_copy_pages(engine.get(), ends[0], ends[1], &lists, nullptr, &event) ==
          TRANSHIP_OK);
  tranship_event* after = nullptr;
  tranship_copy_options options{};
  options.size = sizeof options;
  options.after = &event;
  options.after_count = 1;
  const tranship_pair pair{ends[1], ends[2]};
  REQUIRE(tranship_copy_all(engine.get(), &pair, 1, &options, &after) == TRANSHIP_OK);
  EXPECT_EQ(tranship_event_wait(after, patience), TRANSHIP_OK);
  int ended = 0;
  EXPECT_EQ(tranship_event_test(event, &ended), TRANSHIP_OK);
  EXPECT_EQ(ended, 1);
  tranship_progress progress{};
  EXPECT_EQ(tranship_event_progress(after, &progress), TRANSHIP_OK);
  EXPECT(progress.bytes_done == std::ssize(second) * 8 && progress.seconds_left == 0);
  EXPECT_EQ(progress.bytes_total, progress.bytes_done);
  for (std::size_t k = 0; k < to.size(); ++k) {
    const auto at = static_cast<std::size_t>(to[k]) * page;
    EXPECT_EQ(target[at], from[k] * 1000);
    EXPECT_EQ(target[at + page - 1], from[k] * 1000 + 999);
  }
  EXPECT_EQ(target[2 * page], -1);
  EXPECT(second == target);
  tranship_event_free(event);
  tranship_event_free(after);
  const std::array<std::int64_t, 1> beyond{64};
  const tranship_pages wrong{beyond.data(), beyond.data(), 1};
  EXPECT_EQ(tranship_copy_pages(engine.get(), ends[0], ends[1], &wrong, nullptr, &event),
            TRANSHIP_OUT_OF_RANGE);
  const std::array<std::int64_t, 2> offsets{8, 0};
  const std::array<std::int64_t, 2> lengths{8, 4};
  tranship_pieces pieces{offsets.data(), offsets.data(), lengths.data(), 2};
  REQUIRE(tranship_copy_pieces(engine.get(), ends[0], ends[1], &pieces, nullptr, &event) ==
          TRANSHIP_OK);
  EXPECT_EQ(tranship_event_wait(event, patience), TRANSHIP_OK);
  tranship_event_free(event);
  pieces.lengths = nullptr;
  EXPECT_EQ(tranship_copy_pieces(engine.get(), ends[0], ends[1], &pieces, nullptr, &event),
            TRANSHIP_INVALID_ARGUMENT);
  const std::array<std::int64_t, 2> too_long{8, std::int64_t{1} << 40};
  pieces.lengths = too_long.data();
  EXPECT_EQ(tranship_copy_pieces(engine.get(), ends[0], ends[1], &pieces, nullptr, &event),
            TRANSHIP_OUT_OF_RANGE);
  for (tranship_instance* one : ends) tranship_instance_free(one);
}

TEST(prepared_copies_start_again_and_between_other_instances) {
  const Opened engine;
  const Described by_point("F, y, x");
  const Described by_field("y, x, F");
  std::vector<Point> source = rows();
  std::vector<Point> target(points);
  std::vector<Point> second(points);
  tranship_instance* from = instance_of(engine, source.data(), by_point.layout);
  tranship_instance* to = instance_of(engine, target.data(), by_point.layout);
  tranship_instance* other = instance_of(engine, second.data(), by_point.layout);
  tranship_instance* turned = instance_of(engine, second.data(), by_field.layout);
  const tranship_pair pair{from, to};
  const std::array<std::int64_t, 2> pages{0, 1};
  const tranship_pages lists{pages.data(), pages.data(), 2};
  std::array<tranship_prepared*, 3> prepared{};
  REQUIRE(tranship_prepare(engine.get(), from, to, nullptr, &prepared[0]) == TRANSHIP_OK);
  REQUIRE(tranship_prepare_all(engine.get(), &pair, 1, nullptr, &prepared[1]) == TRANSHIP_OK);
  REQUIRE(tranship_prepare_pages(engine.get(), from, to, &lists, nullptr, &prepared[2]) ==
          TRANSHIP_OK);
  tranship_event* event = nullptr;
  for (tranship_prepared* copy : prepared) {
    target.assign(points, Point{});
    REQUIRE(tranship_start(copy, nullptr, &event) == TRANSHIP_OK);
    EXPECT_EQ(tranship_event_wait(event, patience), TRANSHIP_OK);
    EXPECT(std::memcmp(&target[0], &source[0], sizeof(Point)) == 0);
    tranship_event_free(event);
  }
  tranship_start_options options{};
  options.size = sizeof options;
  options.target = other;
  REQUIRE(tranship_start(prepared[0], &options, &event) == TRANSHIP_OK);
  EXPECT_EQ(tranship_event_wait(event, patience), TRANSHIP_OK);
  EXPECT(std::memcmp(second.data(), source.data(), points * sizeof(Point)) == 0);
  tranship_event_free(event);
  options.target = turned;
  EXPECT_EQ(tranship_start(prepared[0], &options, &event), TRANSHIP_INVALID_ARGUMENT);
  EXPECT(event == nullptr);
  EXPECT_EQ(tranship_start(prepared[1], &options, &event), TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(tranship_start(nullptr, nullptr, &event), TRANSHIP_INVALID_ARGUMENT);
  tranship_copy_options with_stream{};
  with_stream.size = sizeof with_stream;
  with_stream.has_stream = 1;
  tranship_prepared* refused = nullptr;
  EXPECT_EQ(tranship_prepare(engine.get(), from, to, &with_stream, &refused),
            TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(tranship_engine_close(engine.get()), TRANSHIP_OK);
  EXPECT_EQ(tranship_start(prepared[0], nullptr, &event), TRANSHIP_CLOSED);
  for (tranship_prepared* copy : prepared) tranship_prepared_free(copy);
  for (tranship_instance* one : {from, to, other, turned}) tranship_instance_free(one);
}

TEST(plans_explain_themselves) {
  const Opened engine;
  const Described by_point("F, y, x");
  const Described by_field("y, x, F");
  std::vector<Point> source = rows();
  std::vector<Point> target(points);
  tranship_instance* from = instance_of(engine, source.data(), by_point.layout);
  tranship_instance* to = instance_of(engine, target.data(), by_field.layout);
  tranship_plan* plan = nullptr;
  REQUIRE(tranship_plan_copy(engine.get(), from, to, nullptr, &plan) == TRANSHIP_OK);
  EXPECT(std::strstr(tranship_plan_text(plan), "node0/host0") != nullptr);
  EXPECT(std::strstr(tranship_plan_json(plan), "\"hops\"") != nullptr);
  EXPECT(tranship_plan_seconds(plan) > 0);
  tranship_plan_free(plan);
  tranship_event* event = nullptr;
  REQUIRE(tranship_copy(engine.get(), from, to, nullptr, &event) == TRANSHIP_OK);
  REQUIRE(tranship_event_plan(event, &plan) == TRANSHIP_OK);
  EXPECT(std::strstr(tranship_plan_text(plan), "node0/host0") != nullptr);
  tranship_plan_free(plan);
  tranship_event_free(event);
  tranship_copy_options options{};
  options.size = sizeof options;
  options.planner = "fastest";
  EXPECT_EQ(tranship_plan_copy(engine.get(), from, to, &options, &plan), TRANSHIP_INVALID_ARGUMENT);
  EXPECT(plan == nullptr);
  EXPECT_EQ(std::string(tranship_plan_text(nullptr)), "");
  tranship_instance_free(from);
  tranship_instance_free(to);
}

TEST(a_peer_reads_and_writes_what_is_exported) {
  const Opened here(true);
  const Opened there;
  const Described by_point("F, y, x");
  const Described by_field("y, x, F");
  tranship_instance* shared = nullptr;
  REQUIRE(tranship_instance_allocate(here.get(), &by_point.layout, nullptr, &shared) ==
          TRANSHIP_OK);
  auto* values = static_cast<Point*>(tranship_instance_data(shared));
  const std::vector<Point> first = rows();
  std::copy(first.begin(), first.end(), values);
  REQUIRE(tranship_export(here.get(), "field", shared) == TRANSHIP_OK);
  const char* contact = nullptr;
  REQUIRE(tranship_engine_contact(here.get(), &contact) == TRANSHIP_OK);
  tranship_peer* peer = nullptr;
  REQUIRE(tranship_connect(there.get(), contact, patience, &peer) == TRANSHIP_OK);
  tranship_names* names = nullptr;
  REQUIRE(tranship_peer_names(peer, patience, &names) == TRANSHIP_OK);
  EXPECT_EQ(tranship_names_size(names), 1);
  EXPECT_EQ(std::string(tranship_names_entry(names, 0)), "field");
  EXPECT(tranship_names_entry(names, 1) == nullptr);
  tranship_names_free(names);
  tranship_instance* remote = nullptr;
  REQUIRE(tranship_peer_lookup(peer, "field", patience, &remote) == TRANSHIP_OK);
  std::vector<std::byte> got(points * sizeof(Point));
  tranship_instance* to = instance_of(there, got.data(), by_field.layout);
  copy_now(there, remote, to);
  std::array<double, points> a{};
  std::memcpy(a.data(), got.data(), sizeof a);
  for (std::size_t k = 0; k < points; ++k) EXPECT_EQ(a[k], first[k].a);
  std::fill(got.begin(), got.end(), std::byte{0});
  copy_now(there, to, remote);
  EXPECT_EQ(values[3].b, 0);
  tranship_instance* none = nullptr;
  EXPECT_EQ(tranship_peer_lookup(peer, "other", patience, &none), TRANSHIP_NOT_FOUND);
  EXPECT_EQ(tranship_withdraw(here.get(), "field"), TRANSHIP_OK);
  EXPECT_EQ(tranship_withdraw(here.get(), "field"), TRANSHIP_NOT_FOUND);
  for (tranship_instance* one : {shared, remote, to}) tranship_instance_free(one);
  tranship_peer_free(peer);
}

TEST(threads_share_an_engine_and_its_instances) {
  const Opened engine;
  std::vector<double> source(300'000);
  std::iota(source.begin(), source.end(), 0.0);
  const tranship_array array = {.data = source.data(),
                                .type = "f8",
                                .rank = 1,
                                .order = 0,
                                .extents = {300'000},
                                .strides = {},
                                .lower = {}};
  tranship_instance* from = nullptr;
  REQUIRE(tranship_instance_of_array(engine.get(), &array, &from) == TRANSHIP_OK);
  std::array<int, 4> good{};
  std::vector<std::thread> threads;
  for (int& mine : good) {
    threads.emplace_back([&] {
      for (int repeat = 0; repeat < 5; ++repeat) {
        std::vector<double> target(source.size());
        tranship_array own = array;
        own.data = target.data();
        tranship_instance* to = nullptr;
        tranship_event* event = nullptr;
        const bool ended = tranship_instance_of_array(engine.get(), &own, &to) == TRANSHIP_OK &&
                           tranship_copy(engine.get(), from, to, nullptr, &event) == TRANSHIP_OK &&
                           tranship_event_wait(event, patience) == TRANSHIP_OK;
        if (ended && target == source) ++mine;
        tranship_event_free(event);
        tranship_instance_free(to);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int copies : good) EXPECT_EQ(copies, 5);
  tranship_instance_free(from);
}

TEST(what_cannot_be_used_is_refused) {
  const Opened engine;
  Described faulty("F, y");
  tranship_instance* made = nullptr;
  std::vector<Point> memory(points);
  EXPECT_EQ(tranship_instance_of_memory(engine.get(), memory.data(), 288, &faulty.layout, &made),
            TRANSHIP_INVALID_ARGUMENT);
  faulty.layout.order = "F, y, x";
  EXPECT_EQ(tranship_instance_of_memory(engine.get(), memory.data(), 287, &faulty.layout, &made),
            TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(last(),
            "the memory has 287 bytes, and the layout \"F, y, x\" needs 288|"
            "give more memory or smaller extents");
  faulty.layout.field_count = 0;
  EXPECT_EQ(tranship_instance_of_memory(engine.get(), memory.data(), 288, &faulty.layout, &made),
            TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(last(), "the layout's field_count is 0|give at least one field");
  faulty.layout.field_count = 2;
  EXPECT_EQ(tranship_instance_allocate(engine.get(), &faulty.layout, "tape", &made),
            TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(tranship_instance_allocate(engine.get(), &faulty.layout, "pinned", &made),
            TRANSHIP_UNSUPPORTED);
  EXPECT(made == nullptr);

  tranship_instance* good = instance_of(engine, memory.data(), faulty.layout);
  tranship_event* event = nullptr;
  EXPECT_EQ(tranship_copy(engine.get(), good, good, nullptr, &event), TRANSHIP_INVALID_ARGUMENT);
  tranship_copy_options options{};
  EXPECT_EQ(tranship_copy(engine.get(), good, good, &options, &event), TRANSHIP_INVALID_ARGUMENT);
  EXPECT(last().find("the size of `options` is 0 bytes") == 0);
  const tranship_range unknown{"z", 0, 1};
  EXPECT_EQ(tranship_instance_part(good, &unknown, 1, &made), TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(last(), "the region names dimension \"z\"|the array's dimensions are x, y");
  const tranship_range outside{"x", 0, 7};
  EXPECT_EQ(tranship_instance_part(good, &outside, 1, &made), TRANSHIP_OUT_OF_RANGE);
  options.size = sizeof options;
  options.region = &outside;
  options.region_count = -1;
  EXPECT_EQ(tranship_copy(engine.get(), good, good, &options, &event), TRANSHIP_INVALID_ARGUMENT);
  EXPECT(last().find("the number of ranges") != std::string::npos);
  options.region_count = 0;
  options.buffer_bytes = -1;
  EXPECT_EQ(tranship_copy(engine.get(), good, good, &options, &event), TRANSHIP_INVALID_ARGUMENT);
  EXPECT(last().find("buffer_bytes=-1 is negative") == 0);
  tranship_instance_free(good);

  tranship_engine* none = nullptr;
  const tranship_setting setting{"speed", "high"};
  tranship_engine_options wrong{};
  wrong.size = sizeof wrong;
  wrong.settings = &setting;
  wrong.setting_count = 1;
  EXPECT_EQ(tranship_engine_open(&wrong, &none), TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(last(), "there is no setting \"speed\"|`tranship config` lists the settings");
  wrong.setting_count = 0;
  wrong.profile = "/nowhere/profile.json";
  EXPECT_EQ(tranship_engine_open(&wrong, &none), TRANSHIP_NOT_FOUND);
  EXPECT(none == nullptr);
}

TEST(memory_of_gpus_is_one_end_like_any_other) {
  const std::array<tranship_setting, 2> settings{{{"gpus", "1"}, {"emulated_gpus", "1"}}};
  const std::string profile = profile_file();
  tranship_engine_options options{};
  options.size = sizeof options;
  options.settings = settings.data();
  options.setting_count = settings.size();
  options.profile = profile.c_str();
  tranship_engine* engine = nullptr;
  REQUIRE(tranship_engine_open(&options, &engine) == TRANSHIP_OK);
  const Described by_point("F, y, x");
  const Described by_field("y, x, F");
  std::vector<Point> source = rows();
  std::vector<Point> found(points);
  std::array<tranship_instance*, 4> ends{};
  const auto bytes = static_cast<std::int64_t>(points * sizeof(Point));
  REQUIRE(tranship_instance_of_memory(engine, source.data(), bytes, &by_point.layout,
                                      ends.data()) == TRANSHIP_OK);
  REQUIRE(tranship_instance_allocate(engine, &by_field.layout, "device0", &ends[1]) == TRANSHIP_OK);
  REQUIRE(tranship_instance_allocate(engine, &by_field.layout, "pinned", &ends[2]) == TRANSHIP_OK);
  REQUIRE(tranship_instance_of_memory(engine, found.data(), bytes, &by_point.layout, &ends[3]) ==
          TRANSHIP_OK);
  for (std::size_t k = 0; k + 1 < ends.size(); ++k) {
    tranship_event* event = nullptr;
    REQUIRE(tranship_copy(engine, ends[k], ends[k + 1], nullptr, &event) == TRANSHIP_OK);
    EXPECT_EQ(tranship_event_wait(event, patience), TRANSHIP_OK);
    tranship_event_free(event);
  }
  EXPECT(std::memcmp(found.data(), source.data(), points * sizeof(Point)) == 0);
  const auto* on_gpu = static_cast<const std::byte*>(tranship_instance_data(ends[1]));
  EXPECT_EQ(tranship_engine_gpu_of(engine, on_gpu), 0);
  EXPECT_EQ(tranship_engine_gpu_of(engine, on_gpu + bytes - 1), 0);
  EXPECT_EQ(tranship_engine_gpu_of(engine, tranship_instance_data(ends[2])), -1);
  EXPECT_EQ(tranship_engine_gpu_of(engine, found.data()), -1);
  EXPECT_EQ(tranship_engine_gpu_of(engine, nullptr), -1);
  EXPECT_EQ(tranship_engine_gpu_of(nullptr, on_gpu), -1);
  tranship_instance* none = nullptr;
  EXPECT_EQ(tranship_instance_allocate(engine, &by_field.layout, "device7", &none),
            TRANSHIP_INVALID_ARGUMENT);
  for (tranship_instance* one : ends) tranship_instance_free(one);
  EXPECT_EQ(tranship_engine_close(engine), TRANSHIP_OK);
}

TEST(a_fork_refuses_every_call_and_frees_nothing) {
  const Opened engine;
  std::vector<double> values(1000);
  const tranship_array array = {.data = values.data(),
                                .type = "f8",
                                .rank = 1,
                                .order = 0,
                                .extents = {1000},
                                .strides = {},
                                .lower = {}};
  tranship_instance* instance = nullptr;
  REQUIRE(tranship_instance_of_array(engine.get(), &array, &instance) == TRANSHIP_OK);
  const pid_t child = fork();
  if (child == 0) {
    tranship_event* event = nullptr;
    const bool refused =
        tranship_copy(engine.get(), instance, instance, nullptr, &event) == TRANSHIP_CLOSED &&
        last() ==
            "this process was forked after the engine was opened|open an engine in this process";
    tranship_instance_free(instance);
    _exit(refused && tranship_engine_close(engine.get()) == TRANSHIP_OK ? 0 : 1);
  }
  int status = 1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  tranship_instance_free(instance);
}

TEST(null_handles_are_refused_and_freed) {
  int ended = 0;
  EXPECT_EQ(tranship_copy(nullptr, nullptr, nullptr, nullptr, nullptr), TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(tranship_event_test(nullptr, &ended), TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(tranship_event_progress(nullptr, nullptr), TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(tranship_event_wait(nullptr, 1), TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(tranship_layout_bytes(nullptr, nullptr), TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(tranship_connect(nullptr, "x", 1, nullptr), TRANSHIP_INVALID_ARGUMENT);
  EXPECT_EQ(tranship_engine_close(nullptr), TRANSHIP_OK);
  EXPECT(tranship_instance_data(nullptr) == nullptr);
  EXPECT_EQ(tranship_instance_bytes(nullptr), 0);
  EXPECT_EQ(tranship_names_size(nullptr), 0);
  tranship_instance_free(nullptr);
  tranship_event_free(nullptr);
  tranship_plan_free(nullptr);
  tranship_names_free(nullptr);
  tranship_peer_free(nullptr);
}

TEST(a_closed_engine_answers_every_call_with_closed) {
  std::vector<double> values(8);
  const tranship_array array = {.data = values.data(),
                                .type = "f8",
                                .rank = 1,
                                .order = 0,
                                .extents = {8},
                                .strides = {},
                                .lower = {}};
  tranship_instance* left = nullptr;
  tranship_engine* engine = nullptr;
  {
    const Opened opened;
    engine = opened.get();
    REQUIRE(tranship_instance_of_array(engine, &array, &left) == TRANSHIP_OK);
  }
  tranship_event* event = nullptr;
  EXPECT_EQ(tranship_copy(engine, left, left, nullptr, &event), TRANSHIP_CLOSED);
  EXPECT_EQ(last(), "this engine was closed|open another one");
  EXPECT_EQ(tranship_export(engine, "x", left), TRANSHIP_CLOSED);
  EXPECT_EQ(tranship_engine_close(engine), TRANSHIP_OK);
  EXPECT_EQ(tranship_instance_bytes(left), 64);
  tranship_instance_free(left);
}
