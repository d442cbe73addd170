// Index spaces, field spaces and layouts: the description of an array (Isometry, ICS'18,
// section 2).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace tranship {

/// Largest number of dimensions of an index space.
inline constexpr int dimensions_max = 16;
/// Largest number of terms of one dimension in a layout: three levels of blocks, and the rest.
inline constexpr int levels_max = 4;

struct Dimension {
  std::string name;
  std::int64_t extent = 0;  ///< number of indices, from 0
  bool operator==(const Dimension&) const = default;
};

struct Field {
  std::string name;
  std::string type;        ///< NumPy's name without byte order, such as "f4"
  std::int64_t bytes = 0;  ///< size of one value
  bool operator==(const Field&) const = default;
};

using IndexSpace = std::vector<Dimension>;
using FieldSpace = std::vector<Field>;

/// Returns the names of all dimensions, separated by commas; "none" if there are none.
std::string names_of(const IndexSpace& space);

/// One term of a layout: the field space, a block of a dimension, or the rest of the dimension.
struct Term {
  std::string dimension;   ///< empty: the field space F
  std::int64_t block = 0;  ///< indices in the block; 0: the rest of the dimension
  bool operator==(const Term&) const = default;
};

/// The order in which the elements of an array lie in memory, as terms, fastest first. "x:4, F, x"
/// is x in blocks of four, then the fields, then the blocks. Several blocks of one dimension nest
/// in the order in which they are written. To add a kind of term, see Term, parse() and
/// Mapping::make().
class Layout {
 public:
  /// Reads the text form. A layout that does not name F has the fields fastest.
  /// @error invalid_argument if the text is not a layout
  static Result<Layout> parse(std::string_view text);

  Layout() = default;
  explicit Layout(std::vector<Term> terms) : terms_(std::move(terms)) {}

  const std::vector<Term>& terms() const { return terms_; }
  /// Returns the text form, which parse() reads.
  std::string to_string() const;

  /// Checks that the layout describes arrays of that index space.
  /// @error invalid_argument if a dimension is missing, unknown, or has no unblocked term
  Status check(const IndexSpace& space) const;

  bool operator==(const Layout&) const = default;

 private:
  std::vector<Term> terms_;
};

}  // namespace tranship
