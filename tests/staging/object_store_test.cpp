// What a staging server promises, without processes: each get is compared with a grid of cells.
#include "staging/object_store.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <random>

#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

constexpr Owner writer = 1;
constexpr Owner reader = 2;

ObjectStore::Options options_of(std::int64_t memory_bytes) {
  ObjectStore::Options options;
  options.memory_bytes = memory_bytes;
  options.segment_bytes = 4096;
  options.make_segment = [](std::int64_t) { return Status{}; };
  return options;
}

PutRequest put_of(std::int64_t version, std::int64_t lower, std::int64_t upper) {
  return {"energy", version, *Box::make({lower}, {upper}), "f8", 8};
}

GetRequest get_of(Which which, std::int64_t version, std::int64_t lower, std::int64_t upper) {
  return {"energy", which, version, *Box::make({lower}, {upper})};
}

std::uint64_t begun(ObjectStore& store, const PutRequest& request, Owner owner = writer) {
  const auto result = store.begin(owner, request);
  REQUIRE(result.ok());
  REQUIRE(std::holds_alternative<Begun>(*result));
  return std::get<Begun>(*result).object;
}

void put(ObjectStore& store, const PutRequest& request, Owner owner = writer) {
  REQUIRE(store.commit(owner, begun(store, request, owner)).ok());
}

Found got(ObjectStore& store, const GetRequest& request) {
  const auto result = store.get(reader, request);
  REQUIRE(result.ok());
  REQUIRE(std::holds_alternative<Found>(*result));
  return std::get<Found>(*result);
}

std::string waits(ObjectStore& store, const GetRequest& request) {
  const auto result = store.get(reader, request);
  REQUIRE(result.ok());
  REQUIRE(std::holds_alternative<Waiting>(*result));
  return std::get<Waiting>(*result).why;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST(an_object_is_seen_from_its_commit_on) {
  ObjectStore store(options_of(1 << 16));
  EXPECT(says(waits(store, get_of(Which::exact, 1, 0, 4)), "nothing has been put"));
  const std::uint64_t object = begun(store, put_of(1, 0, 4));
  EXPECT(says(waits(store, get_of(Which::exact, 1, 0, 4)), "lacks (0:4)"));
  EXPECT(!store.commit(reader, object).ok());  // another process's
  REQUIRE(store.commit(writer, object).ok());
  EXPECT(!store.commit(writer, object).ok());
  EXPECT(!store.abort(writer, object).ok());
  const Found found = got(store, get_of(Which::exact, 1, 1, 3));
  REQUIRE(found.objects.size() == 1);
  EXPECT_EQ(found.objects[0].box.text(), "(0:4)");
  EXPECT(says(waits(store, get_of(Which::exact, 1, 2, 6)), "lacks (4:6)"));
  EXPECT(says(waits(store, get_of(Which::exact, 2, 0, 4)), "version 2 of \"energy\" is not there"));
}

TEST(next_and_latest) {
  ObjectStore store(options_of(1 << 16));
  for (const int version : {3, 5, 9}) put(store, put_of(version, 0, 4));
  put(store, put_of(12, 0, 2));
  EXPECT_EQ(got(store, get_of(Which::next, INT64_MIN, 0, 4)).version, 3);
  EXPECT_EQ(got(store, get_of(Which::next, 3, 0, 4)).version, 5);
  EXPECT(says(waits(store, get_of(Which::next, 9, 0, 4)), "version 12 of \"energy\" lacks (2:4)"));
  EXPECT(says(waits(store, get_of(Which::next, 12, 0, 4)), "no version of \"energy\" after 12"));
  EXPECT_EQ(got(store, get_of(Which::latest, INT64_MAX, 0, 4)).version, 9);
  EXPECT_EQ(got(store, get_of(Which::latest, INT64_MAX, 0, 2)).version, 12);
  EXPECT_EQ(got(store, get_of(Which::latest, 8, 0, 4)).version, 5);
  put(store, put_of(20, 2, 4));
  EXPECT_EQ(got(store, get_of(Which::next, 9, 2, 3)).version, 20);  // 12 has nothing of the box
}

TEST(what_does_not_fit_the_variable_is_refused) {
  ObjectStore store(options_of(1 << 16));
  put(store, put_of(1, 0, 4));
  PutRequest other = put_of(1, 4, 8);
  other.type = "f4";
  other.element_bytes = 4;
  EXPECT(!store.begin(writer, other).ok());
  other = put_of(1, 4, 8);
  other.box = *Box::make({0, 0}, {1, 1});
  EXPECT(!store.begin(writer, other).ok());
  GetRequest flat = get_of(Which::exact, 1, 0, 1);
  flat.box = other.box;
  EXPECT(!store.get(reader, flat).ok());
  other = put_of(1, 0, 100000);
  const auto large = store.begin(writer, other);
  REQUIRE(!large.ok());
  EXPECT(large.error().code == ErrorCode::out_of_memory);
}

TEST(a_full_store_blocks_until_a_version_is_discarded_and_not_read_any_more) {
  ObjectStore store(options_of(4096));
  put(store, put_of(1, 0, 256));
  put(store, put_of(2, 0, 256));
  const Found reading = got(store, get_of(Which::exact, 1, 0, 10));
  const auto full = store.begin(writer, put_of(3, 0, 256));
  REQUIRE(full.ok());
  REQUIRE(std::holds_alternative<Waiting>(*full));
  EXPECT(says(std::get<Waiting>(*full).why, "is full"));
  (void)store.take_changes();
  REQUIRE(store.discard("energy", 1).ok());
  EXPECT(!store.take_changes().contains(""));  // it is still read
  EXPECT(std::holds_alternative<Waiting>(*store.begin(writer, put_of(3, 0, 256))));
  REQUIRE(store.release(reader, reading.lease).ok());
  EXPECT(!store.release(reader, reading.lease).ok());
  EXPECT(store.take_changes().contains(""));
  put(store, put_of(3, 0, 256));
  const auto gone = store.get(reader, get_of(Which::exact, 1, 0, 10));
  REQUIRE(!gone.ok());
  EXPECT(gone.error().code == ErrorCode::not_found);
  EXPECT(says(gone.error().message, "was discarded; held are 2 to 3"));
  EXPECT(!store.begin(writer, put_of(1, 0, 1)).ok());
  EXPECT(!store.discard("energy", 1).ok());
}

TEST(the_oldest_versions_make_room_if_the_store_is_told_so) {
  ObjectStore::Options options = options_of(4096);
  options.full = Full::discard_oldest;
  ObjectStore store(options);
  for (int version = 1; version <= 10; ++version) put(store, put_of(version, 0, 256));
  EXPECT_EQ(got(store, get_of(Which::latest, INT64_MAX, 0, 256)).version, 10);
  EXPECT(!store.get(reader, get_of(Which::exact, 8, 0, 256)).ok());
  const Found nine = got(store, get_of(Which::exact, 9, 0, 256));
  const Found ten = got(store, get_of(Which::exact, 10, 0, 256));
  EXPECT(std::holds_alternative<Waiting>(*store.begin(writer, put_of(11, 0, 256))));
  REQUIRE(store.release(reader, nine.lease).ok());
  put(store, put_of(11, 0, 256));
  EXPECT_EQ(ten.objects.size(), 1U);
}

TEST(no_more_versions_are_kept_than_asked_for) {
  ObjectStore::Options options = options_of(1 << 20);
  options.versions_max = 2;
  ObjectStore store(options);
  const std::uint64_t slow = begun(store, put_of(1, 0, 4));
  for (int version = 2; version <= 4; ++version) put(store, put_of(version, 0, 4));
  REQUIRE(store.commit(writer, slow).ok());  // the last to come of the oldest
  const auto info = store.list();
  REQUIRE(info.size() == 1 && info[0].versions.size() == 2);
  EXPECT_EQ(info[0].versions[0].version, 3);
  EXPECT(!store.begin(writer, put_of(2, 0, 4)).ok());
  EXPECT(!store.begin(writer, put_of(0, 0, 4)).ok());  // it would go at once
}

TEST(what_is_begun_ends_with_its_writer_or_its_version) {
  ObjectStore store(options_of(1 << 16));
  put(store, put_of(1, 0, 4));
  const std::uint64_t half = begun(store, put_of(2, 0, 4), 7);
  store.gone(7);
  EXPECT(!store.commit(7, half).ok());
  EXPECT(!store.busy());
  const std::uint64_t late = begun(store, put_of(1, 4, 8), 7);
  EXPECT(store.busy());
  REQUIRE(store.discard("energy", 1).ok());
  const auto refused = store.commit(7, late);
  REQUIRE(!refused.ok());
  EXPECT(says(refused.error().message, "was discarded while it was put"));
  EXPECT_EQ(store.memory_bytes_used(), 0);
  EXPECT(!store.busy());
}

TEST(objects_of_other_servers_are_named_and_leased_there) {
  ObjectStore::Options one = options_of(1 << 16);
  one.server = 1;
  ObjectStore home(options_of(1 << 16));  // server 0
  ObjectStore owner(one);
  put(owner, put_of(5, 6, 9));
  const std::uint64_t object = begun(home, put_of(5, 0, 8));
  const auto order = owner.enter(put_of(5, 0, 8), 0, object);
  REQUIRE(order.ok());
  EXPECT_EQ(*order, 1U);
  EXPECT(!owner.enter(put_of(5, 0, 8), 0, object).ok());
  EXPECT(std::holds_alternative<Spread>(*owner.get(reader, get_of(Which::exact, 5, 6, 7))));
  EXPECT(std::holds_alternative<Found>(*owner.get(reader, get_of(Which::exact, 5, 8, 9))));
  const auto named = owner.find(reader, get_of(Which::next, 0, 6, 7));
  REQUIRE(named.ok() && std::holds_alternative<Found>(*named));
  const Found& found = std::get<Found>(*named);
  REQUIRE(found.objects.size() == 2);
  EXPECT(found.objects[0].home == 1 && found.objects[0].order == 1);
  EXPECT(found.objects[1].home == 0 && found.objects[1].order == 0);
  EXPECT_EQ(found.objects[1].object, object);

  std::uint64_t lease = 0;
  const std::uint64_t asked[] = {object, 99};
  auto leased = home.lease(reader, "energy", 5, asked, lease);
  REQUIRE(leased.ok() && leased->size() == 2);
  EXPECT((*leased)[0].state == Leased::State::begun);
  EXPECT((*leased)[1].state == Leased::State::gone);
  const auto committed = home.commit(writer, object, *order);
  REQUIRE(committed.ok());
  EXPECT_EQ(*committed, 2U);  // above the one that it covers in part
  owner.settle(*committed);
  leased = home.lease(reader, "energy", 5, asked, lease);
  REQUIRE(leased.ok());
  EXPECT((*leased)[0].state == Leased::State::here && (*leased)[0].order == 2);
  const std::uint64_t next = begun(owner, put_of(5, 7, 8));
  EXPECT_EQ(*owner.commit(writer, next), 3U);

  REQUIRE(home.discard("energy", 5).ok());
  EXPECT(!home.lease(reader, "energy", 5, asked, lease).ok());
  owner.leave("energy", 5, 0, object);
  EXPECT(std::holds_alternative<Found>(*owner.get(reader, get_of(Which::exact, 5, 6, 7))));
  REQUIRE(owner.discard("energy", 5).ok());
  EXPECT(!owner.enter(put_of(5, 0, 8), 0, 100).ok());
}

TEST(a_reader_that_is_gone_reads_no_more) {
  ObjectStore store(options_of(2048));
  put(store, put_of(1, 0, 256));
  (void)got(store, get_of(Which::exact, 1, 0, 256));
  REQUIRE(store.discard("energy", 1).ok());
  EXPECT(std::holds_alternative<Waiting>(*store.begin(writer, put_of(2, 0, 256))));
  store.gone(reader);
  put(store, put_of(2, 0, 256));
  EXPECT_EQ(store.memory_bytes_used(), 2048);
}

/// Random puts, gets, discards and ends beside a map from cells to the last object committed there.
TEST(a_get_sees_the_last_commit_of_each_cell_or_waits) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    ObjectStore store(options_of(1 << 22));
    using Cell = std::array<std::int64_t, 2>;
    std::map<std::int64_t, std::map<Cell, std::int64_t>> expected;  // the offset of its object
    const auto number = [&](int below) {
      return static_cast<std::int64_t>(random() % static_cast<unsigned>(below));
    };
    for (int step = 0; step < 60; ++step) {
      const std::int64_t version = number(3);
      const std::int64_t x = number(8) - 4;
      const std::int64_t y = number(8);
      const Box box = *Box::make({x, y}, {x + 1 + number(5), y + 1 + number(5)});
      const auto each = [&](const Box& cells, const auto& visit) {
        for (std::int64_t i = cells.lower[0]; i < cells.upper[0]; ++i) {
          for (std::int64_t j = cells.lower[1]; j < cells.upper[1]; ++j) visit(Cell{i, j});
        }
      };
      if (number(3) > 0) {
        const auto result = store.begin(writer, {"energy", version, box, "f8", 8});
        REQUIRE(result.ok());
        const Begun begun = std::get<Begun>(*result);
        if (number(5) == 0) {
          REQUIRE(store.abort(writer, begun.object).ok());
          continue;
        }
        REQUIRE(store.commit(writer, begun.object).ok());
        each(box, [&](Cell cell) {
          expected[version][cell] = begun.range.segment * 100000000 + begun.range.offset;
        });
        continue;
      }
      const auto result = store.get(reader, {"energy", Which::exact, version, box});
      bool whole = true;
      each(box, [&](Cell cell) { whole = whole && expected[version].contains(cell); });
      REQUIRE(result.ok());
      REQUIRE(std::holds_alternative<Found>(*result) == whole);
      if (!whole) continue;
      const Found found = std::get<Found>(*result);
      std::int64_t cells = 0;
      std::vector<Part> parts;
      Box missing;
      EXPECT(cut(box, found.objects, parts, missing));
      for (const Part& part : parts) {
        const Seen& object = found.objects[part.object];
        EXPECT(intersection(part.box, object.box) == part.box);
        each(part.box, [&](Cell cell) {
          ++cells;
          EXPECT_EQ(expected[version].at(cell),
                    object.range.segment * 100000000 + object.range.offset);
        });
      }
      EXPECT_EQ(cells, box.points());
      REQUIRE(store.release(reader, found.lease).ok());
    }
  }
}

/// Seconds of a put beside so many objects of one version, on a grid.
double put_seconds(int objects) {
  ObjectStore::Options options = options_of(std::int64_t{1} << 34);
  options.segment_bytes = std::int64_t{1} << 30;
  ObjectStore store(options);
  const int side = std::max(1, static_cast<int>(std::sqrt(objects)));
  const auto put_at = [&](int k) {
    const std::int64_t x = 10 * (k % side);
    const std::int64_t y = 10 * (k / side);
    put(store, {"energy", 1, *Box::make({x, y}, {x + 10, y + 10}), "f8", 8});
  };
  for (int k = 0; k < objects; ++k) put_at(k);
  constexpr int more = 2000;
  const auto begin = std::chrono::steady_clock::now();
  for (int k = objects; k < objects + more; ++k) put_at(k);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return seconds.count() / more;
}

TEST(a_put_costs_the_logarithm_of_the_objects) {
  for (const int objects : {10, 1000, 100000}) {
    std::printf("a put beside %6d objects: %.2f us\n", objects, 1e6 * put_seconds(objects));
  }
  // Ten thousand times as many may cost a few cache misses more, not ten thousand times as much.
  EXPECT(put_seconds(100000) < 20 * put_seconds(10));
}
