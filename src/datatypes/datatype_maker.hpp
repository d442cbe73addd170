// How constructors of types build them; for src/datatypes alone.
#pragma once

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "datatypes/datatype.hpp"
#include "datatypes/type_form.hpp"

namespace tranship {

struct Datatype::Kept {
  std::once_flag form_once;
  std::optional<TypeForm> form;
  std::once_flag disjoint_once;
  bool disjoint = false;
};

/// Builds a type block by block: its bounds, its elements, and at last its tree.
class DatatypeMaker {
 public:
  /// Offsets and sizes stay below 2^61 bytes, so that sums of two do not overflow.
  static bool fits(__int128 value) {
    constexpr __int128 most = __int128{1} << 61;
    return value < most && value > -most;
  }
  static Error too_large() {
    return {ErrorCode::out_of_range, "the type reaches beyond 2^61 bytes",
            "give smaller counts or displacements"};
  }
  static Error negative(const char* name, std::int64_t value) {
    return {ErrorCode::invalid_argument,
            std::string(name) + "=" + std::to_string(value) + " is negative", "give 0 or more"};
  }

  /// text: How the type is built; only its beginning is kept if it is long.
  explicit DatatypeMaker(std::string text) {
    constexpr std::size_t text_most = 240;
    if (text.size() > text_most) text = text.substr(0, text_most) + "...";
    made_.text_ = std::move(text);
  }

  /// Adds `length` items of the base from `displacement` on, to the bounds and the elements.
  /// @error invalid_argument; out_of_range
  Status add_block(std::int64_t length, __int128 displacement, const Datatype& base);
  /// Adds the elements of a base, whose bounds are known.
  void elements(const Signature& signature, const Datatype& base);
  /// Widens the bounds by a block. Where bounds were set by resized(), they count alone (MPI-4.1,
  /// section 5.1.7).
  /// @error out_of_range
  Status add_bounds(std::int64_t length, __int128 displacement, const Datatype& base);
  void set_bounds(std::int64_t lower, std::int64_t upper);
  /// Rounds the extent up to the alignment of the elements, unless it was set.
  void align();
  /// @error unsupported
  Result<Datatype> finish(TypeTree tree);

 private:
  Datatype made_;
  std::optional<std::int64_t> lower_;
  std::optional<std::int64_t> upper_;
  __int128 bytes_ = 0;
};

}  // namespace tranship
