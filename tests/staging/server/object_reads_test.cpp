// Leases: which objects they keep, and what the end of the last lease removes.
#include "staging/server/object_reads.hpp"

#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

constexpr ClientConnection reader = 1;
constexpr ClientConnection other = 2;

/// A table of objects in memory, and the leases on them.
struct World {
  explicit World(ObjectReads::Options options = {})
      : reads(std::move(options), objects, residency, leases) {
    for (std::uint64_t number = 1; number <= 3; ++number) {
      EXPECT(residency.place(number, 256).value());
      residency.may_leave(number, number);
      objects[number] = {"v", 1, *Box::make({0}, {4}), 256, number, 0, {}, 0, false, {}};
    }
  }

  ObjectTable objects;
  Residency residency{{4096, 4096, 1 << 20, [](std::int64_t) { return Status{}; }, {}}};
  Leases leases;
  ObjectReads reads;
};

}  // namespace

TEST(discarded_objects_go_with_their_last_lease) {
  World world;
  const auto one = world.reads.grant(reader, 0, {1, 2});
  const auto two = world.reads.grant(other, 0, {1});
  world.objects.at(1).discarded = true;
  REQUIRE(world.reads.release(reader, one).ok());
  EXPECT(world.objects.contains(1));
  EXPECT(world.reads.take_idle());  // object 2 may now leave memory
  EXPECT(!world.reads.take_idle());
  REQUIRE(world.reads.release(other, two).ok());
  EXPECT(!world.objects.contains(1));
  EXPECT(world.objects.contains(2));
}

TEST(a_lease_is_its_clients) {
  World world;
  const auto lease = world.reads.grant(reader, 0, {1});
  EXPECT(!world.reads.release(other, lease).ok());
  EXPECT(!world.reads.recall(other, lease, 1).ok());
  EXPECT(world.reads.release(reader, lease).ok());
  EXPECT(!world.reads.release(reader, lease).ok());
}

TEST(leased_objects_stay_in_memory_until_another_one_is_recalled) {
  World world;
  const auto lease = world.reads.grant(reader, 0, {1, 2});
  const auto here = world.reads.recall(reader, lease, 1);
  REQUIRE(here.ok());
  EXPECT(std::holds_alternative<Range>(*here));
  EXPECT(world.leases.at(lease).pinned == (std::vector<std::uint64_t>{1}));
  EXPECT(!world.reads.recall(reader, lease, 3).ok());  // object 3 is not part of the lease
  EXPECT(world.reads.recall(reader, lease, 0).ok());
  EXPECT(world.leases.at(lease).pinned.empty());
}

TEST(leases_of_one_request_end_together) {
  World world;
  const auto one = world.reads.grant(reader, 7, {1});
  const auto two = world.reads.grant(reader, 8, {2});
  EXPECT(world.reads.undo(reader, 7) == (std::vector<std::uint64_t>{one}));
  EXPECT(world.reads.undo(other, 8).empty());
  EXPECT(world.reads.release(reader, two).ok());
  EXPECT_EQ(world.objects.at(1).leases, 0);
}

TEST(a_lost_client_keeps_what_is_pinned_for_it) {
  World world;
  const auto lease = world.reads.grant(reader, 0, {1, 2});
  REQUIRE(world.reads.recall(reader, lease, 1).ok());  // object 2 is no longer pinned
  (void)world.leases.fence(reader);
  world.reads.lose(reader);
  EXPECT_EQ(world.objects.at(1).leases, 1);
  EXPECT_EQ(world.objects.at(2).leases, 0);
  world.reads.end_all(reader);
  EXPECT_EQ(world.objects.at(1).leases, 0);
}

TEST(leases_are_limited_in_number_and_age) {
  std::int64_t now = 0;
  ObjectReads::Options options;
  options.limits.client_leases = 2;
  options.limits.lease_s = 10;
  options.now_ns = [&] { return now; };
  World world(options);
  EXPECT(world.reads.check(reader).ok());
  (void)world.reads.grant(reader, 0, {1});
  EXPECT(world.reads.check(reader).ok());
  now = 10'000'000'000;
  EXPECT(!world.reads.check(reader).ok());  // the lease is too old
  EXPECT(world.reads.check(other).ok());
  now = 0;
  (void)world.reads.grant(reader, 0, {2});
  EXPECT(!world.reads.check(reader).ok());
}
