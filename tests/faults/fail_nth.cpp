// A library to preload, which lets the n-th system call of a class fail, among those that Tranship
// makes.
//
// A process arms the library by fail_nth_arm() once it has started, so that no other part of the
// process and no other process is affected. A call is counted if the caller's code lies in
// Tranship's module, its C library or the C++ runtime library (std::thread, operator new,
// std::ofstream).

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

/// Classes of calls, and how they fail.
enum class Class : int {
  none,
  threads,      // pthread_create: EAGAIN
  memory,       // mmap, mremap, large malloc and aligned_alloc: ENOMEM
  descriptors,  // calls that make a descriptor: EMFILE
  memfd,        // memfd_create, ftruncate, fallocate, seals: ENOMEM, ENOSPC, EPERM
  reset,        // sockets: ECONNRESET, ECONNREFUSED, EADDRINUSE
  buffers,      // sockets: ENOBUFS
  interrupts,   // calls that wait: EINTR
  partial,      // sockets and files: one byte moves, or half of the bytes
  full,         // files: ENOSPC
  broken,       // files: EIO
  advice,       // madvise: EINVAL
  direct,       // process_vm_readv, process_vm_writev: EPERM
  random,       // getrandom: ENOSYS
  polling,      // epoll_ctl: ENOMEM
  options,      // getsockopt, setsockopt, fstat, getsockname: ENOBUFS
};

constexpr std::array names{"none",    "threads",    "memory",  "descriptors", "memfd",  "reset",
                           "buffers", "interrupts", "partial", "full",        "broken", "advice",
                           "direct",  "random",     "polling", "options"};

constexpr std::size_t large_bytes = 64 * 1024;

struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

std::atomic<int> armed{0};
std::atomic<long> nth{0};
std::atomic<bool> lasting{false};
std::atomic<long> calls{0};
std::atomic<long> failures{0};
std::array<Range, 64> ranges;
int range_count = 0;
char fired_at[128] = "";

template <typename Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

int note_module(dl_phdr_info* info, std::size_t, void*) {
  const char* name = info->dlpi_name;
  const bool counted = std::strstr(name, "/tranship/_core") != nullptr ||
                       std::strstr(name, "libtranship.so") != nullptr ||
                       std::strstr(name, "libstdc++") != nullptr;
  for (int k = 0; counted && k < info->dlpi_phnum; ++k) {
    const auto& part = info->dlpi_phdr[k];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    const std::uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    if (static_cast<std::size_t>(range_count) < ranges.size()) {
      ranges[static_cast<std::size_t>(range_count++)] = {begin, begin + part.p_memsz};
    }
  }
  return 0;
}

bool is_counted(const void* caller) {
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  for (int k = 0; k < range_count; ++k) {
    const Range& range = ranges[static_cast<std::size_t>(k)];
    if (address >= range.begin && address < range.end) return true;
  }
  return false;
}

/// Returns whether this call of the class is to fail.
bool hit(Class what, const char* function, const void* caller) {
  if (armed.load(std::memory_order_relaxed) != static_cast<int>(what)) return false;
  if (!is_counted(caller)) return false;
  const long number = calls.fetch_add(1) + 1;
  const long first = nth.load();
  const bool fails = number == first || (lasting.load() && number > first);
  if (fails && failures.fetch_add(1) == 0) {
    std::snprintf(fired_at, sizeof fired_at, "%s", function);
    if (std::getenv("FAIL_NTH_TRACE") != nullptr) {
      std::array<void*, 32> frames{};
      backtrace_symbols_fd(frames.data(), backtrace(frames.data(), 32), STDERR_FILENO);
    }
  }
  return fails;
}

bool refuse(Class what, int error, const char* function, const void* caller) {
  if (!hit(what, function, caller)) return false;
  errno = error;
  return true;
}

}  // namespace

#define HERE __func__, __builtin_return_address(0)
#define REAL(function) static const auto next = real<decltype(&::function)>(#function)

#pragma GCC visibility push(default)
extern "C" {

/// Lets the n-th call of a class fail, counted from now; with `every`, all later calls as well.
/// Returns the number of counted code ranges, or -1 for an unknown class.
int fail_nth_arm(const char* name, long n, int every) {
  for (std::size_t k = 0; k < names.size(); ++k) {
    if (std::strcmp(names[k], name) != 0) continue;
    range_count = 0;
    dl_iterate_phdr(note_module, nullptr);
    calls = 0;
    failures = 0;
    nth = n;
    lasting = every != 0;
    armed = static_cast<int>(k);
    return range_count;
  }
  return -1;
}

void fail_nth_disarm() { armed = 0; }

long fail_nth_calls() { return calls.load(); }

/// Returns the name of the function that failed first; empty if none did.
const char* fail_nth_fired() { return failures.load() > 0 ? fired_at : ""; }

// --- threads and memory

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) {
  REAL(pthread_create);
  if (hit(Class::threads, HERE)) return EAGAIN;
  return next(thread, attributes, run, argument);
}

void* mmap(void* address, std::size_t bytes, int protection, int flags, int descriptor,
           off_t offset) {
  REAL(mmap);
  if (refuse(Class::memory, ENOMEM, HERE)) return MAP_FAILED;
  return next(address, bytes, protection, flags, descriptor, offset);
}

void* mmap64(void* address, std::size_t bytes, int protection, int flags, int descriptor,
             off64_t offset) {
  REAL(mmap64);
  if (refuse(Class::memory, ENOMEM, HERE)) return MAP_FAILED;
  return next(address, bytes, protection, flags, descriptor, offset);
}

void* __libc_malloc(std::size_t bytes);

void* malloc(std::size_t bytes) {
  if (bytes >= large_bytes && refuse(Class::memory, ENOMEM, HERE)) return nullptr;
  return __libc_malloc(bytes);
}

void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  if (bytes >= large_bytes && refuse(Class::memory, ENOMEM, HERE)) return nullptr;
  return __libc_memalign(alignment, bytes);
}

int madvise(void* address, std::size_t bytes, int advice) noexcept {
  REAL(madvise);
  if (refuse(Class::advice, EINVAL, HERE)) return -1;
  return next(address, bytes, advice);
}

ssize_t process_vm_readv(pid_t pid, const iovec* local, unsigned long local_count,
                         const iovec* remote, unsigned long remote_count,
                         unsigned long flags) noexcept {
  REAL(process_vm_readv);
  if (refuse(Class::direct, EPERM, HERE)) return -1;
  return next(pid, local, local_count, remote, remote_count, flags);
}

ssize_t process_vm_writev(pid_t pid, const iovec* local, unsigned long local_count,
                          const iovec* remote, unsigned long remote_count,
                          unsigned long flags) noexcept {
  REAL(process_vm_writev);
  if (refuse(Class::direct, EPERM, HERE)) return -1;
  return next(pid, local, local_count, remote, remote_count, flags);
}

ssize_t getrandom(void* buffer, std::size_t bytes, unsigned int flags) {
  REAL(getrandom);
  if (refuse(Class::random, ENOSYS, HERE)) return -1;
  return next(buffer, bytes, flags);
}

// --- descriptors

#define MODE_OF(flags)                            \
  mode_t mode = 0;                                \
  if (((flags) & (O_CREAT | __O_TMPFILE)) != 0) { \
    va_list rest;                                 \
    va_start(rest, flags);                        \
    mode = va_arg(rest, mode_t);                  \
    va_end(rest);                                 \
  }

int open(const char* path, int flags, ...) {
  REAL(open);
  MODE_OF(flags)
  if (refuse(Class::descriptors, EMFILE, HERE)) return -1;
  return next(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  REAL(open64);
  MODE_OF(flags)
  if (refuse(Class::descriptors, EMFILE, HERE)) return -1;
  return next(path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  REAL(openat);
  MODE_OF(flags)
  if (refuse(Class::descriptors, EMFILE, HERE)) return -1;
  return next(folder, path, flags, mode);
}

int mkostemp(char* pattern, int flags) {
  REAL(mkostemp);
  if (refuse(Class::descriptors, EMFILE, HERE)) return -1;
  return next(pattern, flags);
}

FILE* fopen(const char* path, const char* mode) {
  REAL(fopen);
  if (refuse(Class::descriptors, EMFILE, HERE)) return nullptr;
  return next(path, mode);
}

FILE* fopen64(const char* path, const char* mode) {
  REAL(fopen64);
  if (refuse(Class::descriptors, EMFILE, HERE)) return nullptr;
  return next(path, mode);
}

int socket(int domain, int type, int protocol) noexcept {
  REAL(socket);
  if (refuse(Class::descriptors, EMFILE, HERE)) return -1;
  return next(domain, type, protocol);
}

int accept4(int listener, sockaddr* address, socklen_t* length, int flags) {
  REAL(accept4);
  if (refuse(Class::descriptors, EMFILE, HERE) || refuse(Class::reset, ECONNABORTED, HERE) ||
      refuse(Class::buffers, ENOBUFS, HERE) || refuse(Class::interrupts, EINTR, HERE)) {
    return -1;
  }
  return next(listener, address, length, flags);
}

int eventfd(unsigned int value, int flags) noexcept {
  REAL(eventfd);
  if (refuse(Class::descriptors, EMFILE, HERE)) return -1;
  return next(value, flags);
}

int epoll_create1(int flags) noexcept {
  REAL(epoll_create1);
  if (refuse(Class::descriptors, EMFILE, HERE)) return -1;
  return next(flags);
}

int dup(int descriptor) noexcept {
  REAL(dup);
  if (refuse(Class::descriptors, EMFILE, HERE)) return -1;
  return next(descriptor);
}

int fcntl(int descriptor, int command, ...) {
  REAL(fcntl);
  va_list rest;
  va_start(rest, command);
  const long argument = va_arg(rest, long);
  va_end(rest);
  if (command == F_DUPFD_CLOEXEC && refuse(Class::descriptors, EMFILE, HERE)) return -1;
  const bool seals = command == F_ADD_SEALS || command == F_GET_SEALS;
  if (seals && refuse(Class::memfd, EPERM, HERE)) return -1;
  return next(descriptor, command, argument);
}

int fcntl64(int descriptor, int command, ...) {
  REAL(fcntl64);
  va_list rest;
  va_start(rest, command);
  const long argument = va_arg(rest, long);
  va_end(rest);
  if (command == F_DUPFD_CLOEXEC && refuse(Class::descriptors, EMFILE, HERE)) return -1;
  const bool seals = command == F_ADD_SEALS || command == F_GET_SEALS;
  if (seals && refuse(Class::memfd, EPERM, HERE)) return -1;
  return next(descriptor, command, argument);
}

long syscall(long number, ...) noexcept {
  REAL(syscall);
  std::array<long, 6> words{};
  va_list rest;
  va_start(rest, number);
  for (long& word : words) word = va_arg(rest, long);
  va_end(rest);
  if (number == SYS_pidfd_open && refuse(Class::descriptors, EMFILE, HERE)) return -1;
  return next(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

int memfd_create(const char* name, unsigned int flags) noexcept {
  REAL(memfd_create);
  if (refuse(Class::descriptors, EMFILE, HERE) || refuse(Class::memfd, ENOMEM, HERE)) return -1;
  return next(name, flags);
}

// --- files

int ftruncate(int descriptor, off_t bytes) noexcept {
  REAL(ftruncate);
  if (refuse(Class::memfd, ENOSPC, HERE) || refuse(Class::full, ENOSPC, HERE) ||
      refuse(Class::broken, EIO, HERE)) {
    return -1;
  }
  return next(descriptor, bytes);
}

int ftruncate64(int descriptor, off64_t bytes) noexcept {
  REAL(ftruncate64);
  if (refuse(Class::memfd, ENOSPC, HERE) || refuse(Class::full, ENOSPC, HERE) ||
      refuse(Class::broken, EIO, HERE)) {
    return -1;
  }
  return next(descriptor, bytes);
}

int fallocate(int descriptor, int mode, off_t offset, off_t bytes) {
  REAL(fallocate);
  if (refuse(Class::memfd, ENOSPC, HERE) || refuse(Class::full, ENOSPC, HERE) ||
      refuse(Class::broken, EIO, HERE) || refuse(Class::interrupts, EINTR, HERE)) {
    return -1;
  }
  return next(descriptor, mode, offset, bytes);
}

int fallocate64(int descriptor, int mode, off64_t offset, off64_t bytes) {
  REAL(fallocate64);
  if (refuse(Class::memfd, ENOSPC, HERE) || refuse(Class::full, ENOSPC, HERE) ||
      refuse(Class::broken, EIO, HERE) || refuse(Class::interrupts, EINTR, HERE)) {
    return -1;
  }
  return next(descriptor, mode, offset, bytes);
}

#define FILE_CALL(type, function, parameters, arguments)                                  \
  type function parameters {                                                              \
    REAL(function);                                                                       \
    if (refuse(Class::full, ENOSPC, HERE) || refuse(Class::broken, EIO, HERE)) return -1; \
    return next arguments;                                                                \
  }

#define DATA_CALL(function, parameters, all, less)                               \
  ssize_t function parameters {                                                  \
    REAL(function);                                                              \
    if (refuse(Class::full, ENOSPC, HERE) || refuse(Class::broken, EIO, HERE) || \
        refuse(Class::interrupts, EINTR, HERE)) {                                \
      return -1;                                                                 \
    }                                                                            \
    if (bytes > 1 && hit(Class::partial, HERE)) return next less;                \
    return next all;                                                             \
  }

FILE_CALL(int, fsync, (int descriptor), (descriptor))
FILE_CALL(int, fdatasync, (int descriptor), (descriptor))
FILE_CALL(int, rename, (const char* from, const char* to) noexcept, (from, to))
FILE_CALL(int, link, (const char* from, const char* to) noexcept, (from, to))
FILE_CALL(int, linkat,
          (int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept,
          (from_folder, from, to_folder, to, flags))
FILE_CALL(int, unlink, (const char* path) noexcept, (path))
DATA_CALL(pwrite, (int descriptor, const void* data, std::size_t bytes, off_t offset),
          (descriptor, data, bytes, offset), (descriptor, data, bytes / 2, offset))
DATA_CALL(pwrite64, (int descriptor, const void* data, std::size_t bytes, off64_t offset),
          (descriptor, data, bytes, offset), (descriptor, data, bytes / 2, offset))
DATA_CALL(pread, (int descriptor, void* data, std::size_t bytes, off_t offset),
          (descriptor, data, bytes, offset), (descriptor, data, bytes / 2, offset))
DATA_CALL(pread64, (int descriptor, void* data, std::size_t bytes, off64_t offset),
          (descriptor, data, bytes, offset), (descriptor, data, bytes / 2, offset))

// A write of eight bytes is taken for one to an event counter, which does not fail while it is
// open.

ssize_t write(int descriptor, const void* data, std::size_t bytes) {
  REAL(write);
  if (bytes == 8) return next(descriptor, data, bytes);
  if (refuse(Class::full, ENOSPC, HERE) || refuse(Class::broken, EIO, HERE) ||
      refuse(Class::interrupts, EINTR, HERE)) {
    return -1;
  }
  return next(descriptor, data, bytes > 1 && hit(Class::partial, HERE) ? bytes / 2 : bytes);
}

ssize_t read(int descriptor, void* data, std::size_t bytes) {
  REAL(read);
  if (bytes == 8) return next(descriptor, data, bytes);
  if (refuse(Class::broken, EIO, HERE) || refuse(Class::interrupts, EINTR, HERE)) return -1;
  return next(descriptor, data, bytes > 1 && hit(Class::partial, HERE) ? bytes / 2 : bytes);
}

// --- sockets

int connect(int socket, const sockaddr* address, socklen_t length) {
  REAL(connect);
  if (refuse(Class::reset, ECONNREFUSED, HERE) || refuse(Class::buffers, ENOBUFS, HERE) ||
      refuse(Class::interrupts, EINTR, HERE)) {
    return -1;
  }
  return next(socket, address, length);
}

int bind(int socket, const sockaddr* address, socklen_t length) noexcept {
  REAL(bind);
  if (refuse(Class::reset, EADDRINUSE, HERE) || refuse(Class::buffers, ENOBUFS, HERE)) return -1;
  return next(socket, address, length);
}

int listen(int socket, int backlog) noexcept {
  REAL(listen);
  if (refuse(Class::reset, EADDRINUSE, HERE) || refuse(Class::buffers, ENOBUFS, HERE)) return -1;
  return next(socket, backlog);
}

#define SOCKET_FAILURES                                                               \
  (refuse(Class::reset, ECONNRESET, HERE) || refuse(Class::buffers, ENOBUFS, HERE) || \
   refuse(Class::interrupts, EINTR, HERE))

ssize_t send(int socket, const void* data, std::size_t bytes, int flags) {
  REAL(send);
  if (SOCKET_FAILURES) return -1;
  return next(socket, data, bytes > 1 && hit(Class::partial, HERE) ? 1 : bytes, flags);
}

ssize_t recv(int socket, void* data, std::size_t bytes, int flags) {
  REAL(recv);
  if (SOCKET_FAILURES) return -1;
  return next(socket, data, bytes > 1 && hit(Class::partial, HERE) ? 1 : bytes, flags);
}

ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  REAL(sendmsg);
  if (SOCKET_FAILURES) return -1;
  if (message->msg_iovlen > 0 && message->msg_iov[0].iov_len > 1 && hit(Class::partial, HERE)) {
    msghdr less = *message;
    iovec first{message->msg_iov[0].iov_base, 1};
    less.msg_iov = &first;
    less.msg_iovlen = 1;
    return next(socket, &less, flags);
  }
  return next(socket, message, flags);
}

/// Takes the descriptors off a message, as the kernel does if the process's descriptor table is
/// full.
void lose_descriptors(msghdr* message, const void* caller) {
  cmsghdr* part = CMSG_FIRSTHDR(message);
  if (part == nullptr || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) return;
  if (!hit(Class::descriptors, "recvmsg", caller)) return;
  const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (std::size_t k = 0; k < count; ++k) {
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(part) + k * sizeof descriptor, sizeof descriptor);
    close(descriptor);
  }
  message->msg_controllen = 0;
  message->msg_flags |= MSG_CTRUNC;
}

ssize_t recvmsg(int socket, msghdr* message, int flags) {
  REAL(recvmsg);
  if (SOCKET_FAILURES) return -1;
  if (message->msg_iovlen > 0 && message->msg_iov[0].iov_len > 1 && hit(Class::partial, HERE)) {
    const iovec first = message->msg_iov[0];
    message->msg_iov[0].iov_len = 1;
    const std::size_t count = message->msg_iovlen;
    message->msg_iovlen = 1;
    const ssize_t got = next(socket, message, flags);
    message->msg_iov[0] = first;
    message->msg_iovlen = count;
    return got;
  }
  const ssize_t got = next(socket, message, flags);
  if (got > 0 && message->msg_controllen > 0) {
    lose_descriptors(message, __builtin_return_address(0));
  }
  return got;
}

int getsockopt(int socket, int level, int option, void* value, socklen_t* length) noexcept {
  REAL(getsockopt);
  if (refuse(Class::options, ENOBUFS, HERE)) return -1;
  return next(socket, level, option, value, length);
}

int setsockopt(int socket, int level, int option, const void* value, socklen_t length) noexcept {
  REAL(setsockopt);
  if (refuse(Class::options, ENOBUFS, HERE)) return -1;
  return next(socket, level, option, value, length);
}

int getsockname(int socket, sockaddr* address, socklen_t* length) noexcept {
  REAL(getsockname);
  if (refuse(Class::options, ENOBUFS, HERE)) return -1;
  return next(socket, address, length);
}

int fstat(int descriptor, struct stat* info) noexcept {
  REAL(fstat);
  if (refuse(Class::options, ENOMEM, HERE)) return -1;
  return next(descriptor, info);
}

int epoll_ctl(int epoll, int operation, int descriptor, epoll_event* event) noexcept {
  REAL(epoll_ctl);
  if (operation != EPOLL_CTL_DEL && refuse(Class::polling, ENOMEM, HERE)) return -1;
  return next(epoll, operation, descriptor, event);
}

int epoll_wait(int epoll, epoll_event* events, int count, int timeout) {
  REAL(epoll_wait);
  if (refuse(Class::interrupts, EINTR, HERE)) return -1;
  return next(epoll, events, count, timeout);
}

}  // extern "C"
#pragma GCC visibility pop
