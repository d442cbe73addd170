// The thread that maps the pages of servers' memory, and what it does once all are there.
#include "staging/client/page_mapper.hpp"

#include <chrono>
#include <cstring>
#include <future>

#include "support/test.hpp"

namespace tranship::staging {
namespace {

constexpr std::int64_t memory_bytes = std::int64_t{8} << 20;
constexpr std::chrono::seconds most{20};

std::shared_ptr<SharedMemory> allocate() {
  SharedMemories memories;
  auto memory = memories.allocate(memory_bytes);
  REQUIRE(memory.ok());
  return *memory;
}

TEST(mapped_memory_is_ready_once_all_its_pages_are_there) {
  const auto memory = allocate();
  std::memset(memory->data(), 1, static_cast<std::size_t>(memory_bytes / 2));
  std::promise<SharedMemory*> ready;
  PageMapper mapper;
  mapper.start([&] { return Result<std::shared_ptr<SharedMemory>>(memory); },
               [&](SharedMemory& whole) { ready.set_value(&whole); });
  auto future = ready.get_future();
  EXPECT(future.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
  std::memset(memory->data(), 1, static_cast<std::size_t>(memory_bytes));
  REQUIRE(future.wait_for(most) == std::future_status::ready);
  EXPECT(future.get() == memory.get());
}

TEST(memory_without_pages_is_never_ready) {
  const auto memory = allocate();
  bool called = false;
  {
    PageMapper mapper;
    mapper.start([&] { return Result<std::shared_ptr<SharedMemory>>(memory); },
                 [&](SharedMemory&) { called = true; });
    mapper.stop();
  }
  EXPECT(!called);
  PageMapper none;
  none.start([] { return Result<std::shared_ptr<SharedMemory>>(nullptr); },
             [&](SharedMemory&) { called = true; });
  none.stop();
  EXPECT(!called);
}

}  // namespace
}  // namespace tranship::staging
