#include "c/arrays.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "c/errors.hpp"
#include "data/layout.hpp"
#include "data/mapping.hpp"
#include "os/mapped_files.hpp"

namespace tranship::c_api {
namespace {

constexpr std::array<std::string_view, 15> types{"b1", "i1", "i2", "i4", "i8",  "u1", "u2", "u4",
                                                 "u8", "f2", "f4", "f8", "f16", "c8", "c16"};
/// More bytes than any memory has.
constexpr std::int64_t bytes_max = std::int64_t{1} << 62;

Error invalid_with(std::string message, std::string hint) {
  return {ErrorCode::invalid_argument, std::move(message), std::move(hint)};
}

/// `owner`: "array" or "layout".
Status check_rank(int rank, const char* owner) {
  static_assert(TRANSHIP_RANK_MAX == dimensions_max);
  if (rank >= 0 && rank <= TRANSHIP_RANK_MAX) return {};
  return invalid_with(std::string("the ") + owner + "'s rank is " + std::to_string(rank),
                      "give a rank from 0 to " + std::to_string(TRANSHIP_RANK_MAX));
}

/// Returns the bytes of an element of this type.
Result<std::int64_t> element_bytes(const char* type) {
  if (type == nullptr) return invalid_with("the array's type is NULL", "use such as \"f8\"");
  const std::string_view name(type);
  if (std::find(types.begin(), types.end(), name) == types.end()) {
    std::string known;
    for (const std::string_view one : types) known += " " + std::string(one);
    return invalid_with("the array's type is \"" + std::string(name.substr(0, 32)) + "\"",
                        "use one of" + known);
  }
  return std::atoll(type + 1);
}

/// Returns the strides of a dense array, whose bytes fit 64 bits.
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

/// Returns the strides that the caller gave. A stride of an extent of 1 has no effect: it becomes
/// 0.
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
      return invalid_with("the stride of the array's dimension " + std::to_string(k) + " is " +
                              std::to_string(array.strides[k]) +
                              " bytes, which reaches further than any memory",
                          "give strides in bytes");
    }
  }
  return strides;
}

Result<std::vector<std::int64_t>> strides_of(const tranship_array& array, std::int64_t bytes,
                                             std::int64_t points) {
  if (array.order != TRANSHIP_C_ORDER && array.order != TRANSHIP_FORTRAN_ORDER) {
    return invalid_with("the array's order is " + std::to_string(array.order),
                        "use TRANSHIP_C_ORDER or TRANSHIP_FORTRAN_ORDER");
  }
  if (points > bytes_max / bytes) {
    return invalid_with(
        "the array has " + std::to_string(points) + " elements, more than any memory",
        "give smaller extents");
  }
  const bool dense =
      std::all_of(array.strides, array.strides + array.rank, [](auto s) { return s == 0; });
  if (dense) return dense_strides(array, bytes);
  return own_strides(array);
}

/// "F, d1, d0": the fields fastest, then the last dimension.
std::string c_order(const IndexSpace& space) {
  std::string order = "F";
  for (auto k = space.rbegin(); k != space.rend(); ++k) order += ", " + k->name;
  return order;
}

Result<IndexSpace> space_of(const tranship_layout& layout) {
  if (Status status = check_rank(layout.rank, "layout"); !status) return status.error();
  IndexSpace space;
  for (int k = 0; k < layout.rank; ++k) {
    if (Status given = check_given({{"dimensions", layout.dimensions}}); !given) {
      return given.error();
    }
    const tranship_dimension& dimension = layout.dimensions[k];
    if (Status given = check_given({{"name", dimension.name}}); !given) return given.error();
    space.push_back({dimension.name, dimension.extent});
  }
  return space;
}

Result<FieldSpace> fields_of(const tranship_layout& layout) {
  if (layout.field_count < 1) {
    return invalid_with("the layout's field_count is " + std::to_string(layout.field_count),
                        "give at least one field");
  }
  if (Status given = check_given({{"fields", layout.fields}}); !given) return given.error();
  FieldSpace fields;
  for (int k = 0; k < layout.field_count; ++k) {
    if (Status given = check_given({{"name", layout.fields[k].name}}); !given) return given.error();
    const auto bytes = element_bytes(layout.fields[k].type);
    if (!bytes) return bytes.error();
    fields.push_back({layout.fields[k].name, layout.fields[k].type, *bytes});
  }
  return fields;
}

}  // namespace

void locate(Array& array, const Gpus* gpus) {
  if (gpus != nullptr) {
    const PointerInfo info = gpus->where(array.place.address);
    if (info.kind == MemoryKind::device || info.kind == MemoryKind::managed) {
      array.memory_kind = MemoryKind::device;
      array.device = info.device;
      array.name = "a GPU array";
      return;
    }
  }
  const std::byte* first = first_byte(array);
  const std::int64_t bytes = array.view.mapping->span_bytes();
  if (in_heap(first, bytes) || mapped_parts(first, bytes).empty()) array.backing = Backing::own;
}

Result<std::shared_ptr<const Mapping>> mapping_of(const tranship_layout& layout) {
  auto space = space_of(layout);
  if (!space) return space.error();
  auto fields = fields_of(layout);
  if (!fields) return fields.error();
  const auto order = Layout::parse(layout.order != nullptr ? layout.order : c_order(*space));
  if (!order) return order.error();
  return Mapping::make(std::move(*space), std::move(*fields), *order);
}

Result<std::vector<NamedRange>> region_of(const tranship_range* ranges, std::int64_t count) {
  const Status given = check_list({"the number of ranges", count}, {{"region", ranges}});
  if (!given) return given.error();
  std::vector<NamedRange> region;
  for (std::int64_t k = 0; k < count; ++k) {
    if (Status s = check_given({{"name", ranges[k].name}}); !s) return s.error();
    region.push_back({ranges[k].name, ranges[k].lower, ranges[k].upper});
  }
  return region;
}

Result<Field> field_of(const char* type) {
  const auto bytes = element_bytes(type);
  if (!bytes) return bytes.error();
  return Field{"f0", type, *bytes};
}

std::vector<std::int64_t> lower_of(const tranship_array& array) {
  return {array.lower, array.lower + array.rank};
}

Result<staging::Box> box_of(const tranship_array& array) {
  if (Status status = check_rank(array.rank, "array"); !status) return status.error();
  std::vector<std::int64_t> upper;
  for (int k = 0; k < array.rank; ++k) {
    std::int64_t end = 0;
    if (array.extents[k] < 1 || __builtin_add_overflow(array.lower[k], array.extents[k], &end)) {
      return invalid_with("the array's dimension " + std::to_string(k) + " has extent " +
                              std::to_string(array.extents[k]) + " from index " +
                              std::to_string(array.lower[k]) + " on",
                          "give an extent of at least 1, and indices that fit 64 bits");
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
  if (array.data == nullptr) {
    return invalid_with("the array's data is NULL", "give the address of its first element");
  }
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
  made.name = "a host array";
  locate(made, gpus);
  return made;
}

}  // namespace tranship::c_api
