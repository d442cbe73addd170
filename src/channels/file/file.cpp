#include "channels/file/file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace tranship {
namespace {

Status check_kind(const struct stat& info, const std::string& path) {
  if (S_ISREG(info.st_mode) || S_ISBLK(info.st_mode)) return {};
  if (S_ISDIR(info.st_mode)) return file_error("open", path, EISDIR);
  return Error{ErrorCode::invalid_argument,
               "'" + path +
                   "' is neither a regular file nor a block device: an array needs bytes "
                   "that stay where they are",
               "name a file"};
}

/// Asking the kernel for more than there is would first fill the disk and only then fail, and
/// crossing the process's limit would kill it with a signal.
int refusal_to_extend(int descriptor, std::int64_t size_bytes, std::int64_t bytes_min) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      static_cast<std::uint64_t>(bytes_min) > limit.rlim_cur) {
    return EFBIG;
  }
  struct statvfs space {};
  if (fstatvfs(descriptor, &space) == 0 && space.f_blocks > 0) {
    const auto missing_bytes = static_cast<std::uint64_t>(bytes_min - size_bytes);
    if (missing_bytes / space.f_frsize > space.f_bavail) return ENOSPC;
  }
  return 0;
}

/// After this many bytes have been read through a view, its pages are given back, so that they do
/// not count as the process's own memory.
constexpr std::int64_t viewed_bytes_max = std::int64_t{1} << 30;

/// Whether the file lies on this machine, so that no other one can change it.
bool is_local(int descriptor) {
  constexpr std::array<std::uint32_t, 8> local{
      0xEF53,      // ext2, ext3, ext4
      0x58465342,  // XFS
      0x9123683E,  // Btrfs
      0x01021994,  // tmpfs
      0xF2F52010,  // F2FS
      0x2FC12FC1,  // ZFS
      0xCA451A4E,  // bcachefs
      0x794C7630,  // overlayfs
  };
  struct statfs info {};
  if (::fstatfs(descriptor, &info) != 0) return false;
  const auto kind = static_cast<std::uint32_t>(info.f_type);
  return std::find(local.begin(), local.end(), kind) != local.end();
}

}  // namespace

Result<FileMode> file_mode_from(std::string_view text) {
  if (text == "r") return FileMode::read;
  if (text == "w") return FileMode::replace;
  if (text == "r+") return FileMode::update;
  return Error{ErrorCode::invalid_argument,
               "the mode is \"" + std::string(text.substr(0, 32)) + "\"",
               "use \"r\", \"w\" or \"r+\""};
}

Result<std::shared_ptr<File>> File::open(const std::string& path, const FileOptions& options) {
  std::shared_ptr<File> file(new File(path));
  file->opener_ = ::getpid();
  file->durable_ = options.durable;
  file->payload_bytes_ = options.payload_bytes;
  file->is_new_ = options.mode == FileMode::replace;
  file->bytes_min_ = options.bytes_min;
  file->head_bytes_ = static_cast<std::int64_t>(options.head.size());
  Status opened = file->is_new_ ? file->open_new(options) : file->open_cached(options);
  if (!opened) return opened.error();
  if (options.direct) file->open_direct();
  if (options.npy && file->writable_ && file->readable_) {
    file->mark_ = std::make_unique<file::NpyMark>(file->cached_descriptor_);
  }
  return file;
}

Status File::open_new(const FileOptions& options) {
  auto made = NewFile::make(path_);
  if (!made) return made.error();
  new_file_ = std::move(*made);
  cached_descriptor_ = new_file_->descriptor();
  readable_ = writable_ = true;
  if (Status reserved = reserve(options.bytes_min, false); !reserved) return reserved;
  std::string_view left = options.head;
  while (!left.empty()) {
    const ssize_t put = ::pwrite(cached_descriptor_, left.data(), left.size(),
                                 static_cast<off_t>(options.head.size() - left.size()));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return file_error("write", path_, put == 0 ? EIO : errno);
    left.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

Status File::open_cached(const FileOptions& options) {
  struct stat info {};
  const bool exists = ::stat(path_.c_str(), &info) == 0;
  if (!exists && errno != ENOENT) return file_error("open", path_, errno);
  if (exists) {
    if (Status kind = check_kind(info, path_); !kind) return kind;
  }
  writable_ = options.mode != FileMode::read;
  readable_ = true;
  const int create = writable_ && options.mode != FileMode::update ? O_CREAT : 0;
  cached_descriptor_ = ::open(
      path_.c_str(), (writable_ ? O_RDWR : O_RDONLY) | create | O_NONBLOCK | O_CLOEXEC, 0666);
  if (cached_descriptor_ < 0 && errno == EACCES && options.mode == FileMode::write) {
    readable_ = false;
    cached_descriptor_ = ::open(path_.c_str(), O_WRONLY | create | O_NONBLOCK | O_CLOEXEC, 0666);
  }
  if (cached_descriptor_ < 0) {
    return file_error(writable_ ? "open for writing" : "open for reading", path_, errno);
  }
  // The checks above were of the name, which may be another file's by now.
  if (::fstat(cached_descriptor_, &info) != 0) return file_error("open", path_, errno);
  if (Status kind = check_kind(info, path_); !kind) return kind;
  const std::int64_t size_bytes = size();
  if (size_bytes >= options.bytes_min) return {};
  // The header of a .npy file says how long it is: a shorter one was cut.
  const bool may_grow = writable_ && !(options.npy && options.mode == FileMode::update);
  if (may_grow) return reserve(options.bytes_min, !exists);
  return Error{
      ErrorCode::out_of_range,
      "'" + path_ + "' has " + std::to_string(size_bytes) + " bytes and the array needs " +
          std::to_string(options.bytes_min),
      "check that it is the right file and was written to the end, and check the shape, the "
      "type and the offset"};
}

Status File::reserve(std::int64_t bytes_min, bool created) {
  const std::int64_t size_bytes = size();
  if (size_bytes >= bytes_min) return {};
  int refusal = refusal_to_extend(cached_descriptor_, size_bytes, bytes_min);
  if (refusal == 0 && ::fallocate(cached_descriptor_, 0, size_bytes, bytes_min - size_bytes) != 0) {
    refusal = errno;
    // File systems without reservation: the size alone, and a full disk shows when writing.
    if (refusal == EOPNOTSUPP || refusal == ENOSYS || refusal == EINVAL) {
      refusal = ::ftruncate(cached_descriptor_, bytes_min) == 0 ? 0 : errno;
    }
    if (refusal != 0 && ::ftruncate(cached_descriptor_, size_bytes) != 0) refusal = errno;
  }
  if (refusal == 0) return {};
  if (created) ::unlink(path_.c_str());
  return file_error(("reserve " + std::to_string(bytes_min) + " bytes for").c_str(), path_,
                    refusal);
}

void File::open_direct() {
#ifdef O_DIRECT
  direct_align_bytes_ = std::max<std::int64_t>(4096, ::sysconf(_SC_PAGESIZE));
  memory_align_bytes_ = 4096;
#ifdef STATX_DIOALIGN
  struct statx info {};
  if (::statx(cached_descriptor_, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) == 0 &&
      (info.stx_mask & STATX_DIOALIGN) != 0) {
    if (info.stx_dio_offset_align == 0 || info.stx_dio_offset_align > direct_align_bytes_) return;
    memory_align_bytes_ = std::max<std::int64_t>(info.stx_dio_mem_align, 16);
  }
#endif
  const int access = !writable_ ? O_RDONLY : readable_ ? O_RDWR : O_WRONLY;
  direct_descriptor_ = reopen(access | O_DIRECT | O_CLOEXEC);
  direct_in_use_ = direct_descriptor_ >= 0;
  // Read-ahead would put pages into the cache that another request is just writing around it.
  if (direct()) ::posix_fadvise(cached_descriptor_, 0, 0, POSIX_FADV_RANDOM);
#endif
}

/// Opens the file again by its descriptor: the path may lead to another file by now, and a new file
/// has no path yet.
int File::reopen(int flags) const {
  const std::string self = "/proc/self/fd/" + std::to_string(cached_descriptor_);
  return ::open(self.c_str(), flags);
}

File::~File() {
  let_go();
  companion_.reset();  // it may use the descriptors
  if (direct_descriptor_ >= 0) ::close(direct_descriptor_);
  if (cached_descriptor_ >= 0) ::close(cached_descriptor_);
}

Result<std::shared_ptr<void>> File::companion(
    const std::function<Result<std::shared_ptr<void>>()>& make) {
  std::lock_guard lock(companion_mutex_);
  if (companion_) return companion_;
  auto made = make();
  if (made) companion_ = *made;
  return made;
}

bool File::lies_here() const { return is_local(cached_descriptor_); }

std::shared_ptr<const FileMap> File::view(std::int64_t end_bytes, FileMap::Access access) {
  const bool writes = access == FileMap::Access::read_write;
  if (!readable_ || (writes && !writable_)) return nullptr;
  std::lock_guard lock(view_mutex_);
  std::shared_ptr<const FileMap>& kept = views_[writes ? 1 : 0];
  if (kept && kept->broken()) return nullptr;
  if (kept && kept->bytes() >= end_bytes) return kept;
  const std::int64_t bytes = size();
  const bool is_here = lies_here();
  if (bytes < end_bytes || (writes && !is_here)) return nullptr;
  auto made = std::make_shared<FileMap>(cached_descriptor_, 0, bytes, access);
  if (made->data() == nullptr) return nullptr;
  if (is_here) kept = made;
  return made;
}

void File::note_viewed(const FileMap& view, std::int64_t bytes) {
  if (viewed_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes < viewed_bytes_max) return;
  viewed_bytes_.store(0, std::memory_order_relaxed);
  view.forget();
}

std::int64_t File::size() const {
  struct stat info {};
  if (::fstat(cached_descriptor_, &info) != 0) return 0;
  if (S_ISBLK(info.st_mode)) return ::lseek(cached_descriptor_, 0, SEEK_END);
  return info.st_size;
}

void File::forget_cached() {
  (void)fdatasync(cached_descriptor_);
  (void)posix_fadvise(cached_descriptor_, 0, 0, POSIX_FADV_DONTNEED);
}

FileNumber File::number() const {
  std::call_once(numbered_, [this] { number_ = number_of_file(cached_descriptor_); });
  return number_;
}

}  // namespace tranship
