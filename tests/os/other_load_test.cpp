// What other processes take of the processors.
#include "os/other_load.hpp"

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "support/test.hpp"

namespace tranship {
namespace {

using Clock = std::chrono::steady_clock;

/// Keeps one processor busy.
void work(std::chrono::milliseconds time) {
  const auto end = Clock::now() + time;
  while (Clock::now() < end) continue;
}

TEST(others_are_counted) {
  const OtherLoad load;
  const pid_t other = fork();
  REQUIRE(other >= 0);
  if (other == 0) {
    for (volatile unsigned turns = 0;;) turns = turns + 1;
  }
  // Its share is small on a machine with many processors, and its turn comes late on a busy one.
  const auto end = Clock::now() + std::chrono::seconds(20);
  while (load.share() == 0 && Clock::now() < end) work(std::chrono::milliseconds(20));
  const double share = load.share();
  (void)kill(other, SIGKILL);
  (void)waitpid(other, nullptr, 0);
  EXPECT(share > 0 && share <= 1);
}

TEST(a_share_is_between_none_and_all) {
  const OtherLoad load;
  EXPECT(load.share() >= 0 && load.share() <= 1);
  work(std::chrono::milliseconds(50));
  EXPECT(load.share() >= 0 && load.share() <= 1);
}

}  // namespace
}  // namespace tranship
