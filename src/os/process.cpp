#include "os/process.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace tranship {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Field 22 of /proc/PID/stat; the second field may contain spaces and ends with the last ')'.
std::uint64_t start_ticks(std::int64_t pid) {
  const std::string line = first_line("/proc/" + std::to_string(pid) + "/stat");
  const auto end = line.rfind(')');
  if (end == std::string::npos) return 0;
  std::istringstream fields(line.substr(end + 1));
  std::string skipped;
  for (int k = 3; k < 22; ++k) fields >> skipped;
  std::uint64_t ticks = 0;
  fields >> ticks;
  return ticks;
}

}  // namespace

Identity own_identity() {
  Identity identity;
  identity.pid = getpid();
  identity.start_ticks = start_ticks(identity.pid);
  identity.boot = first_line("/proc/sys/kernel/random/boot_id");
  char text[256] = {};
  const ssize_t length = readlink("/proc/self/ns/pid", text, sizeof text - 1);
  if (length > 0) identity.pid_namespace.assign(text, static_cast<std::size_t>(length));
  if (gethostname(text, sizeof text - 1) == 0) identity.host = text;
  return identity;
}

bool alive(const Identity& identity) {
  // A process that was killed but not yet waited for still has an entry, whose state is Z.
  const std::string line = first_line("/proc/" + std::to_string(identity.pid) + "/stat");
  const auto end = line.rfind(')');
  if (end == std::string::npos || end + 2 >= line.size()) return false;
  const char state = line[end + 2];
  if (state == 'Z' || state == 'X') return false;
  return start_ticks(identity.pid) == identity.start_ticks;
}

Result<SocketPeer> peer_of(int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return Error{ErrorCode::io, std::string("the kernel does not say who is at the other end of a "
                                            "socket: ") +
                                    std::strerror(errno)};
  }
  SocketPeer peer;
  peer.pid = credentials.pid;
  peer.user = credentials.uid;
  int pidfd = -1;
  length = sizeof pidfd;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &length) != 0) {
    // Kernels before 6.5: the number could be another process's only if the peer died meanwhile,
    // and then nothing answers at its socket.
    pidfd = peer.pid > 0 ? static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)) : -1;
  }
  peer.pidfd = FileDescriptor(pidfd);
  if (!peer.pidfd) {
    return Error{ErrorCode::io, std::string("no descriptor for the process at the other end: ") +
                                    std::strerror(errno)};
  }
  return peer;
}

bool has_ended(const FileDescriptor& pidfd) {
  pollfd entry{pidfd.get(), POLLIN, 0};
  return pidfd && poll(&entry, 1, 0) == 1 && (entry.revents & POLLIN) != 0;
}

}  // namespace tranship
