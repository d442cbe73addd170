#include "base/gate.hpp"

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "base/unless_interrupted.hpp"
#include "support/test.hpp"
#include "support/waiting.hpp"

using namespace tranship;

TEST(a_closed_gate_admits_no_caller_and_waits_for_those_inside) {
  Gate gate;
  std::optional<Gate::Pass> inside = gate.enter();
  EXPECT(static_cast<bool>(*inside));
  EXPECT(gate.close());
  EXPECT(!gate.close());
  EXPECT(!gate.enter());
  EXPECT(!gate.wait_empty(std::chrono::milliseconds(5)));
  inside.reset();
  EXPECT(gate.wait_empty(std::chrono::milliseconds(0)));
}

TEST(no_caller_is_inside_a_gate_that_was_closed_and_is_empty) {
  for (int round = 0; round < 50; ++round) {
    Gate gate;
    std::atomic<bool> freed{false};
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int k = 0; k < 4; ++k) {
      threads.emplace_back([&] {
        while (const auto pass = gate.enter()) {
          if (freed.load()) ++wrong;
        }
      });
    }
    gate.close();
    EXPECT(gate.wait_empty(test::patience));
    freed = true;
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong.load(), 0);
  }
}

TEST(an_uninterrupted_wait_returns_the_result) {
  const auto result =
      unless_interrupted<int>([] { return Result<int>(7); }, [] { return false; }, [](int) {});
  REQUIRE(result.has_value());
  EXPECT_EQ(result->value(), 7);
}

TEST(an_interrupted_wait_ends_soon_and_undoes_a_later_result) {
  auto released = std::make_shared<std::atomic<bool>>(false);
  auto undone = std::make_shared<std::atomic<int>>(0);
  const auto begin = std::chrono::steady_clock::now();
  const auto result = unless_interrupted<int>(
      [released]() -> Result<int> {
        while (!*released) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return 7;
      },
      [] { return true; }, [undone](int value) { *undone = value; });
  EXPECT(!result.has_value());
  EXPECT(std::chrono::steady_clock::now() - begin < test::soon);
  *released = true;
  EXPECT(test::eventually([&] { return *undone != 0; }));
  EXPECT_EQ(undone->load(), 7);
}
