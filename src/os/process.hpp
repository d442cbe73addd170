// Processes of this machine: which one this is, which one is at the other end of a socket.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/error.hpp"
#include "os/descriptor.hpp"

namespace tranship {

/// Tells a process from a later one with the same number, and whether two share a machine.
struct Identity {
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;  ///< Clock ticks since boot.
  std::string boot;               ///< The kernel's boot id.
  std::string pid_namespace;
  std::string host;

  bool same_machine(const Identity& other) const {
    return !boot.empty() && boot == other.boot && pid_namespace == other.pid_namespace;
  }
};

Identity own_identity();

/// Returns whether the process of `identity`, which must be of this machine, still runs.
bool alive(const Identity& identity);

/// The process at the other end of a Unix-domain socket, as the kernel says.
struct SocketPeer {
  pid_t pid = 0;  ///< 0: it lies in a namespace of processes that this one does not see.
  uid_t user = 0;
  FileDescriptor pidfd;  ///< Readable when the process has ended; none if the kernel has no pidfds.
};

/// @error io if the kernel does not say who is there
Result<SocketPeer> peer_of(int socket);

/// Returns whether the process of a pidfd has ended.
bool has_ended(const FileDescriptor& pidfd);

}  // namespace tranship
