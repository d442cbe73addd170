// How much of each variable was put and got, and by which paths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace tranship::staging {

/// The path of what goes inside messages.
constexpr std::string_view message_path = "message";

/// So that a list of variables fits its messages: more paths than these are counted together.
constexpr std::size_t paths_max = 4;

/// All puts, or all gets, of a variable.
struct TransferTotals {
  std::int64_t count = 0;
  std::int64_t bytes = 0;
  std::int64_t nanoseconds = 0;  ///< of the calls, waits included; servers do not know it
  /// How many by each path, as plans name them; those beyond a few together.
  std::map<std::string, std::int64_t, std::less<>> paths;

  /// `calls` is 0 for a part of a call that is counted elsewhere. Allocates nothing once the path
  /// is known.
  void add(std::int64_t calls, std::int64_t bytes_more, std::string_view path,
           std::int64_t nanoseconds_more = 0);
  void add(const TransferTotals& other);
};

struct VariableTraffic {
  TransferTotals puts;
  TransferTotals gets;
};

/// By variable. Not thread-safe. Costs are logarithms.
using Traffic = std::map<std::string, VariableTraffic>;

}  // namespace tranship::staging
