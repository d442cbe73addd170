#include "os/trace_file.hpp"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "os/new_file.hpp"
#include "os/process.hpp"

namespace tranship {
namespace {

Error refused(const std::string& path, const std::string& why) {
  return {ErrorCode::io, "the trace cannot be written to " + path + ": " + why,
          "name a folder that exists and has room"};
}

/// What stands still between the two clocks, as long as nobody sets the time of day.
std::int64_t wall_minus_clock_ns() {
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(wall).count() -
         SteadyClock().now_ns();
}

/// A part of a file's name.
std::string file_name_of(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return !std::isalnum(c) && c != '.'; }, '-');
  return text;
}

}  // namespace

TraceFile::TraceFile(const Config& config, std::string path, const std::string& program)
    : path_(std::move(path)),
      folder_(config.trace_folder),
      program_(program.empty() ? program_invocation_short_name : program),
      trace_(static_cast<std::size_t>(std::max<std::int64_t>(config.trace_spans, 0))) {
  if (!path_.empty()) folder_ = std::filesystem::path(path_).parent_path().string();
  if (folder_.empty()) folder_ = ".";
}

Result<std::unique_ptr<TraceFile>> TraceFile::open(const Config& config, const std::string& path,
                                                   const std::string& program) {
  if (path.empty() && config.trace_folder.empty()) return std::unique_ptr<TraceFile>();
  std::unique_ptr<TraceFile> file(new TraceFile(config, path, program));
  std::error_code failed;
  if (path.empty()) std::filesystem::create_directories(file->folder_, failed);
  if (failed) return refused(file->folder_, failed.message());
  if (access(file->folder_.c_str(), W_OK | X_OK) != 0) {
    return refused(path.empty() ? file->folder_ : path, std::strerror(errno));
  }
  if (!path.empty() && std::filesystem::is_directory(path)) return refused(path, "it is a folder");
  return file;
}

Status TraceFile::write() const {
  static std::atomic<int> written{0};  // engines of one process, in the order of their ends
  const Identity own = own_identity();
  std::string path = path_;
  if (path.empty()) {
    const std::string name = trace_.process_name();
    path = folder_ + "/" + file_name_of((name.empty() ? program_ : name) + "-" + own.host) + "-" +
           std::to_string(own.pid) + "-" + std::to_string(written++) + ".json";
  }
  const std::string text =
      trace_.to_json({own.pid, program_, own.host, own.boot, wall_minus_clock_ns()});
  Status written_well = write_whole(path, text);
  return written_well ? Status{} : refused(path, written_well.error().message);
}

}  // namespace tranship
