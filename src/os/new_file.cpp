#include "os/new_file.hpp"

#include <fcntl.h>
#include <limits.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "os/descriptor.hpp"
#include "os/file_error.hpp"

namespace tranship {
namespace {

constexpr const char* suffix = ".tranship-part";
/// Random names that are tried; each exists already with a probability of 2^-64.
constexpr int names_max = 8;

}  // namespace

NewFile::NewFile(std::string path, NewFileOptions options)
    : path_(std::move(path)), options_(std::move(options)), maker_(::getpid()) {}

NewFile::~NewFile() {
  if (!temporary_.empty() && ::getpid() == maker_) ::unlink(temporary_.c_str());
}

Result<std::unique_ptr<NewFile>> NewFile::make(const std::string& path, NewFileOptions options) {
  std::unique_ptr<NewFile> file(new NewFile(path, std::move(options)));
  if (Status status = file->check_target(); !status) return status.error();
  if (Status status = file->open_beside(); !status) return status.error();
  return file;
}

Status NewFile::check_target() {
  if (path_.find('\0') != std::string::npos) return file_error("open for writing", path_, EINVAL);
  if (options_.may_replace) return options_.may_replace();
  struct stat info {};
  if (::lstat(path_.c_str(), &info) != 0) {
    return errno == ENOENT ? Status{} : Status(file_error("open for writing", path_, errno));
  }
  if (S_ISLNK(info.st_mode)) {
    std::array<char, PATH_MAX> real{};
    if (::realpath(path_.c_str(), real.data()) == nullptr) {
      if (errno != ENOENT) return file_error("open for writing", path_, errno);
      return Error{ErrorCode::not_found, "'" + path_ + "' is a link to a file that is not there",
                   "remove the link"};
    }
    path_ = real.data();
    if (::stat(path_.c_str(), &info) != 0) return file_error("open for writing", path_, errno);
  }
  if (S_ISDIR(info.st_mode)) return file_error("open for writing", path_, EISDIR);
  if (!S_ISREG(info.st_mode)) {
    return Error{ErrorCode::invalid_argument,
                 "'" + path_ + "' is not a regular file, and a new file cannot take its place",
                 "name another one"};
  }
  if (::faccessat(AT_FDCWD, path_.c_str(), W_OK, AT_EACCESS) != 0) {
    return file_error("open for writing", path_, errno);
  }
  replaced_mode_ = static_cast<int>(info.st_mode & 07777u);
  return {};
}

bool NewFile::name_is_taken() const {
  struct stat info {};
  return ::lstat(path_.c_str(), &info) == 0;
}

std::string NewFile::folder() const {
  const std::size_t slash = path_.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path_.substr(0, slash);
}

std::string NewFile::random_name() const {
  std::uint64_t number = 0;
  while (::getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) {
    if (errno != EINTR) return {};
  }
  std::array<char, 24> digits{};
  std::snprintf(digits.data(), digits.size(), ".%016llx", static_cast<unsigned long long>(number));
  const std::size_t slash = path_.rfind('/');
  const std::size_t begin = slash == std::string::npos ? 0 : slash + 1;
  const std::string tail = std::string(digits.data()) + suffix;
  const std::size_t room = NAME_MAX - tail.size();
  return path_.substr(0, begin) + path_.substr(begin, room) + tail;
}

Status NewFile::refused(int error_number) const {
  if (error_number != EACCES && error_number != EPERM && error_number != EROFS) {
    return file_error("make", path_, error_number);
  }
  Error error = file_error("make", path_, error_number);
  error.hint +=
      "; a new file is written beside its name and renamed when it is whole: mode \"r+\" changes a "
      "file that is there";
  return error;
}

Status NewFile::open_beside() {
#ifdef O_TMPFILE
  descriptor_ = ::open(folder().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, options_.mode);
  if (descriptor_ >= 0) {
    // Without /proc the file could not be named later.
    const std::string self = "/proc/self/fd/" + std::to_string(descriptor_);
    struct stat info {};
    if (::stat(self.c_str(), &info) == 0) return {};
    ::close(descriptor_);
  } else if (errno == EACCES || errno == ENOENT || errno == ENOTDIR || errno == EROFS ||
             errno == ENOSPC || errno == EDQUOT || errno == EMFILE || errno == ENFILE) {
    return refused(errno);
  }
#endif
  for (int k = 0; k < names_max; ++k) {
    const std::string name = random_name();
    if (name.empty()) return refused(errno);
    descriptor_ =
        ::open(name.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC, options_.mode);
    if (descriptor_ >= 0) {
      temporary_ = name;
      return {};
    }
    if (errno != EEXIST) break;
  }
  return refused(errno);
}

int NewFile::name_it() {
  if (!temporary_.empty()) return 0;
  const std::string self = "/proc/self/fd/" + std::to_string(descriptor_);
  for (int k = 0; k < names_max; ++k) {
    const std::string name = random_name();
    if (name.empty()) return errno;
    if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      temporary_ = name;
      return 0;
    }
    if (errno != EEXIST) break;
  }
  return errno;
}

Status NewFile::put_in_place() {
  if (const int refusal = name_it(); refusal != 0) return file_error("name", path_, refusal);
  if (options_.may_replace) {
    // Two that make the file at the same time: a link takes a name that is free, and no other.
    if (::link(temporary_.c_str(), path_.c_str()) == 0) {
      (void)::unlink(temporary_.c_str());
      temporary_.clear();
      return {};
    }
    if (errno != EEXIST) return file_error("name", path_, errno);
    if (Status status = options_.may_replace(); !status) return status;
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return file_error("put the new file in the place of", path_, errno);
  }
  temporary_.clear();
  return {};
}

Status NewFile::publish(bool durable) {
  if (replaced_mode_ >= 0 && ::fchmod(descriptor_, static_cast<mode_t>(replaced_mode_)) != 0) {
    return file_error("set the permissions of", path_, errno);
  }
  if (Status put = put_in_place(); !put) return put;
  if (!durable) return {};
  const int parent = ::open(folder().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = parent >= 0 && ::fsync(parent) == 0;
  const int error_number = errno;
  if (parent >= 0) ::close(parent);
  // Some network file systems refuse to sync a folder and write it at once.
  if (synced || error_number == EINVAL) return {};
  return file_error("sync the folder of", path_, error_number);
}

Status write_whole(const std::string& path, std::string_view content, NewFileOptions options) {
  auto made = NewFile::make(path, std::move(options));
  if (!made) return made.error();
  NewFile& file = **made;
  const FileDescriptor descriptor(file.descriptor());
  while (!content.empty()) {
    const ssize_t put = ::write(descriptor.get(), content.data(), content.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return file_error("write", path, put == 0 ? EIO : errno);
    content.remove_prefix(static_cast<std::size_t>(put));
  }
  if (::fdatasync(descriptor.get()) != 0 && errno != EINVAL && errno != EROFS) {
    return file_error("write", path, errno);
  }
  return file.publish(false);
}

Result<std::string> read_whole(const std::string& path, std::int64_t bytes_max) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0) return file_error("read", path, errno);
  if (S_ISDIR(info.st_mode)) return file_error("read", path, EISDIR);
  if (!S_ISREG(info.st_mode) || info.st_size > bytes_max) {
    return Error{
        ErrorCode::invalid_argument,
        "'" + path + "' is " +
            (S_ISREG(info.st_mode) ? "larger than such a file can be" : "not a regular file"),
        "name another file"};
  }
  std::string content(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t got = ::read(file.get(), content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error("read", path, errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  content.resize(done);
  return content;
}

}  // namespace tranship
