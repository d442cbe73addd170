// Marks the header of a .npy file while the file is changed in place.
#pragma once

#include <cstdint>

namespace tranship::file {

/// While a process changes a .npy file in place, the six magic bytes of the header are replaced by
/// `\x93TS~` and the number of unfinished writers, 16 bits, low byte first. Readers refuse such a
/// file. A writer that was killed or failed never decreases the number, so that its file stays
/// refused. Several processes may write different parts at the same time; the last one to finish
/// restores the magic bytes. A lock on these bytes orders the changes.
/// Refers to a descriptor that is open for reading and writing. Threads: one at a time.
class NpyMark {
 public:
  explicit NpyMark(int descriptor) : descriptor_(descriptor) {}

  bool set() const { return set_; }
  /// Adds this writer to the unfinished ones. Returns 0 or an error number.
  int add();
  /// Removes this writer. Returns 0 or an error number.
  int remove();

 private:
  int change(int by);

  int descriptor_;
  bool set_ = false;
};

}  // namespace tranship::file
