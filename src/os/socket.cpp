#include "os/socket.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/hmac.hpp"
#include "os/file_error.hpp"

namespace tranship {
namespace {

constexpr int backlog = 1024;
/// Times after which the kernel resends no more (Linux's default, net.ipv4.tcp_retries2).
constexpr int resends_max = 15;
/// TCP_RTO_MAX_MS, since Linux 6.15: the longest interval between two resends, in milliseconds.
constexpr int resend_interval_max = 44;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress local_address(const std::string& name) {
  SocketAddress address;
  auto& local = reinterpret_cast<sockaddr_un&>(address.storage);
  local.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof local.sun_path - 1);
  std::memcpy(local.sun_path + 1, name.data(), length);  // the leading NUL makes it abstract
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

/// Takes "host:port" or "[v6]:port".
Result<SocketAddress> resolve(const std::string& text, bool passive) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) {
    return Error{ErrorCode::invalid_argument, "'" + text + "' is not host:port"};
  }
  std::string host = text.substr(0, colon);
  const std::string port = text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (code != 0 || found == nullptr) {
    return Error{ErrorCode::invalid_argument,
                 "'" + text + "' cannot be used as host:port: " + gai_strerror(code)};
  }
  SocketAddress address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

bool is_any(const sockaddr_storage& storage) {
  if (storage.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(storage).sin_addr.s_addr == INADDR_ANY;
  }
  return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr) != 0;
}

/// Returns the address of a listener on all interfaces: that of the first one that is up and is not
/// loopback, or on loopback if there is no other. Any other address as it is.
sockaddr_storage reachable(const sockaddr_storage& storage) {
  if (!is_any(storage)) return storage;
  sockaddr_storage chosen = storage;
  const auto take = [&](const sockaddr* from) {
    if (from->sa_family == AF_INET) {
      reinterpret_cast<sockaddr_in&>(chosen).sin_addr =
          reinterpret_cast<const sockaddr_in*>(from)->sin_addr;
    } else {
      reinterpret_cast<sockaddr_in6&>(chosen).sin6_addr =
          reinterpret_cast<const sockaddr_in6*>(from)->sin6_addr;
    }
  };
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return storage;
  bool found = false;
  for (const bool loopback_too : {false, true}) {
    for (const ifaddrs* one = all; one != nullptr && !found; one = one->ifa_next) {
      const bool fits = one->ifa_addr != nullptr && one->ifa_addr->sa_family == storage.ss_family;
      const bool up = (one->ifa_flags & IFF_UP) != 0;
      if (!fits || !up || ((one->ifa_flags & IFF_LOOPBACK) != 0 && !loopback_too)) continue;
      take(one->ifa_addr);
      found = true;
    }
  }
  freeifaddrs(all);
  return chosen;
}

std::string print(const sockaddr_storage& storage) {
  char host[NI_MAXHOST] = {};
  char port[NI_MAXSERV] = {};
  getnameinfo(reinterpret_cast<const sockaddr*>(&storage), sizeof storage, host, sizeof host, port,
              sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  std::string text = storage.ss_family == AF_INET6 ? "[" : "";
  text.append(host).append(storage.ss_family == AF_INET6 ? "]:" : ":").append(port);
  return text;
}

FileDescriptor make_socket(int family) {
  return FileDescriptor(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

Result<FileDescriptor> begin_connect(const SocketAddress& address, const std::string& name) {
  FileDescriptor made = make_socket(address.storage.ss_family);
  if (!made) return Error{ErrorCode::io, "no socket for " + name + ": " + errno_text()};
  int code = 0;
  do {
    code = connect(made.get(), address.get(), address.length) == 0 ? 0 : errno;
  } while (code == EINTR);
  if (code == 0 || code == EINPROGRESS) return made;
  const bool busy = code == EAGAIN;  // a Unix-domain listener whose queue is full
  return Error{busy ? ErrorCode::timeout : ErrorCode::peer_lost,
               "cannot connect to " + name + ": " +
                   (busy ? "too many others connect at this moment" : std::strerror(code))};
}

}  // namespace

Result<std::pair<FileDescriptor, std::string>> listen_locally() {
  std::array<std::byte, 16> random{};
  if (Status status = fill_random(random); !status) return status.error();
  std::string name = "tranship-" + to_hex(random);
  const SocketAddress address = local_address(name);
  FileDescriptor made = make_socket(AF_UNIX);
  if (!made || bind(made.get(), address.get(), address.length) != 0 ||
      listen(made.get(), backlog) != 0) {
    return Error{ErrorCode::io, "no Unix-domain socket to listen on: " + errno_text()};
  }
  return std::pair(std::move(made), std::move(name));
}

Result<std::pair<FileDescriptor, std::string>> listen_on_network(const std::string& text) {
  const auto address = resolve(text, true);
  if (!address) return address.error();
  FileDescriptor made = make_socket(address->storage.ss_family);
  SocketAddress bound;
  bound.length = sizeof bound.storage;
  const int yes = 1;
  if (made) (void)setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (!made || bind(made.get(), address->get(), address->length) != 0 ||
      listen(made.get(), backlog) != 0 ||
      getsockname(made.get(), bound.get(), &bound.length) != 0) {
    return Error{ErrorCode::io, "cannot listen on " + text + ": " + errno_text(),
                 "choose another address, or port 0 for any free one"};
  }
  return std::pair(std::move(made), print(reachable(bound.storage)));
}

Result<FileDescriptor> connect_locally(const std::string& name) {
  return begin_connect(local_address(name), "unix:@" + name);
}

Result<FileDescriptor> connect_over_network(const std::string& text) {
  const auto address = resolve(text, false);
  if (!address) return address.error();
  return begin_connect(*address, text);
}

int socket_error(const FileDescriptor& socket) {
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error;
}

std::string remote_address(const FileDescriptor& socket) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getpeername(socket.get(), address.get(), &address.length) != 0) return "";
  return print(address.storage);
}

void prepare_network_socket(const FileDescriptor& socket, int silence_s) {
  const auto set = [&](int level, int option, int value) {
    (void)setsockopt(socket.get(), level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, std::max(silence_s / 4, 1));
  set(IPPROTO_TCP, TCP_KEEPINTVL, std::max(silence_s / 4, 1));
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  // The times between two resends double. Without a limit a connection is idle after an
  // interruption for as long again, and one to a machine that is gone ends after 15 minutes. Older
  // kernels ignore the limit.
  set(IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, 1);
  set(IPPROTO_TCP, resend_interval_max, std::max(1000 * silence_s / resends_max, 1000));
}

}  // namespace tranship
