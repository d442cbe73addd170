// Indexed nests in host memory: as they are, and compiled.
#include "channels/host/host_program.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "channels/host/copy.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

/// A list of nests with its entries, and the bytes that both sides need.
struct List {
  IndexedNest nest;
  std::vector<IndexedEntry> entries;
};

/// Returns the bytes from the first to the last that one move reaches.
std::int64_t span_of(const LoopNest& nest, bool source) {
  std::int64_t span = nest.element_bytes;
  for (int k = 0; k < nest.rank; ++k) {
    const Loop& loop = nest.loops[static_cast<std::size_t>(k)];
    span += (loop.extent - 1) * (source ? loop.source_stride : loop.target_stride);
  }
  return span;
}

/// Draws loops around an element; both sides lie apart, the packed one dense or with gaps.
LoopNest random_nest(Random& random, std::int64_t element_bytes) {
  LoopNest nest;
  nest.element_bytes = element_bytes;
  std::int64_t source = element_bytes;
  std::int64_t target = element_bytes;
  for (std::int64_t rank = random.between(0, 2); rank > 0; --rank) {
    const std::int64_t extent =
        random.chance(0.2) ? random.between(100, 160) : random.between(2, 6);
    source += random.chance(0.7) ? random.between(0, 40) : 0;
    target += random.chance(0.3) ? random.between(0, 5) : 0;
    nest.loops[static_cast<std::size_t>(nest.rank++)] = {extent, source, target};
    source *= extent;
    target *= extent;
  }
  return nest;
}

/// Draws a list whose moves do not share bytes of the target.
List random_list(Random& random) {
  List list;
  const std::int64_t count = random.chance(0.1) ? random.between(300, 2000) : random.between(1, 90);
  if (random.chance(0.4)) {  // runs of any lengths
    const std::int64_t unit = random.chance(0.5) ? 1 : random.between(1, 24);
    list.nest.nest.element_bytes = list.nest.source_step = list.nest.target_step = unit;
    const std::int64_t longest = random.chance(0.2) ? 200 : random.between(1, 8);
    std::int64_t source = 0;
    std::int64_t target = 0;
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t units = random.between(1, longest);
      source += random.chance(0.8) ? random.below(50) : 0;
      list.entries.push_back({source, target, units});
      source += units * unit;
      target += units * unit + (random.chance(0.2) ? random.below(9) : 0);
    }
  } else if (random.chance(0.3)) {  // a list inside loops
    const std::int64_t bytes = random.between(1, 20);
    std::int64_t source = 0;
    std::int64_t target = 0;
    for (std::int64_t k = 0; k < count; ++k) {
      source += random.below(20);
      list.entries.push_back({source, target, 1});
      source += bytes;
      target += bytes;
    }
    list.nest.nest.element_bytes = bytes;
    list.nest.nest.rank = 1;
    list.nest.nest.loops[0] = {random.between(2, 9), source + random.below(30), target};
  } else {
    list.nest.nest = random_nest(random, random.between(1, random.chance(0.2) ? 90 : 20));
    const std::int64_t source_span = span_of(list.nest.nest, true);
    const std::int64_t target_span = span_of(list.nest.nest, false);
    const std::int64_t moves = random.chance(0.5) ? 1 : random.between(1, 5);
    const std::int64_t most = std::max<std::int64_t>(20'000 / list.nest.nest.bytes(), 2);
    list.nest.source_step = source_span + random.below(9);
    list.nest.target_step = target_span;
    std::int64_t source = 0;
    std::int64_t target = 0;
    for (std::int64_t k = 0; k < std::min(count, most); ++k) {
      list.entries.push_back({source, target, moves});
      source += moves * list.nest.source_step + random.below(30);
      target += moves * list.nest.target_step;
    }
  }
  if (random.chance(0.5)) {  // the places in any order
    for (std::size_t k = list.entries.size(); k-- > 1;) {
      const auto other = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(k) + 1));
      std::swap(list.entries[k], list.entries[other]);
    }
  }
  return list;
}

void swap_sides(List& list) {
  for (int k = 0; k < list.nest.nest.rank; ++k) {
    Loop& loop = list.nest.nest.loops[static_cast<std::size_t>(k)];
    std::swap(loop.source_stride, loop.target_stride);
  }
  std::swap(list.nest.source_step, list.nest.target_step);
  for (IndexedEntry& entry : list.entries) std::swap(entry.source_offset, entry.target_offset);
}

/// Returns the pairs of bytes that the lists move.
std::vector<std::pair<std::int64_t, std::int64_t>> bytes_of(std::span<const IndexedNest> lists) {
  std::vector<LoopNest> nests;
  expand(lists, nests);
  std::vector<std::pair<std::int64_t, std::int64_t>> bytes;
  for (const LoopNest& nest : nests) {
    std::vector<std::pair<std::int64_t, std::int64_t>> points{
        {nest.source_offset, nest.target_offset}};
    for (int k = 0; k < nest.rank; ++k) {
      const Loop& loop = nest.loops[static_cast<std::size_t>(k)];
      const std::vector<std::pair<std::int64_t, std::int64_t>> inner = points;
      for (std::int64_t turn = 1; turn < loop.extent; ++turn) {
        for (const auto& [from, to] : inner) {
          points.emplace_back(from + turn * loop.source_stride, to + turn * loop.target_stride);
        }
      }
    }
    for (const auto& [from, to] : points) {
      for (std::int64_t k = 0; k < nest.element_bytes; ++k) bytes.emplace_back(from + k, to + k);
    }
  }
  return bytes;
}

void check(std::uint64_t seed) {
  Random random(seed);
  std::vector<List> lists;
  std::int64_t source_begin = random.below(9);
  std::int64_t target_begin = random.below(9);
  const bool swapped = random.chance(0.5);
  for (std::int64_t k = random.between(1, 3); k > 0; --k) {
    List list = random_list(random);
    if (swapped) swap_sides(list);
    list.nest.nest.source_offset = source_begin;
    list.nest.nest.target_offset = target_begin;
    std::int64_t source_end = 0;
    std::int64_t target_end = 0;
    list.nest.entries = list.entries;
    for (const auto& [from, to] : bytes_of({&list.nest, 1})) {
      source_end = std::max(source_end, from + 1);
      target_end = std::max(target_end, to + 1);
    }
    source_begin = source_end + random.below(20);
    target_begin = target_end + random.below(20);
    lists.push_back(std::move(list));
  }
  std::vector<IndexedNest> nests;
  for (List& list : lists) {
    list.nest.entries = list.entries;
    nests.push_back(list.nest);
  }
  // Exactly as long as what is touched, so that sanitizers see every byte beyond.
  std::vector<std::byte> source(static_cast<std::size_t>(source_begin));
  for (std::byte& byte : source) byte = std::byte(random.below(256));
  const auto bytes = bytes_of(nests);
  std::int64_t last = 0;
  for (const auto& [from, to] : bytes) last = std::max(last, from + 1);
  source.resize(static_cast<std::size_t>(last));
  source.shrink_to_fit();
  const std::vector<std::byte> before(static_cast<std::size_t>(target_begin), std::byte{0xA5});
  std::vector<std::byte> wanted = before;
  for (const auto& [from, to] : bytes) {
    wanted[static_cast<std::size_t>(to)] = source[static_cast<std::size_t>(from)];
  }
  for (const bool cold : {false, true}) {
    std::vector<std::byte> plain = before;
    copy_indexed(nests, source.data(), plain.data(), cold);
    std::vector<std::byte> compiled = before;
    const HostProgram program(nests);
    program.copy(source.data(), compiled.data(), cold);
    if (plain == wanted && compiled == wanted) continue;
    test::record_failure(
        __FILE__, __LINE__,
        std::string(plain == wanted ? "compiled" : "as it is") + ", seed " + std::to_string(seed));
  }
}

}  // namespace

TEST(lists_arrive_as_they_are_and_compiled) {
  for (std::uint64_t seed = 0; seed < test::seed_count(1500); ++seed) check(seed);
}

TEST(a_list_that_no_32_bits_reach_is_copied_as_it_is) {
  constexpr std::int64_t far = std::int64_t{5} << 30;
  constexpr std::size_t size = static_cast<std::size_t>(far) + 4096;
  void* mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(mapped != MAP_FAILED);
  auto* source = static_cast<std::byte*>(mapped);
  std::fill_n(source, 8, std::byte{7});
  std::fill_n(source + far, 8, std::byte{9});
  const std::vector<IndexedEntry> entries{{far, 8, 1}, {0, 0, 1}, {far, 16, 1}};
  IndexedNest list;
  list.nest.element_bytes = 8;
  list.source_step = list.target_step = 8;
  list.entries = entries;
  std::vector<std::byte> target(24, std::byte{0});
  HostProgram({&list, 1}).copy(source, target.data(), false);
  EXPECT_EQ(std::count(target.begin(), target.end(), std::byte{7}), 8);
  EXPECT_EQ(std::count(target.begin() + 8, target.end(), std::byte{9}), 16);
  munmap(mapped, size);
}
