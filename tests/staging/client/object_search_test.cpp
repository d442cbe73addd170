// How many round trips in sequence gets and searches wait for, what becomes of the leases that they
// do not need, and what a search says of objects that servers withhold.
#include "staging/client/object_search.hpp"

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "staging/client/distant_group.hpp"
#include "staging/client/scripted_servers.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

constexpr std::int64_t cell = DistantGroup::cell;
const std::vector<int> group_sizes{1, 2, 5};

Box cells(std::int64_t first, std::int64_t count) {
  return *Box::make({first * cell}, {(first + count) * cell});
}

/// Puts a box by a copy, and returns its primary.
int put(Catalog& catalog, std::int64_t version, const Box& box) {
  auto room = catalog.begin({"energy", version, box, "f8", 8, {}}, DistantGroup::end_ns);
  REQUIRE(room.ok());
  REQUIRE(catalog.commit(*room).ok());
  return room->primary;
}

/// A writer and a reader that both know the variable, whose cell 0 has version 0.
struct SearchWorld {
  DistantGroup group;
  DistantLinks writer_servers{group, 1};
  DistantLinks reader_servers{group, 2};
  Catalog writer{writer_servers};
  Catalog reader{reader_servers};

  explicit SearchWorld(int servers, std::int64_t memory_bytes = 1 << 24)
      : group(servers, memory_bytes) {
    put(writer, 0, cells(0, 1));
    (void)get({"energy", VersionChoice::exact, 0, cells(0, 1), {}});
  }
  /// Returns the round trips of a get, which fails if an error is expected.
  std::int64_t get(const GetRequest& request, std::optional<ErrorCode> expected = {}) {
    return group.trips_of([&] {
      ReplyBuffer reply;
      const auto held = reader.get(request, reply, group.now_ns + DistantGroup::end_ns);
      EXPECT_EQ(held.ok(), !expected);
      if (!held) EXPECT(expected == held.error().code);
      if (held) reader.release(*held);
    });
  }
  std::int64_t get(std::int64_t version, const Box& box) {
    return get({"energy", VersionChoice::exact, version, box, {}});
  }
};

std::int64_t count_of(const std::vector<std::string>& kinds, const std::string& kind) {
  return std::count(kinds.begin(), kinds.end(), kind);
}

}  // namespace

TEST(a_get_of_a_known_variable_waits_for_one_round_trip_to_its_index_servers) {
  for (const int servers : group_sizes) {
    SearchWorld world(servers);
    for (std::int64_t k = 0; k < 10; ++k) put(world.writer, 1, cells(k, 1));
    for (std::int64_t count = 1; count <= 10; ++count) {
      EXPECT_EQ(world.get(1, cells(0, count)), 1);
    }
    DistantLinks there(world.group, 3);
    Catalog stranger(there);
    const std::int64_t first = world.group.trips_of([&] {
      ReplyBuffer reply;
      const GetRequest request{"energy", VersionChoice::exact, 1, cells(0, 10), {}};
      const auto held = stranger.get(request, reply, DistantGroup::end_ns);
      REQUIRE(held.ok());
      stranger.release(*held);
    });
    EXPECT_EQ(first, servers > 1 ? 2 : 1);  // which asks for the variable
    EXPECT_EQ(count_of(there.told, "release"), servers);
    EXPECT(!world.group.busy());
  }
}

TEST(a_get_of_what_other_servers_hold_waits_for_a_second_round_trip) {
  for (const int servers : group_sizes) {
    SearchWorld world(servers);
    put(world.writer, 1, cells(0, servers));  // all index it, and one holds it
    EXPECT_EQ(world.get(1, cells(0, servers)), 1);
    std::int64_t two = 0;
    for (std::int64_t k = 0; k < servers; ++k) two += world.get(1, cells(k, 1)) == 2 ? 1 : 0;
    EXPECT_EQ(two, servers - 1);
    for (std::int64_t k = 0; k < servers; ++k) put(world.writer, 2, cells(k * servers, servers));
    EXPECT_EQ(world.get(2, cells(0, servers * servers)), 1);
    const std::int64_t all = world.get(2, *Box::make({1}, {servers * servers * cell - 1}));
    EXPECT_EQ(all, 1);
    EXPECT(!world.group.busy());
  }
}

TEST(a_get_of_what_lies_on_overflow_servers_waits_for_two_round_trips) {
  for (const int servers : {2, 5}) {
    SearchWorld world(servers, 4 * DistantGroup::cell_bytes);
    // The servers of cells 0 and 1 are filled, and help each other.
    std::set<int> primaries;
    std::int64_t most = 0;
    for (std::int64_t version = 1; version < 7; ++version) {
      primaries.insert(put(world.writer, version, cells(0, 1)));
      most = std::max(most, world.get(version, cells(0, 1)));
    }
    EXPECT(primaries.size() > 1U);
    EXPECT_EQ(most, 2);
    EXPECT(!world.group.busy());
  }
}

TEST(a_get_of_several_boxes_on_several_overflow_servers_waits_for_two_round_trips) {
  SearchWorld world(5, 8 * DistantGroup::cell_bytes);
  std::set<int> primaries;
  for (std::int64_t version = 1; version <= 7; ++version) {
    for (std::int64_t k = 0; k < 5; ++k) {
      primaries.insert(put(world.writer, version, cells(0, k % 2 == 0 ? 2 : 1)));
      put(world.writer, version, *Box::make({k}, {k + 1}));
    }
    EXPECT(world.get(version, cells(0, 1)) <= 2);
    EXPECT(world.get(version, cells(0, 2)) <= 2);
  }
  EXPECT(primaries.size() > 1U);
}

TEST(objects_that_fit_no_message_cost_one_more_round_trip) {
  for (const int servers : group_sizes) {
    SearchWorld world(servers);
    constexpr std::int64_t count = 900;  // some 250 fit into a message
    for (std::int64_t k = 0; k < count; ++k) put(world.writer, 1, *Box::make({k}, {k + 1}));
    world.reader_servers.asked.clear();
    EXPECT_EQ(world.get(1, *Box::make({0}, {count})), 2);
    EXPECT_EQ(count_of(world.reader_servers.asked, "more"), 3);
  }
}

TEST(versions_that_a_get_passes_by_cost_the_same_with_any_number_of_servers) {
  for (const int servers : {2, 5}) {
    SearchWorld world(servers);
    put(world.writer, 1, cells(0, 1));
    for (std::int64_t k = 1; k < servers; ++k) put(world.writer, 1, cells(k, 1));
    for (std::int64_t version = 2; version < 5; ++version) put(world.writer, version, cells(0, 1));
    // Of each, one server names it, and the others are asked whether they have something of it.
    const GetRequest latest{"energy", VersionChoice::latest, 9, cells(0, servers), {}};
    EXPECT_EQ(world.get(latest), 3 * 2 + 1);
    EXPECT(!world.group.busy());
  }
}

TEST(gaps_that_a_get_passes_by_cost_the_same_with_any_number_of_servers) {
  for (const int servers : {2, 5}) {
    SearchWorld world(servers);
    for (std::int64_t version = 1; version < 4; ++version) put(world.writer, version, cells(0, 1));
    for (std::int64_t k = 0; k < servers; ++k) put(world.writer, 4, cells(k, 1));
    for (int k = 0; k < servers; ++k) world.group.service(k).gone(1, true);
    // Each search asks all servers, and then those that name version 4. The first ones find out
    // that no more will come.
    const GetRequest next{"energy", VersionChoice::next, 0, cells(0, servers), {}};
    EXPECT_EQ(world.get(next), 2 + (3 * 2 + 1) + 2);
    EXPECT(!world.group.busy());
  }
}

TEST(a_get_that_has_waited_returns_one_round_trip_after_the_notice) {
  for (const int servers : group_sizes) {
    SearchWorld world(servers);
    for (std::int64_t k = 1; k < 10; ++k) put(world.writer, 1, cells(k, 1));
    std::int64_t noticed = 0;
    world.reader_servers.while_waiting = [&] {
      put(world.writer, 1, cells(0, 1));
      noticed = world.group.now_ns;
    };
    (void)world.get(1, cells(0, 10));
    EXPECT_EQ(world.group.now_ns - noticed, DistantGroup::round_trip_ns);
  }
}

TEST(a_get_whose_producers_end_during_its_search_searches_once_more) {
  for (const int servers : {2, 5}) {
    SearchWorld world(servers);
    for (std::int64_t k = 1; k < servers; ++k) put(world.writer, 1, cells(k, 1));
    world.reader_servers.while_waiting = [&] {
      for (int k = 0; k < servers; ++k) world.group.service(k).gone(1, true);
    };
    const GetRequest request{"energy", VersionChoice::exact, 1, cells(0, servers), {}};
    // One search, one that asks for notices, one that learns of the end, and one after it.
    EXPECT_EQ(world.get(request, ErrorCode::closed), 4);
  }
}

TEST(leases_that_servers_grant_beside_one_that_fails_are_given_back) {
  SearchWorld world(5);
  for (std::int64_t k = 0; k < 10; ++k) put(world.writer, 1, cells(k, 1));
  const GetRequest request{"energy", VersionChoice::exact, 1, cells(0, 10), {}};
  for (int server = 0; server < 5; ++server) {
    world.group.lost = {server};
    EXPECT_EQ(world.get(request, ErrorCode::peer_lost), 1);
    EXPECT(!world.group.busy());
    world.group.lost = {};
    world.group.late = {server};
    EXPECT_EQ(world.get(request, ErrorCode::timeout), 1);
    EXPECT(!world.group.busy());
    world.group.late = {};
  }
  EXPECT_EQ(count_of(world.reader_servers.told, "undo"), (0 + 1 + 2 + 3 + 4) * 2 + 5);
}

TEST(calls_about_whole_variables_ask_all_servers_at_once) {
  for (const int servers : {2, 5}) {
    SearchWorld world(servers);
    for (std::int64_t k = 0; k < servers; ++k) put(world.writer, 1, cells(k, 1));
    put(world.writer, 2, cells(0, 1));
    auto& group = world.group;
    const std::int64_t end_ns = DistantGroup::end_ns;
    EXPECT_EQ(group.trips_of([&] { EXPECT(world.reader.status().ok()); }), 1);
    EXPECT_EQ(group.trips_of([&] { EXPECT(world.reader.list().ok()); }), 2);
    EXPECT_EQ(group.trips_of([&] { EXPECT(world.reader.describe("energy", true, end_ns).ok()); }),
              2);
    EXPECT_EQ(group.trips_of([&] { EXPECT(world.reader.boxes_of("energy", 1, end_ns).ok()); }), 3);
    const VersionQuery query{"energy", VersionChoice::exact, 1};
    EXPECT_EQ(group.trips_of([&] { EXPECT(world.reader.find_version(query, end_ns).ok()); }), 3);
    // The second trip tells those that have nothing of the version.
    EXPECT_EQ(group.trips_of([&] { EXPECT(world.reader.discard("energy", 1).ok()); }), 1);
    EXPECT_EQ(group.trips_of([&] { EXPECT(world.reader.discard("energy", 2).ok()); }), 2);
    EXPECT_EQ(group.trips_of([&] { EXPECT(world.reader.remove("energy").ok()); }), 2);
  }
}

namespace {

const Box box_searched = *Box::make({0}, {4});
constexpr std::uint64_t the_step = 9;

/// Returns what an index server says of an object of server 1, whose order it does not know.
protocol::Objects named_by_index(std::uint64_t its_step) {
  protocol::Objects objects{{1, "i8", 8, 3, {}, its_step}, 0};
  objects.found.objects.push_back({1, 50, box_searched, 0, {}, 0, {}});
  return objects;
}

SearchOutcome search(VersionChoice choice, std::deque<std::vector<std::byte>> answers) {
  ScriptedServers servers(2);
  servers.answers = std::move(answers);
  RequestSender requester(servers);
  ObjectSearch objects(requester);
  ReplyBuffer reply;
  const auto outcome = objects.on_all({"v", choice, 1, box_searched, {}}, {0}, false, reply);
  REQUIRE(outcome.ok());
  return *outcome;
}

}  // namespace

TEST(a_search_names_the_step_of_an_object_that_its_primary_alone_withholds) {
  LeasedObject withheld;
  withheld.state = LeasedObject::State::begun;
  withheld.step = the_step;
  const auto outcome = search(VersionChoice::exact,
                              replies_of(named_by_index(0), protocol::LeaseGranted{4, {withheld}}));
  REQUIRE(std::holds_alternative<Waiting>(outcome));
  EXPECT_EQ(std::get<Waiting>(outcome).step, the_step);
}

TEST(a_search_names_a_step_that_could_change_what_it_found) {
  LeasedObject here{LeasedObject::State::here, 2, {0, 0, 32}, {}, 0};
  for (const VersionChoice choice : {VersionChoice::exact, VersionChoice::latest}) {
    const auto outcome =
        search(choice, replies_of(named_by_index(the_step), protocol::LeaseGranted{4, {here}}));
    REQUIRE(std::holds_alternative<LeasedBox>(outcome));
    EXPECT_EQ(std::get<LeasedBox>(outcome).step, the_step);
  }
  const auto none =
      search(VersionChoice::next, replies_of(protocol::Wait{.why = "", .step = the_step}));
  REQUIRE(std::holds_alternative<Waiting>(none));
  EXPECT_EQ(std::get<Waiting>(none).step, the_step);
}
