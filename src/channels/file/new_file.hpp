// A file that takes its name when it is whole.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "base/error.hpp"

namespace tranship::file {

/// A regular file that is being written beside the path that it is for. It has no name at all where
/// the file system can make such files (O_TMPFILE), so that a killed process leaves nothing behind.
/// Elsewhere it is called `PATH.XXXXXXXXXXXXXXXX.tranship-part`, with 16 random hexadecimal digits.
/// Until publish(), what has the path's name stays as it is.
/// Owns the temporary name, not the descriptor. Threads: one at a time.
class NewFile {
 public:
  /// A link at `path` is followed: what it refers to is what will be replaced.
  /// @error not_found if there is no such folder, or the path is a link to nothing
  /// @error permission if the folder may not be changed, or the file that is there not be written
  /// @error invalid_argument if what is there is not a regular file
  static Result<std::unique_ptr<NewFile>> make(const std::string& path);
  /// Removes the temporary name, in the process that made it.
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// Whether there is a file of the name that this one is for.
  bool name_is_taken() const;

  /// Open for reading and writing; whoever made the object closes it.
  int descriptor() const { return descriptor_; }

  /// Gives the file its name, and replaces what had it, in one step. With `durable` the folder is
  /// written to the disk, too. Once it has succeeded, the object has nothing left to do.
  /// @error what the operating system refused: nothing was replaced
  Status publish(bool durable);

 private:
  explicit NewFile(std::string path);
  Status check_target();
  Status open_beside();
  /// Gives the file a temporary name if it has none. An error number, or 0.
  int name_it();
  std::string folder() const;
  std::string random_name() const;
  Status refused(int error_number) const;

  std::string path_;       ///< that it will have
  std::string temporary_;  ///< that it has now; empty: none
  int descriptor_ = -1;
  int replaced_mode_ = -1;  ///< permissions of the file that it replaces; -1: there is none
  pid_t maker_;
};

}  // namespace tranship::file
