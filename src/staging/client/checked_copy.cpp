#include "staging/client/checked_copy.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "base/at.hpp"
#include "base/crc32c.hpp"
#include "base/refusals.hpp"
#include "channels/host/copy.hpp"
#include "data/lowering.hpp"
#include "engine/checks.hpp"

namespace tranship::staging {
namespace {

/// A slab fits the second cache of a core, twice: as it is read, and as it is written.
constexpr std::int64_t slab_bytes_max = std::int64_t{256} << 10;
/// A thread takes so many bytes at a time: it pays for a thread, and is soon over.
constexpr std::int64_t chunk_bytes = std::int64_t{2} << 20;

/// A box in slabs, in the order of a dense array: each has all of the fastest dimensions, some
/// indices of one dimension, and one of those before.
class Slabs {
 public:
  explicit Slabs(const View& view) : rank_(view.mapping->rank()), extents_(view.extents) {
    bytes_ = view.mapping->fields()[0].field.bytes;
    for (cut_ = rank_ - 1; cut_ > 0 && bytes_ * extents_[at(cut_)] <= slab_bytes_max; --cut_) {
      bytes_ *= extents_[at(cut_)];
    }
    if (rank_ == 0) return;
    const std::int64_t fitting = std::max<std::int64_t>(slab_bytes_max / bytes_, 1);
    rows_ = std::min(fitting, extents_[at(cut_)]);
    bytes_ *= rows_;
    along_ = (extents_[at(cut_)] + rows_ - 1) / rows_;
    count_ = along_;
    for (int k = 0; k < cut_; ++k) count_ *= extents_[at(k)];
  }

  std::int64_t count() const { return count_; }
  /// Returns the bytes of the largest slab.
  std::int64_t bytes() const { return bytes_; }
  /// Moves a view of the box to slab `number`.
  void move(std::int64_t number, View& view) const {
    if (rank_ == 0) return;
    const std::int64_t first = number % along_ * rows_;
    number /= along_;
    for (int k = cut_ - 1; k >= 0; --k) {
      view.lower[at(k)] += number % extents_[at(k)];
      view.extents[at(k)] = 1;
      number /= extents_[at(k)];
    }
    view.lower[at(cut_)] += first;
    view.extents[at(cut_)] = std::min(rows_, extents_[at(cut_)] - first);
  }

 private:
  int rank_;
  Point extents_;
  int cut_ = 0;
  std::int64_t rows_ = 1;
  std::int64_t along_ = 1;
  std::int64_t count_ = 1;
  std::int64_t bytes_ = 0;
};

/// Returns the mapping of a dense array of a view's extents.
Result<std::shared_ptr<const Mapping>> dense_like(const View& view) {
  const Mapping& mapping = *view.mapping;
  const int rank = mapping.rank();
  IndexSpace space;
  std::vector<std::int64_t> strides(at(rank));
  std::int64_t stride = mapping.fields()[0].field.bytes;
  for (int k = rank - 1; k >= 0; --k) {
    strides[at(k)] = stride;
    stride *= view.extents[at(k)];
  }
  for (int k = 0; k < rank; ++k)
    space.push_back({mapping.space()[at(k)].name, view.extents[at(k)]});
  return Mapping::make_strided(std::move(space), {{mapping.fields()[0].field, 0, strides}});
}

/// Copies slabs on one thread.
class SlabCopier {
 public:
  explicit SlabCopier(bool cold) : cold_(cold) {}

  /// Copies one slab, and adds its bytes to `crc`.
  Status copy(const CheckedCopy& whole, const Slabs& slabs, std::int64_t number,
              std::uint32_t& crc) {
    View source = whole.pair.source.view;
    View target = whole.pair.target.view;
    slabs.move(number, source);
    slabs.move(number, target);
    const std::byte* from = whole.pair.source.place.address;
    std::byte* to = whole.pair.target.place.address;
    if (whole.side == CheckedCopy::Side::target) {
      move({source, from}, {target, to}, false);
      const auto data = dense_bytes(target, to, slabs);
      if (data) crc = crc32c(*data, crc);
      return data ? Status{} : Status(data.error());
    }
    const auto data = dense_bytes(source, from, slabs);
    if (!data) return data.error();
    crc = crc32c(*data, crc);
    if (data->data() != buffer_.get()) {
      move({source, from}, {target, to}, cold_);
    } else {
      move({dense_, buffer_.get()}, {target, to}, cold_);
    }
    return {};
  }

 private:
  template <typename Byte>
  struct End {
    const View& view;
    Byte* address;
  };

  void move(const End<const std::byte>& source, const End<std::byte>& target, bool cold) {
    lower_to(source.view, target.view);
    copy_nests(nests_, source.address, target.address, cold);
  }

  void lower_to(const View& source, const View& target) {
    nests_.clear();
    lower({source.mapping.get(), source.lower}, {target.mapping.get(), target.lower},
          target.extents, {}, nests_);
  }

  /// Returns the bytes of a slab in dense order: where they lie, or else in the buffer.
  Result<std::span<const std::byte>> dense_bytes(const View& view, const std::byte* memory,
                                                 const Slabs& slabs) {
    if (dense_.mapping == nullptr || dense_.extents != view.extents) {
      auto mapping = dense_like(view);
      if (!mapping) return mapping.error();
      dense_ = View::whole(std::move(*mapping));
    }
    lower_to(view, dense_);
    const auto bytes = static_cast<std::size_t>(view.bytes());
    if (nests_.size() == 1 && nests_[0].rank == 0) {
      return std::span(memory + nests_[0].source_offset, bytes);
    }
    const auto room = static_cast<std::size_t>(slabs.bytes());
    if (room_ < room) buffer_ = std::make_unique_for_overwrite<std::byte[]>(room);
    room_ = std::max(room_, room);
    copy_nests(nests_, memory, buffer_.get(), false);
    return std::span<const std::byte>(buffer_.get(), bytes);
  }

  const bool cold_;
  std::vector<LoopNest> nests_;
  View dense_;
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t room_ = 0;
};

/// Slabs of a copy that one thread takes at a time.
struct Chunk {
  std::size_t copy = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::uint32_t crc = 0;
  std::uint64_t bytes = 0;
};

/// Copies that several threads carry out together.
class Copying {
 public:
  Copying(std::span<CheckedCopy> copies, bool cold) : copies_(copies), cold_(cold) {
    for (const CheckedCopy& one : copies_) {
      const Slabs& slabs = slabs_.emplace_back(one.pair.target.view);
      const std::int64_t step = std::max<std::int64_t>(chunk_bytes / slabs.bytes(), 1);
      for (std::int64_t first = 0; first < slabs.count(); first += step) {
        chunks_.push_back({slabs_.size() - 1, first, std::min(first + step, slabs.count())});
      }
    }
  }

  std::size_t chunks() const { return chunks_.size(); }

  /// Takes chunks until there are none left, or one fails. Calls `check`, if there is one.
  void work(const std::function<Status()>* check) {
    const Status status = refusals_as_errors([&]() -> Status {
      SlabCopier copier(cold_);
      while (!failed_) {
        if (Status status = check != nullptr ? (*check)() : Status{}; !status) return status;
        const std::size_t next = next_++;
        if (next >= chunks_.size()) return {};
        if (Status status = take(copier, chunks_[next]); !status) return status;
      }
      return {};
    });
    if (status) return;
    const std::lock_guard lock(mutex_);
    if (!failed_) failure_ = status;
    failed_ = true;
  }

  /// Returns how it ended, and sets the checksums, once all threads have.
  Status finish() {
    if (failed_) return failure_;
    for (CheckedCopy& one : copies_) one.crc = 0;
    for (const Chunk& chunk : chunks_) {
      std::uint32_t& crc = copies_[chunk.copy].crc;
      crc = crc32c_joined(crc, chunk.crc, chunk.bytes);
    }
    return {};
  }

 private:
  Status take(SlabCopier& copier, Chunk& chunk) const {
    const CheckedCopy& whole = copies_[chunk.copy];
    const Slabs& slabs = slabs_[chunk.copy];
    for (std::int64_t k = chunk.first; k < chunk.last; ++k) {
      View slab = whole.pair.target.view;
      slabs.move(k, slab);
      chunk.bytes += static_cast<std::uint64_t>(slab.bytes());
      if (Status status = copier.copy(whole, slabs, k, chunk.crc); !status) return status;
    }
    return {};
  }

  const std::span<CheckedCopy> copies_;
  const bool cold_;
  std::vector<Slabs> slabs_;
  std::vector<Chunk> chunks_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  Status failure_;  ///< Of the first thread that failed.
};

/// Starts threads beside the caller's, so that there are `most` together, or fewer if the system
/// has no more.
void start_helpers(std::vector<std::jthread>& helpers, std::size_t most, Copying& copying) {
  try {
    while (helpers.size() + 1 < most) helpers.emplace_back([&] { copying.work(nullptr); });
  } catch (const std::system_error&) {
    return;
  }
}

}  // namespace

bool can_be_checked(const Array& array) {
  const bool here =
      array.memory_kind == MemoryKind::host || array.memory_kind == MemoryKind::shared;
  return here && array.place.attachment == nullptr && !array.stream;
}

Status copy_checked(std::span<CheckedCopy> copies, int threads, bool cold,
                    const std::function<Status()>& check) {
  return refusals_as_errors([&]() -> Status {
    std::vector<std::unique_ptr<CopyHere>> kept;
    for (const CheckedCopy& one : copies) {
      kept.push_back(std::make_unique<CopyHere>(one.pair.source, one.pair.target));
      if (!kept.back()->stands()) return kept.back()->status();
    }
    Copying copying(copies, cold);
    {
      const auto most = std::min(static_cast<std::size_t>(threads), copying.chunks());
      std::vector<std::jthread> helpers;
      start_helpers(helpers, most, copying);
      copying.work(&check);
    }
    return copying.finish();
  });
}

}  // namespace tranship::staging
