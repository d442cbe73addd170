// Copies between emulated GPUs and shared memory that a thread of the engine pins beside them.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/matrices.hpp"
#include "support/test.hpp"
#include "support/waiting.hpp"

namespace tranship {
namespace {

using namespace std::chrono_literals;

/// Parts that are pinned at once have 64 MiB: the memory has three.
constexpr std::int64_t part_bytes = std::int64_t{64} << 20;
constexpr std::int64_t memory_bytes = 2 * part_bytes + (std::int64_t{4} << 20);
/// The arrays lie around the borders of the parts.
constexpr std::int64_t rows = 600;
constexpr std::int64_t columns = 1000;

std::unique_ptr<Engine> open_gpu_engine(std::int64_t pinned_per_second) {
  Engine::Options options;
  Profile& profile = options.profile;
  profile = host_profile();
  options.config.threads = 2;
  options.config.emulated_gpus = 1;
  options.config.emulated_pinning = pinned_per_second;
  auto gpus = GpuSide::open(options.config);
  REQUIRE(gpus.ok());
  (*gpus)->extend(profile, 1 << 24);
  const auto shared = static_cast<int>(profile.memories.size());
  profile.memories.push_back({"node0/shared0", MemoryKind::host, 0});
  const int pinned = profile.find_memory("node0/pinned0");
  for (const auto& [source, target] : {std::pair(pinned, shared), std::pair(shared, pinned)}) {
    ChannelSpec spec = profile.channels[0];
    spec.name += " of shared memory " + std::to_string(source);
    spec.source = source;
    spec.target = target;
    profile.channels.push_back(spec);
  }
  for (ChannelSpec& channel : profile.channels) {
    if (traits_of(channel.kind).gpu) channel.throughput = Throughput({{1, 1, 1e10}});
  }
  auto engine = Engine::open(std::move(options));
  REQUIRE(engine.ok());
  return std::move(*engine);
}

/// Memory of a peer, as this process has mapped it.
std::shared_ptr<SharedMemory> mapped() {
  auto made = SharedMemory::allocate({.bytes = memory_bytes, .huge_pages = false});
  REQUIRE(made.ok());
  return *made;
}

/// Returns an array of the peer's memory around a border of two parts.
Array shared_array(const std::shared_ptr<SharedMemory>& memory, int border, std::int64_t before) {
  Array array = Matrix(rows, columns).array;
  array.memory_kind = MemoryKind::shared;
  array.shared = memory;
  array.owner = memory;
  array.place.address = memory->data() + border * part_bytes - before;
  return array;
}

Array gpu_array(Engine& engine) {
  Array array = Matrix(rows, columns).array;
  auto memory = engine.allocate(MemoryKind::device, 0, rows * columns * 4);
  REQUIRE(memory.ok());
  array.owner = *memory;
  array.memory_kind = MemoryKind::device;
  array.device = 0;
  array.place.address = static_cast<std::byte*>(memory->get());
  return array;
}

std::size_t hops(Engine& engine, const Array& source, const Array& target) {
  const auto plan = engine.plan(source, target, {});
  REQUIRE(plan.ok());
  return (*plan)->hops.size();
}

bool copied(Engine& engine, const Array& source, const Array& target) {
  auto event = engine.copy(source, target, {});
  if (!event || !event->wait(test::patience)) return false;
  return std::memcmp(source.place.address, target.place.address, rows * columns * 4) == 0;
}

void touch(const std::shared_ptr<SharedMemory>& memory) {
  std::memset(memory->data(), 1, static_cast<std::size_t>(memory->bytes()));
}

}  // namespace

TEST(copies_go_through_bounce_buffers_until_their_parts_are_pinned) {
  const auto engine = open_gpu_engine(-1);
  const auto memory = mapped();
  engine->pin_in_background(memory, memory->bytes(), true);
  const Array source = gpu_array(*engine);
  const Array target = shared_array(memory, 1, 1 << 20);
  std::memset(source.place.address, 7, rows * columns * 4);
  EXPECT_EQ(hops(*engine, source, target), 2U);
  EXPECT(copied(*engine, source, target));
  touch(memory);
  EXPECT(test::eventually([&] { return hops(*engine, source, target) == 1; }));
  std::memset(source.place.address, 8, rows * columns * 4);
  EXPECT(copied(*engine, source, target));
  EXPECT_EQ(hops(*engine, target, source), 1U);
  std::memset(target.place.address, 9, rows * columns * 4);
  EXPECT(copied(*engine, target, source));
}

TEST(copies_are_right_beside_pinning_and_closing) {
  for (const auto pause : {0ms, 5ms, 60ms, 120ms, 300ms}) {
    const auto engine = open_gpu_engine(std::int64_t{1} << 30);
    const auto memory = mapped();
    touch(memory);
    engine->pin_in_background(memory, memory->bytes(), false);
    std::atomic<bool> closing{false};
    std::vector<std::thread> threads;
    for (const int border : {1, 2}) {
      const Array on_gpu = gpu_array(*engine);
      const Array in_memory = shared_array(memory, border, 1 << 20);
      threads.emplace_back([&, on_gpu, in_memory] {
        for (int turn = 1; !closing; ++turn) {
          const bool put = turn % 2 == 1;
          const Array& source = put ? on_gpu : in_memory;
          std::memset(source.place.address, turn % 256, rows * columns * 4);
          const bool well = copied(*engine, source, put ? in_memory : on_gpu);
          EXPECT(well || closing);
        }
      });
    }
    std::this_thread::sleep_for(pause);
    closing = true;
    EXPECT(engine->close().ok());
    for (std::thread& thread : threads) thread.join();
    engine->pin_in_background(memory, memory->bytes(), true);
  }
}

TEST(memory_that_may_not_be_pinned_is_copied_all_the_same) {
  const auto engine = open_gpu_engine(0);
  const auto memory = mapped();
  touch(memory);
  engine->pin_in_background(memory, memory->bytes(), true);
  const Array source = gpu_array(*engine);
  const Array target = shared_array(memory, 1, 1 << 20);
  std::memset(source.place.address, 3, rows * columns * 4);
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT(copied(*engine, source, target));
    EXPECT_EQ(hops(*engine, source, target), 2U);
    std::this_thread::sleep_for(60ms);
  }
}

}  // namespace tranship
