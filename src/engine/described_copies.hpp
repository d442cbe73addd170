// Copies inside a GPU that are found again by numbers that describe them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "engine/copy_runner.hpp"

namespace tranship {

/// Remembers copies of one pair or of several that one launch of a GPU carries, by numbers that say
/// where the arrays lie, what they are and all else that was asked: a loop that copies between the
/// same arrays each time need not describe, check and lower them again. It keeps no array's memory.
/// Threads: all.
class DescribedCopies {
 public:
  explicit DescribedCopies(CopyRunner& runner) : runner_(runner) {}

  /// Copies the pairs, which are resolved and of this process, as copy() or copy_all() do; and
  /// remembers how, the second time it sees the description.
  /// @error as Engine::copy_all()
  Result<Event> copy(std::span<const std::int64_t> description, std::span<const CopyPair> pairs,
                     const CopyOptions& options);

  /// Starts a copy that is remembered, whose `after` is empty; nothing if none is. held: Keeps the
  /// arrays, until the copy has ended.
  /// @error what the driver refused
  std::optional<Result<Event>> start(std::span<const std::int64_t> description,
                                     const CopyOptions& options, std::shared_ptr<void> held);

 private:
  /// A copy, and the ends of its first pair without their owners.
  struct Known {
    std::vector<std::int64_t> description{};
    std::shared_ptr<const Plan> plan{};
    CopyPair ends{};
    std::shared_ptr<const IndexedCopy> lists{};  ///< null: the plan's nests
    std::shared_ptr<const GpuWork> work{};       ///< null: it is found or planned at each start
    std::shared_ptr<GpuFlight> ready{};          ///< the work may be started once this is done

    /// Returns what a GPU carries, but for the work.
    Cargo cargo() const {
      return {.nests = lists ? std::span<const LoopNest>() : plan->nests, .kept = lists};
    }
  };
  struct Place {
    std::uint64_t seen = 0;  ///< the hash of the description that came last
    std::shared_ptr<const Known> known;
  };

  Place& place_of(std::span<const std::int64_t> description, std::uint64_t hash);
  bool seen_before(std::span<const std::int64_t> description);
  void remember(Known known, const CopyOptions& options);
  Result<Event> copy_pair(std::span<const std::int64_t> description, const CopyPair& pair,
                          const CopyOptions& options);

  CopyRunner& runner_;
  std::mutex mutex_;
  std::array<Place, 2048> short_;  ///< of short descriptions
  std::array<Place, 8> long_;
};

}  // namespace tranship
