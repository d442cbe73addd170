#include "engine/whole_array.hpp"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "support/test.hpp"

using namespace tranship;

namespace {

std::shared_ptr<const Mapping> grid() {
  return *Mapping::make({{"x", 4}, {"y", 6}}, {{"u", "f8", 8}}, *Layout::parse("F, y, x"));
}

TEST(memory_becomes_an_array_of_named_dimensions) {
  std::array<std::byte, 192> memory{};
  const auto made = array_in_memory(grid(), memory.data(), memory.size());
  REQUIRE(made.ok());
  EXPECT(made->named && made->writable && made->owner == nullptr);
  EXPECT(made->place.address == memory.data());
  EXPECT_EQ(made->view.bytes(), 192);
}

TEST(memory_that_is_too_small_is_refused_with_both_sizes) {
  std::array<std::byte, 192> memory{};
  for (const std::int64_t bytes : {191, 0, -1}) {
    const auto refused = array_in_memory(grid(), memory.data(), bytes);
    REQUIRE(!refused.ok());
    EXPECT(refused.error().code == ErrorCode::invalid_argument);
    EXPECT_EQ(refused.error().message, "the memory has " + std::to_string(bytes) +
                                           " bytes, and the layout \"F, y, x\" needs 192");
    EXPECT_EQ(refused.error().hint, "give more memory or smaller extents");
  }
}

TEST(a_file_becomes_an_array_that_begins_at_an_offset_and_owns_the_file) {
  std::string folder = (std::filesystem::temp_directory_path() / "whole-XXXXXX").string();
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  const std::string path = folder + "/grid";
  FileOptions options;
  options.mode = FileMode::read_write;
  options.bytes_min = 200;  // more than the mapping needs
  const auto made = array_in_file(grid(), path, 16, options);
  REQUIRE(made.ok());
  EXPECT(made->named && made->writable && made->memory_kind == MemoryKind::file);
  EXPECT(made->owner.get() == static_cast<const void*>(made->place.attachment));
  EXPECT_EQ(reinterpret_cast<std::intptr_t>(made->place.address), std::intptr_t{16});
  EXPECT_EQ(std::filesystem::file_size(path), std::uintmax_t{216});
  const auto read = array_in_file(grid(), path, 16, {});
  REQUIRE(read.ok());
  EXPECT(!read->writable);
  EXPECT(array_in_file(grid(), path, 25, {}).error().code == ErrorCode::out_of_range);
  for (const std::int64_t offset : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()}) {
    EXPECT(array_in_file(grid(), path, offset, {}).error().code == ErrorCode::invalid_argument);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
