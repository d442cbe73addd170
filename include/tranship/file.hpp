// Files as one end of a copy.
#pragma once

#include <cstdint>
#include <string>

#include "array.hpp"
#include "error.hpp"
#include "instance.h"

namespace tranship {

/// How a raw binary file is opened.
struct FileOptions {
  /// "r" reads a file that exists; "w" makes a new one, which takes its name when it is flushed or
  /// closed; "r+" changes a file that exists.
  std::string mode = "r";
  /// Bytes from the start of the file to the first element.
  std::int64_t offset = 0;
  /// Whether large runs go through the page cache too. Set it when the file fits in memory and is
  /// read again soon.
  bool cached = false;
  /// Whether flushing returns when the file's folder is on the disk too, so that the name survives
  /// a power failure.
  bool durable = false;
};

/// A raw binary file, which Engine::open() opens. Without close(), it is closed when neither it nor
/// a copy refers to it any more, and what a failure of that would say is lost.
class File : public Instance {
 public:
  using Instance::Instance;

  /// Waits until copies into the file have ended and what they wrote is on the disk. A new file
  /// then has its name.
  /// @throws Error with Code::io if a copy into it failed or was cancelled, or the disk refused: a
  ///         new file does not take its name then
  void flush() { detail::check(tranship_file_flush(handle())); }

  /// Flushes the file and ends every use of it. May be repeated.
  /// @throws as flush()
  void close() { detail::check(tranship_file_close(handle())); }
};

}  // namespace tranship
