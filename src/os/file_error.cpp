#include "os/file_error.hpp"

#include <cerrno>
#include <cstring>

namespace tranship {
namespace {

ErrorCode code_of(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR: return ErrorCode::not_found;
    case EACCES:
    case EPERM:
    case EROFS: return ErrorCode::permission;
    case EISDIR:
    case ENAMETOOLONG: return ErrorCode::invalid_argument;
    default: return ErrorCode::io;
  }
}

const char* advice(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR: return "check the path; folders are not created";
    case EACCES:
    case EPERM: return "check the permissions of the file and its folder";
    case EROFS: return "the file system is mounted read-only; choose another place";
    case ENOSPC:
    case EDQUOT: return "free some space or choose another disk";
    case EFBIG: return "raise the limit on file sizes (ulimit -f) or choose another file system";
    case EMFILE:
    case ENFILE: return "raise the limit on open files (ulimit -n)";
    case EISDIR: return "name a file in it";
    case ENAMETOOLONG: return "give it a shorter name";
    case EIO: return "the disk or its connection fails; look at the system's log";
    default: return "look at the path and the file system";
  }
}

}  // namespace

Error file_error(const char* operation, const std::string& path, int error_number) {
  return Error{
      code_of(error_number),
      std::string("cannot ") + operation + " '" + path + "': " + std::strerror(error_number),
      advice(error_number)};
}

std::string errno_text() { return std::strerror(errno); }

}  // namespace tranship
