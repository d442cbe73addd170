// Shared memory that a thread of the engine pins part by part.
#include "gpu/background_pinner.hpp"

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#include "os/available_memory.hpp"
#include "support/test.hpp"
#include "support/waiting.hpp"

namespace tranship {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::int64_t part_bytes = std::int64_t{64} << 10;
constexpr std::int64_t parts_count = 4;
constexpr std::int64_t run_least = 2 * 4096;
constexpr std::int64_t memory_bytes = parts_count * part_bytes;

struct Lab {
  explicit Lab(EmulatedPinning pinning = {}) : gpus(Gpus::emulate(1, pinning)) {
    auto made = SharedMemory::allocate({.bytes = memory_bytes, .huge_pages = false});
    REQUIRE(made.ok());
    memory = *made;
    const PinnedParts::Options options{memory->data(), memory_bytes, part_bytes, true, run_least};
    parts = std::static_pointer_cast<PinnedParts>(
        memory->registration([&] { return std::make_shared<PinnedParts>(gpus, options); }));
  }
  /// Lets the system allocate the pages of a part.
  void touch(std::int64_t part) const {
    std::memset(memory->data() + part * part_bytes, 1, static_cast<std::size_t>(part_bytes));
  }
  bool is_pinned(std::int64_t part) const {
    return gpus->pinned_bytes_from(memory->data() + part * part_bytes) == part_bytes;
  }
  std::int64_t pinned_count() const {
    std::int64_t count = 0;
    for (std::int64_t k = 0; k < parts_count; ++k) count += is_pinned(k) ? 1 : 0;
    return count;
  }

  std::shared_ptr<Gpus> gpus;
  std::shared_ptr<SharedMemory> memory;
  std::shared_ptr<PinnedParts> parts;
};

}  // namespace

TEST(parts_whose_pages_are_there_are_pinned_ahead) {
  const Lab lab;
  lab.touch(2);
  EXPECT(!lab.parts->pin_next(Clock::now()));
  lab.parts->pin_ahead();
  EXPECT(lab.parts->pin_next(Clock::now()));
  EXPECT(lab.is_pinned(2));
  EXPECT(!lab.parts->pin_next(Clock::now()));
  EXPECT_EQ(lab.pinned_count(), 1);
  EXPECT(!lab.parts->are_over());
}

TEST(ranges_beyond_the_parts_are_left_out) {
  const Lab lab;
  const PinnedParts::Options options{lab.memory->data(), part_bytes + 4096, part_bytes, true};
  PinnedParts parts(lab.gpus, options);
  EXPECT(parts.want(0, memory_bytes, Clock::now()));
  EXPECT(!parts.want(3 * part_bytes, part_bytes, Clock::now()));
  lab.touch(0);
  lab.touch(1);
  EXPECT(parts.pin_next(Clock::now()));
  EXPECT(parts.pin_next(Clock::now()));
  EXPECT(parts.are_over());
  EXPECT_EQ(lab.gpus->pinned_bytes_from(lab.memory->data() + part_bytes), 4096);
}

TEST(wanted_parts_are_pinned_first) {
  const Lab lab;
  lab.touch(0);
  lab.touch(3);
  EXPECT(lab.parts->want(2 * part_bytes + 1, part_bytes, Clock::now()));
  EXPECT(!lab.parts->want(2 * part_bytes + 1, part_bytes, Clock::now()));
  EXPECT(lab.parts->pin_next(Clock::now()));
  EXPECT(lab.is_pinned(3));
  EXPECT(lab.parts->pin_next(Clock::now()));
  EXPECT(lab.is_pinned(0));
  EXPECT(!lab.parts->pin_next(Clock::now()));
  lab.touch(1);
  lab.touch(2);
  EXPECT(lab.parts->pin_next(Clock::now()));
  EXPECT(lab.is_pinned(2));
  EXPECT(lab.parts->pin_next(Clock::now()));
  EXPECT(lab.parts->are_pinned());
}

TEST(runs_of_a_wanted_part_are_pinned_if_pages_stay_away) {
  const Lab lab;
  const std::byte* begin = lab.memory->data();
  lab.memory->data()[0] = std::byte{1};  // a run of one page is too short
  std::memset(lab.memory->data() + 5 * 4096, 1, 3 * 4096);
  Clock::time_point now = Clock::now();
  EXPECT(lab.parts->want(0, 10, now));
  EXPECT(!lab.parts->pin_next(now));
  now += milliseconds(101);
  EXPECT(lab.parts->pin_next(now));
  EXPECT_EQ(lab.gpus->pinned_bytes_from(begin + 5 * 4096), 3 * 4096);
  EXPECT_EQ(lab.gpus->pinned_bytes_from(begin), 0);
  std::memset(lab.memory->data() + 8 * 4096, 1, 2 * 4096);
  EXPECT(!lab.parts->pin_next(now));
  now += milliseconds(101);
  EXPECT(lab.parts->pin_next(now));
  EXPECT_EQ(lab.gpus->pinned_bytes_from(begin + 8 * 4096), 2 * 4096);
  now += milliseconds(101);
  EXPECT(!lab.parts->pin_next(now));
  lab.touch(0);
  EXPECT(lab.parts->pin_next(now));
  EXPECT_EQ(lab.gpus->pinned_bytes_from(begin), 5 * 4096);
  EXPECT(lab.parts->pin_next(now));
  EXPECT(!lab.parts->pin_next(now));
  EXPECT_EQ(lab.gpus->pinned_bytes_from(begin + 10 * 4096), part_bytes - 10 * 4096);
}

TEST(pinned_parts_end_with_the_memory) {
  Lab lab;
  lab.touch(0);
  lab.touch(1);
  lab.parts->pin_ahead();
  while (lab.parts->pin_next(Clock::now())) continue;
  EXPECT_EQ(lab.pinned_count(), 2);
  const std::byte* begin = lab.memory->data();
  lab.parts.reset();
  EXPECT(lab.gpus->where(begin).kind == MemoryKind::pinned);
  lab.memory.reset();
  EXPECT(lab.gpus->where(begin).kind == MemoryKind::host);
}

TEST(after_a_refusal_nothing_is_pinned) {
  const Lab lab({.bytes_per_second = 0});
  lab.touch(0);
  lab.parts->pin_ahead();
  EXPECT(!lab.parts->pin_next(Clock::now()));
  EXPECT(lab.parts->are_over());
  EXPECT_EQ(lab.pinned_count(), 0);
  BackgroundPinner pinner;
  pinner.add(lab.memory, lab.parts);
  pinner.want(*lab.parts, 0, memory_bytes);
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(lab.pinned_count(), 0);
}

TEST(the_thread_pins_parts_as_their_pages_appear) {
  const Lab lab;
  BackgroundPinner pinner;
  lab.parts->pin_ahead();
  pinner.add(lab.memory, lab.parts);
  pinner.add(lab.memory, lab.parts);
  for (std::int64_t k = 0; k < parts_count; ++k) {
    lab.touch(k);
    EXPECT(test::eventually([&] { return lab.is_pinned(k); }));
    EXPECT_EQ(lab.pinned_count(), k + 1);
  }
  EXPECT(test::eventually([&] { return lab.parts->are_over(); }));
}

TEST(the_thread_pins_what_copies_want) {
  const Lab lab;
  BackgroundPinner pinner;
  pinner.add(lab.memory, lab.parts);
  lab.touch(0);
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(lab.pinned_count(), 0);
  const auto begin = Clock::now();
  pinner.want(*lab.parts, 0, 10);
  EXPECT(test::eventually([&] { return lab.is_pinned(0); }));
  EXPECT(Clock::now() - begin >= milliseconds(50));  // the first copy has run meanwhile
}

TEST(what_its_owner_has_given_back_is_unpinned) {
  const Lab lab;
  for (std::int64_t k = 0; k < parts_count; ++k) lab.touch(k);
  lab.parts->pin_ahead();
  while (lab.parts->pin_next(Clock::now())) continue;
  REQUIRE(lab.parts->are_pinned());
  lab.parts->unpin_given_back();
  EXPECT_EQ(lab.pinned_count(), parts_count);
  // The end of a segment, which begins within a part: what lies before is still used.
  give_back_pages(*lab.memory, part_bytes + 4096, memory_bytes - part_bytes - 4096);
  lab.parts->unpin_given_back();
  EXPECT(lab.is_pinned(0) && lab.is_pinned(1));
  EXPECT_EQ(lab.pinned_count(), 2);
  EXPECT(lab.parts->are_over());
  EXPECT(!lab.parts->are_pinned());
  lab.touch(2);
  (void)lab.parts->want(2 * part_bytes, 10, Clock::now());
  EXPECT(!lab.parts->pin_next(Clock::now()));
}

TEST(the_thread_unpins_what_is_given_back_after_all_was_pinned) {
  const Lab lab;
  BackgroundPinner pinner;
  lab.parts->pin_ahead();
  pinner.add(lab.memory, lab.parts);
  for (std::int64_t k = 0; k < parts_count; ++k) lab.touch(k);
  EXPECT(test::eventually([&] { return lab.parts->are_pinned(); }));
  std::this_thread::sleep_for(milliseconds(2100));  // it has nothing to do any more
  EXPECT(lab.parts->are_pinned());
  give_back_pages(*lab.memory, 0, memory_bytes);
  EXPECT(test::eventually([&] { return lab.pinned_count() == 0; }));
}

TEST(the_thread_keeps_no_memory) {
  Lab lab;
  BackgroundPinner pinner;
  lab.parts->pin_ahead();
  pinner.add(lab.memory, lab.parts);
  lab.touch(0);
  EXPECT(test::eventually([&] { return lab.is_pinned(0); }));
  const std::byte* begin = lab.memory->data();
  const std::weak_ptr<SharedMemory> memory = lab.memory;
  lab.parts.reset();
  lab.memory.reset();
  EXPECT(test::eventually([&] { return memory.expired(); }));
  EXPECT(test::eventually([&] { return lab.gpus->where(begin).kind == MemoryKind::host; }));
}

TEST(stopping_waits_for_one_part_only) {
  // A machine that stands still for a second between the two counts lets two parts be pinned.
  EXPECT(test::succeeds_once([] {
    // A part takes a second, and the memory four.
    const Lab lab({.bytes_per_second = part_bytes});
    for (std::int64_t k = 0; k < parts_count; ++k) lab.touch(k);
    lab.parts->pin_ahead();
    BackgroundPinner pinner;
    pinner.add(lab.memory, lab.parts);
    std::this_thread::sleep_for(milliseconds(20));
    const std::int64_t before = lab.pinned_count();
    pinner.stop();
    const std::int64_t after = lab.pinned_count();
    pinner.add(lab.memory, lab.parts);
    pinner.want(*lab.parts, 0, memory_bytes);
    EXPECT_EQ(lab.pinned_count(), after);
    return after <= before + 1;
  }));
}

}  // namespace tranship
