#include "c/arrays.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "data/mapping.hpp"
#include "engine/checks.hpp"

namespace tranship::c_api {
namespace {

constexpr std::array<std::string_view, 15> types{"b1", "i1", "i2", "i4", "i8",  "u1", "u2", "u4",
                                                 "u8", "f2", "f4", "f8", "f16", "c8", "c16"};
/// Far above what any memory holds.
constexpr std::int64_t bytes_max = std::int64_t{1} << 62;

Status check_rank(const tranship_array& array) {
  static_assert(TRANSHIP_RANK_MAX == dimensions_max);
  if (array.rank >= 0 && array.rank <= TRANSHIP_RANK_MAX) return {};
  return invalid("the array's rank is " + std::to_string(array.rank) + "; it must be from 0 to " +
                 std::to_string(TRANSHIP_RANK_MAX));
}

/// The bytes of an element of a type's name.
Result<std::int64_t> element_bytes(const char* type) {
  if (type == nullptr) return invalid("the array's `type` is NULL; give it, such as \"f8\"");
  const std::string_view name(type);
  if (std::find(types.begin(), types.end(), name) == types.end()) {
    std::string known;
    for (const std::string_view one : types) known += " " + std::string(one);
    return invalid("the array's type is \"" + std::string(name.substr(0, 32)) + "\"; use one of" +
                   known);
  }
  return std::atoll(type + 1);
}

/// Strides of a dense array. Its bytes fit.
std::vector<std::int64_t> dense_strides(const tranship_array& array, std::int64_t bytes) {
  std::vector<std::int64_t> strides(static_cast<std::size_t>(array.rank));
  std::int64_t stride = bytes;
  for (int k = 0; k < array.rank; ++k) {
    const int dimension = array.order == TRANSHIP_FORTRAN_ORDER ? k : array.rank - 1 - k;
    strides[static_cast<std::size_t>(dimension)] = stride;
    stride *= array.extents[dimension];
  }
  return strides;
}

/// The array's own strides; those of extents of 1, which nothing depends on, become 0.
/// @error invalid_argument if they reach too far
Result<std::vector<std::int64_t>> own_strides(const tranship_array& array) {
  std::vector<std::int64_t> strides;
  std::int64_t reach = 0;
  for (int k = 0; k < array.rank; ++k) {
    strides.push_back(array.extents[k] > 1 ? array.strides[k] : 0);
    std::int64_t step = 0;
    if (__builtin_mul_overflow(array.extents[k] - 1, strides.back(), &step) || step <= -bytes_max ||
        step >= bytes_max || __builtin_add_overflow(reach, std::abs(step), &reach) ||
        reach >= bytes_max) {
      return invalid("the stride of the array's dimension " + std::to_string(k) + " is " +
                     std::to_string(array.strides[k]) +
                     " bytes, which reaches further than any memory; give strides in bytes");
    }
  }
  return strides;
}

Result<std::vector<std::int64_t>> strides_of(const tranship_array& array, std::int64_t bytes,
                                             std::int64_t points) {
  if (array.order != TRANSHIP_C_ORDER && array.order != TRANSHIP_FORTRAN_ORDER) {
    return invalid("the array's order is " + std::to_string(array.order) +
                   "; use TRANSHIP_C_ORDER or TRANSHIP_FORTRAN_ORDER");
  }
  if (points > bytes_max / bytes) {
    return invalid("the array has " + std::to_string(points) +
                   " elements, more than any memory; lower its extents");
  }
  const bool dense =
      std::all_of(array.strides, array.strides + array.rank, [](auto s) { return s == 0; });
  if (dense) return dense_strides(array, bytes);
  return own_strides(array);
}

/// Says so if the array's first element lies on a GPU.
void locate(Array& array, const Gpus* gpus) {
  if (gpus == nullptr) return;
  const PointerInfo info = gpus->where(array.place.address);
  if (info.kind != PointerKind::device && info.kind != PointerKind::managed) return;
  array.where = Where::device;
  array.device = info.device;
  array.name = "an array on a GPU";
}

}  // namespace

Result<Field> field_of(const char* type) {
  const auto bytes = element_bytes(type);
  if (!bytes) return bytes.error();
  return Field{"f0", type, *bytes};
}

std::vector<std::int64_t> lower_of(const tranship_array& array) {
  return {array.lower, array.lower + array.rank};
}

Result<staging::Box> box_of(const tranship_array& array) {
  if (Status status = check_rank(array); !status) return status.error();
  std::vector<std::int64_t> upper;
  for (int k = 0; k < array.rank; ++k) {
    std::int64_t end = 0;
    if (array.extents[k] < 1 || __builtin_add_overflow(array.lower[k], array.extents[k], &end)) {
      return invalid("the array's dimension " + std::to_string(k) + " has extent " +
                     std::to_string(array.extents[k]) + " from index " +
                     std::to_string(array.lower[k]) +
                     " on; an extent must be at least 1, and indices fit 64 bits");
    }
    upper.push_back(end);
  }
  return staging::Box::make(lower_of(array), upper);
}

Result<Array> array_of(const tranship_array& array, const Gpus* gpus) {
  const auto box = box_of(array);
  if (!box) return box.error();
  const auto bytes = element_bytes(array.type);
  if (!bytes) return bytes.error();
  if (array.data == nullptr) return invalid("the array's `data` is NULL; give its first element");
  auto strides = strides_of(array, *bytes, box->points());
  if (!strides) return strides.error();
  IndexSpace space;
  for (int k = 0; k < array.rank; ++k) {
    space.push_back({"d" + std::to_string(k), array.extents[k]});
  }
  auto mapping =
      Mapping::make_strided(std::move(space), {{{"f0", array.type, *bytes}, 0, *strides}});
  if (!mapping) return mapping.error();
  Array made;
  made.view = View::whole(std::move(*mapping));
  made.place.address = static_cast<std::byte*>(array.data);
  made.name = "an array in host memory";
  locate(made, gpus);
  return made;
}

}  // namespace tranship::c_api
