// Notices: what a requester says to the owner of an array that it has copied to or from.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "os/process.hpp"

namespace tranship::fabric {

/// Longest name of a notice, in bytes.
constexpr std::size_t notice_name_bytes_max = 256;

/// The message that a copy to an export has written all its bytes, or a copy from it has read them.
struct CopyNotice {
  std::string name;     ///< as the requester has chosen it
  bool written = true;  ///< False: the requester has read the array.
  std::string array{};  ///< name of the export
  std::string label{};  ///< the requester, for messages
  Identity sender{};    ///< the requester, as it has introduced itself
};

/// Checks the name of a notice.
/// @error invalid_argument if it is empty, too long, or no UTF-8 text without control characters
Status check_notice_name(std::string_view name);

/// Returns the body of the command that sends a notice.
std::vector<std::byte> encode_notice(std::string_view name, bool written);

/// Reads the body of a command. Returns false if the bytes are no notice with a valid name.
bool decode(std::span<const std::byte> bytes, CopyNotice& notice);

}  // namespace tranship::fabric
