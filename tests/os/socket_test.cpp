// The options of connections over a network.
#include "os/socket.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>

#include "support/test.hpp"

using namespace tranship;

namespace {

/// Returns a TCP socket's option; -1 if the kernel does not know it.
int option(const FileDescriptor& socket, int name) {
  int value = 0;
  socklen_t length = sizeof value;
  if (getsockopt(socket.get(), IPPROTO_TCP, name, &value, &length) == 0) return value;
  REQUIRE(errno == ENOPROTOOPT);
  return -1;
}

}  // namespace

TEST(a_connection_ends_after_the_given_silence) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  REQUIRE(static_cast<bool>(socket));
  prepare_network_socket(socket, 60);
  REQUIRE(option(socket, TCP_KEEPIDLE) == 15);
  REQUIRE(option(socket, TCP_KEEPIDLE) + 3 * option(socket, TCP_KEEPINTVL) == 60);
  constexpr int resend_interval_max = 44;  // since Linux 6.15
  const int interval = option(socket, resend_interval_max);
  REQUIRE(interval == 4000 || interval == -1);
}
