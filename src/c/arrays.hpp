// Arrays, layouts and regions of C programs, converted to those of the core.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/region.hpp"
#include "gpu/gpus.hpp"
#include "staging/model/box.hpp"
#include "tranship/array.h"

namespace tranship::c_api {

/// Returns the lower corner of an array's box.
std::vector<std::int64_t> lower_of(const tranship_array& array);

/// Returns the box that an array stands for; its data and element type are not used.
/// @error invalid_argument for a rank, extents or indices that no box has
Result<staging::Box> box_of(const tranship_array& array);

/// Returns a field of the element type of this name, such as "f8".
/// @error invalid_argument for a name that is none
Result<Field> field_of(const char* type);

/// Returns the array itself. `gpus` tells whether it lies on a GPU; null: there is none.
/// @error as box_of(); invalid_argument for an unknown type or order, for no data, and for strides
///        that reach further than addresses do
Result<Array> array_of(const tranship_array& array, const Gpus* gpus);

/// Returns where each element of a layout lies.
/// @error invalid_argument for a name, an extent, a type or an order that is not usable
Result<std::shared_ptr<const Mapping>> mapping_of(const tranship_layout& layout);

/// Sets the memory of an array whose address is a GPU's. For any other array sets the backing: its
/// own, if its memory is mapped nowhere else.
void locate(Array& array, const Gpus* gpus);

/// Returns the ranges of a list that a caller gave.
/// @error invalid_argument for a list or a name that is null
Result<std::vector<NamedRange>> region_of(const tranship_range* ranges, std::int64_t count);

}  // namespace tranship::c_api
