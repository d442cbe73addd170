// Maps of files: what the kernel says of them, in ranges of several.
#include "os/mapped_files.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "os/descriptor.hpp"
#include "os/memory_name.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

constexpr std::int64_t page = 4096;

struct Map {
  std::byte* data;
  std::int64_t bytes;
  Map(int descriptor, std::int64_t length, int kind, std::int64_t offset = 0)
      : data(static_cast<std::byte*>(mmap(nullptr, static_cast<std::size_t>(length),
                                          PROT_READ | PROT_WRITE, kind, descriptor, offset))),
        bytes(length) {}
  Map(const Map&) = delete;
  Map& operator=(const Map&) = delete;
  ~Map() { munmap(data, static_cast<std::size_t>(bytes)); }
};

FileDescriptor memory_of(std::int64_t bytes) {
  FileDescriptor made(memfd_create("test", MFD_CLOEXEC));
  EXPECT(made && ftruncate(made.get(), bytes) == 0);
  return made;
}

}  // namespace

TEST(two_maps_of_one_memory_have_one_name) {
  const auto memory = memory_of(8 * page);
  const Map one(memory.get(), 8 * page, MAP_SHARED);
  const Map other(memory.get(), 4 * page, MAP_SHARED, 2 * page);
  const auto parts = mapped_parts(one.data + 100, 7 * page);
  const auto others = mapped_parts(other.data, other.bytes);
  EXPECT_EQ(parts.size(), std::size_t{1});
  EXPECT_EQ(others.size(), std::size_t{1});
  EXPECT(parts[0].file == others[0].file && parts[0].shared);
  EXPECT_EQ(parts[0].offset, std::int64_t{100});
  EXPECT_EQ(parts[0].bytes, 7 * page);
  EXPECT_EQ(others[0].offset, 2 * page);
  EXPECT(number_of_file(memory.get()) == parts[0].file);
  const MemoryName name = name_of_memory(one.data + 3 * page, page);
  const MemoryName same = name_of_memory(other.data + page, page);
  EXPECT(name.space == same.space && name.offset == same.offset);
  EXPECT(is_file_space(name.space));
}

TEST(parts_with_other_rights_are_one_part) {
  const auto memory = memory_of(4 * page);
  const Map map(memory.get(), 4 * page, MAP_SHARED);
  EXPECT_EQ(mprotect(map.data + page, page, PROT_READ), 0);
  EXPECT_EQ(mapped_parts(map.data, map.bytes).size(), std::size_t{1});
}

TEST(private_memory_shows_no_file) {
  const Map map(-1, 4 * page, MAP_PRIVATE | MAP_ANONYMOUS);
  map.data[0] = std::byte{1};
  EXPECT(mapped_parts(map.data, map.bytes).empty());
  EXPECT(!in_heap(map.data, map.bytes));
  const MemoryName name = name_of_memory(map.data, map.bytes);
  EXPECT(name.space == own_space() && !is_file_space(name.space));
  EXPECT_EQ(name.offset, reinterpret_cast<std::intptr_t>(map.data));
  const auto small = std::make_unique<std::byte[]>(100);
  EXPECT(mapped_parts(small.get(), 100).empty());
}

TEST(a_private_map_is_told_from_a_shared_one) {
  const auto memory = memory_of(page);
  const Map map(memory.get(), page, MAP_PRIVATE);
  const auto parts = mapped_parts(map.data, page);
  EXPECT_EQ(parts.size(), std::size_t{1});
  EXPECT(!parts[0].shared);
  EXPECT(!is_file_space(name_of_memory(map.data, page).space));
}
