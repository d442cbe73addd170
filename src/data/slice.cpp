#include "data/slice.hpp"

namespace tranship {
namespace {

Status check_slice(const View& view, std::size_t k, const DimensionSlice& slice) {
  const Dimension& dimension = view.mapping->space()[k];
  const std::int64_t last = slice.start + (slice.count - 1) * slice.step;
  const bool inside = slice.count == 0 || (slice.start >= 0 && slice.start < view.extents[k] &&
                                           last >= 0 && last < view.extents[k]);
  if (!inside) {
    return Error{ErrorCode::out_of_range, "indices " + std::to_string(slice.start) + " to " +
                                              std::to_string(last) + " of dimension \"" +
                                              dimension.name + "\" lie outside its " +
                                              std::to_string(view.extents[k]) + " indices"};
  }
  return {};
}

/// A slice that drops or steps must be affine in every dimension that it keeps.
Status check_blocks(const View& view, const std::vector<DimensionSlice>& slices) {
  for (std::size_t k = 0; k < slices.size(); ++k) {
    if (!slices[k].drop && view.mapping->fields()[0].dimension[k].count > 1) {
      return Error{ErrorCode::unsupported,
                   "dimension \"" + view.mapping->space()[k].name + "\" is stored in blocks",
                   "slice this array with ranges only, without steps or single indices"};
    }
  }
  return {};
}

}  // namespace

Result<View> slice(const View& view, const std::vector<DimensionSlice>& slices) {
  bool plain = true;
  for (std::size_t k = 0; k < slices.size(); ++k) {
    if (Status status = check_slice(view, k, slices[k]); !status) return status.error();
    plain = plain && !slices[k].drop && slices[k].step == 1;
  }
  if (plain) {
    View part = view;
    for (std::size_t k = 0; k < slices.size(); ++k) {
      part.lower[k] += slices[k].start;
      part.extents[k] = slices[k].count;
    }
    return part;
  }
  if (Status status = check_blocks(view, slices); !status) return status.error();
  return View::whole(view.mapping->sliced(view.lower, slices));
}

}  // namespace tranship
