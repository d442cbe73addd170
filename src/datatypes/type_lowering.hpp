// Lowering of types: a copy between two types becomes nests and indexed nests.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "data/indexed_nest.hpp"
#include "datatypes/type_form.hpp"

namespace tranship {

/// Returns what moves the elements of one type to those of another, one by one in their order. The
/// two have as many bytes. Offsets count from the address of each side.
/// @error unsupported if the two fit so badly that the copy would take more than 2^24 pieces
Result<std::vector<TypePart>> combine(const TypeForm& source, const TypeForm& target);

/// Adds the parts to `copy`, a group for each. `source_begin` and `target_begin` are added to all
/// offsets. An entry has at most `entry_bytes_max` bytes.
void lower_parts(const std::vector<TypePart>& parts, std::int64_t source_begin,
                 std::int64_t target_begin, std::int64_t entry_bytes_max, IndexedCopy& copy);

}  // namespace tranship
