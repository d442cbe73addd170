// Numbers for the names of element types, which compare faster than names.
#pragma once

#include <cstdint>
#include <string_view>

namespace tranship {

/// Returns the number of a type in this process: 1 or more, the same for the same name and size
/// only. 0: too many types have numbers, and this one gets none. Threads: all.
std::int64_t type_number_of(std::string_view name, std::int64_t bytes);

}  // namespace tranship
