// Types in the sense of MPI (MPI-4.1, chapter 5): elements, and the bytes at which they lie.
//
//   const ts::Datatype number = ts::types::of<double>();
//   const ts::Datatype column = ts::types::vector(512, 1, 512, number);  // of a 512 x 512 matrix
//   engine.pack(ts::Array(matrix), column, ts::Array(packed));
//   engine.copy(ts::Array(matrix), ts::Array(row), column, ts::types::contiguous(512, number));
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "array.hpp"
#include "error.hpp"
#include "layout.hpp"
#include "types.h"

namespace tranship {

/// A type: which bytes are moved, and in which order. A value, whose copies share everything; it
/// belongs to no engine and does not change. Any thread may use it. The functions of
/// tranship::types make them.
class Datatype {
 public:
  /// No type. As one end of a copy: as many raw bytes as the other end's type has.
  Datatype() noexcept = default;
  /// Takes ownership of a handle of the C API.
  explicit Datatype(tranship_type* handle) : handle_(handle, detail::Free<tranship_type_free>{}) {}

  /// Returns the bytes of the elements, as many as they have side by side.
  std::int64_t bytes() const noexcept { return tranship_type_bytes(handle()); }
  /// Returns the bytes from one item of the type to the next.
  std::int64_t extent() const noexcept { return tranship_type_extent(handle()); }
  /// Returns the byte at which the extent begins; it may be negative.
  std::int64_t lower_bound() const noexcept { return tranship_type_lower_bound(handle()); }
  /// Returns the lowest byte that an element occupies; 0 if there is none.
  std::int64_t true_lower_bound() const noexcept {
    return tranship_type_true_lower_bound(handle());
  }
  /// Returns one past the highest byte that an element occupies; 0 if there is none.
  std::int64_t true_upper_bound() const noexcept {
    return tranship_type_true_upper_bound(handle());
  }
  /// Returns in how many contiguous runs the elements lie, at most.
  std::int64_t runs() const noexcept { return tranship_type_runs(handle()); }
  /// Returns whether no two elements share a byte, so that elements may be written to the type's
  /// places; false also if that cannot be shown.
  bool disjoint() const noexcept { return tranship_type_disjoint(handle()) != 0; }
  /// Returns how it was built, such as "vector(4, 1, 8, f8)", with long lists cut.
  std::string text() const { return tranship_type_text(handle()); }

  const tranship_type* handle() const noexcept { return handle_.get(); }

 private:
  std::shared_ptr<tranship_type> handle_;
};

/// Constructors of types. Displacements and strides count extents of the base, except in hvector(),
/// hindexed(), hindexed_block() and structure(), where they are bytes; both may be negative. Each
/// throws InvalidArgument for negative counts and for lists of different lengths, OutOfRange for
/// bytes beyond 2^61, and Error with Code::unsupported for types that are nested deeper than 20
/// levels or list more than 2^26 places.
namespace types {

/// A list in a call: a contiguous range, or members in braces. Made in the call alone.
template <typename T>
class List {
 public:
  List(std::initializer_list<T> members) noexcept : members_(members.begin(), members.size()) {}
  template <typename R>
    requires std::convertible_to<const R&, std::span<const T>>
  List(const R& members) : members_(members) {}

  const T* data() const noexcept { return members_.data(); }
  std::int64_t size() const noexcept { return static_cast<std::int64_t>(members_.size()); }
  auto begin() const noexcept { return members_.begin(); }
  auto end() const noexcept { return members_.end(); }

 private:
  std::span<const T> members_;
};
using Numbers = List<std::int64_t>;

}  // namespace types

namespace detail {

/// Returns the type that a constructor of the C API writes.
template <typename Make>
Datatype made_type(const Make& make) {
  tranship_type* made = nullptr;
  check(make(&made));
  return Datatype(made);
}

/// @throws InvalidArgument for lists of different lengths
inline void check_as_many(std::int64_t size, std::initializer_list<std::int64_t> others,
                          const char* lists) {
  for (const std::int64_t other : others) {
    if (other == size) continue;
    throw InvalidArgument(std::string(lists) + " have different lengths: " + std::to_string(size) +
                              " and " + std::to_string(other),
                          "give as many of each");
  }
}

}  // namespace detail

namespace types {

/// Returns the type of one element, named as NumPy does: "f8", "i4", "c16", or "V1" for a raw byte.
/// @throws InvalidArgument for a name that is none
inline Datatype element(const std::string& name) {
  return detail::made_type(
      [&](tranship_type** made) { return tranship_type_element(name.c_str(), made); });
}

/// Returns the type of one element: of<double>() is that of "f8".
template <Element T>
Datatype of() {
  return element(type_name<T>());
}

/// Returns `count` items, one extent of the base apart.
inline Datatype contiguous(std::int64_t count, const Datatype& base) {
  return detail::made_type(
      [&](tranship_type** made) { return tranship_type_contiguous(count, base.handle(), made); });
}

/// Returns `count` blocks of `block_length` items, `stride` extents of the base apart.
inline Datatype vector(std::int64_t count, std::int64_t block_length, std::int64_t stride,
                       const Datatype& base) {
  return detail::made_type([&](tranship_type** made) {
    return tranship_type_vector(count, block_length, stride, base.handle(), made);
  });
}

/// Returns what vector() does, with the stride in bytes.
inline Datatype hvector(std::int64_t count, std::int64_t block_length, std::int64_t stride_bytes,
                        const Datatype& base) {
  return detail::made_type([&](tranship_type** made) {
    return tranship_type_hvector(count, block_length, stride_bytes, base.handle(), made);
  });
}

/// Returns blocks of different lengths at any places. `block_lengths`: items of each block;
/// `displacements`: extents of the base from the begin to each block, as many.
inline Datatype indexed(Numbers block_lengths, Numbers displacements, const Datatype& base) {
  detail::check_as_many(block_lengths.size(), {displacements.size()},
                        "block_lengths and displacements");
  return detail::made_type([&](tranship_type** made) {
    return tranship_type_indexed(block_lengths.size(), block_lengths.data(), displacements.data(),
                                 base.handle(), made);
  });
}

/// Returns what indexed() does, with the displacements in bytes.
inline Datatype hindexed(Numbers block_lengths, Numbers displacements_bytes, const Datatype& base) {
  detail::check_as_many(block_lengths.size(), {displacements_bytes.size()},
                        "block_lengths and displacements_bytes");
  return detail::made_type([&](tranship_type** made) {
    return tranship_type_hindexed(block_lengths.size(), block_lengths.data(),
                                  displacements_bytes.data(), base.handle(), made);
  });
}

/// Returns blocks of one length at any places.
inline Datatype indexed_block(std::int64_t block_length, Numbers displacements,
                              const Datatype& base) {
  return detail::made_type([&](tranship_type** made) {
    return tranship_type_indexed_block(displacements.size(), block_length, displacements.data(),
                                       base.handle(), made);
  });
}

/// Returns what indexed_block() does, with the displacements in bytes.
inline Datatype hindexed_block(std::int64_t block_length, Numbers displacements_bytes,
                               const Datatype& base) {
  return detail::made_type([&](tranship_type** made) {
    return tranship_type_hindexed_block(displacements_bytes.size(), block_length,
                                        displacements_bytes.data(), base.handle(), made);
  });
}

/// Returns blocks of different types: `block_lengths[k]` items of `bases[k]` at byte
/// `displacements_bytes[k]`. The extent is rounded up to the strictest alignment of the elements,
/// as in C, unless a base was resized, or is a subarray or darray.
inline Datatype structure(Numbers block_lengths, Numbers displacements_bytes,
                          List<Datatype> bases) {
  detail::check_as_many(block_lengths.size(), {displacements_bytes.size(), bases.size()},
                        "block_lengths, displacements_bytes and bases");
  std::vector<const tranship_type*> handles;
  for (const Datatype& base : bases) handles.push_back(base.handle());
  return detail::made_type([&](tranship_type** made) {
    return tranship_type_struct(block_lengths.size(), block_lengths.data(),
                                displacements_bytes.data(), handles.data(), made);
  });
}

/// Returns a box of an array; the extent is that of the whole array. `sizes`: items of the array in
/// each dimension; `subsizes`: of the box; `starts`: the first index of the box.
/// @throws InvalidArgument for a box outside the array
inline Datatype subarray(Numbers sizes, Numbers subsizes, Numbers starts, const Datatype& base,
                         Order order = Order::c) {
  detail::check_as_many(sizes.size(), {subsizes.size(), starts.size()},
                        "sizes, subsizes and starts");
  return detail::made_type([&](tranship_type** made) {
    return tranship_type_subarray(static_cast<int>(sizes.size()), sizes.data(), subsizes.data(),
                                  starts.data(), static_cast<int>(order), base.handle(), made);
  });
}

/// How one dimension of an array is dealt out to processes.
struct Distribution {
  enum class Kind {
    none = TRANSHIP_UNDISTRIBUTED,  ///< each process has all indices
    block = TRANSHIP_BLOCK,         ///< each process has one block of indices
    cyclic = TRANSHIP_CYCLIC,       ///< blocks go to the processes in turns
  };
  Kind kind = Kind::none;
  std::int64_t block_length = 0;  ///< indices of a block; 0: an even share, 1 for cyclic ones
};

/// Returns the part of an array that one process of a grid has; the extent is that of the whole
/// array. `rank`: number of the process, with the last dimension of the grid fastest; `grid`:
/// processes in each dimension, 1 where nothing is dealt out; `order`: of the array.
/// @throws InvalidArgument for a process outside the grid, and for blocks that do not cover their
///         dimension
inline Datatype darray(std::int64_t rank, Numbers sizes, List<Distribution> distributions,
                       Numbers grid, const Datatype& base, Order order = Order::c) {
  detail::check_as_many(sizes.size(), {distributions.size(), grid.size()},
                        "sizes, distributions and grid");
  std::vector<tranship_distribution> dealt;
  for (const Distribution& one : distributions) {
    dealt.push_back({static_cast<int>(one.kind), one.block_length});
  }
  return detail::made_type([&](tranship_type** made) {
    return tranship_type_darray(rank, static_cast<int>(sizes.size()), sizes.data(), dealt.data(),
                                grid.data(), static_cast<int>(order), base.handle(), made);
  });
}

/// Returns the same elements with other bounds: an item begins at byte `lower_bound`, and the next
/// one `extent` bytes further.
inline Datatype resized(const Datatype& base, std::int64_t lower_bound, std::int64_t extent) {
  return detail::made_type([&](tranship_type** made) {
    return tranship_type_resized(base.handle(), lower_bound, extent, made);
  });
}

}  // namespace types
}  // namespace tranship
