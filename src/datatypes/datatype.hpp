// Types in the sense of MPI (MPI-4.1, chapter 5): a sequence of elements and their places.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "datatypes/signature.hpp"
#include "datatypes/type_tree.hpp"

namespace tranship {

class TypeForm;

/// How one dimension of an array is dealt out to a grid of processes (MPI-4.1, section 5.1.4).
struct Distribution {
  enum class Kind { none, block, cyclic };
  Kind kind = Kind::none;
  /// Indices of a block; 0: the default, which is an even share for blocks, and 1 for cyclic ones.
  std::int64_t argument = 0;
};

/// The order in which the dimensions of an array lie in memory: C's has the last one contiguous.
enum class ArrayOrder { c, fortran };

/// A type: elements, the byte at which each lies, counted from the address that a copy is given,
/// and the extent, which is the distance from one item of the type to the next. Lengths and strides
/// of constructors that begin with `h`, and displacements of structures, are in bytes; all others
/// count extents of the base. A value, whose copies share everything. Threads: all. Every
/// constructor has the error invalid_argument for negative counts and for lists of different
/// lengths, out_of_range for bytes beyond 2^61, and unsupported for types nested deeper than
/// `depth_max` or with more places than `places_max`.
class Datatype {
 public:
  static constexpr int depth_max = 20;
  /// Most places that lists within lists name.
  static constexpr std::int64_t places_max = std::int64_t{1} << 26;

  /// One element, such as "f8". @error as Element::parse()
  static Result<Datatype> element(const std::string& type);

  static Result<Datatype> contiguous(std::int64_t count, const Datatype& base);
  /// Returns the type of raw bytes in a row. The thread remembers the last ones, so that those of
  /// one size share their form.
  static Result<Datatype> raw(std::int64_t bytes);
  static Result<Datatype> vector(std::int64_t count, std::int64_t block_length, std::int64_t stride,
                                 const Datatype& base);
  static Result<Datatype> hvector(std::int64_t count, std::int64_t block_length,
                                  std::int64_t stride_bytes, const Datatype& base);
  static Result<Datatype> indexed(std::span<const std::int64_t> block_lengths,
                                  std::span<const std::int64_t> displacements,
                                  const Datatype& base);
  static Result<Datatype> hindexed(std::span<const std::int64_t> block_lengths,
                                   std::span<const std::int64_t> displacements_bytes,
                                   const Datatype& base);
  static Result<Datatype> indexed_block(std::int64_t block_length,
                                        std::span<const std::int64_t> displacements,
                                        const Datatype& base);
  static Result<Datatype> hindexed_block(std::int64_t block_length,
                                         std::span<const std::int64_t> displacements_bytes,
                                         const Datatype& base);
  /// The extent is rounded up to the strictest alignment of the elements, as in C, unless a base
  /// was resized.
  static Result<Datatype> structure(std::span<const std::int64_t> block_lengths,
                                    std::span<const std::int64_t> displacements_bytes,
                                    std::span<const Datatype> bases);
  /// A box of an array; the extent is that of the array.
  static Result<Datatype> subarray(std::span<const std::int64_t> sizes,
                                   std::span<const std::int64_t> subsizes,
                                   std::span<const std::int64_t> starts, ArrayOrder order,
                                   const Datatype& base);
  /// The part of an array that process `rank` of a grid has; the extent is that of the array.
  /// Processes are numbered with the last dimension of the grid fastest.
  static Result<Datatype> darray(std::int64_t rank, std::span<const std::int64_t> sizes,
                                 std::span<const Distribution> distributions,
                                 std::span<const std::int64_t> grid, ArrayOrder order,
                                 const Datatype& base);
  static Result<Datatype> resized(std::int64_t lower_bound, std::int64_t extent,
                                  const Datatype& base);

  std::int64_t bytes() const { return tree_.bytes(); }  ///< of the elements
  std::int64_t lower_bound() const { return lower_; }
  std::int64_t extent() const { return upper_ - lower_; }
  /// The lowest byte that an element occupies, and one past the highest; 0 if there is none.
  std::int64_t true_lower_bound() const;
  std::int64_t true_upper_bound() const;
  const Signature& signature() const { return signature_; }
  const TypeTree& tree() const { return tree_; }
  /// How it was built, such as "vector(4, 1, 8, f8)"; long lists are cut.
  const std::string& text() const { return text_; }

  /// Returns the canonical form of the type's bytes. The first call makes it.
  const TypeForm& form() const;
  /// Whether no two elements share a byte, so that the type may be written to. False also if that
  /// cannot be shown: for more than 16 million runs that are not loops side by side. The first call
  /// finds out.
  bool disjoint() const;

 private:
  friend class DatatypeMaker;
  struct Kept;

  TypeTree tree_;
  std::int64_t lower_ = 0;
  std::int64_t upper_ = 0;
  bool lower_is_set_ = false;  ///< by resized(), subarray() or darray(), here or in a base
  bool upper_is_set_ = false;
  std::int64_t alignment_ = 1;
  Signature signature_;
  std::string text_;
  std::shared_ptr<Kept> kept_;
};

/// Whether the elements of `source` may be copied to those of `target`: both have the same sequence
/// of elements, or one has raw bytes alone, and as many.
/// @error invalid_argument
Status check_elements(const Datatype& source, const Datatype& target);

}  // namespace tranship
