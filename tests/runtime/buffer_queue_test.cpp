// The queue of transfers that wait for buffers, compared with a slow, simple one.
#include <algorithm>
#include <memory>
#include <vector>

#include "base/random.hpp"
#include "runtime/buffer_queue.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

constexpr int memories = 4;
constexpr std::int64_t page = BufferPool::page_bytes;
constexpr std::int64_t capacity = 4 * page;

BufferPool::MemoryLimits limits() {
  static std::byte one{};
  return {capacity, {[](std::int64_t) { return &one; }, [](std::byte*, std::int64_t) {}}};
}

bool goes_before(const BufferWaiter& a, const BufferWaiter& b) {
  return a.priority != b.priority ? a.priority > b.priority : a.age < b.age;
}

bool compete(const BufferWaiter& a, const BufferWaiter& b) {
  for (const BufferRequest& mine : a.buffer_requests) {
    for (const BufferRequest& other : b.buffer_requests) {
      if (mine.memory == other.memory) return true;
    }
  }
  return false;
}

/// A queue that goes through all waiters again and again until none can be served.
struct Oracle {
  std::vector<std::int64_t> used = std::vector<std::int64_t>(memories, 0);
  std::vector<BufferWaiter*> waiting;

  bool fits(const BufferWaiter& waiter) const {
    std::vector<std::int64_t> sum = used;
    for (const BufferRequest& one : waiter.buffer_requests) {
      sum[static_cast<std::size_t>(one.memory)] += one.bytes;
    }
    return std::all_of(sum.begin(), sum.end(), [](std::int64_t n) { return n <= capacity; });
  }

  std::vector<BufferWaiter*> serve() {
    std::sort(waiting.begin(), waiting.end(),
              [](const auto* a, const auto* b) { return goes_before(*a, *b); });
    std::vector<BufferWaiter*> served;
    for (std::size_t k = 0; k < waiting.size();) {
      BufferWaiter* one = waiting[k];
      const bool overtakes =
          std::any_of(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(k),
                      [&](const auto* before) { return compete(*before, *one); });
      if (overtakes || !fits(*one)) {
        ++k;
        continue;
      }
      for (const BufferRequest& request : one->buffer_requests) {
        used[static_cast<std::size_t>(request.memory)] += request.bytes;
      }
      served.push_back(one);
      waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(k));
      k = 0;
    }
    return served;
  }

  void give_back(const BufferWaiter& waiter) {
    for (const BufferRequest& request : waiter.buffer_requests) {
      used[static_cast<std::size_t>(request.memory)] -= request.bytes;
    }
  }
};

std::unique_ptr<BufferWaiter> random_waiter(Random& random, std::uint64_t age) {
  auto waiter = std::make_unique<BufferWaiter>();
  for (auto left = random.below(5); left > 0; --left) {
    // Each request has one page: a larger one might fit no hole, although there is enough room.
    waiter->buffer_requests.push_back({static_cast<int>(random.below(memories)), page});
  }
  waiter->priority = static_cast<int>(random.below(3));
  waiter->age = age;
  return waiter;
}

template <typename List>
auto sorted(List list) {
  std::sort(list.begin(), list.end());
  return list;
}

}  // namespace

TEST(buffers_go_by_priority_and_age_and_nobody_is_overtaken) {
  Random random(7);
  std::int64_t granted_in_all = 0;
  std::int64_t waited = 0;
  for (int round = 0; round < 300; ++round) {
    BufferPool pool({limits(), limits(), limits(), limits()});
    BufferQueue queue(pool);
    Oracle oracle;
    std::vector<std::unique_ptr<BufferWaiter>> all;
    std::vector<BufferWaiter*> holders;
    for (int step = 0; step < 60; ++step) {
      std::vector<BufferWaiter*> granted;
      const auto dice = random.below(10);
      if (dice < 5) {
        all.push_back(random_waiter(random, static_cast<std::uint64_t>(step)));
        oracle.waiting.push_back(all.back().get());
        queue.enter(*all.back(), granted);
      } else if (dice < 6 && !oracle.waiting.empty()) {
        BufferWaiter* gone = oracle.waiting.back();
        oracle.waiting.pop_back();
        queue.leave(*gone, granted);
      } else if (!holders.empty()) {
        BufferWaiter* gone = holders.front();
        holders.erase(holders.begin());
        oracle.give_back(*gone);
        queue.give_back(*gone, granted);
      }
      const auto wanted = oracle.serve();
      REQUIRE(sorted(granted) == sorted(wanted));
      holders.insert(holders.end(), granted.begin(), granted.end());
      granted_in_all += static_cast<std::int64_t>(granted.size());
      waited += static_cast<std::int64_t>(oracle.waiting.size());
    }
    for (std::vector<BufferWaiter*> granted; !holders.empty(); granted.clear()) {
      queue.give_back(*holders.back(), granted);
      holders.pop_back();
      holders.insert(holders.end(), granted.begin(), granted.end());
    }
    for (int memory = 0; memory < memories; ++memory) EXPECT_EQ(pool.bytes_in_use(memory), 0);
  }
  EXPECT(granted_in_all > 5000);
  EXPECT(waited > 5000);  // otherwise nothing was tested
}

TEST(buffers_can_come_back_one_by_one) {
  BufferPool pool({limits(), limits()});
  BufferQueue queue(pool);
  std::vector<BufferWaiter*> granted;
  BufferWaiter first;
  first.buffer_requests = {{0, 3 * page}, {1, 3 * page}};
  BufferWaiter second;
  second.buffer_requests = {{0, 2 * page}};
  second.age = 1;
  queue.enter(first, granted);
  queue.enter(second, granted);
  EXPECT_EQ(granted.size(), 1u);
  queue.give_back(first, 0, granted);
  EXPECT_EQ(granted.size(), 2u);
  queue.give_back(first, 0, granted);  // giving it back again does nothing
  EXPECT_EQ(pool.bytes_in_use(0), 2 * page);
  queue.give_back(first, granted);
  queue.give_back(second, granted);
  EXPECT_EQ(pool.bytes_in_use(0) + pool.bytes_in_use(1), 0);
}
