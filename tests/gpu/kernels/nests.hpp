// Nests for the tests of kernels: random ones, their naive walks, and memory to move between.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "data/loop_nest.hpp"
#include "gpu/kernels/kernel_plan.hpp"
#include "gpu/kernels/launch.hpp"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

namespace tranship::gpu {

constexpr std::int64_t guard_bytes = 256;

/// A nest, and how many bytes after a multiple of 256 its two ends begin.
struct Case {
  LoopNest nest;
  std::int64_t source_shift = 0;
  std::int64_t target_shift = 0;
};

inline void add(LoopNest& nest, std::int64_t extent, std::int64_t source, std::int64_t target) {
  nest.loops[static_cast<std::size_t>(nest.rank++)] = {extent, source, target};
}

/// Calls `visit(source offset, target offset)` for each element of the nest.
template <typename Visit>
void walk(const LoopNest& nest, int loop, std::int64_t source, std::int64_t target,
          const Visit& visit) {
  if (loop < 0) return visit(source, target);
  const Loop& step = nest.loops[static_cast<std::size_t>(loop)];
  for (std::int64_t i = 0; i < step.extent; ++i) {
    walk(nest, loop - 1, source + i * step.source_stride, target + i * step.target_stride, visit);
  }
}

template <typename Visit>
void walk(const LoopNest& nest, const Visit& visit) {
  walk(nest, nest.rank - 1, nest.source_offset, nest.target_offset, visit);
}

/// Returns the bytes that one side spans from offset 0; the nest's offsets keep all bytes above it.
inline std::int64_t reach(const LoopNest& nest, bool source) {
  std::int64_t end = (source ? nest.source_offset : nest.target_offset) + nest.element_bytes;
  for (int k = 0; k < nest.rank; ++k) {
    const Loop& loop = nest.loops[static_cast<std::size_t>(k)];
    const std::int64_t stride = source ? loop.source_stride : loop.target_stride;
    end += std::max<std::int64_t>(0, (loop.extent - 1) * stride);
  }
  return end;
}

/// Memory that begins `shift` bytes after a multiple of 256. AddressSanitizer sees accesses outside
/// it.
class Memory {
 public:
  Memory(std::int64_t bytes, std::int64_t shift)
      : bytes_(static_cast<std::size_t>(bytes + shift + 512), std::byte{0xa5}) {
    const auto at = reinterpret_cast<std::uintptr_t>(bytes_.data());
    begin_ = static_cast<std::size_t>((256 - at % 256) % 256) + static_cast<std::size_t>(shift);
    end_ = begin_ + static_cast<std::size_t>(bytes);
    ASAN_POISON_MEMORY_REGION(bytes_.data(), begin_);
    ASAN_POISON_MEMORY_REGION(bytes_.data() + end_, bytes_.size() - end_);
  }
  ~Memory() { ASAN_UNPOISON_MEMORY_REGION(bytes_.data(), bytes_.size()); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() { return bytes_.data() + begin_; }
  bool equals(Memory& other, std::int64_t bytes) {
    return std::memcmp(data(), other.data(), static_cast<std::size_t>(bytes)) == 0;
  }

 private:
  std::vector<std::byte> bytes_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

/// Returns a nest of random loops, without overlaps in the target; the source orders them
/// otherwise.
inline Case random_case(Random& random) {
  static constexpr std::int64_t sizes[] = {1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 48, 64, 144};
  Case test;
  LoopNest& nest = test.nest;
  nest.element_bytes = sizes[random.below(std::size(sizes))];
  const int rank = static_cast<int>(random.between(1, 8));
  std::vector<std::int64_t> extents;
  std::int64_t room = 40000 / nest.element_bytes + 8;
  for (int k = 0; k < rank; ++k) {
    const std::int64_t most = std::max<std::int64_t>(1, std::min<std::int64_t>(room, 300));
    std::int64_t extent = random.chance(0.4) ? random.between(1, std::min<std::int64_t>(most, 9))
                                             : random.between(1, most);
    extents.push_back(extent);
    room /= extent;
  }
  std::vector<int> order[2];
  for (auto& side : order) {
    for (int k = 0; k < rank; ++k) side.push_back(k);
    for (int k = rank - 1; k > 0; --k) {
      std::swap(side[static_cast<std::size_t>(k)],
                side[static_cast<std::size_t>(random.between(0, k))]);
    }
  }
  std::vector<Loop> loops(static_cast<std::size_t>(rank));
  for (int side = 0; side < 2; ++side) {
    std::int64_t stride = nest.element_bytes;
    std::int64_t& offset = side == 0 ? nest.source_offset : nest.target_offset;
    const bool gaps = random.chance(0.3);
    for (const int k : order[side]) {
      Loop& loop = loops[static_cast<std::size_t>(k)];
      loop.extent = extents[static_cast<std::size_t>(k)];
      if (gaps && random.chance(0.3)) stride += random.between(1, 3) * nest.element_bytes;
      std::int64_t signed_stride = stride;
      if (random.chance(0.1)) {
        signed_stride = -stride;
        offset += (loop.extent - 1) * stride;
      }
      if (side == 0 && random.chance(0.05)) signed_stride = 0;
      (side == 0 ? loop.source_stride : loop.target_stride) = signed_stride;
      stride *= loop.extent;
    }
  }
  for (const Loop& loop : loops) add(nest, loop.extent, loop.source_stride, loop.target_stride);
  if (random.chance(0.3)) test.source_shift = random.below(32);
  if (random.chance(0.3)) test.target_shift = random.below(32);
  return test;
}

/// Nests that are moved by one call, and how many bytes after a multiple of 256 both ends begin.
struct GroupCase {
  std::vector<LoopNest> nests;
  std::int64_t source_shift = 0;
  std::int64_t target_shift = 0;
};

/// Returns whether the kernels move what naive walks of all nests move, and touch nothing else.
inline bool moves_as_walked(const GroupCase& test, Random& random, std::vector<KernelPlan>& plans,
                            const KernelTuning& tuning = {}) {
  std::int64_t source_bytes = 0, target_bytes = 0;
  for (const LoopNest& nest : test.nests) {
    source_bytes = std::max(source_bytes, reach(nest, true));
    target_bytes = std::max(target_bytes, reach(nest, false) + 2 * guard_bytes);
  }
  Memory source(source_bytes, test.source_shift);
  Memory target(target_bytes, test.target_shift);
  Memory expected(target_bytes, test.target_shift);
  for (std::int64_t i = 0; i < source_bytes; ++i) source.data()[i] = std::byte(random.next());
  for (const LoopNest& nest : test.nests) {
    walk(nest, [&](std::int64_t from, std::int64_t to) {
      std::memcpy(expected.data() + guard_bytes + to, source.data() + from,
                  static_cast<std::size_t>(nest.element_bytes));
    });
  }
  plans.clear();
  plan_kernels(test.nests, source.data(), target.data() + guard_bytes, plans, tuning);
  for (const KernelPlan& plan : plans) {
    run_on_host(plan, source.data(), target.data() + guard_bytes);
  }
  return target.equals(expected, target_bytes);
}

/// Source and target of several nests, and what naive walks of them make of the target.
class WalkedNests {
 public:
  /// shift: Bytes after a multiple of 256 at which the source begins.
  WalkedNests(const std::vector<LoopNest>& nests, std::int64_t shift, Random& random)
      : source_bytes_(bytes_of(nests, true)),
        target_bytes_(bytes_of(nests, false) + 2 * guard_bytes),
        source_(source_bytes_, shift),
        target_(target_bytes_, 0),
        expected_(target_bytes_, 0) {
    for (std::int64_t i = 0; i < source_bytes_; ++i) {
      source_.data()[i] = std::byte(random.next());
    }
    for (const LoopNest& nest : nests) {
      walk(nest, [&](std::int64_t from, std::int64_t to) {
        std::memcpy(expected_.data() + guard_bytes + to, source_.data() + from,
                    static_cast<std::size_t>(nest.element_bytes));
      });
    }
  }

  const std::byte* source() { return source_.data(); }
  std::byte* target() { return target_.data() + guard_bytes; }

  /// Carries nests one by one, each by its own plans.
  void carry(const std::vector<LoopNest>& nests) {
    std::vector<KernelPlan> plans;
    for (const LoopNest& nest : nests) plan_kernels(nest, source(), target(), plans);
    for (const KernelPlan& plan : plans) run_on_host(plan, source(), target());
  }

  /// Returns whether the target, and the bytes around it, are as the walks make them.
  bool right() { return target_.equals(expected_, target_bytes_); }

 private:
  static std::int64_t bytes_of(const std::vector<LoopNest>& nests, bool at_source) {
    std::int64_t bytes = 0;
    for (const LoopNest& nest : nests) bytes = std::max(bytes, reach(nest, at_source));
    return bytes;
  }

  std::int64_t source_bytes_;
  std::int64_t target_bytes_;
  Memory source_;
  Memory target_;
  Memory expected_;
};

}  // namespace tranship::gpu
