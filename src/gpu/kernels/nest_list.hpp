// Many nests in one launch, such as the parts of an array that come from as many objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/kernels/kernel_plan.hpp"

namespace tranship::gpu {

struct ListedNest {
  std::int64_t source = 0;  ///< the plan's offsets are added
  std::int64_t target = 0;
  std::int32_t plan = 0;  ///< of its shape
};

/// Neighbours in the target that are moved side by side: sectors in which one of them ends and
/// another begins are then written to memory once. Blocks go from nest to nest.
struct alignas(8) NestBand {
  std::uint32_t first_block = 0;  ///< of the launch
  std::int32_t first_nest = 0;    ///< of the list
  Divisor nests;
};

/// One launch. A block looks its nest up, and from there on does what it would do for one alone.
struct NestList {
  std::vector<NestPlan> plans;      ///< one of each shape, or several
  std::vector<ListedNest> nests;    ///< by target
  std::vector<NestBand> bands;      ///< by first block
  bool shifted = false;             ///< all plans are KernelKind::shifted, or none is
  std::int32_t element_bytes = 16;  ///< of all plans
  std::int64_t blocks = 0;
};

/// The same where the GPU reads it: table_of().
struct NestTable {
  const NestPlan* plans = nullptr;
  const ListedNest* nests = nullptr;
  const NestBand* bands = nullptr;
  std::int32_t nests_count = 0;
  std::int32_t bands_count = 0;
  bool shifted = false;
  std::int32_t element_bytes = 16;
  std::int64_t blocks = 0;
};

/// Bytes that write_table() writes.
std::int64_t table_bytes(const NestList& list);
void write_table(const NestList& list, std::byte* at);

/// What write_table() has written, and what may have been copied to `at` since.
NestTable table_of(const NestList& list, const std::byte* at);

/// Runs that are misaligned need many registers: a kernel for both would be slow for the others.
struct NestLists {
  NestList aligned;
  NestList shifted;
};

/// Makes lists of the nests that run in the same order on both sides; what passes through shared
/// memory, and what one launch cannot hold, is appended to `rest`. Nests of one shape are planned
/// once.
void plan_lists(std::span<const LoopNest> nests, const std::byte* source, const std::byte* target,
                NestLists& lists, std::vector<LoopNest>& rest, const KernelTuning& tuning = {});

}  // namespace tranship::gpu
