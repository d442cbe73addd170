// Commands of copy engines, none of which may leave a pinned range.
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "base/random.hpp"
#include "gpu/gpu_work.hpp"
#include "gpu/pitches.hpp"
#include "support/test.hpp"

namespace tranship {
namespace {

constexpr std::int64_t page = 4096;
constexpr std::int64_t pages_count = 8;

/// Adds which byte of the source goes to which of the target.
void add_moves(const PitchedCopy& shape, std::int64_t source, std::int64_t target,
               std::map<std::int64_t, std::int64_t>& moves) {
  for (std::int64_t plane = 0; plane < shape.planes; ++plane) {
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      for (std::int64_t k = 0; k < shape.width_bytes; ++k) {
        const std::int64_t to = target + plane * shape.target_plane + row * shape.target_pitch + k;
        const bool added =
            moves.emplace(to, source + plane * shape.source_plane + row * shape.source_pitch + k)
                .second;
        EXPECT(added);
      }
    }
  }
}

/// Cuts a copy until no part leaves a range of `range` bytes of one side, which starts in the
/// middle of one.
void add_cut(PitchedCopy shape, bool at_source, std::int64_t source, std::int64_t target,
             std::int64_t range, std::map<std::int64_t, std::int64_t>& moves) {
  while (true) {
    const std::int64_t left = range - ((at_source ? source : target) + range / 2) % range;
    if (span_bytes(shape, at_source) <= left) return add_moves(shape, source, target, moves);
    const CutCopy parts = cut_copy(shape, at_source, left);
    add_cut(parts.first, at_source, source, target, range, moves);
    source += parts.source_offset;
    target += parts.target_offset;
    shape = parts.rest;
  }
}

/// Memory of the host whose pages are pinned one by one, and memory of a GPU.
struct Lab {
  Lab() {
    auto misfit = reinterpret_cast<std::uintptr_t>(memory.data()) % page;
    host = memory.data() + (page - static_cast<std::int64_t>(misfit));
    for (std::int64_t k = 0; k < pages_count; ++k) {
      REQUIRE(gpus->pin(host + k * page, page).ok());
    }
    auto made = gpus->allocate(0, pages_count * page);
    REQUIRE(made.ok());
    device = *made;
    stream = *gpus->make_stream(0, false);
  }
  ~Lab() {
    gpus->release(stream);
    gpus->release(0, device);
    for (std::int64_t k = 0; k < pages_count; ++k) gpus->unpin(host + k * page);
  }

  std::shared_ptr<Gpus> gpus = Gpus::emulate(1);
  std::vector<std::byte> memory{static_cast<std::size_t>((pages_count + 1) * page)};
  std::byte* host = nullptr;
  std::byte* device = nullptr;
  GpuStream stream;
};

/// Returns rows in planes that copy engines can walk, within the lab's memory.
LoopNest drawn_nest(Random& random) {
  while (true) {
    LoopNest nest;
    nest.element_bytes = 64 + random.below(6000);
    nest.rank = static_cast<int>(random.below(3));
    std::int64_t source = nest.element_bytes;
    std::int64_t target = nest.element_bytes;
    for (int k = 0; k < nest.rank; ++k) {
      const auto extent = 1 + random.below(5);
      if (k == 0) source += random.below(500);
      nest.loops[static_cast<std::size_t>(k)] = {extent, source, target};
      source *= extent;
      target *= extent;
    }
    nest.source_offset = random.below(9000);
    nest.target_offset = random.below(9000);
    const std::int64_t most = pages_count * page;
    if (nest.source_offset + source <= most && nest.target_offset + target <= most) return nest;
  }
}

/// Returns the target's bytes, without which a nest would leave them as they were.
std::vector<std::byte> moved(const LoopNest& nest, const std::byte* source, std::byte initial) {
  std::vector<std::byte> target(static_cast<std::size_t>(pages_count * page), initial);
  const Loop& rows = nest.rank > 0 ? nest.loops[0] : Loop{1, 0, 0};
  const Loop& planes = nest.rank > 1 ? nest.loops[1] : Loop{1, 0, 0};
  for (std::int64_t p = 0; p < planes.extent; ++p) {
    for (std::int64_t r = 0; r < rows.extent; ++r) {
      const std::int64_t from =
          nest.source_offset + p * planes.source_stride + r * rows.source_stride;
      const std::int64_t to =
          nest.target_offset + p * planes.target_stride + r * rows.target_stride;
      std::memcpy(target.data() + to, source + from, static_cast<std::size_t>(nest.element_bytes));
    }
  }
  return target;
}

}  // namespace

TEST(cut_copies_move_what_the_whole_moves) {
  std::int64_t cases = 0;
  for (std::int64_t number = 0; number < 3 * 4 * 4 * 3 * 3; ++number) {
    PitchedCopy shape;
    shape.width_bytes = 1 + number % 3 * 2;
    shape.rows = 1 + number / 3 % 4;
    shape.planes = 1 + number / 12 % 4;
    shape.source_pitch = shape.width_bytes + number / 48 % 3;
    shape.target_pitch = shape.width_bytes + number / 144 % 3 * 2;
    shape.source_plane = (shape.rows + 1) * shape.source_pitch;
    shape.target_plane = shape.rows * shape.target_pitch;
    std::map<std::int64_t, std::int64_t> whole;
    add_moves(shape, 0, 0, whole);
    for (const bool at_source : {true, false}) {
      for (std::int64_t range = 1; range <= span_bytes(shape, at_source) + 1; ++range) {
        std::map<std::int64_t, std::int64_t> cut;
        add_cut(shape, at_source, 0, 0, range, cut);
        if (cut != whole) EXPECT_EQ(number, -range);
        ++cases;
      }
    }
  }
  EXPECT(cases > 10'000);
}

TEST(pinned_ranges_say_how_far_they_reach) {
  Lab lab;
  EXPECT_EQ(lab.gpus->pinned_bytes_from(lab.host), page);
  EXPECT_EQ(lab.gpus->pinned_bytes_from(lab.host + page + 1), page - 1);
  EXPECT_EQ(lab.gpus->pinned_bytes_from(lab.host + pages_count * page), 0);
  EXPECT_EQ(lab.gpus->pinned_bytes_from(lab.device), 0);
  auto buffer = lab.gpus->allocate_pinned(100);
  REQUIRE(buffer.ok());
  EXPECT_EQ(lab.gpus->pinned_bytes_from(*buffer + 30), 70);
  lab.gpus->release_pinned(*buffer);
}

TEST(work_over_the_link_crosses_pinned_ranges) {
  Lab lab;
  for (std::uint64_t seed = 0; seed < test::seed_count(400); ++seed) {
    Random random(seed);
    for (std::int64_t k = 0; k < pages_count * page; ++k) {
      lab.host[k] = lab.device[k] = std::byte(random.below(256));
    }
    const bool down = random.below(2) == 0;
    std::byte* source = down ? lab.device : lab.host;
    std::byte* target = down ? lab.host : lab.device;
    const LoopNest nest = drawn_nest(random);
    std::memset(target, 0xEE, static_cast<std::size_t>(pages_count * page));
    const auto expected = moved(nest, source, std::byte{0xEE});
    Request request;
    request.payload = std::span(&nest, 1);
    request.source = {source, nullptr};
    request.target = {target, nullptr};
    request.bytes = nest.bytes();
    GpuWork work(lab.gpus);
    const Status status = work.enqueue(lab.stream, request, GpuWay::over_link);
    if (!status) test::record_failure(__FILE__, __LINE__, status.error().text());
    EXPECT(std::memcmp(target, expected.data(), expected.size()) == 0);
  }
}

TEST(emulated_pinning_can_be_refused) {
  const auto gpus = Gpus::emulate(1, {.bytes_per_second = 0});
  std::vector<std::byte> memory(static_cast<std::size_t>(3 * page));
  const auto misfit = reinterpret_cast<std::uintptr_t>(memory.data()) % page;
  std::byte* begin = memory.data() + (page - static_cast<std::int64_t>(misfit));
  const Status refused = gpus->pin(begin, page);
  REQUIRE(!refused.ok());
  EXPECT(refused.error().code == ErrorCode::out_of_memory);
  EXPECT(gpus->where(begin).kind == MemoryKind::host);
}

}  // namespace tranship
