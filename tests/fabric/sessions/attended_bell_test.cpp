// The bell, and the descriptor by which it wakes the caller that attends to the wire.
#include "fabric/sessions/attended_bell.hpp"

#include <poll.h>

#include "support/test.hpp"

using namespace tranship;
using namespace tranship::fabric;

namespace {

bool readable(int descriptor) {
  pollfd one{descriptor, POLLIN, 0};
  return poll(&one, 1, 0) == 1;
}

}  // namespace

TEST(a_bell_makes_its_descriptor_readable_while_it_is_attended) {
  AttendedBell bell;
  REQUIRE(bell.open());
  bell.ring();
  EXPECT_EQ(bell.bell().rings(), std::uint32_t{1});
  EXPECT(!readable(bell.descriptor()));
  bell.set_attended(true);
  bell.ring();
  EXPECT_EQ(bell.bell().rings(), std::uint32_t{2});
  EXPECT(readable(bell.descriptor()));
  bell.drain();
  EXPECT(!readable(bell.descriptor()));
  bell.set_attended(false);
  bell.ring();
  EXPECT(!readable(bell.descriptor()));
}
