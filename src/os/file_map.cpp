#include "os/file_map.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>

namespace tranship {
namespace {

/// What the handler reads of one map. `begin` is 0 while nobody uses the slot.
struct MapSlot {
  std::atomic<std::uintptr_t> begin = 0;
  std::atomic<std::uintptr_t> end = 0;
  std::atomic<bool> used = false;
  std::atomic<bool> broken = false;
};

constexpr std::size_t slots_max = 1024;
constexpr std::size_t none = slots_max;

/// The handler has no other way to its data than objects that live as long as the process.
std::array<MapSlot, slots_max> slots;
struct sigaction before {};

/// Puts zeros in the place of the map that has the address. Only what POSIX calls safe in a signal
/// handler, and mmap, which is one system call.
bool replace_map(std::uintptr_t address) {
  for (MapSlot& slot : slots) {
    const std::uintptr_t begin = slot.begin.load();
    const std::uintptr_t end = slot.end.load();
    if (begin == 0 || address < begin || address >= end || slot.begin.load() != begin) continue;
    slot.broken.store(true);  // first: who reads the zeros finds it
    const int error_number = errno;
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    void* const at = reinterpret_cast<void*>(begin);
    const void* put = ::mmap(at, end - begin, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    errno = error_number;
    return put != MAP_FAILED;
  }
  return false;
}

void on_bus_error(int number, siginfo_t* info, void* context) {
  if (info->si_code > 0 && replace_map(reinterpret_cast<std::uintptr_t>(info->si_addr))) return;
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) {
    before.sa_sigaction(number, info, context);
    return;
  }
  const bool sent = info->si_code <= 0;  // by a process, and no access has failed
  if (before.sa_handler == SIG_IGN && sent) return;
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(number);
    return;
  }
  // The access is repeated and ends the process, as it would have done without this handler.
  (void)::signal(number, SIG_DFL);
  if (sent) (void)::raise(number);
}

void install() {
  struct sigaction action {};
  action.sa_sigaction = &on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  (void)::sigaction(SIGBUS, &action, &before);
}

std::size_t take_slot() {
  for (std::size_t k = 0; k < slots_max; ++k) {
    if (!slots[k].used.load(std::memory_order_relaxed) && !slots[k].used.exchange(true)) return k;
  }
  return none;
}

}  // namespace

bool FileMap::guarded() {
  static std::once_flag installed;
  std::call_once(installed, install);
  struct sigaction now {};
  return ::sigaction(SIGBUS, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
         now.sa_sigaction == &on_bus_error;
}

FileMap::FileMap(int descriptor, std::int64_t offset, std::int64_t bytes, Access access)
    : slot_(bytes > 0 && guarded() ? take_slot() : none) {
  if (slot_ == none) return;
  const std::int64_t begin = offset - offset % ::sysconf(_SC_PAGESIZE);
  const auto length = static_cast<std::size_t>(offset + bytes - begin);
  const int protection = access == Access::read ? PROT_READ : PROT_READ | PROT_WRITE;
  void* base = ::mmap(nullptr, length, protection, MAP_SHARED, descriptor, begin);
  if (base == MAP_FAILED) return;
  base_ = base;
  base_bytes_ = length;
  data_ = static_cast<std::byte*>(base) + (offset - begin);
  bytes_ = bytes;
  ::madvise(base, length, MADV_RANDOM);
  MapSlot& slot = slots[slot_];
  slot.broken.store(false);
  slot.end.store(reinterpret_cast<std::uintptr_t>(base) + length);
  slot.begin.store(reinterpret_cast<std::uintptr_t>(base));
}

FileMap::~FileMap() {
  if (slot_ == none) return;
  MapSlot& slot = slots[slot_];
  slot.begin.store(0);
  if (base_ != nullptr) ::munmap(base_, base_bytes_);
  slot.used.store(false);
}

bool FileMap::broken() const { return slot_ != none && slots[slot_].broken.load(); }

void FileMap::forget() const { ::madvise(base_, base_bytes_, MADV_DONTNEED); }

}  // namespace tranship
