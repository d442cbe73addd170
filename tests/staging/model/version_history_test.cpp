// The versions that a limit discards, and those that are remembered as discarded.
#include "staging/model/version_history.hpp"

#include <iterator>

#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

Box box_of(std::int64_t lower, std::int64_t upper) { return *Box::make({lower}, {upper}); }

/// Puts and commits an object of the version.
void commit(VersionHistory& history, std::int64_t version, const Box& box = box_of(0, 4)) {
  history.hold(version).begin_put();
  history.at(version).end_put();
  history.add_object(version, static_cast<std::uint64_t>(version), box, 256);
}

using Versions = std::vector<std::int64_t>;

}  // namespace

TEST(the_lowest_versions_above_the_limit_are_discarded) {
  VersionHistory history(2, 16);
  for (const std::int64_t version : {5, 3, 9, 7}) commit(history, version);
  EXPECT(history.excess() == (Versions{3, 5}));
  for (const std::int64_t version : history.excess()) (void)history.discard(version);
  EXPECT(history.excess().empty());
  EXPECT(history.was_discarded(3) && history.was_discarded(5));
  EXPECT(!history.was_discarded(4) && !history.was_discarded(7));
}

TEST(a_version_that_was_never_held_can_be_discarded) {
  VersionHistory history(2, 16);
  EXPECT(history.discard(3).unused());
  EXPECT(history.was_discarded(3) && !history.was_discarded(2));
  EXPECT(!history.empty() && history.held().empty());
  for (const std::int64_t version : {5, 9}) commit(history, version);
  EXPECT(history.excess().empty());  // it counts for no limit
}

TEST(without_a_limit_nothing_is_discarded) {
  VersionHistory history(0, 16);
  for (int version = 0; version < 100; ++version) commit(history, version);
  EXPECT(history.excess().empty());
  EXPECT(!history.is_too_old(-1));
}

TEST(puts_that_have_not_ended_count_for_nothing_and_keep_their_version) {
  VersionHistory history(2, 16);
  commit(history, 1);
  commit(history, 2);
  history.hold(3).begin_put();
  EXPECT(history.excess().empty());  // nothing of version 3 was committed
  history.at(1).begin_put();
  commit(history, 4);
  EXPECT(history.excess().empty());  // a put to version 1 is under way
  history.at(1).end_put();
  EXPECT(history.excess() == (Versions{1}));
}

TEST(versions_of_which_nothing_was_committed_go_with_those_above_them) {
  VersionHistory history(1, 16);
  history.hold(1).add_entry({1, 7}, 100, box_of(0, 4));  // the entry's client was lost
  commit(history, 2);
  EXPECT(history.excess().empty());
  commit(history, 3);
  EXPECT(history.excess() == (Versions{1, 2}));
}

TEST(confirmed_entries_count_as_objects_do) {
  VersionHistory history(1, 16);
  history.hold(1).add_entry({1, 7}, 100, box_of(0, 4));
  history.confirm_entry(1);
  history.confirm_entry(1);
  EXPECT(history.excess().empty());
  commit(history, 2);
  EXPECT(history.excess() == (Versions{1}));
}

TEST(a_version_counts_until_its_last_object_is_removed) {
  VersionHistory history(1, 16);
  commit(history, 1);
  commit(history, 2);
  EXPECT_EQ(history.excess().size(), 1U);
  history.remove_object(1, 1, box_of(0, 4), 256);
  EXPECT(history.excess().empty());
  EXPECT_EQ(history.at(1).bytes(), 0);
  history.drop_if_unused(1);
  EXPECT(!history.contains(1) && !history.was_discarded(1));
}

TEST(versions_below_the_kept_ones_are_too_old) {
  VersionHistory history(2, 16);
  history.hold(1).begin_put();
  commit(history, 4);
  EXPECT(!history.is_too_old(3));  // there is room for one more version
  commit(history, 6);
  EXPECT(history.is_too_old(3));
  EXPECT(!history.is_too_old(1));  // version 1 is held already
  EXPECT(!history.is_too_old(5) && !history.is_too_old(7));
}

TEST(next_and_latest_look_for_something_of_the_box) {
  VersionHistory history(0, 16);
  commit(history, 1, box_of(0, 4));
  commit(history, 2, box_of(4, 8));
  history.hold(3).add_entry({1, 7}, 100, box_of(0, 4));
  const Box box = box_of(1, 2);
  EXPECT_EQ(history.next(INT64_MIN, box)->first, 1);
  EXPECT_EQ(history.next(1, box)->first, 3);
  EXPECT(history.next(3, box) == history.held().end());
  EXPECT_EQ(history.latest(INT64_MAX, box)->first, 3);
  EXPECT_EQ(history.latest(2, box)->first, 1);
  EXPECT(history.latest(0, box) == history.held().end());
}

TEST(an_index_of_a_version_finds_objects_and_entries_apart) {
  VersionIndex index;
  EXPECT(index.unused());
  index.add_object(1, box_of(0, 4), 256);
  index.add_entry({2, 9}, 5, box_of(2, 8));
  std::vector<std::uint64_t> numbers;
  index.find_objects(box_of(0, 8), numbers);
  EXPECT(numbers == (std::vector<std::uint64_t>{1}));
  numbers.clear();
  index.find_entries(box_of(0, 8), numbers);
  EXPECT(numbers == (std::vector<std::uint64_t>{5}));
  EXPECT(index.entry({2, 9}) == 5U);
  EXPECT(!index.entry({1, 9}));
  EXPECT_EQ(index.boxes(), 2);
  EXPECT(index.meets(box_of(6, 7)) && index.meets_entries(box_of(6, 7)));
  index.remove_entry({2, 9}, box_of(2, 8));
  EXPECT(!index.meets(box_of(6, 7)));
  EXPECT(!index.unused());
  index.remove_object(1, box_of(0, 4), 256);
  EXPECT(index.unused() && !index.counts());
}

TEST(a_step_is_named_that_could_change_an_answer) {
  VersionHistory history(0, 16);
  EXPECT_EQ(history.withheld_beside(VersionChoice::latest, INT64_MAX, {}), 0U);
  history.withhold(3, 30);
  history.withhold(5, 51);
  history.withhold(5, 50);
  history.withhold(7, 70);
  const auto beside = [&](VersionChoice choice, std::int64_t version,
                          std::optional<std::int64_t> found = {}) {
    return history.withheld_beside(choice, version, found);
  };
  // The exact version, found or not: what is withheld may lie above what was found.
  EXPECT_EQ(beside(VersionChoice::exact, 5), 50U);
  EXPECT_EQ(beside(VersionChoice::exact, 4), 0U);
  EXPECT_EQ(beside(VersionChoice::exact, 5, 5), 50U);
  // The lowest one above, up to the one that was found.
  EXPECT_EQ(beside(VersionChoice::next, INT64_MIN), 30U);
  EXPECT_EQ(beside(VersionChoice::next, 3), 50U);
  EXPECT_EQ(beside(VersionChoice::next, 3, 4), 0U);
  EXPECT_EQ(beside(VersionChoice::next, 3, 5), 50U);
  EXPECT_EQ(beside(VersionChoice::next, 3, 6), 50U);
  EXPECT_EQ(beside(VersionChoice::next, 7), 0U);
  // The highest one up to it, down to the one that was found.
  EXPECT_EQ(beside(VersionChoice::latest, INT64_MAX), 70U);
  EXPECT_EQ(beside(VersionChoice::latest, 6), 50U);
  EXPECT_EQ(beside(VersionChoice::latest, 6, 6), 0U);
  EXPECT_EQ(beside(VersionChoice::latest, 6, 5), 50U);
  EXPECT_EQ(beside(VersionChoice::latest, 6, 1), 50U);
  EXPECT_EQ(beside(VersionChoice::latest, 2), 0U);
}

TEST(what_is_withheld_of_a_version_is_counted) {
  VersionHistory history(0, 16);
  history.hold(3).begin_put();
  history.withhold(3, 30);
  history.withhold(3, 30);
  history.withhold(3, 31);
  EXPECT(history.withheld(3) == (std::vector<std::uint64_t>{30, 31}));
  history.end_withholding(3, 30);
  history.end_withholding(3, 99);
  history.end_withholding(4, 30);
  EXPECT_EQ(history.withheld_beside(VersionChoice::exact, 3, {}), 30U);
  history.end_withholding(3, 30);
  EXPECT_EQ(history.withheld_beside(VersionChoice::exact, 3, {}), 31U);
  (void)history.discard(3);
  EXPECT(history.withheld(3).empty());
  EXPECT_EQ(history.withheld_beside(VersionChoice::next, INT64_MIN, {}), 0U);
}
