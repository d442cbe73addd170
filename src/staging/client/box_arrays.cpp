#include "staging/client/box_arrays.hpp"

#include <algorithm>
#include <utility>

#include "base/at.hpp"
#include "channels/host/copy.hpp"
#include "data/lowering.hpp"
#include "engine/checks.hpp"

namespace tranship::staging {

Result<std::shared_ptr<const Mapping>> dense(const Box& box, const Mapping& like,
                                             std::int64_t offset) {
  const Placement& field = like.fields()[0];
  IndexSpace space;
  std::vector<std::int64_t> strides(at(box.rank));
  std::int64_t stride = field.field.bytes;
  for (int k = box.rank - 1; k >= 0; --k) {
    strides[at(k)] = stride;
    stride *= box.extent(k);
  }
  for (int k = 0; k < box.rank; ++k) space.push_back({like.space()[at(k)].name, box.extent(k)});
  return Mapping::make_strided(std::move(space), {{field.field, offset, strides}});
}

Result<std::shared_ptr<const Mapping>> DenseMappings::of(const Box& box,
                                                         const std::shared_ptr<const Mapping>& like,
                                                         std::int64_t offset) {
  bool same = last_ != nullptr && like == like_ && offset == offset_;
  for (int k = 0; same && k < box.rank; ++k) same = last_->space()[at(k)].extent == box.extent(k);
  if (same) return last_;
  auto made = dense(box, *like, offset);
  if (!made) return made;
  like_ = like;
  offset_ = offset;
  last_ = *made;
  return made;
}

Result<std::shared_ptr<const Mapping>> dense_of(const Array& array) {
  Box box;
  box.rank = array.view.mapping->rank();
  for (int k = 0; k < box.rank; ++k) box.upper[at(k)] = array.view.extents[at(k)];
  return dense(box, *array.view.mapping, 0);
}

Result<Box> box_of(const Array& array, const std::vector<std::int64_t>& lower,
                   std::uint32_t* empty_dimensions) {
  const int rank = array.view.mapping->rank();
  if (lower.size() != at(rank)) {
    return Error{ErrorCode::invalid_argument,
                 "the lower corner has " + std::to_string(lower.size()) +
                     " indices, and the array has " + std::to_string(rank) + " dimensions"};
  }
  std::vector<std::int64_t> upper = lower;
  for (std::size_t k = 0; k < upper.size(); ++k) {
    const std::int64_t extent = std::max<std::int64_t>(array.view.extents[k], 1);
    if (array.view.extents[k] == 0) *empty_dimensions |= 1U << k;
    if (__builtin_add_overflow(lower[k], extent, &upper[k])) upper[k] = INT64_MAX;
  }
  return Box::make(lower, upper);
}

Status check_one_field(const Array& array) {
  if (array.view.mapping->fields().size() == 1) return {};
  return Error{
      ErrorCode::invalid_argument,
      "the array lies field by field, and a variable's elements lie whole: put or get each "
      "field as its own variable"};
}

Status check_type(const std::string& type, std::int64_t element_bytes, const Array& target) {
  const Field& field = target.view.mapping->fields()[0].field;
  if (type == field.type && element_bytes == field.bytes) return {};
  return Error{ErrorCode::invalid_argument,
               "the variable has elements of " + type + ", and the target of " + field.type};
}

Status check_target(const Array& target, const Box& box) {
  if (Status status = check_one_field(target); !status) return status;
  if (!target.writable) {
    return Error{ErrorCode::invalid_argument, "the target is read-only: " + target.name,
                 "give a writable array as out"};
  }
  bool same = target.view.mapping->rank() == box.rank;
  for (int k = 0; same && k < box.rank; ++k) same = target.view.extents[at(k)] == box.extent(k);
  if (!same) {
    return Error{ErrorCode::invalid_argument,
                 "the target's shape is not that of the box " + box.text()};
  }
  return check_places(target);
}

CopyOptions behind(const Array& array) {
  CopyOptions options;
  options.start.stream = array.stream;
  return options;
}

Status copy_dense(const Array& array, std::byte* buffer, bool into_array) {
  auto mapping = dense_of(array);
  if (!mapping) return mapping.error();
  const Corner here{array.view.mapping.get(), array.view.lower};
  const Corner there{mapping->get(), {}};
  std::vector<LoopNest> nests;
  lower(into_array ? there : here, into_array ? here : there, array.view.extents, {}, nests);
  copy_nests(nests, into_array ? buffer : array.place.address,
             into_array ? array.place.address : buffer, false);
  return {};
}

}  // namespace tranship::staging
