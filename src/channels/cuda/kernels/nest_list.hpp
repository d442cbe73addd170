// Many nests in one launch, such as the parts of an array that come from as many objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "channels/cuda/kernels/kernel_plan.hpp"

namespace tranship::cuda {

/// Nests of one shape, which follow each other in the list.
struct NestGroup {
  NestPlan plan;                  ///< of each of them; its offsets are added to the nest's own
  Divisor blocks;                 ///< of one nest
  std::uint32_t first_block = 0;  ///< of the launch
  std::int32_t first_nest = 0;    ///< of the list
};

struct NestOffsets {
  std::int64_t source = 0;
  std::int64_t target = 0;
};

/// One launch. A block looks its group up, and from there on does what it would do for one nest.
struct NestList {
  std::vector<NestGroup> groups;  ///< by first block
  std::vector<NestOffsets> nests;
  std::int32_t element_bytes = 16;  ///< of all plans but those of shifted runs
  std::int32_t loops = 2;           ///< that the largest box has, at most
  std::int64_t blocks = 0;
};

/// The same where the GPU reads it: table_of().
struct NestTable {
  const NestGroup* groups = nullptr;
  const NestOffsets* nests = nullptr;
  std::int32_t groups_count = 0;
  std::int32_t nests_count = 0;
  std::int32_t element_bytes = 16;
  std::int32_t loops = 2;
  std::int64_t blocks = 0;
};

/// What lies of the list at `groups` and `nests`, as a kernel takes it.
NestTable table_of(const NestList& list, const NestGroup* groups, const NestOffsets* nests);

/// Makes a list of the nests that run in the same order on both sides; what passes through shared
/// memory, and what one launch cannot hold, is appended to `rest`. Nests of one shape are planned
/// once.
void plan_list(std::span<const LoopNest> nests, const std::byte* source, const std::byte* target,
               NestList& list, std::vector<LoopNest>& rest);

}  // namespace tranship::cuda
