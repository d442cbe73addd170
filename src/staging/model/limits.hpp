// Limits of a staging server, for all clients together or for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/config.hpp"
#include "base/error.hpp"

namespace tranship::staging {

/// Every limit bounds what one client can make a server remember. A refusal names the limit and the
/// setting that raises it. The defaults are those of Config.
struct Limits {
  std::int64_t clients = 4096;             ///< Connected clients; staging_clients.
  std::int64_t variables = 100'000;        ///< Variables; staging_variables.
  std::int64_t name_bytes = 1024;          ///< Of a variable's name; staging_name_bytes.
  std::int64_t versions_remembered = 256;  ///< Intervals of discarded versions of a variable.
  std::int64_t boxes = 1 << 24;            ///< Objects and index entries; staging_boxes.
  std::int64_t version_boxes = 1 << 20;    ///< Of one version; staging_version_boxes.
  std::int64_t client_puts = 4096;         ///< Unfinished puts of one client; staging_puts.
  std::int64_t client_leases = 4096;       ///< Of one client; staging_leases.
  std::int64_t lease_s = 3600;   ///< Seconds; a client that reads for longer gets no further
                                 ///< lease; staging_lease_s.
  std::int64_t steps = 100'000;  ///< That the first server remembers; staging_steps.
  /// Bytes of the attributes of a step, a variable or a run; staging_attribute_bytes.
  std::int64_t attribute_bytes = std::int64_t{4} << 20;
};

/// Bounds of messages.
constexpr std::int64_t name_bytes_most = 1024;
constexpr std::int64_t type_bytes_most = 4096;  ///< That of a structure lists its fields.
constexpr std::int64_t element_bytes_most = std::int64_t{1} << 20;

/// Returns whether elements of a variable may have that size.
constexpr bool possible_element_bytes(std::int64_t bytes) {
  return bytes >= 1 && bytes <= element_bytes_most;
}

/// Reads the limits of a configuration.
/// @error invalid_argument if a setting is out of range, which names it
Result<Limits> limits_of(const Config& config);

/// Returns the error of a limit that was reached. `what`: The things that are limited, as a clause
/// such as "the clients of the server are".
Error limit_reached(const std::string& what, std::int64_t limit, const std::string& setting);

}  // namespace tranship::staging
