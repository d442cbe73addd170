// What nobody can get any more gives its memory back.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>

#include "staging/stores.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

GetRequest get_of(VersionChoice choice, std::int64_t version, std::int64_t lower,
                  std::int64_t upper) {
  return {"energy", choice, version, *Box::make({lower}, {upper}), {}};
}

std::uint64_t put(ObjectStore& store, const PutRequest& request) {
  const auto begun = store.begin(writer, request);
  REQUIRE(begun.ok() && std::holds_alternative<GrantedRoom>(*begun));
  const std::uint64_t object = std::get<GrantedRoom>(*begun).object;
  REQUIRE(store.commit(writer, object).ok());
  return object;
}

FoundObjects got(ObjectStore& store, const GetRequest& request) {
  const auto result = store.get(reader, request);
  REQUIRE(result.ok() && std::holds_alternative<FoundObjects>(*result));
  return std::get<FoundObjects>(*result);
}

}  // namespace

TEST(objects_that_are_hidden_whole_give_their_memory_back) {
  ObjectStore store(options_of(1 << 16));
  put(store, put_of(1, 0, 32));
  const std::int64_t one = store.memory_bytes_used();
  for (int k = 0; k < 1000; ++k) put(store, put_of(1, 0, 32));
  EXPECT_EQ(store.memory_bytes_used(), one);
  // What is read stays until the read has ended.
  const FoundObjects read = got(store, get_of(VersionChoice::exact, 1, 0, 32));
  put(store, put_of(1, -1, 33));
  EXPECT(store.memory_bytes_used() > one);
  REQUIRE(store.release(reader, read.lease).ok());
  EXPECT_EQ(store.list()[0].versions[0].objects, 1);
  const std::int64_t used = store.memory_bytes_used();
  // Two halves together hide the whole, and a part that is left keeps it.
  put(store, put_of(1, -1, 10));
  put(store, put_of(1, 11, 33));
  EXPECT_EQ(store.list()[0].versions[0].objects, 3);
  put(store, put_of(1, 10, 11));
  EXPECT_EQ(store.list()[0].versions[0].objects, 3);
  EXPECT(store.memory_bytes_used() < 3 * used);
  // An object of another version hides nothing.
  put(store, put_of(2, -1, 33));
  EXPECT_EQ(store.list()[0].versions[0].objects, 3);
}

TEST(entries_that_are_hidden_whole_go) {
  ObjectStore store(options_of(1 << 16));
  for (std::uint64_t k = 1; k <= 100; ++k) {
    REQUIRE(store.index(writer, put_of(1, 0, 32), {{1, k}, true}).ok());
    store.confirm(writer, "energy", 1, {1, k}, k);
  }
  EXPECT_EQ(store.take_orphans(1000).size(), 99U);
  // An own object that the entry's object hides goes, and the other way round.
  put(store, put_of(1, 0, 32));
  EXPECT_EQ(store.take_orphans(1000).size(), 1U);
  REQUIRE(store.index(writer, put_of(1, 0, 40), {{1, 200}, true}).ok());
  store.confirm(writer, "energy", 1, {1, 200}, 200);
  EXPECT_EQ(store.memory_bytes_used(), 0);
  // An entry that is confirmed late, and was hidden meanwhile.
  REQUIRE(store.index(writer, put_of(1, 3, 5), {{1, 300}, true}).ok());
  store.confirm(writer, "energy", 1, {1, 300}, 150);
  const auto orphans = store.take_orphans(1000);
  REQUIRE(orphans.size() == 1);
  EXPECT_EQ(orphans[0].object, 300U);
}

TEST(exactly_the_hidden_objects_go) {
  std::mt19937_64 random(3);
  for (int run = 0; run < 300; ++run) {
    ObjectStore store(options_of(1 << 20));
    std::map<std::int64_t, std::uint64_t> seen;  // the object of each cell
    for (int k = 0; k < 40; ++k) {
      const auto lower = static_cast<std::int64_t>(random() % 20);
      const auto upper = lower + 1 + static_cast<std::int64_t>(random() % 12);
      const std::uint64_t object = put(store, put_of(1, lower, upper));
      for (std::int64_t cell = lower; cell < upper; ++cell) seen[cell] = object;
      std::set<std::uint64_t> visible;
      for (const auto& [cell, one] : seen) {
        visible.insert(one);
        const FoundObjects found = got(store, get_of(VersionChoice::exact, 1, cell, cell + 1));
        EXPECT(found.objects.size() == 1 && found.objects[0].object == one);
        REQUIRE(store.release(reader, found.lease).ok());
      }
      EXPECT_EQ(store.list()[0].versions[0].objects, std::ssize(visible));
    }
  }
}
