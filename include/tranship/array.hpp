// Arrays and instances: what one end of a copy, a put or a get names.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "array.h"
#include "error.hpp"
#include "instance.h"
#include "layout.hpp"

namespace tranship {

/// How a dense array lies in memory.
enum class Order {
  c = TRANSHIP_C_ORDER,              ///< the last index is fastest
  fortran = TRANSHIP_FORTRAN_ORDER,  ///< the first index is fastest
};

/// A contiguous range of elements, such as a std::vector<double> or a std::span<const float>.
template <typename R>
concept ElementRange = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
                       Element<std::remove_cv_t<std::ranges::range_value_t<R>>>;

/// An array of the caller's: an address, an element type, extents and strides. A value that refers
/// to the memory and does not own it: the memory must stay valid until every copy, put or get with
/// the array has ended. It may lie on a GPU, if this process uses GPUs.
class Array {
 public:
  /// One number for each dimension.
  using Indices = std::span<const std::int64_t>;

  /// An array of `extents.size()` dimensions at `data`, dense in `order`. Of const elements: it may
  /// only be read.
  /// @throws InvalidArgument for more than TRANSHIP_RANK_MAX dimensions
  template <typename T>
    requires Element<std::remove_cv_t<T>>
  Array(T* data, Indices extents, Order order = Order::c) : read_only_(std::is_const_v<T>) {
    array_.data = const_cast<std::remove_cv_t<T>*>(data);
    array_.type = type_name<std::remove_cv_t<T>>();
    array_.order = static_cast<int>(order);
    array_.rank = set(array_.extents, extents, "extents");
  }
  template <typename T>
    requires Element<std::remove_cv_t<T>>
  Array(T* data, std::initializer_list<std::int64_t> extents, Order order = Order::c)
      : Array(data, Indices(extents.begin(), extents.size()), order) {}

  /// The elements of a range, in one dimension or as a dense array of `extents`.
  /// @throws InvalidArgument if the range has fewer elements than the extents ask for
  template <ElementRange R>
  explicit Array(R&& values)
      : Array(std::ranges::data(values), {static_cast<std::int64_t>(std::ranges::size(values))}) {}
  template <ElementRange R>
  Array(R&& values, std::initializer_list<std::int64_t> extents, Order order = Order::c)
      : Array(std::ranges::data(values), extents, order) {
    check_size(std::ranges::size(values), Indices(extents.begin(), extents.size()));
  }

  /// Returns the same array with other strides: bytes from one index to the next in each dimension;
  /// they may be negative.
  /// @throws InvalidArgument if there are not as many as dimensions
  Array with_strides(std::initializer_list<std::int64_t> strides) const {
    Array made = *this;
    made.set_all(made.array_.strides, Indices(strides.begin(), strides.size()), "strides");
    return made;
  }

  /// Returns the same array as a box of a variable that begins at these indices. The staging
  /// service uses them, the engine does not.
  /// @throws as with_strides()
  Array at(Indices lower) const {
    Array made = *this;
    made.set_all(made.array_.lower, lower, "lower indices");
    return made;
  }
  /// Returns the same, with the indices as a list.
  Array at(std::initializer_list<std::int64_t> lower) const {
    return at(Indices(lower.begin(), lower.size()));
  }

  /// Returns whether the array is of const elements.
  bool read_only() const noexcept { return read_only_; }
  /// Returns the array as C has it.
  const tranship_array& c() const noexcept { return array_; }
  /// Returns the same, to be written.
  /// @throws InvalidArgument for const elements
  const tranship_array& writable_c() const {
    if (!read_only_) return array_;
    throw InvalidArgument("the target is an array of const elements",
                          "pass an array of elements that may be written");
  }

 private:
  static int set(std::int64_t (&to)[TRANSHIP_RANK_MAX], Indices from, const char* what) {
    if (from.size() > TRANSHIP_RANK_MAX) {
      throw InvalidArgument("the array has " + std::to_string(from.size()) + " " + what,
                            "give at most " + std::to_string(TRANSHIP_RANK_MAX));
    }
    std::ranges::copy(from, to);
    return static_cast<int>(from.size());
  }

  void set_all(std::int64_t (&to)[TRANSHIP_RANK_MAX], Indices from, const char* what) const {
    if (set(to, from, what) == array_.rank) return;
    throw InvalidArgument("the array has " + std::to_string(from.size()) + " " + what + " and " +
                              std::to_string(array_.rank) + " dimensions",
                          "give as many as dimensions");
  }

  static void check_size(std::size_t size, Indices extents) {
    std::size_t left = size;
    for (const std::int64_t extent : extents) {
      if (extent < 1) return;  // the library refuses it
      left /= static_cast<std::size_t>(extent);
    }
    if (left > 0) return;
    throw InvalidArgument(
        "the range has " + std::to_string(size) + " elements, fewer than the extents ask for",
        "give a longer range or smaller extents");
  }

  tranship_array array_{};
  bool read_only_ = false;
};

/// Memory with a layout, a file, or an array of another process: one end of a copy. An engine makes
/// it. Owns a reference, not the caller's memory: memory that the caller gave must stay valid until
/// every copy with the instance has ended; memory that the library allocated stays as long as an
/// instance or a copy refers to it. Does not change; any thread may use it.
class Instance {
 public:
  /// Takes ownership of a handle of the C API.
  explicit Instance(tranship_instance* handle) noexcept : handle_(handle) {}

  /// Returns a part of the same memory: each range is counted from this instance's first index, and
  /// dimensions that are not named are whole. The dimensions of an Array are d0, d1 and so on.
  /// @throws InvalidArgument for a name that it does not have; OutOfRange
  Instance part(const std::vector<Range>& ranges) const {
    const auto given = detail::c_ranges(ranges);
    tranship_instance* made = nullptr;
    detail::check(tranship_instance_part(handle(), given.data(),
                                         static_cast<std::int64_t>(given.size()), &made));
    return Instance(made);
  }

  /// Returns an instance of the same memory that copies, and processes to which it is exported, may
  /// only read.
  Instance read_only() const {
    tranship_instance* made = nullptr;
    detail::check(tranship_instance_read_only(handle(), &made));
    return Instance(made);
  }

  /// Returns the address of its memory; null for a file and for an array of another process.
  void* data() const noexcept { return tranship_instance_data(handle()); }
  /// Returns its memory as elements: all that a dense layout of one field holds.
  template <Element T>
  std::span<T> elements() const noexcept {
    return {static_cast<T*>(data()), data() != nullptr ? size_bytes() / sizeof(T) : 0};
  }
  /// Returns the bytes of all elements, without padding.
  std::size_t size_bytes() const noexcept {
    return static_cast<std::size_t>(tranship_instance_bytes(handle()));
  }
  tranship_instance* handle() const noexcept { return handle_.get(); }

 private:
  std::unique_ptr<tranship_instance, detail::Free<tranship_instance_free>> handle_;
};

}  // namespace tranship
