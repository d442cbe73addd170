#include "engine/memory_array.hpp"

#include <array>

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

}  // namespace
