#include "os/pages.hpp"

#include <sys/mman.h>
#include <sys/resource.h>

namespace tranship {

bool map_for_reading(std::byte* address, std::int64_t bytes) {
  constexpr int populate_read = 22;  // MADV_POPULATE_READ
  return ::madvise(address, static_cast<std::size_t>(bytes), populate_read) == 0;
}

bool map_for_writing(std::byte* address, std::int64_t bytes) {
  constexpr int populate_write = 23;  // MADV_POPULATE_WRITE
  return ::madvise(address, static_cast<std::size_t>(bytes), populate_write) == 0;
}

void lower_priority() {
  constexpr int niceness = 10;
  (void)::setpriority(PRIO_PROCESS, 0, niceness);  // on Linux: of the calling thread
}

}  // namespace tranship
