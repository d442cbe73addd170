// The places of objects when memory is full: which go to disk, which stay, and which wait.
#include "staging/model/residency.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

constexpr std::int64_t slot = 1024;
const Error broken{ErrorCode::io, "the disk is broken; mend it"};

Residency places_of(std::int64_t slots, std::int64_t spill_bytes = spill_bytes_unlimited) {
  Residency::Options options;
  options.memory_bytes = slots * slot;
  options.segment_bytes = slots * slot;
  options.spill_bytes = spill_bytes;
  options.make_segment = [](std::int64_t) { return Status{}; };
  return Residency(options);
}

bool place(Residency& places, std::uint64_t object, std::int64_t bytes = slot) {
  const auto placed = places.place(object, bytes);
  REQUIRE(placed.ok());
  return *placed;
}

/// Places objects 1 to `count`, of which 1 is the oldest.
void fill(Residency& places, std::uint64_t count) {
  for (std::uint64_t object = 1; object <= count; ++object) {
    REQUIRE(place(places, object));
    places.may_leave(object, object);
  }
}

bool is_here(const Residency& places, std::uint64_t object) {
  return places.range(object).segment >= 0;
}

/// Carries out all moves; returns the objects of those out and in.
std::vector<std::uint64_t> carry_out(Residency& places, const Status& status = {}) {
  std::vector<std::uint64_t> moved;
  for (auto moves = places.take_moves(); !moves.empty(); moves = places.take_moves()) {
    for (const Move& move : moves) {
      if (move.kind == Move::Kind::drop) continue;
      moved.push_back(move.object);
      places.ended(move, status);
    }
  }
  return moved;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST(the_oldest_go_first_and_no_more_than_needed) {
  Residency places = places_of(4);
  fill(places, 4);
  EXPECT(!place(places, 5));
  EXPECT(!places.let_go(slot));  // the object must be written before
  EXPECT(!places.let_go(slot));  // an object is already on its way
  EXPECT(is_here(places, 1));
  EXPECT(says(places.why_full(), "objects are on their way to disk"));
  EXPECT((carry_out(places) == std::vector<std::uint64_t>{1}));
  EXPECT(!is_here(places, 1) && is_here(places, 2));
  EXPECT(places.take_freed());
  EXPECT_EQ(places.spilled_bytes(), slot);
  EXPECT_EQ(places.disk_bytes_used(), disk_alignment);
  EXPECT(place(places, 5));
}

TEST(what_is_pinned_or_may_not_leave_stays) {
  Residency places = places_of(3);
  REQUIRE(place(places, 1) && place(places, 2) && place(places, 3));
  places.may_leave(3, 3);
  REQUIRE(places.pin(3));
  EXPECT(!places.let_go(slot));
  EXPECT(carry_out(places).empty());
  EXPECT(says(places.why_full(), "are being written or read"));
  (void)places.take_freed();
  places.unpin(3);
  EXPECT(places.take_freed());
  EXPECT(!places.let_go(slot));
  // An object that is read while it is written stays, and may leave at once later.
  const auto moves = places.take_moves();
  REQUIRE(moves.size() == 1 && moves[0].kind == Move::Kind::out);
  REQUIRE(places.pin(3));
  places.ended(moves[0], {});
  EXPECT(is_here(places, 3));
  EXPECT(!places.let_go(slot));
  places.unpin(3);
  EXPECT(places.let_go(slot));
  EXPECT(!is_here(places, 3) && !places.pin(3));
}

TEST(what_is_wanted_comes_back_and_may_leave_without_a_move) {
  Residency places = places_of(2);
  fill(places, 2);
  EXPECT(!place(places, 3));
  EXPECT(!places.let_go(slot));
  (void)carry_out(places);
  REQUIRE(place(places, 3));
  places.may_leave(3, 3);
  places.want(1);
  EXPECT(says(places.why_away(1), "comes back from disk, and the server's memory"));
  EXPECT(!place(places, 4));  // an object that has waited longer goes first
  EXPECT((carry_out(places) == std::vector<std::uint64_t>{2, 1}));
  EXPECT(is_here(places, 1) && !is_here(places, 2));
  EXPECT(!places.let_go(slot));  // object 1 is wanted, and object 3 must be written
  REQUIRE(places.pin(1));
  places.unwant(1);
  places.unpin(1);
  (void)carry_out(places);
  EXPECT(!is_here(places, 3));
  REQUIRE(place(places, 4));
  EXPECT(places.let_go(slot));  // it leaves without a move, because the disk has it
  EXPECT(places.take_moves().empty());
  EXPECT(!is_here(places, 1));
  places.want(2);
  places.unwant(2);  // nobody waits for the object any more
  EXPECT((carry_out(places) == std::vector<std::uint64_t>{2}));
  for (const std::uint64_t object : {1, 2, 3, 4}) places.drop(object);
  EXPECT(places.empty());
  EXPECT_EQ(places.spilled_bytes(), 0);
  EXPECT_EQ(places.disk_bytes_used(), 0);
}

TEST(a_disk_that_fails_loses_nothing_and_is_tried_again) {
  Residency places = places_of(2);
  fill(places, 2);
  EXPECT(!place(places, 3));
  EXPECT(!places.let_go(slot));
  (void)places.take_freed();
  EXPECT_EQ(carry_out(places, broken).size(), 1U);  // the move is not repeated by itself
  EXPECT(is_here(places, 1));
  EXPECT(!places.take_freed());  // nobody is woken, or callers would retry in a loop
  EXPECT(says(places.why_full(), "cannot go to disk: the disk is broken; mend it"));
  EXPECT_EQ(places.disk_bytes_used(), 0);
  EXPECT(!places.let_go(slot));
  EXPECT(carry_out(places).empty());
  EXPECT(!place(places, 3));  // a new caller starts another attempt
  EXPECT(!places.let_go(slot));
  EXPECT_EQ(carry_out(places).size(), 1U);
  EXPECT(place(places, 3));
}

TEST(what_cannot_be_read_says_so_and_lets_others_come) {
  Residency places = places_of(2);
  fill(places, 2);
  EXPECT(!place(places, 3));
  EXPECT(!places.let_go(2 * slot));
  EXPECT_EQ(carry_out(places).size(), 2U);
  places.want(1);
  (void)carry_out(places, broken);
  EXPECT(!is_here(places, 1));
  const auto failure = places.take_failure(1);
  REQUIRE(failure.has_value());
  EXPECT_EQ(failure->text(), broken.text());
  EXPECT(!places.take_failure(1));
  places.ask_again(1);
  (void)carry_out(places, broken);
  places.unwant(1);  // the caller that wanted it left without asking for the error
  places.want(1);
  EXPECT(!places.take_failure(1));
  (void)carry_out(places, broken);
  EXPECT(places.take_failure(1).has_value());
  places.want(2);
  (void)carry_out(places);
  EXPECT(is_here(places, 2));
  places.ask_again(1);
  (void)carry_out(places);
  EXPECT(is_here(places, 1));
}

TEST(a_disk_with_a_limit_is_full) {
  Residency places = places_of(2, disk_alignment);
  fill(places, 2);
  EXPECT(!place(places, 3));
  EXPECT(!places.let_go(slot));
  (void)carry_out(places);
  REQUIRE(place(places, 3));
  places.may_leave(3, 3);
  EXPECT(!place(places, 4));
  EXPECT(!places.let_go(slot));
  EXPECT(carry_out(places).empty());
  EXPECT(says(places.why_full(), "4096 bytes that it may take there are full"));
  EXPECT(says(places.why_full(), "with a larger --spill-max"));
  places.drop(1);
  EXPECT(!place(places, 4));
  EXPECT(!places.let_go(slot));
  EXPECT_EQ(carry_out(places).size(), 1U);
  EXPECT(place(places, 4));
}

TEST(what_fits_the_disk_goes_where_the_oldest_does_not) {
  Residency places = places_of(16, 2 * disk_alignment);
  REQUIRE(place(places, 1, 12 * slot));
  places.may_leave(1, 1);
  for (std::uint64_t object = 2; object <= 5; ++object) {
    REQUIRE(place(places, object));
    places.may_leave(object, object);
  }
  REQUIRE(!place(places, 6));
  EXPECT(!places.let_go(slot));
  EXPECT(carry_out(places) == (std::vector<std::uint64_t>{2}));
  EXPECT(place(places, 6));
  EXPECT(is_here(places, 1));
  REQUIRE(!place(places, 7));
  EXPECT(!places.let_go(slot));
  EXPECT(carry_out(places) == (std::vector<std::uint64_t>{3}));
  EXPECT(place(places, 7));
  REQUIRE(!place(places, 8));
  EXPECT(!places.let_go(slot));
  EXPECT(carry_out(places).empty());
  EXPECT(says(places.why_full(), "are full"));
}

TEST(what_is_dropped_while_it_moves_goes_when_the_move_has_ended) {
  for (const bool well : {true, false}) {
    Residency places = places_of(2);
    fill(places, 2);
    EXPECT(!place(places, 3));
    EXPECT(!places.let_go(slot));
    const auto moves = places.take_moves();
    REQUIRE(moves.size() == 1);
    places.drop(1);
    EXPECT_EQ(places.memory_bytes_used(), 2 * slot);  // the object is still being written
    places.ended(moves[0], well ? Status{} : Status(broken));
    EXPECT_EQ(places.memory_bytes_used(), slot);
    EXPECT_EQ(places.disk_bytes_used(), 0);
    const auto dropped = places.take_moves();
    REQUIRE(dropped.size() == 1);
    EXPECT(dropped[0].kind == Move::Kind::drop);
  }
}

/// Random calls, compared with a model of which bytes lie where.
TEST(no_two_objects_lie_in_one_place_and_all_are_somewhere) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    Residency places = places_of(8, seed % 3 == 0 ? 16 * disk_alignment : spill_bytes_unlimited);
    std::map<std::int64_t, std::uint64_t> memory;  // the object at each offset
    std::map<std::int64_t, std::uint64_t> disk;
    std::map<std::uint64_t, int> pinned;
    std::set<std::uint64_t> objects;
    std::deque<Move> moves;
    std::uint64_t last = 0;
    const auto one_of = [&] {
      auto chosen = objects.begin();
      std::advance(chosen, static_cast<std::ptrdiff_t>(random() % objects.size()));
      return *chosen;
    };
    for (int step = 0; step < 400; ++step) {
      for (const Move& move : places.take_moves()) moves.push_back(move);
      const auto kind = random() % 8;
      if (kind < 3) {
        const auto bytes = static_cast<std::int64_t>(256 * (1 + random() % 4));
        if (!place(places, last + 1, bytes)) {
          (void)places.let_go(bytes);
          continue;
        }
        objects.insert(++last);
        memory[places.range(last).offset] = last;
        places.may_leave(last, last);
      } else if (kind < 6 && !moves.empty()) {
        const Move move = moves.front();
        moves.pop_front();
        if (move.kind == Move::Kind::drop) {
          disk.erase(move.disk.offset);
          continue;
        }
        const bool well = random() % 5 != 0;
        if (well && move.kind == Move::Kind::out) {
          disk[move.disk.offset] = memory.at(move.memory.offset);
        } else if (well) {
          memory[move.memory.offset] = disk.at(move.disk.offset);
        }
        places.ended(move, well ? Status{} : Status(broken));
      } else if (!objects.empty()) {
        const std::uint64_t object = one_of();
        if (kind == 6 && pinned[object] == 0) {
          places.drop(object);
          objects.erase(object);
        } else if (pinned[object] > 0) {
          EXPECT_EQ(memory.at(places.range(object).offset), object);
          places.unpin(object);
          --pinned[object];
        } else if (places.pin(object)) {
          ++pinned[object];
          EXPECT_EQ(memory.at(places.range(object).offset), object);
        } else {
          places.want(object);
          for (const Move& move : places.take_moves()) moves.push_back(move);
          places.unwant(object);
        }
      }
    }
    for (const std::uint64_t object : objects) places.drop(object);
    for (const Move& move : places.take_moves()) moves.push_back(move);
    for (; !moves.empty(); moves.pop_front()) {
      if (moves.front().kind != Move::Kind::drop) places.ended(moves.front(), {});
    }
    EXPECT(places.empty());
    EXPECT_EQ(places.spilled_bytes(), 0);
    EXPECT_EQ(places.disk_bytes_used(), 0);
  }
}

namespace {

/// A machine that has pages for `pages` segments of two slots.
struct SmallMachine {
  int pages = 0;
  std::vector<int> taken{};
  Residency places{options()};

  Residency::Options options() {
    Residency::Options made;
    made.memory_bytes = 64 * slot;
    made.segment_bytes = 2 * slot;
    made.make_segment = [](std::int64_t) { return Status{}; };
    made.take_pages = [this](const Range& part) -> Status {
      if (std::ssize(taken) >= pages) return Error{ErrorCode::out_of_memory, "no pages"};
      taken.push_back(part.segment);
      return {};
    };
    return made;
  }
};

}  // namespace

TEST(who_is_not_ready_takes_room_and_no_pages) {
  SmallMachine machine{1};
  Residency& places = machine.places;
  for (std::uint64_t object = 1; object <= 64; ++object) {
    const auto placed = places.place(object, slot, false);
    REQUIRE(placed.ok() && *placed);
  }
  EXPECT_EQ(places.memory_bytes_used(), 64 * slot);
  EXPECT_EQ(places.sparse_bytes(), 64 * slot);
  EXPECT(machine.taken.empty());
  const auto full = places.place(65, slot, false);
  EXPECT(full.ok() && !*full);
  REQUIRE(places.take_pages(7).ok());
  // the pages of a segment are taken once
  EXPECT(places.take_pages(7).ok() && machine.taken.size() == 1);
  // both objects lie in one segment
  EXPECT(places.has_pages(7) && places.has_pages(8));
  EXPECT(!places.has_pages(1));
  const auto refused = places.take_pages(1);
  EXPECT(!refused.ok() && refused.error().code == ErrorCode::out_of_memory);
  places.drop(1);
  places.drop(7);
  EXPECT_EQ(places.memory_bytes_used(), 62 * slot);
  const auto ready = places.place(66, slot);  // the object goes where pages were taken already
  REQUIRE(ready.ok() && *ready);
  EXPECT_EQ(places.range(66).segment, 3);
  EXPECT(!places.place(67, slot).ok());
  EXPECT_EQ(places.memory_bytes_used(), 63 * slot);  // a refused object occupies no memory
  machine.pages = 2;
  const auto later = places.place(67, slot);
  EXPECT(later.ok() && *later && places.has_pages(67));
}

TEST(what_was_taken_before_serves_when_the_system_has_no_more) {
  SmallMachine machine{1};
  Residency& places = machine.places;
  REQUIRE(place(places, 1) && place(places, 2));
  EXPECT(!places.place(3, slot).ok());
  EXPECT(places.could_hold(2 * slot) && !places.could_hold(3 * slot));
  places.drop(1);
  REQUIRE(place(places, 3));
  EXPECT_EQ(places.range(3).segment, 0);
}

TEST(objects_take_stock_that_is_ready_first) {
  SmallMachine machine{0};  // whoever needs pages before their turn gets none
  Residency& places = machine.places;
  REQUIRE(places.add_stock(64 * slot).ok());
  EXPECT_EQ(places.memory_bytes_used(), 0);
  EXPECT(places.could_hold(64 * slot));
  const auto part = places.claim_stock(8 * slot);
  REQUIRE(part.has_value());
  EXPECT(places.is_growing());
  EXPECT_EQ(part->bytes, 8 * slot);
  (void)places.take_freed();
  places.return_stock(*part, true);
  EXPECT(places.take_freed());
  EXPECT(places.empty() && !places.is_growing());
  for (std::uint64_t object = 1; object <= 8; ++object) {
    const auto placed = places.place(object, slot);
    REQUIRE(placed.ok() && *placed);
    EXPECT(places.has_pages(object));
  }
  EXPECT_EQ(places.memory_bytes_used(), 8 * slot);
  EXPECT(machine.taken.empty());
  const auto refused = places.place(9, slot);
  EXPECT(!refused.ok() && refused.error().code == ErrorCode::out_of_memory);
  EXPECT_EQ(places.memory_bytes_used(), 8 * slot);
}

TEST(stock_that_is_needed_before_its_turn_is_taken_by_who_needs_it) {
  SmallMachine machine{2};
  Residency& places = machine.places;
  REQUIRE(places.add_stock(64 * slot).ok());
  const auto claimed = places.claim_stock(16 * slot);
  REQUIRE(claimed.has_value());
  const auto placed = places.place(1, 40 * slot);  // beside what another thread takes
  REQUIRE(placed.ok() && *placed);
  const Range taken = places.range(1);
  EXPECT(taken.offset >= claimed->offset + claimed->bytes ||
         taken.offset + taken.bytes <= claimed->offset);
  const auto waits = places.place(2, 16 * slot);  // 8 slots are left, which take no pages for it
  REQUIRE(waits.ok());
  EXPECT(!*waits);
  places.return_stock(*claimed, true);
  const auto fits = places.place(2, 16 * slot);
  REQUIRE(fits.ok() && *fits);
  EXPECT_EQ(places.memory_bytes_used(), 56 * slot);
  EXPECT_EQ(std::ssize(machine.taken), 1);
}

TEST(stock_without_pages_is_offered_again) {
  SmallMachine machine{0};
  Residency& places = machine.places;
  REQUIRE(places.add_stock(4 * slot).ok());
  const auto claimed = places.claim_stock(64 * slot);
  REQUIRE(claimed.has_value());
  EXPECT_EQ(claimed->bytes, 4 * slot);
  EXPECT(!places.claim_stock(slot));
  places.return_stock(*claimed, false);
  EXPECT(places.take_freed());
  EXPECT(places.empty());
  machine.pages = 1;
  const auto placed = places.place(1, 4 * slot);
  REQUIRE(placed.ok() && *placed);
  EXPECT(!places.claim_stock(slot));
}

TEST(several_take_stock_of_a_segment_each) {
  SmallMachine machine{1};
  Residency& places = machine.places;
  for (int k = 0; k < 3; ++k) REQUIRE(places.add_stock(4 * slot).ok());
  std::vector<Range> claimed;
  for (int k = 0; k < 6; ++k) {
    const auto part = places.claim_stock(2 * slot);
    REQUIRE(part.has_value());
    EXPECT_EQ(part->segment, k % 3);
    EXPECT_EQ(part->offset, k / 3 * 2 * slot);
    claimed.push_back(*part);
  }
  EXPECT(!places.claim_stock(slot));
  places.return_stock(claimed[4], true);
  places.return_stock(claimed[1], false);
  const auto again = places.claim_stock(2 * slot);
  REQUIRE(again.has_value());
  EXPECT_EQ(again->segment, 1);
  EXPECT_EQ(again->offset, 0);
  places.return_stock(*again, true);
  for (const int k : {0, 2, 3, 5}) places.return_stock(claimed[static_cast<std::size_t>(k)], true);
  EXPECT(!places.is_growing());
  for (std::uint64_t object = 1; object <= 3; ++object) REQUIRE(place(places, object, 4 * slot));
  EXPECT(machine.taken.empty());
}

namespace {

/// A machine that counts the pages of each segment, and gives all that are asked for.
struct CountingMachine {
  std::vector<std::int64_t> segments{};  ///< Their bytes; 0 of those that have gone.
  Residency places{options()};

  Residency::Options options() {
    Residency::Options made;
    made.memory_bytes = 64 * slot;
    made.segment_bytes = 2 * slot;
    made.make_segment = [this](std::int64_t bytes) {
      segments.push_back(bytes);
      return Status{};
    };
    made.take_pages = [this](const Range& part) {
      EXPECT(part.offset + part.bytes <= segments.at(static_cast<std::size_t>(part.segment)));
      return Status{};
    };
    made.give_back_pages = [this](const Range& segment) {
      std::int64_t& bytes = segments.at(static_cast<std::size_t>(segment.segment));
      EXPECT_EQ(segment.offset + segment.bytes, bytes);  // from its end on
      bytes = segment.offset;
    };
    return made;
  }
};

}  // namespace

TEST(stock_that_is_too_small_goes_for_an_object_that_fits_the_memory) {
  CountingMachine machine;
  Residency& places = machine.places;
  REQUIRE(places.add_stock(40 * slot).ok());
  const auto claimed = places.claim_stock(8 * slot);
  REQUIRE(claimed.has_value());
  EXPECT(!place(places, 1, 64 * slot));  // a thread takes pages of the segment
  places.return_stock(*claimed, true);
  REQUIRE(place(places, 2, slot));
  EXPECT(!place(places, 1, 64 * slot));  // an object lies in the segment
  EXPECT(machine.segments == std::vector<std::int64_t>{40 * slot});
  EXPECT(!place(places, 3, 65 * slot));
  REQUIRE(place(places, 4, 24 * slot));  // beside the stock, whose pages nobody asked for
  (void)places.take_freed();
  places.drop(2);
  EXPECT(places.take_freed());
  EXPECT(!place(places, 1, 41 * slot));
  places.drop(4);
  REQUIRE(place(places, 1, 41 * slot));
  EXPECT(places.has_pages(1));
  EXPECT_EQ(machine.segments.at(0), 0);
  EXPECT_EQ(places.memory_bytes_used(), 41 * slot);
  EXPECT(!places.claim_stock(slot) && !places.is_growing());
}

TEST(several_segments_of_stock_go_for_an_object_that_fits_none) {
  CountingMachine machine;
  Residency& places = machine.places;
  for (int k = 0; k < 4; ++k) REQUIRE(places.add_stock(16 * slot).ok());
  const auto claimed = places.claim_stock(8 * slot);
  REQUIRE(claimed.has_value());
  places.return_stock(*claimed, true);
  REQUIRE(place(places, 1, slot));
  EXPECT(!place(places, 2, 64 * slot));  // an object lies in the first
  REQUIRE(place(places, 2, 20 * slot));
  EXPECT(places.has_pages(1) && places.has_pages(2));
  EXPECT_EQ(machine.segments.at(0), 16 * slot);
  EXPECT_EQ(std::count(machine.segments.begin(), machine.segments.end(), 0), 2);
  EXPECT_EQ(places.memory_bytes_used(), 21 * slot);
  const auto rest = places.claim_stock(64 * slot);  // of a segment that has stayed
  REQUIRE(rest.has_value());
  EXPECT(machine.segments.at(static_cast<std::size_t>(rest->segment)) > 0);
}

TEST(a_segment_of_which_a_part_is_claimed_stays) {
  CountingMachine machine;
  Residency& places = machine.places;
  for (int k = 0; k < 4; ++k) REQUIRE(places.add_stock(16 * slot).ok());
  const auto claimed = places.claim_stock(slot);
  REQUIRE(claimed.has_value());
  EXPECT(!place(places, 1, 64 * slot));
  REQUIRE(place(places, 1, 56 * slot));  // beside the thread that takes pages
  EXPECT_EQ(machine.segments.at(0), 8 * slot);
  EXPECT_EQ(std::count(machine.segments.begin(), machine.segments.end(), 0), 3);
  places.return_stock(*claimed, true);
  REQUIRE(place(places, 2, slot));
  EXPECT_EQ(places.range(2).segment, 0);
}

TEST(what_is_free_at_the_ends_of_segments_makes_room) {
  CountingMachine machine;
  Residency& places = machine.places;
  for (int k = 0; k < 2; ++k) REQUIRE(places.add_stock(32 * slot).ok());
  for (std::uint64_t object = 1; object <= 3; ++object) {  // two in segments, one of both ends
    REQUIRE(place(places, object, 20 * slot));
    EXPECT(places.has_pages(object));
  }
  EXPECT(machine.segments == std::vector<std::int64_t>({20 * slot, 24 * slot, 20 * slot}));
  EXPECT_EQ(places.memory_bytes_used(), 60 * slot);
  REQUIRE(place(places, 4, 4 * slot));
  EXPECT(!place(places, 5, slot));
}

TEST(objects_that_grow_slowly_take_few_segments_and_leave_the_others) {
  CountingMachine machine;
  Residency& places = machine.places;
  std::uint64_t last = 0;
  REQUIRE(place(places, ++last, 2 * slot));
  for (std::int64_t bytes = 4 * slot; bytes <= 62 * slot; bytes += object_alignment) {
    REQUIRE(place(places, ++last, bytes));
    places.drop(last);
  }
  EXPECT(machine.segments.size() <= 24);
  EXPECT_EQ(machine.segments.at(0), 2 * slot);  // an object lies there
  EXPECT(places.has_pages(1));
}

TEST(no_more_segments_go_than_an_object_needs) {
  CountingMachine machine;
  Residency& places = machine.places;
  for (std::uint64_t object = 1; object <= 32; ++object) REQUIRE(place(places, object, 2 * slot));
  for (std::uint64_t object = 1; object <= 32; ++object) places.drop(object);
  REQUIRE(place(places, 33, 7 * slot));
  EXPECT_EQ(std::count(machine.segments.begin(), machine.segments.end(), 0),
            6);  // half as much more
  EXPECT_EQ(std::accumulate(machine.segments.begin(), machine.segments.end(), std::int64_t{0}),
            125 * slot / 2);
}

/// Random sizes: with nothing in memory, each object of at most its size has room.
TEST(an_object_that_fits_the_memory_fits_it_whatever_was_there_before) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed);
    CountingMachine machine;
    Residency& places = machine.places;
    std::int64_t stock = seed % 2 == 0 ? 1 + static_cast<std::int64_t>(random() % 64) : 0;
    while (stock > 0) {
      const std::int64_t part = 1 + static_cast<std::int64_t>(random() % 64) % stock;
      REQUIRE(places.add_stock(slot * part).ok());
      stock -= part;
    }
    std::uint64_t last = 0;
    for (int turn = 0; turn < 20; ++turn) {
      std::map<std::uint64_t, Range> here;
      const std::int64_t most = 1 + static_cast<std::int64_t>(random() % 64);
      for (int k = 0; k < 40; ++k) {
        const std::int64_t bytes = slot * (1 + static_cast<std::int64_t>(random() % most));
        const auto placed = places.place(++last, bytes, random() % 2 == 0);
        REQUIRE(placed.ok());
        if (*placed) here[last] = places.range(last);
        const std::int64_t all =
            std::accumulate(machine.segments.begin(), machine.segments.end(), std::int64_t{0});
        EXPECT(all <= 64 * slot);
        if (here.empty() || random() % 3 != 0) continue;
        places.drop(here.begin()->first);
        here.erase(here.begin());
      }
      for (const auto& [object, range] : here) {
        // no segment with an object has gone
        EXPECT(range.offset + range.bytes <=
               machine.segments.at(static_cast<std::size_t>(range.segment)));
        places.drop(object);
      }
      REQUIRE(places.empty());
      REQUIRE(place(places, ++last, slot * (1 + static_cast<std::int64_t>(random() % 64))));
      places.drop(last);
    }
    EXPECT(machine.segments.size() < 500);
  }
}
