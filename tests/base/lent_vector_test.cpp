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
    numbers->assign(1000, 7);
    first = numbers->data();
  }
  LentVector<int> again;
  again->assign(500, 1);
  EXPECT_EQ(again->data(), first);
  const int* other = nullptr;
  std::thread([&] {
    LentVector<int> numbers;
    numbers->assign(10, 1);
    other = numbers->data();
    EXPECT_EQ(numbers->size(), std::size_t{10});
  }).join();
  EXPECT(other != first);
}

TEST(two_at_the_same_time_share_nothing_and_the_larger_is_kept) {
  const long* larger = nullptr;
  {
    LentVector<long> one;
    LentVector<long> two;
    one->assign(10, 1);
    two->assign(1000, 2);
    EXPECT_EQ((*one)[9], 1);
    larger = two->data();
  }
  LentVector<long> again;
  again->assign(1000, 3);
  EXPECT_EQ(again->data(), larger);
}

TEST(what_owns_something_is_cleared_and_moved_memory_is_not_kept) {
  auto owned = std::make_shared<int>(1);
  {
    LentVector<std::shared_ptr<int>> owners;
    owners->push_back(owned);
    EXPECT_EQ(owned.use_count(), 2);
  }
  EXPECT_EQ(owned.use_count(), 1);
  std::vector<std::shared_ptr<int>> taken;
  {
    LentVector<std::shared_ptr<int>> owners;
    owners->push_back(owned);
    taken = std::move(*owners);
  }
  EXPECT_EQ(owned.use_count(), 2);
  LentVector<std::shared_ptr<int>> fresh;
  EXPECT(fresh->empty());
}

/// Uses lent memory while the thread ends, after that memory was destroyed.
struct UsedAtTheEnd {
  ~UsedAtTheEnd() {
    LentVector<double> numbers;
    numbers->assign(1000, 2.0);
    LentVector<double> others;
    others->assign(10, 3.0);
    *sum = (*numbers)[999] + (*others)[9];
  }
  double* sum = nullptr;
};

TEST(it_has_memory_of_its_own_while_a_thread_ends) {
  double sum = 0;
  std::thread([&] {
    thread_local UsedAtTheEnd last;  // made before the lent memory, and so destroyed after it
    last.sum = &sum;
    LentVector<double> numbers;
    numbers->assign(1000, 1.0);
  }).join();
  EXPECT_EQ(sum, 5.0);
}

TEST(a_long_vector_is_given_back) {
  {
    LentVector<char> bytes;
    bytes->assign(std::size_t{8} << 20, 'x');
  }
  LentVector<char> again;
  EXPECT_EQ(again->capacity(), std::size_t{0});
}

}  // namespace
