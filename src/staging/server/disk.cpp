#include "staging/server/disk.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <vector>

#include "base/crc32c.hpp"
#include "channels/file/file.hpp"

namespace tranship::staging {
namespace {

constexpr auto unit_bytes = static_cast<std::size_t>(disk_alignment);
/// Smaller runs are as fast through the cache.
constexpr std::size_t direct_bytes_least = 64 * 1024;

/// Makes a file and removes its name at once, for file systems without O_TMPFILE.
int make_and_unlink(const std::string& folder) {
  const std::string pattern = folder + "/tranship-spill-XXXXXX";
  std::vector<char> path(pattern.begin(), pattern.end());
  path.push_back('\0');
  const int descriptor = ::mkostemp(path.data(), O_CLOEXEC);
  if (descriptor >= 0) ::unlink(path.data());
  return descriptor;
}

/// Returns whether a write would exceed the process's limit, which would end it with a signal.
bool beyond_limit(std::int64_t end) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         static_cast<std::uint64_t>(end) > limit.rlim_cur;
}

/// Repeats `step(done)` until all bytes are done. Returns the error number of the system; 0: none.
template <typename Step>
int repeat(std::size_t bytes, const Step& step) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t count = step(done);
    if (count > 0) {
      done += static_cast<std::size_t>(count);
    } else if (count == 0 || errno != EINTR) {
      return count == 0 ? EIO : errno;
    }
  }
  return 0;
}

off_t at(std::int64_t offset, std::size_t done) {
  return static_cast<off_t>(offset) + static_cast<off_t>(done);
}

}  // namespace

Status CheckedDisk::write(std::int64_t offset, std::span<const std::byte> data) {
  written_.erase(offset);
  const std::uint32_t checksum = crc32c(data);
  if (Status status = disk_->write(offset, data); !status) return status;
  written_[offset] = {data.size(), checksum};
  return {};
}

Status CheckedDisk::read(std::int64_t offset, std::span<std::byte> data) {
  if (Status status = disk_->read(offset, data); !status) return status;
  const auto found = written_.find(offset);
  if (found != written_.end() && found->second.bytes == data.size() &&
      found->second.checksum == crc32c(data)) {
    return {};
  }
  return Error{ErrorCode::io, "what was spilled has changed on disk: its checksum is another",
               "check the disk, and "
               "put the version again"};
}

void CheckedDisk::drop(std::int64_t offset, std::int64_t bytes) {
  written_.erase(offset);
  disk_->drop(offset, bytes);
}

SpillFile::SpillFile(std::string folder, int descriptor)
    : folder_(std::move(folder)), descriptor_(descriptor) {
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor_);
  direct_descriptor_ = ::open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);
  // Reading ahead would bring pages into the cache that are about to be written around it.
  (void)::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_RANDOM);
}

SpillFile::~SpillFile() {
  if (direct_descriptor_ >= 0) ::close(direct_descriptor_);
  ::close(descriptor_);
}

Result<std::unique_ptr<SpillFile>> SpillFile::open(const std::string& folder) {
  int descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    descriptor = make_and_unlink(folder);
  }
  if (descriptor < 0) {
    Error error = file_error("spill to the folder", folder, errno);
    error.hint +=
        (error.hint.empty() ? "name" : "; or name") + std::string(" another folder with --spill");
    return error;
  }
  return std::unique_ptr<SpillFile>(new SpillFile(folder, descriptor));
}

Error SpillFile::failure(const char* operation, int error_number) const {
  return file_error(operation, folder_, error_number);
}

std::size_t SpillFile::direct_bytes(std::int64_t offset, std::span<const std::byte> data) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data.data());
  const bool aligned = address % unit_bytes == 0 && offset % disk_alignment == 0;
  if (direct_descriptor_ < 0 || !aligned || data.size() < direct_bytes_least) return 0;
  return data.size() / unit_bytes * unit_bytes;
}

Status SpillFile::write(std::int64_t offset, std::span<const std::byte> data) {
  if (beyond_limit(offset + std::ssize(data))) return failure("spill to the folder", EFBIG);
  const auto write_from = [&](int descriptor, std::size_t first, std::size_t last) {
    return repeat(last - first, [&](std::size_t done) {
      return ::pwrite(descriptor, data.data() + first + done, last - first - done,
                      at(offset, first + done));
    });
  };
  std::size_t direct = direct_bytes(offset, data);
  if (const int refusal = write_from(direct_descriptor_, 0, direct); refusal != 0) {
    if (refusal != EINVAL) return failure("spill to the folder", refusal);
    direct = 0;
  }
  const int refusal = write_from(descriptor_, direct, data.size());
  return refusal == 0 ? Status{} : Status(failure("spill to the folder", refusal));
}

Status SpillFile::read(std::int64_t offset, std::span<std::byte> data) {
  const auto read_from = [&](int descriptor, std::size_t first, std::size_t last) {
    return repeat(last - first, [&](std::size_t done) {
      return ::pread(descriptor, data.data() + first + done, last - first - done,
                     at(offset, first + done));
    });
  };
  std::size_t direct = direct_bytes(offset, data);
  if (const int refusal = read_from(direct_descriptor_, 0, direct); refusal != 0) {
    if (refusal != EINVAL) return failure("read what was spilled to the folder", refusal);
    direct = 0;
  }
  const int refusal = read_from(descriptor_, direct, data.size());
  return refusal == 0 ? Status{} : Status(failure("read what was spilled to the folder", refusal));
}

Status SpillFile::flush() {
  return ::fdatasync(descriptor_) == 0 ? Status{} : Status(failure("spill to the folder", errno));
}

void SpillFile::drop(std::int64_t offset, std::int64_t bytes) {
  // Where holes cannot be punched, the room is used again by what comes next.
  (void)::fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes);
}

}  // namespace tranship::staging
