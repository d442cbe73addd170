// The byte offset of every (point, field) of an array, as a sum of one mixed-radix expression for
// each dimension. Layouts and NumPy strides are both converted to this form.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/layout.hpp"

namespace tranship {

struct DimensionSlice;

using Point = std::array<std::int64_t, dimensions_max>;

/// One digit of an index: `radix` values, `stride` bytes apart. The last level of a dimension has
/// as many values as needed, whatever its radix.
struct Level {
  std::int64_t radix = 1;
  std::int64_t stride = 0;
  bool operator==(const Level&) const = default;
};

/// The digits of one dimension, innermost block first.
struct Levels {
  int count = 1;
  std::array<Level, levels_max> level{};

  /// Returns the bytes from index 0 to `index`.
  std::int64_t offset(std::int64_t index) const {
    std::int64_t sum = 0;
    for (std::size_t k = 0; k + 1 < static_cast<std::size_t>(count); ++k) {
      sum += index % level[k].radix * level[k].stride;
      index /= level[k].radix;
    }
    return sum + index * level[static_cast<std::size_t>(count - 1)].stride;
  }
  bool operator==(const Levels&) const = default;
};

/// The offsets of one field.
struct Placement {
  Field field;
  std::int64_t offset = 0;  ///< bytes from the base to point 0
  std::array<Levels, dimensions_max> dimension{};
};

/// The offsets of all elements of an array. Immutable; shared between arrays, plans and threads.
class Mapping {
 public:
  /// Returns the dense mapping of `layout`. Blocks at the edges are padded to their full size.
  /// @error invalid_argument if a name, an extent, a field or the layout is not usable, or the size
  ///        does not fit 63 bits
  static Result<std::shared_ptr<const Mapping>> make(IndexSpace space, FieldSpace fields,
                                                     const Layout& layout);

  /// One field of a strided mapping: an offset, and one stride for each dimension, in bytes.
  struct StridedField {
    Field field;
    std::int64_t offset = 0;
    std::vector<std::int64_t> strides;
  };
  /// Returns a mapping with NumPy's strides.
  /// @error as make()
  static Result<std::shared_ptr<const Mapping>> make_strided(IndexSpace space,
                                                             std::vector<StridedField> fields);

  /// Returns a dense mapping of a smaller box with this mapping's layout, for intermediate buffers.
  /// It is cheap to make and has no key. For a strided mapping the layout follows the strides.
  std::shared_ptr<const Mapping> slot(const Point& extents) const;

  /// Returns a mapping of the same array with its dimensions in another order: dimension k of the
  /// result is dimension `order[k]` of this one.
  std::shared_ptr<const Mapping> permuted(const std::vector<int>& order) const;

  /// Returns the mapping of the part that `slices` select of the box that begins at `lower`. Use
  /// slice() (slice.hpp), which checks.
  std::shared_ptr<const Mapping> sliced(const Point& lower,
                                        const std::vector<DimensionSlice>& slices) const;

  const IndexSpace& space() const { return space_; }
  int rank() const { return static_cast<int>(space_.size()); }
  const std::vector<Placement>& fields() const { return fields_; }

  /// Returns the layout; for a strided mapping, the one that follows the order of the strides.
  const Layout& layout() const { return layout_; }
  bool strided() const { return strided_; }

  /// Return the lowest byte offset that an element occupies, and one past the highest; 0 if the
  /// array is empty.
  std::int64_t begin_bytes() const { return begin_bytes_; }
  std::int64_t end_bytes() const { return end_bytes_; }
  /// Returns the number of bytes between the two.
  std::int64_t span_bytes() const { return end_bytes_ - begin_bytes_; }
  /// Returns the bytes of one point: the sum over the fields.
  std::int64_t point_bytes() const { return point_bytes_; }

  /// Returns a text that is equal for equal mappings only, names of dimensions and fields included.
  const std::string& key() const { return key_; }
  std::uint64_t hash() const { return hash_; }
  /// Returns the type_number_of() the only field, if each dimension has one stride; else 0.
  std::int64_t type_number() const { return type_number_; }

 private:
  Mapping() = default;
  std::int64_t place();
  void finish();
  friend std::shared_ptr<Mapping> new_mapping();

  IndexSpace space_;
  std::vector<Placement> fields_;
  Layout layout_;
  bool strided_ = false;
  std::int64_t begin_bytes_ = 0;
  std::int64_t end_bytes_ = 0;
  std::int64_t point_bytes_ = 0;
  std::string key_;
  std::uint64_t hash_ = 0;
  std::int64_t type_number_ = 0;
};

/// A box of an array: one side of a copy.
struct View {
  std::shared_ptr<const Mapping> mapping;
  Point lower{};    ///< first index in each dimension of the mapping
  Point extents{};  ///< number of indices in each dimension

  /// Returns the view of the whole array.
  static View whole(std::shared_ptr<const Mapping> mapping);
  /// Returns the number of points in the box.
  std::int64_t points() const;
  std::int64_t bytes() const { return points() * mapping->point_bytes(); }
};

}  // namespace tranship
