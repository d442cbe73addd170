// A recipe: all that is decided about a copy before bytes move (decision 35).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "channels/gpu/gpu_channel.hpp"
#include "channels/host/host_program.hpp"
#include "data/payload.hpp"
#include "plan/plan.hpp"

namespace tranship {

/// What carries a step if nothing has to be waited for. A step that has to wait for what no stream
/// can wait for becomes a transfer.
enum class Carrier : std::uint8_t {
  nothing,     ///< No bytes are moved; what the copy follows is waited for.
  here,        ///< the caller's thread, within memory that it reaches
  gpu_stream,  ///< one GPU, by one hop, in a stream
  bounce,      ///< the caller's thread and a GPU, through a bounce buffer
  peer,        ///< the caller's thread, into or from memory of another process
  transfer,    ///< the driver's workers
};

/// The two halves of a copy through a bounce buffer, whose bytes count from its begin.
struct BounceNests {
  std::vector<LoopNest> to_buffer;
  std::vector<LoopNest> from_buffer;
};

/// One copy along one plan. Immutable, but for `ready`, which any thread may ask.
struct RecipeStep {
  std::shared_ptr<const Plan> plan;
  Carrier carrier = Carrier::transfer;
  int priority = 0;
  bool past_caches = false;  ///< The target is written past the caches.
  /// The pairs of the copy whose arrays it moves; offsets count from the arrays of `base`.
  std::size_t first_pair = 0;
  std::size_t pair_count = 1;
  std::size_t base = 0;
  /// What is moved in place of the plan's nests, or of its tiles; null: those.
  std::shared_ptr<const IndexedCopy> lists{};
  /// What is moved in place of both. It refers to lists of the caller's: only the recipe of a copy
  /// that is started once, during the same call, has one.
  std::optional<RunList> runs{};
  std::shared_ptr<const HostProgram> program{};  ///< the lists, for the caller's thread; or null
  std::shared_ptr<const BounceNests> bounce{};   ///< of Carrier::bounce
  /// What a GPU does, planned ahead for addresses of one alignment; null: it is planned at a start.
  std::shared_ptr<const GpuWork> work{};
  std::shared_ptr<const GpuFlight> ready{};  ///< Until it is done, the work is not on the GPU.

  Payload payload() const {
    if (runs) return *runs;
    return lists ? Payload(lists->nests()) : Payload(plan->nests);
  }
};

/// Immutable and shared; without addresses and without arrays.
struct Recipe {
  std::vector<RecipeStep> steps;
  std::vector<std::size_t> order{};  ///< in which the steps are started; empty: as they come

  std::int64_t bytes() const;
  /// Returns the plan of the first step; null if there is none.
  std::shared_ptr<const Plan> plan() const { return steps.empty() ? nullptr : steps[0].plan; }
};

}  // namespace tranship
