// Shared memory that GPUs reach at the speed of their link, once its parts are pinned.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "gpu/gpus.hpp"
#include "os/pages.hpp"

namespace tranship {

/// The pinned ranges of one shared memory, which are unpinned with this object: the memory keeps it
/// as its registration. Parts are pinned by one thread; other members may be called by any.
class PinnedParts {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Options {
    std::byte* begin = nullptr;
    std::int64_t bytes = 0;  ///< whole pages
    std::int64_t part_bytes = 0;
    /// Whether a thread pins the parts, for which no copy waits.
    bool in_background = false;
    /// Least bytes that are pinned of a part in which pages are missing.
    std::int64_t run_least = std::int64_t{2} << 20;
  };

  PinnedParts(std::shared_ptr<Gpus> gpus, const Options& options);
  ~PinnedParts();
  PinnedParts(const PinnedParts&) = delete;
  PinnedParts& operator=(const PinnedParts&) = delete;

  bool in_background() const { return options_.in_background; }
  /// Whether all parts are pinned.
  bool are_pinned() const;
  /// Whether nothing is left to pin: all parts are pinned, or the driver refused one.
  bool are_over() const;

  /// Pins all parts.
  /// @error what the driver refused
  Status pin_all();

  /// Lets pin_next() pin parts whose pages are there before a copy asks for them.
  void pin_ahead();
  /// Notes that a copy would use this range of the memory, and lets pin_next() pin all parts, these
  /// first. Returns whether it is the first copy.
  bool want(std::int64_t offset, std::int64_t bytes, Time now);
  /// Pins the next part whose pages are all there, since missing ones would be charged to this
  /// process. Of a part that a copy wants, it pins the longest run of pages that are there every
  /// tenth of a second, if some stay away. Returns whether it has pinned something. After a
  /// refusal it pins no more.
  bool pin_next(Time now);

 private:
  struct Part {
    std::vector<PageRun> pinned;  ///< Ordered; offsets from the begin of the part.
    bool wanted = false;
    Time runs_after;  ///< From then on runs are pinned of a wanted part.
  };
  std::byte* address_of(std::size_t part) const;
  std::int64_t bytes_of(std::size_t part) const;
  bool is_pinned(std::size_t part) const;
  /// Returns what is not pinned of a part.
  std::vector<PageRun> gaps(std::size_t number, const Part& part) const;
  std::optional<PageRun> due(std::size_t number, bool wanted, Time now);
  Status pin(std::size_t part, const PageRun& run);

  const std::shared_ptr<Gpus> gpus_;
  const Options options_;
  mutable std::mutex mutex_;  ///< Guards what follows.
  std::vector<Part> parts_;
  bool ahead_ = false;
  bool wanted_ = false;
  bool refused_ = false;
};

}  // namespace tranship
