// Notices of copies: what other processes say once they have copied.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "error.hpp"
#include "peers.h"

namespace tranship {

/// A copy of another process to or from an instance that this process exports. All its bytes were
/// written, or read, before the notice arrived.
struct Notice {
  std::string name;     ///< what the other process gave as `notify`
  std::string array;    ///< name of the export; of several that one call copied, the first
  bool written = true;  ///< false: the other process has read the instance
  std::string sender;   ///< the other process: its number, and its machine
};

namespace detail {

/// Returns the notices of a list, and frees it.
inline std::vector<Notice> c_notices(tranship_notices* given) {
  const std::unique_ptr<tranship_notices, Free<tranship_notices_free>> held(given);
  std::vector<Notice> found;
  for (std::int64_t k = 0; k < tranship_notices_size(given); ++k) {
    tranship_notice notice{};
    check(tranship_notices_entry(given, k, &notice));
    found.push_back({notice.name, notice.array, notice.written != 0, notice.sender});
  }
  return found;
}

}  // namespace detail
}  // namespace tranship
