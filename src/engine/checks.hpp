// Checks of the two arrays of a copy, and what keeps their memory while it is copied.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/array.hpp"

namespace tranship {

Error invalid(std::string message, std::string hint = {});

/// Returns the extents for a message, such as "(y=3, x=5)".
std::string box_text(const Array& array);

/// Brings the target's dimensions into the source's order, by name where both sides have names.
/// @error invalid_argument if there are more of them on one side, or others
Result<View> matched_target(const Array& source, const Array& target);

/// Checks that the processes of both arrays are alive and have not taken them back.
/// @error why one is lost
Status check_liveness(const std::shared_ptr<const Liveness>& source,
                      const std::shared_ptr<const Liveness>& target);

/// Whether it is known in which memory the array lies, without asking the driver.
bool is_resolved(const Array& array);

/// @error invalid_argument for a read-only array
Status check_writable(const Array& target);

/// Checks all that a copy requires of its two ends, except that they do not overlap. Returns the
/// target's box, with its dimensions in the source's order.
/// @error out_of_range; invalid_argument; why the process of one of the two is lost
Result<View> check_pair(const Array& source, const Array& target);

/// Checks that the box lies within the array; `side` is "source" or "target".
/// @error out_of_range if it does not
Status check_view(const Array& array, const char* side);

/// Checks that the target's elements have memory of their own.
/// @error invalid_argument for a broadcast array
Status check_places(const Array& target);

/// Whether both arrays lie in one memory: the same GPU's or file's, of this process or not.
bool same_place(const Array& a, const Array& b);

/// Checks that no byte belongs to both boxes; `target_view` is the answer of matched_target().
/// @error invalid_argument if one does
Status check_overlap(const Array& source, const Array& target, const View& target_view);

/// Checks lists of indices along the first dimension.
/// @error out_of_range; invalid_argument for lists of different lengths, and if a page is written
///        twice, or written and read
Status check_pages(const Array& source, const Array& target,
                   std::span<const std::int64_t> source_pages,
                   std::span<const std::int64_t> target_pages);

/// Whether the caller's thread reaches both arrays.
inline bool within_memory(const Array& source, const Array& target) {
  return cpu_reaches(source.memory_kind) && cpu_reaches(target.memory_kind);
}

/// Returns what keeps another process from taking back its array while a copy with it goes on.
/// @error not_found if the array was withdrawn, or why its process is lost
Result<std::shared_ptr<void>> lease_of(const Array& array);

/// Keeps the memory of both arrays for a copy on the caller's thread, as long as the object exists.
class CopyHere {
 public:
  CopyHere(const Array& source, const Array& target);
  ~CopyHere();
  CopyHere(const CopyHere&) = delete;
  CopyHere& operator=(const CopyHere&) = delete;

  /// Whether both arrays can be used. Does not wait.
  bool stands() const {
    return (!source_.liveness || source_held_) && (!target_.liveness || target_held_);
  }
  /// @error as lease_of()
  Status status() const;

 private:
  const Array& source_;
  const Array& target_;
  bool source_held_;
  bool target_held_;
};

}  // namespace tranship
