// The canonical form of a type: where its bytes lie, and where they lie once they are packed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/indexed_nest.hpp"
#include "datatypes/type_tree.hpp"

namespace tranship {

/// A nest, and the places at which it lies. The source side of all offsets and strides is the
/// memory that the type describes, the target side the packed bytes: the elements one behind the
/// other.
struct TypePart {
  LoopNest nest;
  std::int64_t source_step = 0;  ///< between two moves of one entry
  std::int64_t target_step = 0;
  std::vector<IndexedEntry> entries;

  bool operator==(const TypePart&) const = default;
};

/// A contiguous run of a type's bytes, and where it lies once it is packed.
struct PackedRun {
  std::int64_t offset = 0;
  std::int64_t packed = 0;
  std::int64_t bytes = 0;
};

/// Where the bytes of a type lie, as nests and lists of nests. Law: types whose runs are equal,
/// that is, which list the same bytes in the same order, have equal forms, however they were built,
/// if they have at most `runs_canonical` runs or are one nest. (Of larger types the form follows
/// how they were built; types that were built of lists of runs have canonical forms of any size.)
class TypeForm {
 public:
  static constexpr std::int64_t runs_canonical = 4096;

  static TypeForm of(const TypeTree& tree);

  const std::vector<TypePart>& parts() const { return parts_; }
  std::int64_t bytes() const { return bytes_; }
  /// Contiguous runs, if they were counted; else an upper bound.
  std::int64_t runs() const { return runs_; }
  /// Whether the type is one run of bytes; then the offset at which it begins.
  std::optional<std::int64_t> run_offset() const;

  bool operator==(const TypeForm& other) const {
    return bytes_ == other.bytes_ && parts_ == other.parts_;
  }

 private:
  std::vector<TypePart> parts_;
  std::int64_t bytes_ = 0;
  std::int64_t runs_ = 0;
};

/// Appends the runs of a form in the order of the packed bytes.
void append_runs(const TypeForm& form, std::vector<PackedRun>& runs);

/// Whether no two runs of the form share a byte. False also if that cannot be shown.
bool is_disjoint(const TypeForm& form);

/// Whether a byte belongs to both forms, when the second counts from `distance` bytes behind the
/// first's begin. True also if they have too many runs to find out.
bool share_bytes(const TypeForm& first, const TypeForm& second, std::int64_t distance);

}  // namespace tranship
