// How busy other processes keep the processors, for measurements that they disturb.
#pragma once

#include <cstdint>

namespace tranship {

/// What other processes take of the processors that this process may use, from the construction on.
/// Reads two files of the kernel each time.
class OtherLoad {
 public:
  OtherLoad();

  /// Returns the part of the processors' time, from 0 to 1, in which they ran other processes or
  /// the kernel for them. 0 on systems that do not count it.
  double share() const;

 private:
  /// Time since the machine started, in the kernel's ticks: all of it, and that spent busy.
  struct Ticks {
    std::int64_t all = 0;
    std::int64_t busy = 0;
    std::int64_t own = 0;  ///< of this process, all its threads
  };
  static Ticks now();

  Ticks begin_;
};

}  // namespace tranship
