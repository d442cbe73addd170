// New files that get their names when they are complete.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace tranship {

/// How a new file is made.
struct NewFileOptions {
  int mode = 0666;  ///< permissions, of which the process's mask takes some away
  /// Checks that a file that is there may be replaced; links are not followed then. Null: any
  /// regular file may be replaced, also the one that a link refers to.
  std::function<Status()> may_replace{};
};

/// A regular file that is written in the folder of its future path. It has no name where the file
/// system supports that (O_TMPFILE), so that a killed process leaves nothing behind. Elsewhere its
/// name is `PATH.XXXXXXXXXXXXXXXX.tranship-part`, with 16 random hexadecimal digits. Until
/// publish(), an existing file of that path stays unchanged.
/// Owns the temporary name, not the descriptor. Threads: one at a time.
class NewFile {
 public:
  /// Makes a new file for `path`. A symbolic link there is followed: the file that it refers to
  /// will be replaced.
  /// @error not_found if there is no such folder, or the path is a link to nothing
  /// @error permission if the folder may not be changed, or the existing file not be written
  /// @error invalid_argument if the path is not a regular file
  static Result<std::unique_ptr<NewFile>> make(const std::string& path,
                                               NewFileOptions options = {});
  /// Removes the temporary name, in the process that made it.
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// Returns whether a file of the path exists.
  bool name_is_taken() const;

  /// Returns the descriptor, open for reading and writing. The caller of make() closes it.
  int descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }

  /// Gives the file its name and replaces an existing file atomically. With `durable` the folder is
  /// synced, too. Called once.
  /// @error as the operating system reports: nothing was replaced
  Status publish(bool durable);

 private:
  NewFile(std::string path, NewFileOptions options);
  Status check_target();
  Status open_beside();
  /// Gives the file a temporary name if it has none. Returns 0 or an error number.
  int name_it();
  std::string folder() const;
  std::string random_name() const;
  Status refused(int error_number) const;
  Status put_in_place();

  std::string path_;  ///< future path
  NewFileOptions options_;
  std::string temporary_;  ///< current name; empty: none
  int descriptor_ = -1;
  int replaced_mode_ = -1;  ///< permissions of the file that it replaces; -1: it replaces none
  pid_t maker_;
};

/// Writes a regular file whole or not at all, as NewFile does.
/// @error as NewFile, and io if the disk is full or refuses
Status write_whole(const std::string& path, std::string_view content, NewFileOptions options = {});

/// Reads a regular file of at most `bytes_max` bytes, and waits for nobody.
/// @error not_found, permission or io as the operating system reports; invalid_argument if it is no
/// regular file, or a larger one
Result<std::string> read_whole(const std::string& path, std::int64_t bytes_max = 64 << 20);

}  // namespace tranship
