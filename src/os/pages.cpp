#include "os/pages.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace tranship {
namespace {

/// Calls `visit` with the offset of each page and whether it is in memory, until it returns false.
/// Returns whether it never did.
template <typename Visit>
bool for_pages(std::byte* address, std::int64_t bytes, const Visit& visit) {
  std::array<unsigned char, 512> pages{};
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  const std::int64_t most = static_cast<std::int64_t>(pages.size()) * page;
  for (std::int64_t begin = 0; begin < bytes; begin += most) {
    const std::int64_t length = std::min(most, bytes - begin);
    if (::mincore(address + begin, static_cast<std::size_t>(length), pages.data()) != 0) {
      pages.fill(0);
    }
    for (std::int64_t offset = 0; offset < length; offset += page) {
      const unsigned char one = pages[static_cast<std::size_t>(offset / page)];
      if (!visit(begin + offset, (one & 1) != 0)) return false;
    }
  }
  return true;
}

}  // namespace

bool map_for_reading(std::byte* address, std::int64_t bytes) {
  constexpr int populate_read = 22;  // MADV_POPULATE_READ
  return ::madvise(address, static_cast<std::size_t>(bytes), populate_read) == 0;
}

bool map_for_writing(std::byte* address, std::int64_t bytes) {
  constexpr int populate_write = 23;  // MADV_POPULATE_WRITE
  return ::madvise(address, static_cast<std::size_t>(bytes), populate_write) == 0;
}

bool pages_are_there(std::byte* address, std::int64_t bytes) {
  return for_pages(address, bytes, [](std::int64_t, bool there) { return there; });
}

bool page_is_gone(std::byte* address) {
  unsigned char there = 0;
  return ::mincore(address, 1, &there) == 0 && (there & 1) == 0;
}

PageRun longest_run(std::byte* address, std::int64_t bytes) {
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  PageRun longest;
  PageRun run;
  (void)for_pages(address, bytes, [&](std::int64_t offset, bool there) {
    if (!there) {
      run = {offset + page, 0};
    } else {
      run.bytes += page;
      if (run.bytes > longest.bytes) longest = run;
    }
    return true;
  });
  return longest;
}

bool has_address_space(std::int64_t bytes) {
  constexpr int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* area = ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_NONE, kind, -1, 0);
  if (area == MAP_FAILED) return false;
  ::munmap(area, static_cast<std::size_t>(bytes));
  return true;
}

void lower_priority() {
  constexpr int niceness = 10;
  (void)::setpriority(PRIO_PROCESS, 0, niceness);  // on Linux: of the calling thread
}

}  // namespace tranship
