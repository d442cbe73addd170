// An int as an index of a container.
#pragma once

#include <cstddef>

namespace tranship {

/// Returns `index`, which is 0 or more, as the type by which containers are indexed.
constexpr std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace tranship
