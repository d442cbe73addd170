// Identities of processes of this machine: this one, and those at the other end of a socket.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/error.hpp"
#include "os/descriptor.hpp"

namespace tranship {

/// Distinguishes a process from a later one with the same number, and from those of other machines.
struct Identity {
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;  ///< Clock ticks since boot.
  std::string boot;               ///< The kernel's boot id.
  std::string pid_namespace;
  std::string host;

  /// Returns whether both processes run on one machine, in one namespace of processes.
  bool same_machine(const Identity& other) const {
    return !boot.empty() && boot == other.boot && pid_namespace == other.pid_namespace;
  }
  bool same_process(const Identity& other) const {
    return pid == other.pid && start_ticks == other.start_ticks && same_machine(other);
  }
};

/// Returns the identity of this process.
Identity own_identity();

/// Returns whether the process of `identity`, which must be of this machine, still runs.
bool alive(const Identity& identity);

/// The process at the other end of a Unix-domain socket, as the kernel reports it.
struct SocketPeer {
  pid_t pid = 0;  ///< 0: the process lies in a namespace that this one does not see.
  uid_t user = 0;
  FileDescriptor
      pidfd;  ///< Readable when the process has exited; none if the kernel has no pidfds.
};

/// Returns the process at the other end of a Unix-domain socket.
/// @error io if the kernel does not report it
Result<SocketPeer> peer_of(int socket);

/// Returns whether the process of a pidfd has exited.
bool has_ended(const FileDescriptor& pidfd);

}  // namespace tranship
