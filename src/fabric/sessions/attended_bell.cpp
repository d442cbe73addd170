#include "fabric/sessions/attended_bell.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tranship::fabric {

Error no_descriptors() {
  return {ErrorCode::io,
          std::string("no descriptors for links to other processes: ") + std::strerror(errno),
          "raise the limit (ulimit -n)"};
}

Status AttendedBell::open() {
  auto memory = SharedMemory::allocate({4096, false, false});
  if (!memory) return memory.error();
  memory_ = std::move(*memory);
  wakener_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return wakener_ ? Status{} : no_descriptors();
}

void AttendedBell::ring() {
  bell().ring();
  if (!attended_.load(std::memory_order_seq_cst)) return;
  const std::uint64_t one = 1;
  (void)!write(wakener_.get(), &one, sizeof one);
}

void AttendedBell::drain() {
  std::uint64_t rung = 0;
  (void)!read(wakener_.get(), &rung, sizeof rung);
}

}  // namespace tranship::fabric
