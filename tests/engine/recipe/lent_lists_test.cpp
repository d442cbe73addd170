#include "engine/recipe/lent_lists.hpp"

#include <memory>
#include <thread>

#include "support/test.hpp"

using namespace tranship;

namespace {

/// Lists that count themselves.
struct CountedLists {
  static inline int alive = 0;
  int items = 0;

  CountedLists() { ++alive; }
  CountedLists(const CountedLists&) = delete;
  CountedLists& operator=(const CountedLists&) = delete;
  ~CountedLists() { --alive; }
  void clear() { items = 0; }
};

}  // namespace

TEST(a_thread_lends_the_lists_that_it_has_dropped) {
  std::thread([] {
    auto lists = lent_lists<CountedLists>();
    const CountedLists* first = lists.get();
    lists->items = 3;
    lists.reset();
    lists = lent_lists<CountedLists>();
    EXPECT(lists.get() == first && lists->items == 0);
    const auto beside = lent_lists<CountedLists>();
    EXPECT(beside != lists);
    EXPECT_EQ(CountedLists::alive, 2);
  }).join();
  EXPECT_EQ(CountedLists::alive, 0);
}

TEST(lists_go_with_the_thread_that_drops_them) {
  auto lists = lent_lists<CountedLists>();
  std::thread([&] { lists.reset(); }).join();
  EXPECT_EQ(CountedLists::alive, 0);
}

TEST(lists_that_are_dropped_while_a_thread_ends_go) {
  std::thread([] {
    thread_local std::shared_ptr<CountedLists> last;  // destroyed after what the thread keeps
    last = nullptr;
    last = lent_lists<CountedLists>();
  }).join();
  EXPECT_EQ(CountedLists::alive, 0);
}
