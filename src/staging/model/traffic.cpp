#include "staging/model/traffic.hpp"

namespace tranship::staging {
namespace {

constexpr std::size_t path_bytes_max = 96;
constexpr std::string_view other_paths = "others";

/// Adds with saturation.
void increase(std::int64_t& sum, std::int64_t by) {
  if (__builtin_add_overflow(sum, by, &sum)) sum = INT64_MAX;
}

}  // namespace

void TransferTotals::add(std::int64_t calls, std::int64_t bytes_more, std::string_view path,
                         std::int64_t nanoseconds_more) {
  increase(count, calls);
  increase(bytes, bytes_more);
  increase(nanoseconds, nanoseconds_more);
  if (calls == 0) return;
  path = path.substr(0, path_bytes_max);
  auto found = paths.find(path);
  if (found == paths.end()) {
    const auto name = paths.size() < paths_max ? path : other_paths;
    found = paths.emplace(name, 0).first;
  }
  increase(found->second, calls);
}

void TransferTotals::add(const TransferTotals& other) {
  increase(count, other.count);
  increase(bytes, other.bytes);
  increase(nanoseconds, other.nanoseconds);
  for (const auto& [path, calls] : other.paths) increase(paths[path], calls);
}

}  // namespace tranship::staging
