// The kernels' bodies run on the CPU: block after block, and thread after thread between barriers.
#include <vector>

#include "base/check.hpp"
#include "channels/cuda/kernels/kernel_body.hpp"
#include "channels/cuda/kernels/launch.hpp"
#include "channels/cuda/kernels/pieces_body.hpp"
#include "channels/cuda/kernels/select_kernel.hpp"

namespace tranship::cuda {
namespace {

constexpr std::uint32_t threads = kernel_threads;

/// The addresses of a run; what select_kernel() calls.
struct HostRun {
  const KernelPlan& plan;
  const std::byte* source;
  std::byte* target;

  template <int element_bytes, int loops>
  int direct() const {
    for (std::uint32_t block = 0; block < plan.blocks; ++block) {
      const Place place = locate(plan, block, source, target);
      for (std::uint32_t thread = 0; thread < threads; ++thread) {
        if (place.full) {
          move_direct<element_bytes, loops, true>(plan, place, thread);
        } else {
          move_direct<element_bytes, loops, false>(plan, place, thread);
        }
      }
    }
    return 0;
  }

  template <int element_bytes, int source_bytes, int target_bytes, int loops, bool full>
  void box_block(const Place& place, std::byte* shared) const {
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
    for (std::uint32_t block = 0; block < plan.blocks; ++block) {
      const Place place = locate(plan, block, source, target);
      if (place.full) {
        box_block<element_bytes, source_bytes, target_bytes, loops, true>(place, shared.data());
      } else {
        box_block<element_bytes, source_bytes, target_bytes, loops, false>(place, shared.data());
      }
    }
    return 0;
  }
};

}  // namespace

void run_on_host(const KernelPlan& plan, const std::byte* source, std::byte* target) {
  const int result = select_kernel(plan, HostRun{plan, source, target});
  CHECK(result == 0, "a kernel failed on the host");
}

void run_pieces_on_host(const Piece* pieces, std::int64_t count, const std::byte* source,
                        std::byte* target) {
  if (count == 0) return;
  const PieceShare share = share_pieces(count);
  for (std::int64_t warp = 0; warp < share.blocks * piece_warps; ++warp) {
    const std::int64_t number = warp / share.warps;
    if (number >= count) break;
    for (std::uint32_t lane = 0; lane < warp_lanes; ++lane) {
      move_piece(pieces[number], source, target, static_cast<std::uint32_t>(warp % share.warps),
                 static_cast<std::uint32_t>(share.warps), lane);
    }
  }
}

}  // namespace tranship::cuda
