// Sizes, rates and times as text for people.
#pragma once

#include <cstdint>
#include <string>

namespace tranship {

/// Returns a size such as "64 MiB", "1.5 GiB" or "12 B".
std::string format_bytes(std::int64_t bytes);
/// Returns a rate such as "12.3 GB/s", in decimal gigabytes as is usual for bandwidths.
std::string format_rate(double bytes_per_second);
/// Returns a time such as "3.2 us", "1.4 ms" or "2.00 s".
std::string format_seconds(double seconds);

}  // namespace tranship
