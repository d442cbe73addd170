#include "data/slice.hpp"

namespace tranship {
namespace {

Status check_cut(const View& view, std::size_t k, const Cut& cut) {
  const Dimension& dimension = view.mapping->space()[k];
  const std::int64_t last = cut.start + (cut.count - 1) * cut.step;
  const bool inside = cut.count == 0 || (cut.start >= 0 && cut.start < view.extents[k] &&
                                         last >= 0 && last < view.extents[k]);
  if (!inside) {
    return Error{ErrorCode::out_of_range, "indices " + std::to_string(cut.start) + " to " +
                                              std::to_string(last) + " of dimension \"" +
                                              dimension.name + "\" lie outside its " +
                                              std::to_string(view.extents[k]) + " indices"};
  }
  return {};
}

/// A slice that drops or steps must be affine in every dimension that it keeps.
Status check_blocks(const View& view, const std::vector<Cut>& cuts) {
  for (std::size_t k = 0; k < cuts.size(); ++k) {
    if (!cuts[k].drop && view.mapping->fields()[0].dimension[k].count > 1) {
      return Error{ErrorCode::unsupported,
                   "dimension \"" + view.mapping->space()[k].name +
                       "\" is stored in blocks: slice this array with ranges only, without "
                       "steps or single indices"};
    }
  }
  return {};
}

}  // namespace

Result<View> slice(const View& view, const std::vector<Cut>& cuts) {
  bool plain = true;
  for (std::size_t k = 0; k < cuts.size(); ++k) {
    if (Status status = check_cut(view, k, cuts[k]); !status) return status.error();
    plain = plain && !cuts[k].drop && cuts[k].step == 1;
  }
  if (plain) {
    View part = view;
    for (std::size_t k = 0; k < cuts.size(); ++k) {
      part.lower[k] += cuts[k].start;
      part.extents[k] = cuts[k].count;
    }
    return part;
  }
  if (Status status = check_blocks(view, cuts); !status) return status.error();
  return View::whole(view.mapping->sliced(view.lower, cuts));
}

}  // namespace tranship
