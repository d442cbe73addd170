// Memory of the caller's as an array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/array.hpp"

namespace tranship {

/// Returns an array of named dimensions in memory of this process's host, without an owner. bytes:
/// Size of the memory from `address` on.
/// @error invalid_argument if the mapping reaches beyond it
Result<Array> array_in_memory(std::shared_ptr<const Mapping> mapping, std::byte* address,
                              std::int64_t bytes);

}  // namespace tranship
