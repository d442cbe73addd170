#include "channels/file/npy_mark.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace tranship::file {
namespace {

using Magic = std::array<unsigned char, 6>;

constexpr Magic whole{0x93, 'N', 'U', 'M', 'P', 'Y'};
constexpr Magic marked{0x93, 'T', 'S', '~', 0, 0};
constexpr std::size_t count_at = 4;
constexpr int writers_max = 0xffff;

/// Locks or unlocks the magic bytes for this open file; file systems without locks do without.
void lock_magic(int descriptor, short kind) {
#ifdef F_OFD_SETLKW
  struct flock range {};
  range.l_type = kind;
  range.l_whence = SEEK_SET;
  range.l_len = sizeof(Magic);
  while (::fcntl(descriptor, F_OFD_SETLKW, &range) != 0 && errno == EINTR) {
  }
#else
  (void)descriptor, (void)kind;
#endif
}

}  // namespace

int NpyMark::change(int by) {
  Magic magic{};
  if (::pread(descriptor_, magic.data(), magic.size(), 0) != sizeof magic) return EIO;
  int count = 0;
  if (std::memcmp(magic.data(), marked.data(), count_at) == 0) {
    count = magic[count_at] + 256 * magic[count_at + 1];
  } else if (magic != whole) {
    return EINVAL;
  }
  count += by;
  if (count > writers_max) return EMFILE;
  magic = count > 0 ? marked : whole;
  if (count > 0) {
    magic[count_at] = static_cast<unsigned char>(count % 256);
    magic[count_at + 1] = static_cast<unsigned char>(count / 256);
  }
  return ::pwrite(descriptor_, magic.data(), magic.size(), 0) == sizeof magic ? 0 : EIO;
}

int NpyMark::add() {
  lock_magic(descriptor_, F_WRLCK);
  const int refusal = change(1);
  lock_magic(descriptor_, F_UNLCK);
  if (refusal == 0) set_ = true;
  return refusal;
}

int NpyMark::remove() {
  lock_magic(descriptor_, F_WRLCK);
  const int refusal = change(-1);
  lock_magic(descriptor_, F_UNLCK);
  if (refusal == 0) set_ = false;
  return refusal;
}

}  // namespace tranship::file
