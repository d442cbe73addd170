#include "base/lent_vector.hpp"

#include <memory>
#include <thread>
#include <vector>

#include "support/test.hpp"

using namespace tranship;

namespace {

TEST(a_thread_lends_the_memory_of_the_last_call) {
  const int* first = nullptr;
  {
    LentVector<int> numbers;
    numbers.items().assign(1000, 7);
    first = numbers.items().data();
  }
  LentVector<int> again;
  again.items().assign(500, 1);
  EXPECT_EQ(again.items().data(), first);
  const int* other = nullptr;
  std::thread([&] {
    LentVector<int> numbers;
    numbers.items().assign(10, 1);
    other = numbers.items().data();
    EXPECT_EQ(numbers.items().size(), std::size_t{10});
  }).join();
  EXPECT(other != first);
}

TEST(two_at_the_same_time_share_nothing_and_the_larger_is_kept) {
  const long* larger = nullptr;
  {
    LentVector<long> one;
    LentVector<long> two;
    one.items().assign(10, 1);
    two.items().assign(1000, 2);
    EXPECT_EQ(one.items()[9], 1);
    larger = two.items().data();
  }
  LentVector<long> again;
  again.items().assign(1000, 3);
  EXPECT_EQ(again.items().data(), larger);
}

TEST(what_owns_something_is_cleared_and_moved_memory_is_not_kept) {
  auto owned = std::make_shared<int>(1);
  {
    LentVector<std::shared_ptr<int>> owners;
    owners.items().push_back(owned);
    EXPECT_EQ(owned.use_count(), 2);
  }
  EXPECT_EQ(owned.use_count(), 1);
  std::vector<std::shared_ptr<int>> taken;
  {
    LentVector<std::shared_ptr<int>> owners;
    owners.items().push_back(owned);
    taken = std::move(owners.items());
  }
  EXPECT_EQ(owned.use_count(), 2);
  LentVector<std::shared_ptr<int>> fresh;
  EXPECT(fresh.items().empty());
}

TEST(a_long_vector_is_given_back) {
  {
    LentVector<char> bytes;
    bytes.items().assign(std::size_t{8} << 20, 'x');
  }
  LentVector<char> again;
  EXPECT_EQ(again.items().capacity(), std::size_t{0});
}

}  // namespace
