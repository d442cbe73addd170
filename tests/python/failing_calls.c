/* Makes the n-th call of one kind on a file fail: FAIL_CALL=name, FAIL_ERRNO=number, FAIL_AT=n.
   Loaded with LD_PRELOAD by test_file_failures.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_int calls;

/* Whether this call is the one that fails. */
static int fails(const char* name) {
  const char* wanted = getenv("FAIL_CALL");
  if (wanted == NULL || strcmp(wanted, name) != 0 || getenv("FAIL_NOW") == NULL) return 0;
  if (atomic_fetch_add(&calls, 1) + 1 != atoi(getenv("FAIL_AT"))) return 0;
  errno = atoi(getenv("FAIL_ERRNO"));
  return 1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t pwrite(int file, const void* data, size_t count, off_t offset) {
  if (fails("pwrite")) return -1;
  if (fails("short_pwrite") && count > 1) count /= 2; /* not an error: the rest is written later */
  return NEXT(pwrite)(file, data, count, offset);
}

ssize_t pwrite64(int file, const void* data, size_t count, off64_t offset) {
  if (fails("pwrite")) return -1;
  if (fails("short_pwrite") && count > 1) count /= 2;
  return NEXT(pwrite64)(file, data, count, offset);
}

int fdatasync(int file) { return fails("fdatasync") ? -1 : NEXT(fdatasync)(file); }

int fsync(int file) { return fails("fsync") ? -1 : NEXT(fsync)(file); }

int fallocate(int file, int mode, off_t offset, off_t count) {
  return fails("fallocate") ? -1 : NEXT(fallocate)(file, mode, offset, count);
}

int fallocate64(int file, int mode, off64_t offset, off64_t count) {
  return fails("fallocate") ? -1 : NEXT(fallocate64)(file, mode, offset, count);
}

int ftruncate(int file, off_t size) {
  return fails("ftruncate") ? -1 : NEXT(ftruncate)(file, size);
}

int ftruncate64(int file, off64_t size) {
  return fails("ftruncate") ? -1 : NEXT(ftruncate64)(file, size);
}

int rename(const char* from, const char* to) {
  return fails("rename") ? -1 : NEXT(rename)(from, to);
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  return fails("linkat") ? -1 : NEXT(linkat)(from_folder, from, to_folder, to, flags);
}

static int unnamed(int flags) { return (flags & O_TMPFILE) == O_TMPFILE; }

int open(const char* path, int flags, ...) {
  __builtin_va_list arguments;
  __builtin_va_start(arguments, flags);
  const int mode = __builtin_va_arg(arguments, int);
  __builtin_va_end(arguments);
  if (unnamed(flags) && fails("open_unnamed")) return -1;
  return NEXT(open)(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  __builtin_va_list arguments;
  __builtin_va_start(arguments, flags);
  const int mode = __builtin_va_arg(arguments, int);
  __builtin_va_end(arguments);
  if (unnamed(flags) && fails("open_unnamed")) return -1;
  return NEXT(open64)(path, flags, mode);
}
