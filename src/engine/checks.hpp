// What the two arrays of a copy must be, and the errors that say so; and that they stay.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/array.hpp"

namespace tranship {

Error invalid(std::string message);

/// Such as "(y=3, x=5)".
std::string box_text(const Array& array);

/// Brings the target's dimensions into the source's order, by name where both sides have names.
/// @error invalid_argument if there are more of them on one side, or others
Result<View> matched_target(const Array& source, const Array& target);

/// @error why the process of one of the two is lost
Status check_liveness(const std::shared_ptr<const Liveness>& source,
                      const std::shared_ptr<const Liveness>& target);

/// Whether it is known in which memory the array lies, without asking the driver.
bool is_resolved(const Array& array);

/// All that a copy asks of its two ends but that they do not overlap: the target's box, with its
/// dimensions in the source's order.
/// @error permission; out_of_range; invalid_argument; why the process of one of the two is lost
Result<View> check_pair(const Array& source, const Array& target);

/// @error out_of_range for a box that reaches beyond the array; `side`: "source" or "target"
Status check_view(const Array& array, const char* side);

/// @error invalid_argument for a broadcast target: it would keep whatever is written last
Status check_places(const Array& target);

/// @error invalid_argument if a byte belongs to both boxes; `target_view`: of matched_target()
Status check_overlap(const Array& source, const Array& target, const View& target_view);

/// Of indices along the first dimension.
/// @error out_of_range; invalid_argument for lists of different lengths, and if a page is written
///        twice, or written and read
Status check_pages(const Array& source, const Array& target,
                   std::span<const std::int64_t> source_pages,
                   std::span<const std::int64_t> target_pages);

/// What keeps other processes from taking back the memory of a copy that is about to begin.
/// @error not_found if an array was withdrawn, or why its process is lost
Result<Leases> leases_of(const Array& source, const Array& target);

/// The same for a copy on the caller's thread, while it exists.
class CopyHere {
 public:
  CopyHere(const Array& source, const Array& target);
  ~CopyHere();
  CopyHere(const CopyHere&) = delete;
  CopyHere& operator=(const CopyHere&) = delete;

  /// Whether both arrays can be used. Waits for nobody.
  bool stands() const {
    return (!source_.liveness || source_held_) && (!target_.liveness || target_held_);
  }
  /// @error as leases_of()
  Status status() const;

 private:
  const Array& source_;
  const Array& target_;
  bool source_held_;
  bool target_held_;
};

}  // namespace tranship
