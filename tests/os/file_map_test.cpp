#include "os/file_map.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <atomic>
#include <thread>
#include <vector>

#include "support/test.hpp"

namespace tranship {
namespace {

constexpr std::int64_t bytes = 1 << 20;

/// A file of ones without a name.
class Scratch {
 public:
  Scratch() {
    std::FILE* made = std::tmpfile();
    REQUIRE(made != nullptr);
    descriptor_ = ::dup(::fileno(made));
    std::fclose(made);
    fill();
  }
  ~Scratch() { ::close(descriptor_); }
  Scratch(const Scratch&) = delete;

  int descriptor() const { return descriptor_; }
  void fill() const {
    const std::vector<char> ones(bytes, 1);
    REQUIRE(::pwrite(descriptor_, ones.data(), ones.size(), 0) == bytes);
  }
  void cut(std::int64_t length) const { REQUIRE(::ftruncate(descriptor_, length) == 0); }

 private:
  int descriptor_ = -1;
};

long sum_of(const FileMap& map) {
  long sum = 0;
  const volatile std::byte* data = map.data();  // so that every byte is read
  for (std::int64_t k = 0; k < map.bytes(); ++k) sum += static_cast<long>(data[k]);
  return sum;
}

sigjmp_buf foreign_access;
void leave(int) { siglongjmp(foreign_access, 1); }

/// Runs first in this file: the handler that a program had before the first map gets what is its
/// own.
TEST(file_map_leaves_other_signals_to_the_handler_before) {
  struct sigaction mine {};
  mine.sa_handler = &leave;
  struct sigaction usual {};
  REQUIRE(::sigaction(SIGBUS, &mine, &usual) == 0);
  if (!FileMap::guarded()) {  // another test of this process had a map
    REQUIRE(::sigaction(SIGBUS, &usual, nullptr) == 0);
    return;
  }
  const Scratch scratch;
  const FileMap map(scratch.descriptor(), 0, bytes, FileMap::Access::read);
  void* foreign = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, scratch.descriptor(), 0);
  REQUIRE(foreign != MAP_FAILED);
  scratch.cut(0);
  volatile int seen = 0;
  if (sigsetjmp(foreign_access, 1) == 0) {
    seen = static_cast<volatile char*>(foreign)[5000];
    EXPECT(false);
  }
  EXPECT_EQ(seen, 0);
  EXPECT(!map.broken());
  ::munmap(foreign, bytes);
}

TEST(file_map_shows_the_file) {
  const Scratch scratch;
  for (const std::int64_t offset : {std::int64_t{0}, std::int64_t{5000}}) {
    const FileMap map(scratch.descriptor(), offset, bytes - offset, FileMap::Access::read);
    REQUIRE(map.data() != nullptr);
    EXPECT_EQ(sum_of(map), bytes - offset);
    map.forget();
    EXPECT_EQ(sum_of(map), bytes - offset);
    EXPECT(!map.broken());
  }
}

TEST(file_map_of_a_file_that_is_cut_breaks_and_ends_nobody) {
  const Scratch scratch;
  const FileMap kept(scratch.descriptor(), 0, 4096, FileMap::Access::read);
  const FileMap map(scratch.descriptor(), 0, bytes, FileMap::Access::read);
  EXPECT_EQ(sum_of(map), bytes);
  scratch.cut(10000);
  (void)sum_of(map);
  EXPECT(map.broken());
  EXPECT(!kept.broken());
  EXPECT_EQ(sum_of(kept), 4096);
}

TEST(file_map_takes_what_is_stored_and_breaks_too) {
  const Scratch scratch;
  const FileMap map(scratch.descriptor(), 0, bytes, FileMap::Access::read_write);
  REQUIRE(map.data() != nullptr);
  map.data()[70000] = std::byte{9};
  char read = 0;
  EXPECT(::pread(scratch.descriptor(), &read, 1, 70000) == 1 && read == 9);
  scratch.cut(0);
  volatile std::byte* data = map.data();
  for (std::int64_t k = 0; k < bytes; k += 1000) data[k] = std::byte{1};
  EXPECT(map.broken());
}

TEST(file_map_while_the_file_changes_its_length) {
  const Scratch scratch;
  std::atomic<bool> stop{false};
  std::thread cutting([&] {
    while (!stop.load()) {
      scratch.cut(4096);
      scratch.fill();
    }
  });
  int broken = 0;
  for (int k = 0; k < 300; ++k) {
    const FileMap map(scratch.descriptor(), 0, bytes, FileMap::Access::read);
    REQUIRE(map.data() != nullptr);
    (void)sum_of(map);
    broken += map.broken() ? 1 : 0;
  }
  stop = true;
  cutting.join();
  std::printf("%d of 300 maps broke\n", broken);
}

TEST(file_map_without_bytes_or_with_a_closed_descriptor_has_no_data) {
  const Scratch scratch;
  EXPECT(FileMap(scratch.descriptor(), 0, 0, FileMap::Access::read).data() == nullptr);
  EXPECT(FileMap(-1, 0, 100, FileMap::Access::read).data() == nullptr);
}

}  // namespace
}  // namespace tranship
