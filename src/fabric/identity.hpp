// Which process this is, and whether another one is alive.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "tranship/error.hpp"

namespace tranship {

/// Enough to tell whether two processes share a machine, and a process from a later one with the
/// same number.
struct Identity {
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;  ///< since boot
  std::string boot;               ///< the kernel's boot id
  std::string pid_namespace;
  std::string host;

  bool same_machine(const Identity& other) const {
    return !boot.empty() && boot == other.boot && pid_namespace == other.pid_namespace;
  }
};

Identity own_identity();

/// Whether the process of `identity`, which must be of this machine, still runs.
bool alive(const Identity& identity);

/// A descriptor that becomes readable when the process ends.
/// @error peer_lost if it is gone; unsupported if the kernel has no pidfd_open
Result<int> watch(const Identity& identity);

/// A contact file: where a process listens and who it is.
struct Contact {
  std::string address;  ///< host:port
  Identity identity;
};

/// Writes the file whole or not at all.
Status write_contact(const std::string& path, const Contact& contact);

/// Reads a contact file, or takes `text` as host:port if there is no such file.
/// @error not_found if it is neither; peer_lost if the process that wrote the file is gone
Result<Contact> read_contact(const std::string& text);

}  // namespace tranship
