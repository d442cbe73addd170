// Index entries of objects on other servers, and the orphans that they leave.
#include "staging/server/index_entries.hpp"

#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

IndexEntry entry_of(std::uint64_t object, bool overflow) {
  return {{{1, object}, overflow}, *Box::make({0}, {4}), 1, IndexEntry::State::pending, "v", 1};
}

}  // namespace

TEST(discarded_entries_leave_orphans_on_overflow_servers_only) {
  IndexEntries entries;
  entries.add(1, entry_of(10, true));
  entries.add(2, entry_of(20, false));
  entries.add(3, entry_of(30, true));
  entries.discard(1);
  entries.discard(2);
  entries.remove(3);  // the client gave the object up, so there is no orphan
  EXPECT_EQ(entries.size(), 0U);
  EXPECT(entries.take_orphans(8) == (std::vector<Orphan>{{1, 10}}));
  EXPECT(entries.take_orphans(8).empty());
}

TEST(orphans_are_taken_once_and_a_few_at_a_time) {
  IndexEntries entries;
  for (std::uint64_t number = 1; number <= 5; ++number) entries.add(number, entry_of(number, true));
  for (std::uint64_t number = 1; number <= 5; ++number) entries.discard(number);
  EXPECT_EQ(entries.take_orphans(2).size(), 2U);
  EXPECT_EQ(entries.take_orphans(2).size(), 2U);
  EXPECT_EQ(entries.take_orphans(2).size(), 1U);
}

TEST(entries_on_overflow_servers_and_their_orphans_are_bounded) {
  IndexEntries entries;
  for (std::uint64_t number = 1; number <= IndexEntries::overflow_max; ++number) {
    EXPECT(entries.has_room_for_overflow());
    entries.add(number, entry_of(number, true));
  }
  EXPECT(!entries.has_room_for_overflow());
  entries.discard(1);
  EXPECT(!entries.has_room_for_overflow());  // the orphan occupies the entry until it is reported
  EXPECT_EQ(entries.take_orphans(8).size(), 1U);
  EXPECT(entries.has_room_for_overflow());
}
