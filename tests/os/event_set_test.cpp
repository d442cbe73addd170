// Descriptors that a thread sleeps on.
#include "os/event_set.hpp"

#include <sys/eventfd.h>

#include <array>

#include "support/test.hpp"

using namespace tranship;

TEST(an_event_set_returns_the_tags_of_descriptors_that_are_ready) {
  const FileDescriptor quiet(eventfd(0, EFD_NONBLOCK));
  const FileDescriptor ready(eventfd(1, EFD_NONBLOCK));
  EventSet set;
  EXPECT(!set);
  REQUIRE(set.open());
  REQUIRE(set.add(quiet.get(), 1));
  REQUIRE(set.add(ready.get(), 2));
  EXPECT(!set.add(ready.get(), 3));  // it is there already
  std::array<epoll_event, 4> room{};
  const auto came = set.wait(room, 0);
  REQUIRE(came.size() == 1);
  EXPECT_EQ(came[0].data.u64, std::uint64_t{2});

  REQUIRE(set.change(ready.get(), 2, 0));
  EXPECT(set.wait(room, 0).empty());
  REQUIRE(set.change(ready.get(), 4, EPOLLIN));
  EXPECT_EQ(set.wait(room, 0).size(), std::size_t{1});
  EXPECT_EQ(room[0].data.u64, std::uint64_t{4});
  set.remove(ready.get());
  EXPECT(set.wait(room, 0).empty());
}
