#include "staging/server/preallocator.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t whole = std::int64_t{1} << 30;

/// Memory without pages, of which parts are claimed from the start on.
struct Memory {
  std::mutex mutex;
  std::int64_t claimed = 0;
  std::int64_t ready = 0;
  std::int64_t refused = 0;
  std::int64_t pages = whole;  ///< that the system has

  Preallocator::Callbacks callbacks() {
    return {[this](std::int64_t bytes) -> std::optional<Range> {
              const std::lock_guard lock(mutex);
              if (claimed == whole) return std::nullopt;
              const Range part{0, claimed, std::min(bytes, whole - claimed)};
              claimed += part.bytes;
              return part;
            },
            [this](const Range& part) -> Status {
              const std::lock_guard lock(mutex);
              if (part.offset + part.bytes <= pages) return {};
              return Error{ErrorCode::out_of_memory, "no pages"};
            },
            [this](const Range& part, bool is_ready) {
              const std::lock_guard lock(mutex);
              (is_ready ? ready : refused) += part.bytes;
            }};
  }

  /// Waits until so many bytes are ready, and no more, or until a part was given back without
  /// pages.
  bool reaches(std::int64_t bytes) {
    for (int turn = 0; turn < 6000; ++turn) {
      {
        const std::lock_guard lock(mutex);
        if (ready >= bytes || refused > 0) return ready == bytes;
      }
      std::this_thread::sleep_for(5ms);
    }
    return false;
  }
};

}  // namespace

TEST(a_preallocator_takes_all_pages_and_ends) {
  for (const int threads : {1, 4}) {
    Memory memory;
    Preallocator preallocator(memory.callbacks(), 0, threads);
    EXPECT(memory.reaches(whole));
    preallocator.stop();
    EXPECT_EQ(memory.ready, whole);
    EXPECT_EQ(memory.refused, 0);
  }
}

TEST(a_preallocator_gives_back_what_got_no_pages_and_ends) {
  Memory memory;
  memory.pages = whole / 4 - 1;  // all but the last byte of a part
  Preallocator thread(memory.callbacks(), 0, 1);
  EXPECT(!memory.reaches(whole));
  thread.stop();
  EXPECT(memory.ready < whole / 4 && memory.ready > 0);
  EXPECT(memory.refused > 0 && memory.claimed == memory.ready + memory.refused);
}

TEST(a_preallocator_leaves_the_machine_what_it_is_to_leave) {
  Memory memory;
  Preallocator thread(memory.callbacks(), std::int64_t{1} << 60, 1);
  thread.stop();
  EXPECT_EQ(memory.claimed, 0);
}
