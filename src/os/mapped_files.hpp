// Which parts of this process's memory show files, or memory that is shared between processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tranship {

/// Names one file of this machine, or one shared memory, as the kernel does in /proc/PID/maps.
struct FileNumber {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool operator==(const FileNumber&) const = default;
};

/// A range of addresses of this process that shows bytes of a file.
struct MappedPart {
  const std::byte* begin = nullptr;
  std::int64_t bytes = 0;
  FileNumber file{};
  std::int64_t offset = 0;  ///< in the file, of the first byte
  bool shared = false;      ///< a write here changes the file; else it makes a copy of the page
};

/// Returns whether the bytes lie in the heap, which no file shows. It costs no system call.
bool in_heap(const std::byte* begin, std::int64_t bytes);

/// Returns the parts of a range that show files or shared memory, in ascending order; none for
/// other memory, and where the kernel does not say. Mappings of devices are left out. It takes one
/// system call where the kernel has PROCMAP_QUERY (Linux 6.11), else up to a millisecond.
std::vector<MappedPart> mapped_parts(const std::byte* begin, std::int64_t bytes);

/// Keeps the kernel's list of this process's maps open, so that mapped_parts() takes some 1 us, not
/// 5. Any number of them share one descriptor, which forked children do not see. Threads: all.
class KeptMaps {
 public:
  KeptMaps();
  ~KeptMaps();
  KeptMaps(const KeptMaps&) = delete;
  KeptMaps& operator=(const KeptMaps&) = delete;
};

/// Returns the number under which mapped_parts() names an open file. Where the file cannot be
/// mapped it is what fstat() says, which some file systems number in another way.
FileNumber number_of_file(int descriptor);

}  // namespace tranship
