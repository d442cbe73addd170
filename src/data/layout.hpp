// What an array is: its index space, its fields, and the order in which they lie in memory
// (Isometry, ICS'18, section 2).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace tranship {

/// Most dimensions that an index space may have.
inline constexpr int dimensions_max = 8;
/// Most terms that one dimension may have in a layout: blocks of blocks of blocks, and the rest.
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

/// One element of a layout vector: the field space, a block of a dimension, or the rest of it.
struct Term {
  std::string dimension;   ///< empty: the field space F
  std::int64_t block = 0;  ///< indices in the block; 0: all that the blocks leave
  bool operator==(const Term&) const = default;
};

/// A linearization order, fastest term first. "x:4, F, x" is x in blocks of four, then the fields,
/// then the blocks. Several blocks of one dimension nest in the order in which they are written.
class Layout {
 public:
  /// Reads the text form. A layout that does not name F has the fields fastest.
  /// @error invalid_argument if the text is not a layout
  static Result<Layout> parse(std::string_view text);

  Layout() = default;
  explicit Layout(std::vector<Term> terms) : terms_(std::move(terms)) {}

  const std::vector<Term>& terms() const { return terms_; }
  std::string to_string() const;

  /// @error invalid_argument if a dimension is missing, unknown, or has no unblocked term
  Status check(const IndexSpace& space) const;

  bool operator==(const Layout&) const = default;

 private:
  std::vector<Term> terms_;
};

}  // namespace tranship
