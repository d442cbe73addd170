// Carries one piece of a request, on a thread of a file channel.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "channels/file/file.hpp"
#include "channels/file/file_io.hpp"
#include "channels/file/pieces.hpp"
#include "runtime/channel.hpp"

namespace tranship::file {

/// One piece of a request, with all that a Carrier needs.
struct PieceTask {
  File* file = nullptr;
  Direction direction = Direction::read;
  std::span<const LoopNest> nests;     ///< nests of the group
  std::span<const IndexedNest> lists;  ///< carried through the view, in place of the nests
  std::int64_t file_base = 0;
  std::byte* memory = nullptr;
  bool cold = false;
  const FileMap* view = nullptr;  ///< null: none
  bool cached = false;            ///< whether all that the request touches is in the page cache
  std::int64_t file_end = 0;      ///< of all that the request touches
  PiecePlan plan;
  std::int64_t index = 0;
};

/// Carries pieces, one after another. Owns a scratch buffer of one window.
/// Threads: one.
class Carrier {
 public:
  using Copy = std::function<void(std::span<const LoopNest>, const std::byte*, std::byte*, bool)>;
  using CopyLists =
      std::function<void(std::span<const IndexedNest>, const std::byte*, std::byte*, bool)>;

  Carrier(const Copy& copy, const CopyLists& copy_lists, std::int64_t window_bytes);

  Status carry(const PieceTask& piece);

 private:
  /// A range of memory that mirrors a range of the file, with the same strides below
  /// `PiecePlan::dense`. The I/Os of the loops above are contiguous in it.
  struct Image {
    std::byte* data = nullptr;
    std::int64_t io_bytes = 0;
    std::int64_t ios = 1;
  };

  Status carry_straight(const PieceTask& piece);
  Status carry_image(const PieceTask& piece);
  Status carry_viewed(const PieceTask& piece);
  bool is_seen(const PieceTask& piece, std::int64_t bytes) const;
  Status carry_points(const PieceTask& piece);
  Status carry_lists(const PieceTask& piece);
  template <typename Visit>
  Status for_each_point(const PieceTask& piece, Visit&& visit) const;
  Status read_ios(const PieceTask& piece, const Image& image);
  Status write_ios(const PieceTask& piece, const Image& image);
  Status straight_run(const PieceTask& piece, const FileRun& run);
  Image image_of(const PieceTask& piece) const;
  void copy_image(const PieceTask& piece, const Image& image, int dense);

  const Copy& copy_;
  const CopyLists& copy_lists_;
  ScratchBuffer scratch_;
  std::vector<FileNest> members_;
  std::vector<LoopNest> nests_;
  PiecePosition piece_;
  std::int64_t lowest_offset_ = 0;  ///< file offset of the group's first byte in this piece
};

}  // namespace tranship::file
