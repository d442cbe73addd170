// What puts and gets leave on servers that reply late, and on overflow servers.
#include <set>
#include <vector>

#include "sim/staging_world.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;
using tranship::test::SimulatedServers;
using tranship::test::StagingWorld;

namespace {

constexpr std::uint64_t seeds = test::seed_count(1000);
constexpr std::int64_t patience_ns = 1'000'000'000;

Box box_of(std::int64_t lower, std::int64_t extent) {
  return *Box::make({lower}, {lower + extent});
}

PutRequest put_of(std::int64_t version, const Box& box) {
  return {"energy", version, box, "i8", 8};
}

Result<int> put(Catalog& catalog, const PutRequest& request, std::int64_t end_ns) {
  auto room = catalog.begin(request, end_ns);
  if (!room) return room.error();
  if (Status status = catalog.commit(*room); !status) return status.error();
  return room->primary;
}

Result<std::int64_t> get(Catalog& catalog, const GetRequest& request, std::int64_t end_ns) {
  ReplyBuffer reply;
  const auto held = catalog.get(request, reply, end_ns);
  if (!held) return held.error();
  catalog.release(*held);
  return held->version;
}

/// Returns whether the server lists objects of other servers.
bool knows_of_others(SimulatedServers& servers, int server, std::int64_t version, const Box& box) {
  const protocol::QueryVersion request{{"energy", VersionChoice::exact, version, box, {}}};
  ReplyBuffer reply;
  auto answer = ask(servers, server, request, reply);
  while (!answer && answer.error().code == ErrorCode::timeout) {
    answer = ask(servers, server, request, reply);
  }
  return answer && std::holds_alternative<protocol::NeedsOtherServers>(*answer);
}

std::int64_t memory_used(const StagingWorld& world) {
  std::int64_t bytes = 0;
  for (int k = 0; k < world.servers(); ++k) bytes += world.service(k).memory_bytes_used();
  return bytes;
}

}  // namespace

TEST(questions_that_are_answered_too_late_take_nothing) {
  std::int64_t late = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    StagingWorld::Options options;
    options.seed = seed;
    options.servers = static_cast<int>(1 + seed % 3);
    options.memory_bytes = seed % 2 == 0 ? 16384 : 1 << 20;
    options.cell_bytes = 64;
    options.late = 0.2;
    StagingWorld world(options);
    const auto script = [&](StagingWorld& w, int client, SimulatedServers& servers) {
      Catalog catalog(servers);
      for (std::int64_t version = 0; version < 10; ++version) {
        const Box box = box_of(w.random().below(40), w.random().between(1, 200));
        const std::int64_t end_ns = w.now_ns() + (version % 2 == 0 ? 0 : patience_ns);
        auto room = catalog.begin(put_of(version, box), end_ns);
        if (room) (void)catalog.commit(*room);
        (void)get(catalog, {"energy", VersionChoice::exact, version, box}, w.now_ns());
        late += !room && room.error().code == ErrorCode::timeout ? 1 : 0;
        w.answer_late();
        for (int k = 0; k < w.servers(); ++k) {
          EXPECT(!w.service(k).busy());
          EXPECT(room.ok() || !knows_of_others(servers, k, version, box));
        }
      }
      w.close(client);
    };
    REQUIRE(world.run({script}, 200'000));
  }
  EXPECT(late > static_cast<std::int64_t>(seeds));
}

TEST(who_helped_out_hears_that_a_version_was_discarded) {
  constexpr std::int64_t count = 20;
  StagingWorld::Options options;
  options.servers = 3;
  options.memory_bytes = 8192;
  options.versions_max = 2;
  StagingWorld world(options);
  const Box box = box_of(0, 1000);  // each server has memory for one such object
  std::int64_t next = 0;
  std::set<int> primaries;
  // Each version comes from a client of its own, which has no connection to the overflow server
  // yet.
  const auto put_one = [&](StagingWorld& w, int client, SimulatedServers& servers) {
    while (next < client && w.step(client)) continue;
    Catalog catalog(servers);
    const auto primary = put(catalog, put_of(next, box), w.now_ns() + patience_ns);
    EXPECT(primary.ok());
    if (primary) primaries.insert(*primary);
    EXPECT(memory_used(w) <= 2 * 8192);
    ++next;
    w.close(client);
  };
  const auto check = [&](StagingWorld& w, int client, SimulatedServers& servers) {
    while (next < count && w.step(client)) continue;
    Catalog catalog(servers);
    for (std::int64_t version = 0; version < count; ++version) {
      const auto got = get(catalog, {"energy", VersionChoice::exact, version, box}, w.now_ns());
      EXPECT_EQ(got.ok(), version >= count - 2);
    }
    // A put that carries its data names orphans, too.
    const auto nothing = [](std::byte*) { return Status{}; };
    std::int64_t version = count;
    while (!*catalog.put(put_of(version, box_of(0, 8)), 64, nothing, w.now_ns())) {
      REQUIRE(put(catalog, put_of(version++, box), w.now_ns() + patience_ns).ok());
    }
    EXPECT(memory_used(w) < 2 * 8192);
    w.close(client);
  };
  std::vector<StagingWorld::Script> scripts(count, put_one);
  scripts.emplace_back(check);
  REQUIRE(world.run(scripts, 100'000));
  EXPECT_EQ(primaries.size(), 3U);
}
