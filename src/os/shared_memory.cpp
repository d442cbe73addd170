#include "os/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "os/file_error.hpp"

namespace tranship {
namespace {

constexpr std::int64_t huge_page_bytes = 2 * 1024 * 1024;
constexpr std::int64_t bytes_max = std::int64_t{1} << 46;
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

Result<std::shared_ptr<SharedMemory>> SharedMemory::allocate(Options options) {
  if (options.bytes < 1 || options.bytes > bytes_max) {
    return Error{ErrorCode::invalid_argument,
                 "shared memory of " + std::to_string(options.bytes) + " bytes was asked for",
                 "ask for 1 to " + std::to_string(bytes_max)};
  }
  const bool huge = options.huge_pages && options.bytes >= huge_page_bytes;
  std::shared_ptr<SharedMemory> memory(new SharedMemory);
  memory->bytes_ = round_up(options.bytes, huge ? huge_page_bytes : 4096);
  const int made = memfd_create("tranship", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  const auto refused = [&](int number) {
    return Error{ErrorCode::out_of_memory,
                 "shared memory of " + std::to_string(options.bytes) +
                     " bytes could not be made: " + std::strerror(number)};
  };
  if (made < 0) return refused(errno);
  memory->descriptor_ = FileDescriptor(made);
  if (ftruncate(made, memory->bytes_) != 0) return refused(errno);
  struct stat info {};
  if (fcntl(made, F_ADD_SEALS, seals) != 0 || fstat(made, &info) != 0) return refused(errno);
  memory->inode_ = info.st_ino;
  if (auto status = memory->map_pages(huge, options.in_children); !status) return status.error();
  return memory;
}

Result<std::shared_ptr<SharedMemory>> SharedMemory::map(FileDescriptor descriptor,
                                                        std::int64_t bytes) {
  std::shared_ptr<SharedMemory> memory(new SharedMemory);
  struct stat info {};
  const int held = fcntl(descriptor.get(), F_GET_SEALS);
  if (fstat(descriptor.get(), &info) != 0 || held < 0 || (held & seals) != seals || bytes < 1 ||
      info.st_size < bytes || info.st_size > bytes_max) {
    return Error{ErrorCode::io, "the peer sent memory that is not what it says"};
  }
  memory->descriptor_ = std::move(descriptor);
  memory->inode_ = info.st_ino;
  memory->bytes_ = info.st_size;
  const bool huge = memory->bytes_ % huge_page_bytes == 0;
  if (auto status = memory->map_pages(huge, false); !status) return status.error();
  return memory;
}

Status SharedMemory::map_pages(bool huge_pages, bool in_children) {
  const auto length = static_cast<std::size_t>(bytes_);
  const auto slack = huge_pages ? static_cast<std::size_t>(huge_page_bytes) : 0;
  void* area = mmap(nullptr, length + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED) {
    return Error{ErrorCode::out_of_memory,
                 "no address space for " + std::to_string(bytes_) + " bytes: " + errno_text()};
  }
  auto* start = static_cast<std::byte*>(area);
  const auto misfit = huge_pages ? reinterpret_cast<std::uintptr_t>(start) % slack : 0;
  std::byte* aligned = misfit == 0 ? start : start + (slack - misfit);
  const auto head = static_cast<std::size_t>(aligned - start);
  if (head > 0) munmap(start, head);
  if (slack > head) munmap(aligned + length, slack - head);
  if (mmap(aligned, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor_.get(), 0) ==
      MAP_FAILED) {
    const std::string why = errno_text();
    munmap(aligned, length);
    return Error{ErrorCode::out_of_memory,
                 "shared memory of " + std::to_string(bytes_) + " bytes was not mapped: " + why};
  }
  data_ = aligned;
  in_children_ = in_children;
  generation_ = fork_generation();
  if (huge_pages) madvise(data_, length, MADV_HUGEPAGE);
  if (!in_children && madvise(data_, length, MADV_DONTFORK) != 0) {
    return Error{ErrorCode::io, "shared memory could not be kept from children: " + errno_text()};
  }
  return {};
}

SharedMemory::~SharedMemory() {
  registration_.reset();
  // In a child that never had the mapping, something else may lie at its address.
  const bool here = in_children_ || generation_ == fork_generation();
  if (data_ == nullptr || !here) return;
  if (guarded_) unguard_in_children(data_);
  munmap(data_, static_cast<std::size_t>(bytes_));
}

bool SharedMemory::guard_in_children() {
  std::lock_guard lock(mutex_);
  if (in_children_) return true;
  if (!guarded_) guarded_ = tranship::guard_in_children(data_, static_cast<std::size_t>(bytes_));
  return guarded_;
}

bool SharedMemory::contains(const std::byte* address, std::int64_t bytes) const {
  return bytes >= 0 && bytes <= bytes_ && address >= data_ && address <= data_ + (bytes_ - bytes);
}

Result<std::shared_ptr<SharedMemory>> SharedMemories::allocate(std::int64_t bytes) {
  auto memory = SharedMemory::allocate({bytes, true, true});
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
