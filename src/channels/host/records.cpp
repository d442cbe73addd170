#include "channels/host/records.hpp"

#include <algorithm>

namespace tranship::host {
namespace {

/// Longest record that is copied by its pieces; longer ones are runs of their own.
constexpr std::int64_t record_bytes_max = 256;

bool has_axis(const Shape& shape, const Axis& axis) {
  return std::any_of(shape.axes, shape.axes + shape.rank, [&](const Axis& other) {
    return other.extent == axis.extent && other.source_stride == axis.source_stride &&
           other.target_stride == axis.target_stride;
  });
}

/// Collects the pieces of a record.
class Collector {
 public:
  explicit Collector(WholeRecords& records) : records_(records) {}

  /// Adds the pieces of `shape` along its axes from `k` on, without those of the records.
  bool add(const Shape& shape, const ElementPiece& piece, int k) {
    while (k < shape.rank && has_axis(records_.shape, shape.axes[k])) ++k;
    if (k == shape.rank) {
      if (count_ == pieces_max) return false;
      records_.pieces[count_++] = piece;
      return true;
    }
    const Axis& axis = shape.axes[k];
    ElementPiece next = piece;
    for (std::int64_t i = 0; i < axis.extent; ++i) {
      if (!add(shape, next, k + 1)) return false;
      next.source += axis.source_stride;
      next.target += axis.target_stride;
    }
    return true;
  }

  /// Sorts the pieces by their places in the target, and joins those that are one run.
  void finish() {
    ElementPiece* pieces = records_.pieces;
    Shape& shape = records_.shape;
    std::sort(pieces, pieces + count_,
              [](const ElementPiece& a, const ElementPiece& b) { return a.target < b.target; });
    const std::int64_t first = pieces[0].target;
    std::size_t joined = 0;
    shape.element_bytes = 0;
    shape.dense = true;
    for (std::size_t k = 0; k < count_; ++k) {
      ElementPiece piece = pieces[k];
      piece.target -= first;
      shape.dense = shape.dense && piece.target == shape.element_bytes;
      shape.element_bytes += piece.bytes;
      if (joined > 0) {
        ElementPiece& last = pieces[joined - 1];
        if (last.source + last.bytes == piece.source && last.target + last.bytes == piece.target) {
          last.bytes += piece.bytes;
          continue;
        }
      }
      pieces[joined++] = piece;
    }
    shape.target += first;
    shape.pieces = {pieces, joined};
  }

 private:
  WholeRecords& records_;
  std::size_t count_ = 0;
};

}  // namespace

bool join_records(std::span<const Shape> shapes, WholeRecords& records) {
  const Shape& first = shapes[0];
  Shape& shape = records.shape;
  shape = first;
  shape.rank = 0;
  for (int k = 0; k < first.rank; ++k) {
    const bool common = std::all_of(shapes.begin(), shapes.end(), [&](const Shape& other) {
      return has_axis(other, first.axes[k]);
    });
    if (common) shape.axes[shape.rank++] = first.axes[k];
  }
  if (shape.rank == 0) return false;
  Collector collector(records);
  for (const Shape& other : shapes) {
    const ElementPiece piece{other.source - first.source, other.target - first.target,
                             other.element_bytes};
    if (!collector.add(other, piece, 0)) return false;
  }
  collector.finish();
  return shape.element_bytes <= record_bytes_max;
}

}  // namespace tranship::host
