#include "fabric/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tranship {
namespace {

constexpr std::int64_t huge_page_bytes = 2 * 1024 * 1024;
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::string reason() { return std::strerror(errno); }

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

Result<std::shared_ptr<SharedMemory>> SharedMemory::allocate(Options options) {
  if (options.bytes < 1 || options.bytes > (std::int64_t{1} << 46)) {
    return Error{ErrorCode::invalid_argument,
                 "shared memory of " + std::to_string(options.bytes) +
                     " bytes was asked for: ask for at least one byte"};
  }
  const bool huge = options.huge_pages && options.bytes >= huge_page_bytes;
  std::shared_ptr<SharedMemory> memory(new SharedMemory);
  memory->bytes_ = round_up(options.bytes, huge ? huge_page_bytes : 4096);
  memory->descriptor_ = memfd_create("tranship", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory->descriptor_ < 0 || ftruncate(memory->descriptor_, memory->bytes_) != 0 ||
      fcntl(memory->descriptor_, F_ADD_SEALS, seals) != 0) {
    return Error{ErrorCode::out_of_memory, "shared memory of " + std::to_string(options.bytes) +
                                               " bytes could not be made: " + reason()};
  }
  if (auto status = memory->map(huge); !status) return status.error();
  return memory;
}

Result<std::shared_ptr<SharedMemory>> SharedMemory::open(pid_t pid, const MemoryTicket& ticket) {
  const std::string path =
      "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(ticket.descriptor);
  std::shared_ptr<SharedMemory> memory(new SharedMemory);
  memory->descriptor_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (memory->descriptor_ < 0) {
    return Error{ErrorCode::permission, "the memory of process " + std::to_string(pid) +
                                            " could not be opened (" + path + ": " + reason() +
                                            ")"};
  }
  struct stat info {};
  const int held = fcntl(memory->descriptor_, F_GET_SEALS);
  if (fstat(memory->descriptor_, &info) != 0 || info.st_ino != ticket.inode || ticket.bytes < 1 ||
      info.st_size != ticket.bytes || held < 0 || (held & seals) != seals) {
    return Error{ErrorCode::io, path + " is not the memory that process " + std::to_string(pid) +
                                    " offered: it may have closed it"};
  }
  memory->bytes_ = ticket.bytes;
  if (auto status = memory->map(ticket.bytes % huge_page_bytes == 0); !status) {
    return status.error();
  }
  return memory;
}

Status SharedMemory::map(bool huge_pages) {
  const auto length = static_cast<std::size_t>(bytes_);
  const auto slack = huge_pages ? static_cast<std::size_t>(huge_page_bytes) : 0;
  void* area = mmap(nullptr, length + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED) {
    return Error{ErrorCode::out_of_memory,
                 "no address space for " + std::to_string(bytes_) + " bytes: " + reason()};
  }
  auto* start = static_cast<std::byte*>(area);
  const auto misfit = huge_pages ? reinterpret_cast<std::uintptr_t>(start) % slack : 0;
  std::byte* aligned = misfit == 0 ? start : start + (slack - misfit);
  const auto head = static_cast<std::size_t>(aligned - start);
  if (head > 0) munmap(start, head);
  if (slack > head) munmap(aligned + length, slack - head);
  if (mmap(aligned, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor_, 0) ==
      MAP_FAILED) {
    const std::string why = reason();
    munmap(aligned, length);
    return Error{ErrorCode::out_of_memory,
                 "shared memory of " + std::to_string(bytes_) + " bytes was not mapped: " + why};
  }
  data_ = aligned;
  if (huge_pages) madvise(data_, length, MADV_HUGEPAGE);
  return {};
}

SharedMemory::~SharedMemory() {
  registration_.reset();
  if (data_ != nullptr) munmap(data_, static_cast<std::size_t>(bytes_));
  if (descriptor_ >= 0) ::close(descriptor_);
}

MemoryTicket SharedMemory::ticket() const {
  struct stat info {};
  fstat(descriptor_, &info);
  return {descriptor_, info.st_ino, bytes_};
}

bool SharedMemory::contains(const std::byte* address, std::int64_t bytes) const {
  return bytes >= 0 && bytes <= bytes_ && address >= data_ && address <= data_ + (bytes_ - bytes);
}

Result<std::shared_ptr<SharedMemory>> SharedMemories::allocate(std::int64_t bytes) {
  auto memory = SharedMemory::allocate({bytes, true});
  if (!memory) return memory.error();
  std::lock_guard lock(mutex_);
  std::erase_if(memories_, [](const auto& held) { return held.expired(); });
  memories_.push_back(*memory);
  return memory;
}

std::shared_ptr<SharedMemory> SharedMemories::holding(const std::byte* address,
                                                      std::int64_t bytes) const {
  std::lock_guard lock(mutex_);
  for (const auto& held : memories_) {
    auto memory = held.lock();
    if (memory && memory->contains(address, bytes)) return memory;
  }
  return nullptr;
}

}  // namespace tranship
