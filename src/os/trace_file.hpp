// An engine's trace and the file that it becomes.
#pragma once

#include <memory>
#include <string>

#include "base/config.hpp"
#include "base/error.hpp"
#include "base/trace.hpp"

namespace tranship {

/// Any thread may call any member.
class TraceFile {
 public:
  /// Null if neither `path` nor config.trace_folder says where. In the folder, which is made if
  /// need be, each engine of each process has a file of its own.
  /// @error io if the file could not be written
  static Result<std::unique_ptr<TraceFile>> open(const Config& config, const std::string& path,
                                                 const std::string& program);

  Trace& trace() { return trace_; }

  /// Writes the file whole or not at all.
  /// @error io
  Status write() const;

 private:
  TraceFile(const Config& config, std::string path, const std::string& program);

  std::string path_;    ///< empty: one of its own in the folder
  std::string folder_;  ///< in which the file lies
  std::string program_;
  Trace trace_;
};

}  // namespace tranship
