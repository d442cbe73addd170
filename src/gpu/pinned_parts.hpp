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

/// The pinned ranges of one shared memory, which owns this object as its registration. The
/// destructor unpins them. Parts are pinned by one thread; other members may be called by any.
class PinnedParts {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Options {
    std::byte* begin = nullptr;
    std::int64_t bytes = 0;  ///< whole pages
    std::int64_t part_bytes = 0;
    /// Whether a background thread pins the parts, while copies go through bounce buffers.
    bool in_background = false;
    /// Shortest run that is pinned, in bytes, in a part with missing pages.
    std::int64_t run_least = std::int64_t{2} << 20;
  };

  PinnedParts(std::shared_ptr<Gpus> gpus, const Options& options);
  ~PinnedParts();
  PinnedParts(const PinnedParts&) = delete;
  PinnedParts& operator=(const PinnedParts&) = delete;

  bool in_background() const { return options_.in_background; }
  /// Whether all parts are pinned.
  bool are_pinned() const;
  /// Whether nothing is left to pin: all parts are pinned or given back, or the driver refused one.
  bool are_over() const;

  /// Pins all parts.
  /// @error what the driver refused
  Status pin_all();

  /// Lets pin_next() pin parts whose pages are there before a copy asks for them.
  void pin_ahead();
  /// Notes that a copy would use this range of the memory, and lets pin_next() pin all parts, these
  /// first. Returns whether it is the first copy.
  bool want(std::int64_t offset, std::int64_t bytes, Time now);
  /// Pins the next part whose pages all exist: the kernel would charge missing ones to this
  /// process. If pages of a part that a copy wants stay missing, pins the longest run of existing
  /// pages every tenth of a second. Returns whether anything was pinned. Pins nothing after the
  /// driver has refused a part.
  bool pin_next(Time now);
  /// Unpins runs whose pages the memory's owner has given back to the system: until then the pins
  /// keep them. Their places are pinned no more. Called by the thread that pins.
  void unpin_given_back();

 private:
  struct Part {
    std::vector<PageRun> pinned;  ///< In order; offsets from the beginning of the part.
    bool wanted = false;
    bool given_back = false;  ///< Whether some of it was.
    Time runs_after;          ///< When the next run of a wanted part may be pinned.
  };
  std::byte* address_of(std::size_t part) const;
  std::int64_t bytes_of(std::size_t part) const;
  bool is_pinned(std::size_t part) const;
  /// Returns the ranges of a part that are not pinned.
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
