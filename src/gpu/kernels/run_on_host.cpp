// Runs of the kernels' bodies on the CPU: block after block, and thread after thread between
// barriers.
#include <vector>

#include "base/check.hpp"
#include "gpu/kernels/cast_body.hpp"
#include "gpu/kernels/direct_body.hpp"
#include "gpu/kernels/launch.hpp"
#include "gpu/kernels/nest_list_body.hpp"
#include "gpu/kernels/pieces_body.hpp"
#include "gpu/kernels/place_list_body.hpp"
#include "gpu/kernels/records_body.hpp"
#include "gpu/kernels/repeated_nest_body.hpp"
#include "gpu/kernels/select_kernel.hpp"
#include "gpu/kernels/table_tile_body.hpp"

namespace tranship::gpu {
namespace {

constexpr std::uint32_t threads = kernel_threads;

template <int element_bytes, bool shifted>
void move_block(const NestPlan& plan, std::uint32_t block, const std::byte* source,
                std::byte* target) {
  std::vector<Row> rows(static_cast<std::size_t>(plan.rows));
  const DirectPlace place = locate_direct(plan, block, source, target);
  for (std::uint32_t thread = 0; thread < threads; ++thread) {
    list_rows(plan, place, thread, rows.data());
  }
  for (std::uint32_t thread = 0; thread < threads; ++thread) {
    move_rows<element_bytes, shifted>(plan, place, rows.data(), source, thread);
  }
}

/// What stands for the shared memory of a block.
class SharedMemory {
 public:
  explicit SharedMemory(const KernelPlan& plan)
      : words_(static_cast<std::size_t>(plan.shared_bytes) / sizeof(Words<16>) + 1) {}
  std::byte* bytes() { return reinterpret_cast<std::byte*>(words_.data()); }

 private:
  std::vector<Words<16>> words_;
};

/// The addresses of a run on the host, for the kernel that select_kernel() selects.
struct HostRun {
  const KernelPlan& plan;
  const Repeats& repeats;
  const std::byte* source;
  std::byte* target;

  /// Calls `move(block of its nest, source, target)` for all blocks of the launch.
  template <typename Move>
  void each_block(const Move& move) const {
    for (std::uint32_t block = 0; block < plan.blocks * repeats.count; ++block) {
      const std::byte* from = source;
      std::byte* to = target;
      const std::uint32_t number = enter_nest(repeats, block, from, to);
      move(number, from, to);
    }
  }

  template <int element_bytes, bool shifted>
  int direct() const {
    CHECK(repeats.origins == nullptr, "nests without shared memory are launched as a list");
    for (std::uint32_t block = 0; block < plan.blocks; ++block) {
      move_block<element_bytes, shifted>(plan, block, source, target);
    }
    return 0;
  }

  template <int element_bytes, int source_bytes, int target_bytes, int loops, bool full>
  void box_block(const BlockBox& place, std::byte* shared) const {
    for (std::uint32_t thread = 0; thread < threads; ++thread) {
      load_box<element_bytes, source_bytes, loops, full>(plan, place, thread, shared);
    }
    for (std::uint32_t thread = 0; thread < threads; ++thread) {
      store_box<element_bytes, target_bytes, loops, full>(plan, place, thread, shared);
    }
  }

  template <int element_bytes, int source_bytes, int target_bytes, int loops>
  int box() const {
    std::vector<std::byte> shared(static_cast<std::size_t>(plan.shared_bytes));
    each_block([&](std::uint32_t block, const std::byte* from, std::byte* to) {
      const BlockBox place = locate(plan, block, from, to);
      if (place.full) {
        box_block<element_bytes, source_bytes, target_bytes, loops, true>(place, shared.data());
      } else {
        box_block<element_bytes, source_bytes, target_bytes, loops, false>(place, shared.data());
      }
    });
    return 0;
  }

  template <int unit_bytes, TileKind kind>
  int tile() const {
    const TilePlan& tile = plan.tile;
    SharedMemory shared(plan);
    auto* rows = reinterpret_cast<std::int64_t*>(shared.bytes() + tile.rows_at);
    each_block([&](std::uint32_t block, const std::byte* from, std::byte* to) {
      const TilePlace place = locate_tile(tile, block, from, to);
      for (std::uint32_t thread = 0; thread < threads; ++thread) {
        tile_rows(tile, place, thread, rows);
      }
      for (std::uint32_t thread = 0; thread < threads; ++thread) {
        load_tile<unit_bytes>(tile, place, thread, from + tile.source_high, rows, shared.bytes());
      }
      for (std::uint32_t thread = 0; thread < threads; ++thread) {
        store_tile<unit_bytes, kind>(tile, place, thread, rows, shared.bytes());
      }
    });
    return 0;
  }

  template <int unit_bytes>
  int table_tile() const {
    const TilePlan& tile = plan.tile;
    const TablePlan& table = plan.table;
    SharedMemory shared(plan);
    auto* rows = reinterpret_cast<std::int64_t*>(shared.bytes() + tile.rows_at);
    each_block([&](std::uint32_t block, const std::byte* from, std::byte* to) {
      const TilePlace place = locate_table_tile(tile, table, block, from, to);
      for (std::uint32_t thread = 0; thread < threads; ++thread) {
        table_rows(tile, table, place, thread, rows, shared.bytes() + table.bases_at);
        load_table(table, thread, shared.bytes());
      }
      for (std::uint32_t thread = 0; thread < threads; ++thread) {
        load_tile<unit_bytes>(tile, place, thread, from + tile.source_high, rows, shared.bytes());
        widen_table<unit_bytes>(table, thread, shared.bytes());
      }
      for (std::uint32_t thread = 0; thread < threads; ++thread) {
        store_table<unit_bytes>(tile, table, place, thread, rows, shared.bytes());
      }
    });
    return 0;
  }

  template <bool across>
  void block_to_columns(const RecordsPlace& place, std::byte* shared) const {
    for (std::uint32_t thread = 0; thread < threads; ++thread) {
      load_rows<across>(plan.records, place, thread, shared);
    }
    for (std::uint32_t thread = 0; thread < threads; ++thread) {
      store_runs<across>(plan.records, place, thread, shared);
    }
  }

  template <bool across>
  void block_to_records(const RecordsPlace& place, std::byte* shared) const {
    for (std::uint32_t thread = 0; thread < threads; ++thread) {
      load_runs<across>(plan.records, place, thread, shared);
    }
    for (std::uint32_t thread = 0; thread < threads; ++thread) {
      store_rows<across>(plan.records, place, thread, shared);
    }
  }

  template <bool to_columns, bool across>
  int records() const {
    CHECK(repeats.origins == nullptr, "records are launched one nest at a time");
    SharedMemory shared(plan);
    std::byte* from = const_cast<std::byte*>(source);  // only the target is written
    for (std::uint32_t block = 0; block < plan.blocks; ++block) {
      const RecordsPlace place = locate_records<across, to_columns>(
          plan.records, block, to_columns ? from : target, to_columns ? target : from);
      if constexpr (to_columns) {
        block_to_columns<across>(place, shared.bytes());
      } else {
        block_to_records<across>(place, shared.bytes());
      }
    }
    return 0;
  }
};

/// A run on the host of the list kernel that select_list() selects.
struct HostList {
  const NestTable& table;
  const std::byte* source;
  std::byte* target;

  template <int element_bytes, bool shifted>
  int list() const {
    for (std::uint32_t number = 0; number < table.blocks; ++number) {
      const ListedBlock block = find_block(table, number);
      const NestPlan& plan = table.plans[block.nest.plan];
      if (block.number >= plan.blocks) continue;
      move_block<element_bytes, shifted>(plan, block.number, source + block.nest.source,
                                         target + block.nest.target);
    }
    return 0;
  }
};

}  // namespace

void run_on_host(const KernelPlan& plan, const std::byte* source, std::byte* target,
                 const Repeats& repeats) {
  const int result = select_kernel(plan, HostRun{plan, repeats, source, target});
  CHECK(result == 0, "a kernel failed on the host");
}

namespace {

/// Runs the kernel of a form.
struct HostCast {
  const CastPlan& plan;
  const std::byte* source;
  std::byte* target;

  template <typename Form>
  int with() const {
    std::vector<Words<16>> words(static_cast<std::size_t>(plan.shared_bytes) / sizeof(Words<16>) +
                                 1);
    auto* shared = reinterpret_cast<std::byte*>(words.data());
    for (std::uint32_t block = 0; block < plan.blocks; ++block) {
      const CastPlace place = locate_cast(plan, block, source, target);
      for (std::uint32_t thread = 0; thread < threads; ++thread) {
        convert_box<Form>(plan, place, thread, shared);
      }
      for (std::uint32_t thread = 0; Form::shared && thread < threads; ++thread) {
        store_box(plan, place, thread, shared);
      }
    }
    return 0;
  }
};

}  // namespace

void run_cast_on_host(const CastPlan& plan, const std::byte* source, std::byte* target) {
  const int result = select_cast(plan, HostCast{plan, source, target});
  CHECK(result == 0, "a kernel that converts failed on the host");
}

void run_list_on_host(const NestTable& table, const std::byte* source, std::byte* target) {
  HeldTable held;
  if (table.on_host != nullptr) held = hold(table);
  const NestTable read = table.on_host != nullptr ? table_in(held) : table;
  const int result = select_list(read, HostList{read, source, target});
  CHECK(result == 0, "a kernel failed on the host");
}

void run_places_on_host(const PlaceLaunch& places, const std::byte* source, std::byte* target) {
  for (std::uint32_t block = 0; block < places.blocks; ++block) {
    for (std::uint32_t thread = 0; thread < threads; ++thread) {
      move_places(places, block, thread, source, target);
    }
  }
}

namespace {

/// `piece_at(k)` returns piece k.
template <typename PieceAt>
void move_pieces_on_host(std::int64_t count, const std::byte* source, std::byte* target,
                         const PieceAt& piece_at) {
  if (count == 0) return;
  const PieceShare share = share_pieces(count);
  for (std::int64_t warp = 0; warp < share.blocks * piece_warps; ++warp) {
    const std::int64_t number = warp / share.warps;
    if (number >= count) break;
    const Run piece = piece_at(number);
    for (std::uint32_t lane = 0; lane < warp_lanes; ++lane) {
      move_piece(piece, source, target, static_cast<std::uint32_t>(warp % share.warps),
                 static_cast<std::uint32_t>(share.warps), lane);
    }
  }
}

}  // namespace

void run_pieces_on_host(const Run* pieces, std::int64_t count, const std::byte* source,
                        std::byte* target) {
  move_pieces_on_host(count, source, target, [&](std::int64_t k) { return pieces[k]; });
}

void run_runs_on_host(const RunTable& table, const std::byte* source, std::byte* target) {
  move_pieces_on_host(table.count, source, target,
                      [&](std::int64_t k) { return piece_of(table, k); });
}

}  // namespace tranship::gpu
