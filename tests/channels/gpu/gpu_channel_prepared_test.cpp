// Work of a GPU that is planned once and launched many times.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "channels/gpu/gpu_channel.hpp"
#include "data/points.hpp"
#include "support/test.hpp"

namespace tranship {
namespace {

constexpr std::int64_t memory_bytes = 1 << 17;

/// A channel on an emulated GPU, and memory there, which the host reads as well.
struct Lab {
  Lab() {
    GpuChannel::Options options;
    options.name = "copies";
    options.gpus = gpus;
    options.bytes_in_flight_max = 1 << 20;
    auto opened = GpuChannel::open(std::move(options));
    REQUIRE(opened.ok());
    channel = *opened;
    for (std::byte*& memory : memories) {
      auto made = gpus->allocate(0, memory_bytes);
      REQUIRE(made.ok());
      memory = *made;
      for (std::int64_t k = 0; k < memory_bytes; ++k) memory[k] = std::byte(k % 251);
    }
  }
  ~Lab() {
    for (std::byte* memory : memories) gpus->release(0, memory);
  }

  Request request(const std::vector<LoopNest>& nests, std::byte* target) const {
    Request made;
    made.payload = nests;
    made.source = {memories[0], nullptr};
    made.target = {target, nullptr};
    return made;
  }

  std::shared_ptr<Gpus> gpus = Gpus::emulate(1);
  std::shared_ptr<GpuChannel> channel;
  std::array<std::byte*, 3> memories{};
};

/// Returns nests of unequal shapes, which take a list of nests: `count` of them.
std::vector<LoopNest> boxes(std::int64_t count) {
  std::vector<LoopNest> nests;
  for (std::int64_t k = 0; k < count; ++k) {
    LoopNest nest;
    nest.element_bytes = 16;
    nest.rank = 2;
    nest.loops[0] = {4 + k, 32, 48};
    nest.loops[1] = {3, 640, 960};
    nest.source_offset = 2560 * k;
    nest.target_offset = 3840 * k;
    nests.push_back(nest);
  }
  return nests;
}

/// Returns runs, which take a list of pieces.
std::vector<LoopNest> runs(std::int64_t count) {
  std::vector<LoopNest> nests;
  for (std::int64_t k = 0; k < count; ++k) {
    LoopNest nest;
    nest.element_bytes = 30 + k;
    nest.source_offset = 100 * k;
    nest.target_offset = 200 * k;
    nests.push_back(nest);
  }
  return nests;
}

std::vector<std::byte> expected(const std::vector<LoopNest>& nests, const std::byte* source) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(memory_bytes));
  for (const LoopNest& nest : nests) {
    const std::int64_t planes = nest.rank == 2 ? nest.loops[1].extent : 1;
    const std::int64_t rows = nest.rank == 2 ? nest.loops[0].extent : 1;
    for (std::int64_t plane = 0; plane < planes; ++plane) {
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t from = nest.source_offset + row * nest.loops[0].source_stride +
                                  plane * nest.loops[1].source_stride;
        const std::int64_t to = nest.target_offset + row * nest.loops[0].target_stride +
                                plane * nest.loops[1].target_stride;
        std::copy_n(source + from, nest.element_bytes, bytes.begin() + to);
      }
    }
  }
  return bytes;
}

bool holds(const std::byte* memory, const std::vector<std::byte>& bytes) {
  return std::memcmp(memory, bytes.data(), bytes.size()) == 0;
}

TEST(prepared_work_moves_the_same_at_every_launch) {
  const Lab lab;
  for (const auto& nests : {boxes(9), runs(12), boxes(1), runs(1)}) {
    const auto bytes = expected(nests, lab.memories[0]);
    const Request request = lab.request(nests, lab.memories[1]);
    const auto work = lab.channel->prepare(request);
    REQUIRE(work.ok());
    EXPECT((*work)->fits(lab.memories[0], lab.memories[2]));
    EXPECT(!(*work)->fits(lab.memories[0] + 4, lab.memories[2]));
    for (std::byte* target : {lab.memories[1], lab.memories[2], lab.memories[1]}) {
      std::memset(target, 0, memory_bytes);
      auto flight = lab.channel->start(*work, lab.request({}, target), nullptr, {});
      REQUIRE(flight.ok());
      while (!(*flight)->done()) continue;
      EXPECT(holds(target, bytes));
    }
  }
}

TEST(members_of_records_are_loops_and_scattered_ones_places) {
  const Lab lab;
  IndexedNest member;
  member.nest.element_bytes = 2;
  member.source_step = 12;
  member.target_step = 8;
  const std::vector<IndexedEntry> records{{0, 0, 3000}, {4, 2, 3000}, {8, 6, 3000}};
  std::vector<IndexedEntry> places;
  for (std::int64_t k = 0; k < 3000; ++k) {
    for (const IndexedEntry& entry : records) {
      places.push_back({entry.source_offset + 12 * k, entry.target_offset + 8 * k, 1});
    }
  }
  std::vector<std::byte> wanted(static_cast<std::size_t>(memory_bytes));
  for (const IndexedEntry& place : places) {
    std::copy_n(lab.memories[0] + place.source_offset, 2, wanted.begin() + place.target_offset);
  }
  for (const std::int64_t looked_up : {0, 18000}) {  // of each place, both offsets
    member.entries = looked_up == 0 ? records : places;
    Request request = lab.request({}, lab.memories[1]);
    request.payload = std::span(&member, 1);
    std::memset(lab.memories[1], 0, memory_bytes);
    const auto work = lab.channel->prepare(request);
    REQUIRE(work.ok());
    EXPECT_EQ((*work)->pieces(), 0);
    EXPECT_EQ((*work)->places(), looked_up);
    auto flight = lab.channel->start(*work, lab.request({}, lab.memories[1]), nullptr, {});
    REQUIRE(flight.ok());
    while (!(*flight)->done()) continue;
    EXPECT(holds(lab.memories[1], wanted));
  }
}

/// Moves a list of 500 scattered runs and nine boxes by one request; returns its work.
std::shared_ptr<const GpuWork> move_runs_and_boxes(const Lab& lab, std::int64_t run_bytes) {
  constexpr std::int64_t behind_runs = 70'000;
  std::vector<IndexedEntry> places;
  for (std::int64_t k = 0; k < 500; ++k) places.push_back({40 * (k * 7 % 500), run_bytes * k, 1});
  IndexedNest scattered;
  scattered.nest.element_bytes = run_bytes;
  scattered.source_step = scattered.target_step = run_bytes;
  scattered.entries = places;
  const std::vector<IndexedEntry> once{{0, 0, 1}};
  const std::vector<LoopNest> nests = boxes(9);
  std::vector<IndexedNest> all{scattered};
  for (const LoopNest& nest : nests) {
    IndexedNest box;
    box.nest = nest;
    box.nest.source_offset += 20'000;
    box.nest.target_offset += behind_runs;
    box.entries = once;
    all.push_back(box);
  }
  std::vector<std::byte> wanted(static_cast<std::size_t>(memory_bytes));
  const auto from_boxes = expected(nests, lab.memories[0] + 20'000);
  std::copy(from_boxes.begin(), from_boxes.end() - behind_runs, wanted.begin() + behind_runs);
  for (const IndexedEntry& place : places) {
    std::copy_n(lab.memories[0] + place.source_offset, run_bytes,
                wanted.begin() + place.target_offset);
  }
  Request request = lab.request({}, lab.memories[1]);
  request.payload = all;
  auto work = lab.channel->prepare(request);
  REQUIRE(work.ok());
  for (int k = 0; k < 2; ++k) {
    std::memset(lab.memories[1], 0, memory_bytes);
    auto flight = k == 0 ? lab.channel->start(*work, lab.request({}, lab.memories[1]), nullptr, {})
                         : lab.channel->start(request, nullptr, {});
    REQUIRE(flight.ok());
    while (!(*flight)->done()) continue;
    EXPECT(holds(lab.memories[1], wanted));
  }
  return *work;
}

TEST(runs_and_loops_of_one_request_take_launches_of_their_own) {
  const Lab lab;
  const auto of_pieces = move_runs_and_boxes(lab, 132);
  EXPECT_EQ(of_pieces->pieces(), 500);
  EXPECT_EQ(of_pieces->places(), 0);
  const auto of_places = move_runs_and_boxes(lab, 12);
  EXPECT_EQ(of_places->pieces(), 0);
  EXPECT_EQ(of_places->places(), 500);
}

/// Random indexed nests whose targets lie one behind the other, and their lists.
struct RandomNests {
  explicit RandomNests(std::uint64_t seed) {
    Random random(seed);
    std::int64_t end = 0;  // of what is written
    lists.resize(static_cast<std::size_t>(random.between(1, 12)));
    for (std::vector<IndexedEntry>& list : lists) {
      IndexedNest one;
      LoopNest& nest = one.nest;
      nest.element_bytes = random.between(1, 24);
      std::int64_t bytes = nest.element_bytes;
      const bool gaps = random.chance(0.3);
      const auto rank = static_cast<int>(random.below(3));
      for (; nest.rank < rank; ++nest.rank) {
        bytes += gaps ? random.below(5) : 0;
        const std::int64_t extent = random.between(2, 4);
        nest.loops[static_cast<std::size_t>(nest.rank)] = {extent, bytes + random.below(9), bytes};
        bytes *= extent;
      }
      one.target_step = bytes + (gaps ? random.below(5) : 0);
      one.source_step = random.chance(0.3) ? one.target_step : one.target_step + random.below(20);
      const std::int64_t most = random.chance(0.5) ? 40 : 1;
      const std::int64_t count = random.chance(0.3) ? random.between(250, 400) : random.below(20);
      for (std::int64_t k = 0; k < count && end < memory_bytes / 2; ++k) {
        list.push_back({random.below(memory_bytes / 4), end, random.between(1, most)});
        end += list.back().count * one.target_step;
      }
      one.entries = list;
      nests.push_back(one);
    }
  }

  std::vector<std::vector<IndexedEntry>> lists;
  std::vector<IndexedNest> nests;
};

TEST(random_requests_of_pieces_and_loops_move_every_byte) {
  const Lab lab;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const RandomNests random(seed);
    std::vector<LoopNest> plain;
    expand(random.nests, plain);
    std::vector<std::byte> wanted(static_cast<std::size_t>(memory_bytes));
    for (const LoopNest& nest : plain) {
      each_point(nest, nest.source_offset, nest.target_offset, [&](const Run& run) {
        REQUIRE(run.source_offset + run.bytes <= memory_bytes);
        std::copy_n(lab.memories[0] + run.source_offset, run.bytes,
                    wanted.begin() + run.target_offset);
      });
    }
    Request request = lab.request({}, lab.memories[1]);
    request.payload = random.nests;
    const auto work = lab.channel->prepare(request);
    REQUIRE(work.ok());
    for (const bool prepared : {true, false}) {
      std::memset(lab.memories[1], 0, memory_bytes);
      auto flight = prepared
                        ? lab.channel->start(*work, lab.request({}, lab.memories[1]), nullptr, {})
                        : lab.channel->start(request, nullptr, {});
      REQUIRE(flight.ok());
      while (!(*flight)->done()) continue;
      if (!holds(lab.memories[1], wanted)) {
        test::record_failure(__FILE__, __LINE__, "seed " + std::to_string(seed));
      }
    }
  }
}

TEST(a_flight_keeps_the_table_that_its_kernel_reads) {
  const Lab lab;
  const auto nests = boxes(9);
  auto work = lab.channel->prepare(lab.request(nests, lab.memories[1]));
  REQUIRE(work.ok());
  const std::weak_ptr<const GpuWork> alive = *work;
  auto flight = lab.channel->start(*work, lab.request({}, lab.memories[1]), nullptr, {});
  REQUIRE(flight.ok());
  work->reset();
  EXPECT(!alive.expired());
  while (!(*flight)->done()) continue;
  flight->reset();
  EXPECT(alive.expired());
}

TEST(work_that_outlives_its_channel_is_released_by_whoever_drops_it) {
  std::shared_ptr<const GpuWork> work;
  {
    const Lab lab;
    auto made = lab.channel->prepare(lab.request(boxes(9), lab.memories[1]));
    REQUIRE(made.ok());
    work = *made;
  }
  work.reset();
}

}  // namespace
}  // namespace tranship
