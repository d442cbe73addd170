// Says in the header of a .npy file that the file is being changed in place.
#pragma once

#include <cstdint>

namespace tranship::file {

/// While a process changes a .npy file in place, the six bytes that make it one are replaced by
/// `\x93TS~` and the number of writers that have not finished, 16 bits, low byte first. Readers
/// refuse such a file, and so they do after a writer was killed or has failed: its number is never
/// subtracted. Several processes may write different parts at once; the last one to finish makes
/// the file readable again. A lock on these bytes orders their changes.
/// Refers to a descriptor that is open for reading and writing. Threads: one at a time.
class NpyMark {
 public:
  explicit NpyMark(int descriptor) : descriptor_(descriptor) {}

  bool set() const { return set_; }
  /// Counts this writer among those that have not finished. An error number, or 0.
  int add();
  /// Takes it away again. An error number, or 0.
  int remove();

 private:
  int change(int by);

  int descriptor_;
  bool set_ = false;
};

}  // namespace tranship::file
