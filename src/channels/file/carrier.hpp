// What one thread of a file channel does with one piece.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "channels/file/file.hpp"
#include "channels/file/file_io.hpp"
#include "channels/file/pieces.hpp"
#include "runtime/channel.hpp"

namespace tranship {

/// One piece of a request, for a Carrier.
struct FilePiece {
  File* file = nullptr;
  FileDirection direction = FileDirection::read;
  std::span<const LoopNest> nests;  ///< of the group
  std::int64_t file_base = 0;
  std::byte* memory = nullptr;
  bool cold = false;
  Cut cut;
  std::int64_t index = 0;
};

/// Carries pieces one after the other. Owns a scratch buffer of one window.
/// Threads: one.
class Carrier {
 public:
  using Copy = std::function<void(std::span<const LoopNest>, const std::byte*, std::byte*, bool)>;

  Carrier(const Copy& copy, std::int64_t window_bytes);

  Status carry(const FilePiece& piece);

 private:
  /// A place in memory that stands for a range of the file, with the same strides below
  /// `Cut::dense`; the I/Os above lie one after the other.
  struct Image {
    std::byte* data = nullptr;
    std::int64_t io_bytes = 0;
    std::int64_t ios = 1;
  };

  Status carry_straight(const FilePiece& piece);
  Status carry_image(const FilePiece& piece);
  Status carry_mapped(const FilePiece& piece);
  Status write_runs(const FilePiece& piece, std::byte* window);
  Status read_ios(const FilePiece& piece, const Image& image);
  Status write_ios(const FilePiece& piece, const Image& image);
  Status straight_run(const FilePiece& piece, const FileRun& run);
  Image image_of(const FilePiece& piece) const;
  void copy_image(const FilePiece& piece, const Image& image);

  const Copy& copy_;
  ScratchBuffer scratch_;
  std::vector<FileNest> members_;
  std::vector<LoopNest> nests_;
  Piece piece_;
  std::int64_t lowest_offset_ = 0;  ///< of the group's first byte in this piece
};

}  // namespace tranship
