// The thread that maps the pages of servers' memory.
#include "staging/client/page_mapper.hpp"

#include <chrono>
#include <cstring>
#include <future>

#include "support/test.hpp"
#include "support/waiting.hpp"

namespace tranship::staging {
namespace {

constexpr std::int64_t memory_bytes = std::int64_t{8} << 20;

TEST(the_thread_ends_when_it_is_told_to) {
  SharedMemories memories;
  const auto memory = memories.allocate(memory_bytes);
  REQUIRE(memory.ok());
  std::memset((*memory)->data(), 1, static_cast<std::size_t>(memory_bytes / 2));
  std::promise<void> asked;
  PageMapper mapper;
  mapper.start([&]() -> Result<std::shared_ptr<SharedMemory>> {
    asked.set_value();
    return *memory;
  });
  REQUIRE(asked.get_future().wait_for(test::patience) == std::future_status::ready);
  mapper.stop();
  EXPECT_EQ(memory->use_count(), 1);
}

TEST(there_may_be_no_memory_to_map) {
  for (const bool failing : {false, true}) {
    PageMapper mapper;
    mapper.start([&]() -> Result<std::shared_ptr<SharedMemory>> {
      if (failing) return Error{ErrorCode::peer_lost, "no server"};
      return std::shared_ptr<SharedMemory>();
    });
    mapper.stop();
  }
}

}  // namespace
}  // namespace tranship::staging
