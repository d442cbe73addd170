// The thread that maps the pages of servers' memory.
#include "staging/client/page_mapper.hpp"

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <future>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

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
  mapper.follow([&]() -> Result<std::shared_ptr<SharedMemory>> {
    asked.set_value();
    return *memory;
  });
  REQUIRE(asked.get_future().wait_for(test::patience) == std::future_status::ready);
  mapper.stop();
  EXPECT_EQ(memory->use_count(), 1);
}

/// Returns how many bytes of a memory this process has mapped pages of.
std::int64_t mapped_bytes(const SharedMemory& memory) {
  std::ostringstream begin;
  begin << std::hex << reinterpret_cast<std::uintptr_t>(memory.data()) << '-';
  std::ifstream file("/proc/self/smaps");
  bool found = false;
  for (std::string line; std::getline(file, line);) {
    found = found || line.starts_with(begin.str());
    if (found && line.starts_with("Rss:")) return std::stoll(line.substr(4)) * 1024;
  }
  return -1;
}

TEST(pages_of_several_memories_are_mapped_as_they_appear) {
  SharedMemories memories;
  std::vector<std::shared_ptr<SharedMemory>> there;
  std::vector<std::shared_ptr<SharedMemory>> here;  // other mappings of the same
  for (int k = 0; k < 3; ++k) {
    there.push_back(*memories.allocate(memory_bytes));
    FileDescriptor descriptor(::dup(there.back()->descriptor()));
    here.push_back(*SharedMemory::map(std::move(descriptor), memory_bytes));
  }
  PageMapper mapper;
  for (const auto& memory : here) mapper.follow([memory] { return Result(memory); });
  std::memset(there[2]->data(), 1, static_cast<std::size_t>(memory_bytes));
  std::memset(there[0]->data(), 1, static_cast<std::size_t>(memory_bytes / 2));
  EXPECT(test::eventually([&] {
    return mapped_bytes(*here[2]) == memory_bytes && mapped_bytes(*here[0]) == memory_bytes / 2;
  }));
  EXPECT_EQ(mapped_bytes(*here[1]), 0);
  mapper.stop();
}

TEST(a_few_mappers_of_a_process_work_at_the_same_time) {
  const PageMapper::Open none = [] { return Result(std::shared_ptr<SharedMemory>()); };
  std::vector<std::unique_ptr<PageMapper>> mappers;
  for (int k = 0; k < 4; ++k) {
    mappers.push_back(std::make_unique<PageMapper>());
    EXPECT(mappers.back()->follow(none));
    EXPECT(mappers.back()->follow(none));
  }
  PageMapper another;
  EXPECT(!another.follow(none));
  mappers.pop_back();
  EXPECT(another.follow(none));
  another.stop();
  EXPECT(!another.follow(none));
}

TEST(there_may_be_no_memory_to_map) {
  for (const bool failing : {false, true}) {
    PageMapper mapper;
    mapper.follow([&]() -> Result<std::shared_ptr<SharedMemory>> {
      if (failing) return Error{ErrorCode::peer_lost, "no server"};
      return std::shared_ptr<SharedMemory>();
    });
    mapper.stop();
  }
}

}  // namespace
}  // namespace tranship::staging
