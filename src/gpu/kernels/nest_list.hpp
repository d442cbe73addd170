// Lists of many nests in one launch, such as the parts of an array that come from many objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/kernels/kernel_tuning.hpp"
#include "gpu/kernels/nest_plan.hpp"

namespace tranship::gpu {

struct ListedNest {
  std::int64_t source = 0;  ///< the plan's offsets are added to it
  std::int64_t target = 0;
  std::int32_t plan = 0;  ///< number of the plan of its shape
};

/// Neighbours in the target that are moved side by side, so that a sector in which one nest ends
/// and the next begins is written to memory once. Consecutive blocks belong to consecutive nests.
struct alignas(8) NestBand {
  std::uint32_t first_block = 0;  ///< number in the launch
  std::int32_t first_nest = 0;    ///< number in the list
  Divisor nests;
};

/// The nests of one launch. A block finds its nest, and then does the same as for a single nest.
struct NestList {
  std::vector<NestPlan> plans;      ///< one or several for each shape
  std::vector<ListedNest> nests;    ///< sorted by target
  std::vector<NestBand> bands;      ///< sorted by first block
  bool shifted = false;             ///< all plans are KernelKind::shifted, or none is
  std::int32_t element_bytes = 16;  ///< narrowest access of all plans
  std::int64_t blocks = 0;
};

/// A list as the GPU reads it, made by table_of().
struct NestTable {
  const NestPlan* plans = nullptr;
  const ListedNest* nests = nullptr;
  const NestBand* bands = nullptr;
  std::int32_t nests_count = 0;
  std::int32_t bands_count = 0;
  bool shifted = false;
  std::int32_t element_bytes = 16;
  std::int64_t blocks = 0;
  /// The bytes of the table where the CPU reads them: a launch takes them along. Null: the GPU
  /// reads the parts where they lie.
  const std::byte* on_host = nullptr;
};

/// Longest table, in bytes, that a launch takes along: its parameters have 4 KiB.
constexpr std::int64_t held_bytes_max = 3840;

/// A table among the parameters of a launch. table_in() returns it with pointers to `bytes`; those
/// of `table` say where its parts lay.
struct HeldTable {
  NestTable table;
  std::int32_t nests_at = 0;  ///< where these parts begin, in bytes
  std::int32_t bands_at = 0;
  alignas(16) std::byte bytes[held_bytes_max];
};

/// Returns the number of bytes that write_table() writes.
std::int64_t table_bytes(const NestList& list);
void write_table(const NestList& list, std::byte* at);

/// Returns the table that write_table() has written, and that may have been copied to `at` since.
NestTable table_of(const NestList& list, const std::byte* at);

/// Returns a copy of a table of at most held_bytes_max bytes. on_host is not null.
HeldTable hold(const NestTable& table);

/// Two lists: misaligned runs need many registers, and one kernel for both would slow the others.
struct NestLists {
  NestList aligned;
  NestList shifted;
};

/// Makes lists of the nests that run in the same order on both sides. Nests that pass through
/// shared memory are appended to `rest`; all nests go there if one launch cannot hold a list. Nests
/// of one shape are planned once.
void plan_lists(std::span<const LoopNest> nests, const std::byte* source, const std::byte* target,
                NestLists& lists, std::vector<LoopNest>& rest, const KernelTuning& tuning = {});

}  // namespace tranship::gpu
