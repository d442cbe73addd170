#include "gpu/pinned_parts.hpp"

#include <algorithm>
#include <utility>

namespace tranship {
namespace {

/// Pause between two runs of a wanted part in which pages are missing: each run makes copies one
/// command longer.
constexpr std::chrono::milliseconds run_pause{100};

}  // namespace

PinnedParts::PinnedParts(std::shared_ptr<Gpus> gpus, const Options& options)
    : gpus_(std::move(gpus)),
      options_(options),
      parts_(
          static_cast<std::size_t>((options.bytes + options.part_bytes - 1) / options.part_bytes)) {
}

PinnedParts::~PinnedParts() {
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    for (const PageRun& run : parts_[k].pinned) gpus_->unpin(address_of(k) + run.offset);
  }
}

std::byte* PinnedParts::address_of(std::size_t part) const {
  return options_.begin + static_cast<std::int64_t>(part) * options_.part_bytes;
}

std::int64_t PinnedParts::bytes_of(std::size_t part) const {
  const std::int64_t offset = static_cast<std::int64_t>(part) * options_.part_bytes;
  return std::min(options_.part_bytes, options_.bytes - offset);
}

std::vector<PageRun> PinnedParts::gaps(std::size_t number, const Part& part) const {
  std::vector<PageRun> found;
  std::int64_t begin = 0;
  for (const PageRun& run : part.pinned) {
    if (run.offset > begin) found.push_back({begin, run.offset - begin});
    begin = run.offset + run.bytes;
  }
  if (begin < bytes_of(number)) found.push_back({begin, bytes_of(number) - begin});
  return found;
}

/// The caller holds the mutex.
bool PinnedParts::is_pinned(std::size_t part) const {
  std::int64_t bytes = 0;
  for (const PageRun& run : parts_[part].pinned) bytes += run.bytes;
  return bytes == bytes_of(part);
}

bool PinnedParts::are_pinned() const {
  const std::lock_guard lock(mutex_);
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    if (!is_pinned(k)) return false;
  }
  return true;
}

bool PinnedParts::are_over() const {
  {
    const std::lock_guard lock(mutex_);
    if (refused_) return true;
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      if (!parts_[k].given_back && !is_pinned(k)) return false;
    }
  }
  return true;
}

Status PinnedParts::pin(std::size_t part, const PageRun& run) {
  Status status = gpus_->pin(address_of(part) + run.offset, run.bytes);
  const std::lock_guard lock(mutex_);
  if (!status) {
    refused_ = true;
    return status;
  }
  std::vector<PageRun>& pinned = parts_[part].pinned;
  const auto next = std::find_if(pinned.begin(), pinned.end(),
                                 [&](const PageRun& other) { return other.offset > run.offset; });
  pinned.insert(next, run);
  return {};
}

Status PinnedParts::pin_all() {
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    if (Status status = pin(k, {0, bytes_of(k)}); !status) return status;
  }
  return {};
}

void PinnedParts::pin_ahead() {
  const std::lock_guard lock(mutex_);
  ahead_ = true;
}

bool PinnedParts::want(std::int64_t offset, std::int64_t bytes, Time now) {
  const std::lock_guard lock(mutex_);
  const std::int64_t end = std::min(offset + bytes, options_.bytes);
  for (std::int64_t k = offset / options_.part_bytes; k * options_.part_bytes < end; ++k) {
    Part& part = parts_[static_cast<std::size_t>(k)];
    if (!part.wanted) part.runs_after = now + run_pause;
    part.wanted = true;
  }
  ahead_ = true;
  return !std::exchange(wanted_, true);
}

/// Returns what is to be pinned of a part now.
std::optional<PageRun> PinnedParts::due(std::size_t number, bool wanted, Time now) {
  Part part;
  {
    const std::lock_guard lock(mutex_);
    if (refused_ || !ahead_ || parts_[number].wanted != wanted) return std::nullopt;
    if (parts_[number].given_back) return std::nullopt;
    part = parts_[number];
  }
  const std::vector<PageRun> open = gaps(number, part);
  if (open.empty()) return std::nullopt;
  std::byte* begin = address_of(number);
  const bool all = std::all_of(open.begin(), open.end(), [&](const PageRun& gap) {
    return pages_are_there(begin + gap.offset, gap.bytes);
  });
  if (all) return open.front();
  if (!wanted || now < part.runs_after) return std::nullopt;
  {
    const std::lock_guard lock(mutex_);
    parts_[number].runs_after = now + run_pause;
  }
  PageRun longest;
  for (const PageRun& gap : open) {
    const PageRun run = longest_run(begin + gap.offset, gap.bytes);
    if (run.bytes > longest.bytes) longest = {gap.offset + run.offset, run.bytes};
  }
  return longest.bytes >= options_.run_least ? std::optional(longest) : std::nullopt;
}

void PinnedParts::unpin_given_back() {
  std::vector<std::byte*> gone;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      Part& part = parts_[k];
      // The system keeps the pages of a pin in memory, unless their owner has given them back. He
      // gives back what is behind a place, so that the first page is the last one to go.
      std::erase_if(part.pinned, [&](const PageRun& run) {
        std::byte* const begin = address_of(k) + run.offset;
        if (!page_is_gone(begin)) return false;
        part.given_back = true;
        gone.push_back(begin);
        return true;
      });
    }
  }
  for (std::byte* const begin : gone) gpus_->unpin(begin);
}

bool PinnedParts::pin_next(Time now) {
  for (const bool wanted : {true, false}) {
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      const auto run = due(k, wanted, now);
      if (!run) continue;
      // The driver holds locks that copies need for as long as it pins: less if it finds all pages
      // mapped.
      (void)map_for_writing(address_of(k) + run->offset, run->bytes);
      return pin(k, *run).ok();
    }
  }
  return false;
}

}  // namespace tranship
