#include "channels/file/carrier.hpp"

#include <algorithm>

namespace tranship::file {
namespace {

/// Bytes of a scratch buffer beside its window, for the parts of pages before and after a run.
constexpr std::int64_t padding_bytes = 2 * 64 * 1024;

/// Bytes that become resident when a short run is read through a map: at least a page.
constexpr std::int64_t page_bytes = 4096;

}  // namespace

Carrier::Carrier(const Copy& copy, const CopyLists& copy_lists, std::int64_t window_bytes)
    : copy_(copy),
      copy_lists_(copy_lists),
      scratch_(window_bytes + padding_bytes),
      members_(group_members_max),
      nests_(group_members_max) {}

Status Carrier::carry(const PieceTask& piece) {
  if (!piece.lists.empty()) return carry_lists(piece);
  if (piece.plan.whole) return carry_viewed(piece);
  members_.resize(piece.nests.size());
  nests_.resize(piece.nests.size());
  for (std::size_t i = 0; i < piece.nests.size(); ++i) {
    members_[i] = from_file(piece.nests[i], piece.file_base, piece.direction);
  }
  piece_ = piece_of(members_, piece.plan, piece.index);
  lowest_offset_ = lowest_offset(members_) + piece_.file_shift;
  switch (piece.plan.method) {
    case PieceMethod::straight: return carry_straight(piece);
    case PieceMethod::image: return carry_image(piece);
    case PieceMethod::viewed: break;
  }
  return carry_viewed(piece);
}

Status Carrier::carry_straight(const PieceTask& piece) {
  const FileNest& nest = members_.front();
  const std::int64_t bytes = piece_.bytes_end - piece_.bytes_begin;
  if (bytes <= 0) return {};
  const std::int64_t offset = lowest_offset_ + piece_.bytes_begin;
  std::byte* memory = piece.memory + piece_.memory_offset(nest) + piece_.bytes_begin;
  const bool reading = piece.direction == Direction::read;
  const int level = piece.plan.level;
  if (reading && bytes < direct_bytes_min && (level > 0 || piece_.count > 1)) {
    (void)for_each_run(nest, 0, level, piece_.count, [&](std::int64_t file, std::int64_t) {
      read_soon(*piece.file, offset + file, bytes);
      return Status{};
    });
  }
  return for_each_run(nest, 0, level, piece_.count, [&](std::int64_t file, std::int64_t shift) {
    return straight_run(piece, {offset + file, bytes, memory + shift});
  });
}

Status Carrier::straight_run(const PieceTask& piece, const FileRun& run) {
  File& file = *piece.file;
  const bool reading = piece.direction == Direction::read;
  const std::int64_t align = file.direct_align_bytes();
  const bool whole = (run.offset % align) == 0 && (run.bytes % align) == 0;
  const bool suits = direct_suits(file, run) && (whole || !reading);
  if (!file.direct() || run.bytes < direct_bytes_min || suits) {
    return reading ? read_run(file, run, false) : write_run(file, run);
  }
  // The I/O uses the scratch buffer, in which the run is aligned; a plain copy follows.
  const FileRun aligned{run.offset, run.bytes, scratch_.data() + run.offset % align};
  LoopNest plain;
  plain.element_bytes = run.bytes;
  if (!reading) {
    copy_({&plain, 1}, run.memory, aligned.memory, false);
    return write_run(file, aligned);
  }
  if (Status read = read_run(file, aligned, true); !read) return read;
  copy_({&plain, 1}, aligned.memory, run.memory, piece.cold);
  return {};
}

Carrier::Image Carrier::image_of(const PieceTask& piece) const {
  const PiecePlan& plan = piece.plan;
  Image image;
  image.io_bytes = span_bytes(members_, std::min(plan.dense, plan.level));
  const auto loop = [&](int k) { return members_.front().loops[static_cast<std::size_t>(k)]; };
  if (plan.dense > plan.level) {
    image.io_bytes += (piece_.count - 1) * loop(plan.level).file_stride;
  } else {
    for (int k = plan.dense; k < plan.level; ++k) image.ios *= loop(k).extent;
    image.ios *= piece_.count;
  }
  // A single I/O has the same offset in a page in memory as in the file, so that it can be direct.
  const std::int64_t align = piece.file->direct_align_bytes();
  image.data = scratch_.data() + (image.ios == 1 ? lowest_offset_ % align : 0);
  return image;
}

Status Carrier::carry_image(const PieceTask& piece) {
  const Image image = image_of(piece);
  if (piece.direction == Direction::write) {
    copy_image(piece, image, piece.plan.dense);
    return write_ios(piece, image);
  }
  if (piece.view != nullptr && image.ios == 1 &&
      (piece.cached || is_cached(*piece.file, lowest_offset_, image.io_bytes))) {
    return carry_viewed(piece);
  }
  if (Status read = read_ios(piece, image); !read) return read;
  copy_image(piece, image, piece.plan.dense);
  return {};
}

Status Carrier::read_ios(const PieceTask& piece, const Image& image) {
  File& file = *piece.file;
  if (image.ios == 1) {
    return read_run(file, {lowest_offset_, image.io_bytes, image.data}, true);
  }
  const FileNest& nest = members_.front();
  const PiecePlan& plan = piece.plan;
  (void)for_each_run(nest, plan.dense, plan.level, piece_.count,
                     [&](std::int64_t at, std::int64_t) {
                       read_soon(file, lowest_offset_ + at, image.io_bytes);
                       return Status{};
                     });
  std::byte* data = image.data;
  return for_each_run(
      nest, plan.dense, plan.level, piece_.count, [&](std::int64_t at, std::int64_t) {
        Status read = read_run(file, {lowest_offset_ + at, image.io_bytes, data}, false);
        data += image.io_bytes;
        return read;
      });
}

Status Carrier::write_ios(const PieceTask& piece, const Image& image) {
  if (image.ios == 1) {
    return write_run(*piece.file, {lowest_offset_, image.io_bytes, image.data});
  }
  const PiecePlan& plan = piece.plan;
  std::byte* data = image.data;
  return for_each_run(
      members_.front(), plan.dense, plan.level, piece_.count, [&](std::int64_t at, std::int64_t) {
        Status written = write_run(*piece.file, {lowest_offset_ + at, image.io_bytes, data});
        data += image.io_bytes;
        return written;
      });
}

/// dense: The image has the strides of the file in the loops below.
void Carrier::copy_image(const PieceTask& piece, const Image& image, int dense) {
  const bool reading = piece.direction == Direction::read;
  const PiecePlan& plan = piece.plan;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const FileNest& member = members_[i];
    LoopNest& nest = nests_[i];
    const std::int64_t image_offset = member.file_offset + piece_.file_shift - lowest_offset_;
    const std::int64_t memory_offset = piece_.memory_offset(member);
    nest.element_bytes = member.element_bytes;
    nest.source_offset = reading ? image_offset : memory_offset;
    nest.target_offset = reading ? memory_offset : image_offset;
    nest.rank = 0;
    std::int64_t packed_stride = image.io_bytes;
    for (int k = 0; k <= plan.level; ++k) {
      const FileLoop& loop = member.loops[static_cast<std::size_t>(k)];
      const std::int64_t extent = k == plan.level ? piece_.count : loop.extent;
      const std::int64_t image_stride = k < dense ? loop.file_stride : packed_stride;
      if (k >= dense) packed_stride *= extent;
      if (extent == 1) continue;
      nest.loops[static_cast<std::size_t>(nest.rank++)] =
          reading ? Loop{extent, image_stride, loop.memory_stride}
                  : Loop{extent, loop.memory_stride, image_stride};
    }
  }
  // The bytes to write are read from the scratch buffer at once, and so should stay in the caches.
  if (reading) {
    copy_(nests_, image.data, piece.memory, piece.cold);
  } else {
    copy_(nests_, piece.memory, image.data, false);
  }
}

Status Carrier::carry_viewed(const PieceTask& piece) {
  const PiecePlan& plan = piece.plan;
  const bool reading = piece.direction == Direction::read;
  if (!piece.cached && !reading) {
    // The kernel reads a page before a part of it is stored: start all these reads at once.
    (void)for_each_point(piece, [&](const FileRun& run) {
      read_soon(*piece.file, run.offset, run.bytes);
      return Status{};
    });
  }
  std::int64_t bytes = 0;
  if (plan.whole) {
    std::byte* start = piece.view->data() + piece.file_base;
    copy_(piece.nests, reading ? start : piece.memory, reading ? piece.memory : start,
          reading && piece.cold);
    for (const LoopNest& nest : piece.nests) bytes += std::max(nest.bytes(), page_bytes);
  } else {
    const FileLoop& loop = members_.front().loops[static_cast<std::size_t>(plan.level)];
    bytes = span_bytes(members_, plan.level) + (piece_.count - 1) * loop.file_stride;
    copy_image(piece, {.data = piece.view->data() + lowest_offset_}, plan.level + 1);
  }
  return is_seen(piece, bytes) ? Status{} : carry_points(piece);
}

Status Carrier::carry_lists(const PieceTask& piece) {
  std::byte* start = piece.view->data() + piece.file_base;
  std::int64_t bytes = 0;
  for (const IndexedNest& one : piece.lists) {
    bytes += std::max(one.bytes(), page_bytes * std::ssize(one.entries));
  }
  if (piece.direction == Direction::read) {
    copy_lists_(piece.lists, start, piece.memory, piece.cold);
  } else {
    copy_lists_(piece.lists, piece.memory, start, false);
  }
  if (is_seen(piece, bytes)) return {};
  std::vector<LoopNest> nests;
  expand(piece.lists, nests);
  PieceTask each = piece;
  each.lists = {};
  each.nests = nests;
  each.plan.whole = true;
  return carry_points(each);
}

/// Returns whether the bytes that were read or stored through the view are those of the file: the
/// view did not break, and the file was not cut.
bool Carrier::is_seen(const PieceTask& piece, std::int64_t bytes) const {
  if (piece.view->broken() || piece.file->size() < piece.file_end) return false;
  piece.file->note_viewed(*piece.view, bytes);
  return true;
}

/// Calls `visit` for each run that is contiguous on both sides, with its place in the file and in
/// memory.
template <typename Visit>
Status Carrier::for_each_point(const PieceTask& piece, Visit&& visit) const {
  for (std::size_t i = 0; i < piece.nests.size(); ++i) {
    FileNest nest;
    if (piece.plan.whole) {
      nest = from_file(piece.nests[i], piece.file_base, piece.direction);
      if (nest.empty()) continue;
    } else {
      nest = members_[i];
      nest.memory_offset = piece_.memory_offset(nest);
      nest.file_offset += piece_.file_shift;
    }
    const int level = piece.plan.whole ? nest.rank : piece.plan.level;
    const std::int64_t count = piece.plan.whole ? 1 : piece_.count;
    Status visited = for_each_run(nest, 0, level, count, [&](std::int64_t at, std::int64_t shift) {
      return visit(FileRun{nest.file_offset + at, nest.element_bytes,
                           piece.memory + nest.memory_offset + shift});
    });
    if (!visited) return visited;
  }
  return {};
}

/// Carries run by run by system calls, after the view broke: they return the error that broke it,
/// if it lasts.
Status Carrier::carry_points(const PieceTask& piece) {
  if (piece.direction == Direction::write && piece.file->size() < piece.file_end) {
    piece.file->mark_incomplete();
    return too_short(*piece.file, piece.file_end);
  }
  return for_each_point(piece, [&](const FileRun& run) {
    return piece.direction == Direction::read ? read_run(*piece.file, run, false)
                                              : write_run(*piece.file, run);
  });
}

}  // namespace tranship::file
