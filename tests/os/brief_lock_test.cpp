// Locks that are held only for moments.
#include "os/brief_lock.hpp"

#include <chrono>
#include <thread>
#include <vector>

#include "support/test.hpp"

using namespace tranship;
using namespace std::chrono_literals;

TEST(a_brief_lock_lets_one_in_at_a_time) {
  std::mutex mutex;
  int count = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int k = 0; k < 5000; ++k) {
        const auto lock = brief_lock(mutex);
        EXPECT(lock.owns_lock());
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 20000);
}

TEST(a_brief_lock_of_what_is_held_for_long_is_had_in_the_end) {
  std::mutex mutex;
  std::unique_lock held(mutex);
  std::thread other([&] { EXPECT(brief_lock(mutex).owns_lock()); });
  std::this_thread::sleep_for(20ms);
  held.unlock();
  other.join();
  EXPECT(brief_lock(mutex).owns_lock());
}
