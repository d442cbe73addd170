// Statistics: how much of each variable was put and got, and by which paths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace tranship::staging {

/// Path of data sent inside messages.
constexpr std::string_view message_path = "message";
/// Path of gets that returned a view of the server's memory.
constexpr std::string_view view_path = "view";

/// Paths that are counted apart; further ones are counted together, so that lists fit messages.
constexpr std::size_t paths_max = 4;

/// Totals of all puts, or all gets, of a variable.
struct TransferTotals {
  std::int64_t count = 0;
  std::int64_t bytes = 0;
  std::int64_t nanoseconds = 0;  ///< Duration of the calls, waits included; 0 on servers.
  /// Count by path, as plans name it; paths beyond paths_max together.
  std::map<std::string, std::int64_t, std::less<>> paths;

  /// Adds calls, or a part of a call that is counted elsewhere (`calls` is 0). Allocates nothing
  /// once the path is known.
  void add(std::int64_t calls, std::int64_t bytes_more, std::string_view path,
           std::int64_t nanoseconds_more = 0);
  void add(const TransferTotals& other);
};

struct VariableTraffic {
  TransferTotals puts;
  TransferTotals gets;
};

/// Statistics by variable. Not thread-safe. Costs are logarithms.
using Traffic = std::map<std::string, VariableTraffic>;

}  // namespace tranship::staging
