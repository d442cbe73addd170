// Sizes and rates as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace tranship {

/// "64 MiB", "1.5 GiB", "12 B".
std::string format_bytes(std::int64_t bytes);
/// "12.3 GB/s" (decimal gigabytes, as bandwidths are written).
std::string format_rate(double bytes_per_second);
/// "3.2 us", "1.4 ms", "2.0 s".
std::string format_seconds(double seconds);

}  // namespace tranship
