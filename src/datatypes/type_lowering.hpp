// Lowering of types: a copy between two types becomes nests and indexed nests.
#pragma once

#include <cstdint>

#include "base/error.hpp"
#include "data/indexed_nest.hpp"
#include "datatypes/type_form.hpp"

namespace tranship {

/// Adds to `copy` what moves the elements of one type to those of another, one by one in their
/// order; the two have as many bytes. The types count from `source_begin` and `target_begin`, in
/// bytes from the bases. An entry has at most `entry_bytes_max` bytes.
/// @error unsupported if the types fit so badly that the copy would take more than 2^24 pieces
Status lower_types(const TypeForm& source, const TypeForm& target, std::int64_t source_begin,
                   std::int64_t target_begin, std::int64_t entry_bytes_max, IndexedCopy& copy);

}  // namespace tranship
