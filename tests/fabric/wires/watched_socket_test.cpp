// A socket, and the events for which it is watched.
#include "fabric/wires/watched_socket.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "support/test.hpp"

using namespace tranship;
using namespace tranship::fabric;

TEST(a_socket_is_watched_for_room_while_its_writer_has_something_to_write) {
  std::array<int, 2> numbers{-1, -1};
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, numbers.data()) == 0);
  const FileDescriptor other(numbers[1]);
  EventSet events;
  REQUIRE(events.open());
  WatchedSocket socket(events);
  socket.reset(FileDescriptor(numbers[0]));
  std::array<epoll_event, 2> room{};
  FrameWriter writer(false);
  EXPECT(socket.watch(7, writer));
  EXPECT(events.wait(room, 0).empty());
  EXPECT(writer.send({}, false));  // stays in the queue, as the writer has no stream
  EXPECT(socket.watch(7, writer));
  REQUIRE(events.wait(room, 0).size() == 1);
  EXPECT_EQ(room[0].data.u64, std::uint64_t{7});

  const FileDescriptor handed_over = socket.release();
  EXPECT_EQ(handed_over.get(), numbers[0]);
  EXPECT(events.wait(room, 0).empty());
  EXPECT(!socket.watch(7, EPOLLIN));  // there is no socket now
}

TEST(a_socket_that_is_shut_down_ends_for_both_sides) {
  std::array<int, 2> numbers{-1, -1};
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, numbers.data()) == 0);
  const FileDescriptor other(numbers[1]);
  EventSet events;
  WatchedSocket socket(events);
  socket.reset(FileDescriptor(numbers[0]));
  socket.shut_down();
  char byte = 0;
  EXPECT_EQ(read(other.get(), &byte, 1), ssize_t{0});
  EXPECT_EQ(read(socket.descriptor().get(), &byte, 1), ssize_t{0});
}
