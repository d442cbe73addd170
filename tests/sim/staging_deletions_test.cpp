// Clients delete a variable while others put to it and get it: deleted objects do not come back,
// objects that were put afterwards are there, and nothing is left behind.
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "sim/staging_world.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;
using tranship::test::SimulatedServers;
using tranship::test::StagingWorld;

namespace {

constexpr std::uint64_t seeds = test::seed_count(2000);
constexpr std::int64_t patience_ns = 2'000'000'000;

/// Steps at which a call began and returned; `end` stays at its default if it did not succeed.
struct Done {
  std::int64_t begin = 0;
  std::int64_t end = INT64_MAX;
  std::int64_t version = 0;
};

struct Record {
  std::vector<Done> puts;  ///< the index of a put is the value of its elements
  std::vector<Done> deletions;
  std::vector<std::string> wrong;
  std::int64_t read = 0;
  int active = 0;
};

/// Returns a box of one or two dimensions, smaller or larger than a cell, at any place.
Box random_box(Random& random) {
  const std::int64_t lower = random.between(-300, 300);
  if (random.chance(0.3)) return *Box::make({lower, 0}, {lower + 2, random.between(1, 6)});
  return *Box::make({lower}, {lower + random.between(1, 100)});
}

std::optional<std::int64_t> read(StagingWorld& world, Catalog& catalog, const GetRequest& request,
                                 Record& record) {
  ReplyBuffer reply;
  const auto held = catalog.get(request, reply, world.now_ns());
  if (!held) return std::nullopt;
  std::int64_t value = -1;
  const auto copy = [&](const LeasedBox& here) {
    const std::byte* data = here.data.data();
    if (here.data.empty()) data = world.memory(here.objects[0].primary, here.objects[0].range);
    std::memcpy(&value, data, 8);
    return Status{};
  };
  REQUIRE(catalog.take(*held, world.now_ns() + patience_ns, copy).ok());
  (void)catalog.release(*held);
  ++record.read;
  return value;
}

/// Puts an object, and gets it at once.
void put_and_get(StagingWorld& world, int client, Catalog& catalog, Record& record) {
  const auto number = std::ssize(record.puts);
  const PutRequest put{"x", number, random_box(world.random()), "i8", 8, {}};
  record.puts.push_back({world.steps(), INT64_MAX, put.version});
  const auto elements = static_cast<std::size_t>(put.box.points());
  const auto fill = [&](std::byte* data) {
    for (std::size_t k = 0; k < elements; ++k) std::memcpy(data + 8 * k, &number, 8);
    return Status{};
  };
  const std::int64_t end_ns = world.now_ns() + patience_ns;
  auto done = catalog.put(put, 8 * elements, fill, end_ns);
  if (done && !*done) {
    auto room = catalog.begin(put, end_ns);
    if (!room) return;
    (void)fill(world.memory(room->primary, room->range));
    done = catalog.commit(*room).ok();
  }
  if (!done || !*done || !world.step(client)) return;
  const std::int64_t end = world.steps();
  record.puts[static_cast<std::size_t>(number)].end = end;
  const GetRequest get{"x", VersionChoice::exact, put.version, put.box, {}};
  const auto value = read(world, catalog, get, record);
  if (value && *value != number) record.wrong.emplace_back("a wrong byte");
  for (const Done& deletion : record.deletions) {
    if (deletion.end > record.puts[static_cast<std::size_t>(number)].begin) return;
  }
  if (!value) record.wrong.emplace_back("an object that nobody deleted is not there");
}

/// Checks that an object put before a deletion began is not there after the deletion's end.
void look_back(StagingWorld& world, Catalog& catalog, Record& record) {
  if (record.puts.empty()) return;
  const auto number = world.random().below(std::ssize(record.puts));
  const std::int64_t began = world.steps();
  const Done put = record.puts[static_cast<std::size_t>(number)];
  const auto known = catalog.describe("x", true, world.now_ns());
  if (!known) return;
  const GetRequest get{"x", VersionChoice::exact, put.version, known->bounds, {}};
  if (!read(world, catalog, get, record)) return;
  for (const Done& deletion : record.deletions) {
    if (put.end < deletion.begin && deletion.end < began) {
      record.wrong.emplace_back("a deleted object came back");
    }
  }
}

void work(StagingWorld& world, int client, SimulatedServers& servers, Record& record) {
  Catalog catalog(servers);
  for (int k = 0; k < 12; ++k) {
    const auto what = world.random().below(10);
    if (what < 6) {
      put_and_get(world, client, catalog, record);
    } else if (what < 8) {
      look_back(world, catalog, record);
    } else {
      const auto number = static_cast<std::size_t>(std::ssize(record.deletions));
      record.deletions.push_back({world.steps(), INT64_MAX, 0});
      const Status status = catalog.remove("x");
      if (!status && status.error().code != ErrorCode::not_found) {
        record.wrong.push_back("a deletion failed: " + status.error().text());
      }
      record.deletions[number].end = world.steps();
    }
  }
  --record.active;
  // The last client deletes what is left, and empties the record.
  if (record.active == 0) {
    (void)catalog.remove("x");
    if (!catalog.list()->empty()) record.wrong.emplace_back("a deleted variable is listed");
    for (int k = 0; k < world.servers(); ++k) {
      if (world.service(k).memory_bytes_used() != 0) record.wrong.emplace_back("memory was lost");
    }
    record.deletions.clear();
    record.puts.clear();
    for (int k = 0; k < 3; ++k) put_and_get(world, client, catalog, record);
  }
  world.close(client);
}

}  // namespace

TEST(what_is_deleted_does_not_come_back_and_what_is_put_anew_is_there) {
  std::int64_t whole = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    Record record;
    StagingWorld::Options options;
    options.seed = seed;
    options.servers = static_cast<int>(1 + seed % 4);
    options.cell_bytes = seed % 3 == 0 ? 8 : 256;
    options.memory_bytes = seed % 5 == 0 ? 8192 : 1 << 20;
    StagingWorld world(options);
    const auto script = [&](StagingWorld& w, int client, SimulatedServers& servers) {
      work(w, client, servers, record);
    };
    record.active = static_cast<int>(1 + seed % 3);
    const bool ended = world.run(
        std::vector<StagingWorld::Script>(static_cast<std::size_t>(record.active), script),
        200'000);
    if (!ended) record.wrong.emplace_back("it hangs");
    for (const std::string& text : record.wrong) {
      std::fprintf(stderr, "seed %llu: %s\n", static_cast<unsigned long long>(seed), text.c_str());
    }
    REQUIRE(record.wrong.empty());
    whole += record.read;
  }
  EXPECT(whole > static_cast<std::int64_t>(seeds));
}
