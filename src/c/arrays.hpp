// Arrays as a C program describes them.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/array.hpp"
#include "gpu/gpus.hpp"
#include "staging/model/box.hpp"
#include "tranship/tranship.h"

namespace tranship::c_api {

/// The lower corner of an array's box.
std::vector<std::int64_t> lower_of(const tranship_array& array);

/// The box that an array stands for; its data and element type do not matter.
/// @error invalid_argument for a rank, extents or indices that no box has
Result<staging::Box> box_of(const tranship_array& array);

/// An element of a type's name.
/// @error invalid_argument for an unknown one
Result<Field> field_of(const char* type);

/// The array itself. `gpus` says whether it lies on one; null: there is none.
/// @error as box_of(); invalid_argument for an unknown type or order, for no data, and for strides
///        that reach further than addresses do
Result<Array> array_of(const tranship_array& array, const Gpus* gpus);

}  // namespace tranship::c_api
