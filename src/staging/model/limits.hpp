// What a staging server takes at most, of all clients together or of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/config.hpp"
#include "base/error.hpp"

namespace tranship::staging {

/// Every limit bounds what one client can make a server remember. What is refused names the limit,
/// and the setting that raises it. The defaults are those of Config.
struct Limits {
  std::int64_t clients = 4096;             ///< that are connected; staging_clients
  std::int64_t variables = 100'000;        ///< staging_variables
  std::int64_t name_bytes = 1024;          ///< of a variable's name; staging_name_bytes
  std::int64_t versions_remembered = 256;  ///< intervals of discarded versions, of a variable
  std::int64_t boxes = 1 << 24;            ///< objects and index entries; staging_boxes
  std::int64_t version_boxes = 1 << 20;    ///< of one version; staging_version_boxes
  std::int64_t client_puts = 4096;         ///< under way, of one client; staging_puts
  std::int64_t client_leases = 4096;       ///< of one client; staging_leases
  std::int64_t lease_s = 3600;  ///< seconds; a client that reads for longer gets no more;
                                ///< staging_lease_s
};

/// More than this, no message has room for.
constexpr std::int64_t name_bytes_most = 1024;
constexpr std::int64_t type_bytes_most = 64;

/// Whether elements of a variable may have so many bytes.
constexpr bool possible_element_bytes(std::int64_t bytes) { return bytes >= 1 && bytes <= 16; }

/// @error invalid_argument if a limit is none, which says the setting
Result<Limits> limits_of(const Config& config);

/// Says that a limit was reached: `what` the server has or the client has, how many, and the
/// setting.
Error limit_reached(const std::string& what, std::int64_t limit, const std::string& setting);

}  // namespace tranship::staging
