// Contact files: the address, the identity and the key of a process that others connect to.
#pragma once

#include <optional>
#include <string>

#include "base/error.hpp"
#include "base/hmac.hpp"
#include "os/process.hpp"

namespace tranship::fabric {

/// How to reach a process. Its text, which Engine::contact and the staging messages carry, is
/// "unix:@NAME", "tcp:HOST:PORT" or both, joined by a comma; the text contains no key.
struct Contact {
  std::string local{};       ///< Abstract Unix-domain address, without its leading NUL.
  std::string network{};     ///< HOST:PORT; empty: the process listens on no network.
  std::optional<Key> key{};  ///< Authenticates both sides to each other over a network.
  Identity identity{};       ///< The process that wrote the contact file; empty: there is no file.
  std::string file{};        ///< Path of the contact file; empty: there is none.

  /// Returns the addresses, without the key.
  std::string text() const;
};

/// Writes a contact file with mode 0600, completely or not at all. Replaces the contact file of a
/// process that has exited; follows no link.
/// @error invalid_argument if the file is another running process's, or no contact file; io
Status write_contact(const std::string& path, const Contact& contact);

/// Removes the contact file if it is still the file of `contact`.
void remove_contact(const std::string& path, const Contact& contact);

/// Reads a contact file, or takes `text` as a contact's text or HOST:PORT if there is no such file.
/// @error not_found if it is neither; invalid_argument if the file is something else; peer_lost if
///        the process that wrote the file has exited
Result<Contact> read_contact(const std::string& text);

}  // namespace tranship::fabric
