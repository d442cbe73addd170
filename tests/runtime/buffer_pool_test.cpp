// The buffer pool: it gives all or nothing, keeps its limits, and reuses memory.
#include <algorithm>
#include <map>
#include <vector>

#include "base/random.hpp"
#include "runtime/buffer_pool.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

constexpr std::int64_t page = BufferPool::page_bytes;

/// Counts the memory that a pool makes and frees; uses numbers as addresses.
struct Counted {
  std::map<std::uintptr_t, std::int64_t> live;
  std::uintptr_t next = 1 << 20;
  int made = 0;
  std::int64_t bytes = 0;
  std::int64_t bytes_most = 0;
  bool refuses = false;

  BufferPool::MemoryLimits limits(std::int64_t bytes_max) {
    return {bytes_max,
            {[this](std::int64_t size) -> std::byte* {
               if (refuses) return nullptr;
               const std::uintptr_t address = next;
               next += static_cast<std::uintptr_t>(size);
               live[address] = size;
               ++made;
               bytes += size;
               bytes_most = std::max(bytes_most, bytes);
               return reinterpret_cast<std::byte*>(address);
             },
             [this](std::byte* address, std::int64_t size) {
               const auto found = live.find(reinterpret_cast<std::uintptr_t>(address));
               REQUIRE(found != live.end() && found->second == size);
               live.erase(found);
               bytes -= size;
             }}};
  }
};

}  // namespace

TEST(the_pool_gives_all_or_nothing_and_reuses) {
  Counted one;
  Counted other;
  {
    BufferPool pool({one.limits(10 * page), other.limits(10 * page)});
    std::vector<Buffer> first;
    std::vector<Buffer> second;
    EXPECT(pool.acquire({{0, 6 * page}, {1, 6 * page - 1}}, first));
    EXPECT(!pool.acquire({{0, 4 * page}, {1, 6 * page}}, second));
    EXPECT(second.empty());
    EXPECT_EQ(pool.bytes_in_use(0), 6 * page);
    EXPECT(!pool.possible({{0, 6 * page}, {0, 6 * page}}));
    EXPECT(pool.possible({{0, 6 * page}, {0, 4 * page}}));
    pool.release(0, first[0]);
    pool.release(1, first[1]);
    EXPECT(pool.acquire({{0, 6 * page}}, second));
    EXPECT_EQ(second[0].address, first[0].address);
    EXPECT_EQ(one.made + other.made, 2);  // the refused request took nothing
    pool.release(0, second[0]);
    EXPECT(pool.acquire({{0, 10 * page}}, second));  // memory that was kept is freed to make room
    EXPECT_EQ(one.live.size(), 1u);
    pool.release(0, second[0]);
  }
  EXPECT(one.live.empty() && other.live.empty());
}

TEST(buffers_of_changing_sizes_share_what_was_made_once) {
  Counted memory;
  BufferPool pool({memory.limits(256 * page)});
  std::vector<std::vector<Buffer>> held(4);
  const auto four_of = [&](std::int64_t pages) {
    for (auto& buffers : held) EXPECT(pool.acquire({{0, pages * page}}, buffers));
    for (auto& buffers : held) pool.release(0, buffers[0]);
  };
  four_of(64);
  const int made = memory.made;
  for (const std::int64_t pages : {30, 64, 7, 33, 64, 1, 64}) four_of(pages);
  EXPECT_EQ(memory.made, made);
}

TEST(what_fits_an_empty_pool_is_had_as_soon_as_nobody_holds_anything) {
  Random random(11);
  int refused = 0;
  for (int round = 0; round < 200; ++round) {
    Counted memory;
    BufferPool pool({memory.limits(40 * page)});
    std::vector<std::vector<Buffer>> holders;
    for (int step = 0; step < 60; ++step) {
      std::vector<BufferRequest> requests;
      std::int64_t pages = 0;
      for (auto left = random.below(4) + 1; left > 0; --left) {
        requests.push_back({0, random.between(1, 14) * page});
        pages += requests.back().bytes / page;
      }
      EXPECT_EQ(pool.possible(requests), pages <= 40);
      std::vector<Buffer> buffers;
      const bool nobody = holders.empty();
      if (pool.acquire(requests, buffers)) {
        EXPECT_EQ(buffers.size(), requests.size());
        holders.push_back(buffers);
      } else {
        EXPECT(buffers.empty());
        EXPECT(!nobody || pages > 40);
        ++refused;
      }
      if (random.below(3) == 0 || holders.size() > 3) {
        while (!holders.empty() && random.below(4) != 0) {
          for (const Buffer& buffer : holders.front()) pool.release(0, buffer);
          holders.erase(holders.begin());
        }
      }
      EXPECT(memory.bytes_most <= 40 * page);
    }
    for (const auto& buffers : holders) {
      for (const Buffer& buffer : buffers) pool.release(0, buffer);
    }
    EXPECT_EQ(pool.bytes_in_use(0), 0);
  }
  EXPECT(refused > 1000);
}

TEST(memory_that_is_refused_leaves_the_pool_as_it_was) {
  Counted memory;
  BufferPool pool({memory.limits(10 * page)});
  std::vector<Buffer> buffers;
  EXPECT(pool.acquire({{0, 2 * page}}, buffers));
  memory.refuses = true;
  std::vector<Buffer> more;
  EXPECT(!pool.acquire({{0, page}, {0, page}}, more));
  EXPECT(more.empty());
  EXPECT_EQ(pool.bytes_in_use(0), 2 * page);
  memory.refuses = false;
  EXPECT(pool.acquire({{0, page}, {0, page}}, more));
  pool.release(0, buffers[0]);
  for (const Buffer& buffer : more) pool.release(0, buffer);
}
