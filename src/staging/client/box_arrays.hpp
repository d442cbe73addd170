// Arrays of a program as boxes of variables: their checks, and dense arrays of the same boxes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/array.hpp"
#include "engine/copy_options.hpp"
#include "staging/model/box.hpp"

namespace tranship::staging {

/// Returns the mapping of a dense array of a box, with the field of another array.
Result<std::shared_ptr<const Mapping>> dense(const Box& box, const Mapping& like,
                                             std::int64_t offset);
/// Mappings of dense arrays for one call: boxes of the same extents, and elements as those of the
/// same array, share one. One thread at a time may call members.
class DenseMappings {
 public:
  /// As dense().
  Result<std::shared_ptr<const Mapping>> of(const Box& box,
                                            const std::shared_ptr<const Mapping>& like,
                                            std::int64_t offset);

 private:
  std::shared_ptr<const Mapping> like_;
  std::int64_t offset_ = 0;
  std::shared_ptr<const Mapping> last_;
};

/// Returns the mapping of a dense array of the array's own box, moved to the origin.
Result<std::shared_ptr<const Mapping>> dense_of(const Array& array);

/// Returns the box of an array at a corner. A dimension without indices gets one, and its bit is
/// set in `empty_dimensions`.
Result<Box> box_of(const Array& array, const std::vector<std::int64_t>& lower,
                   std::uint32_t* empty_dimensions);

/// @error invalid_argument unless the elements lie whole
Status check_one_field(const Array& array);
/// @error invalid_argument unless the target has such elements
Status check_type(const std::string& type, std::int64_t element_bytes, const Array& target);
/// Checks the target of a get before it waits.
Status check_target(const Array& target, const Box& box);

/// Returns options of a copy that starts after the work in the array's own stream.
CopyOptions behind(const Array& array);
/// Copies between an array of this process and a dense buffer of its box.
Status copy_dense(const Array& array, std::byte* buffer, bool into_array);

}  // namespace tranship::staging
