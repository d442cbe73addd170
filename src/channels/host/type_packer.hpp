// Packing in host memory, at once: the elements of a type, one behind the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/error.hpp"
#include "datatypes/datatype.hpp"

namespace tranship {

/// Packs and unpacks items of one type, on the calling thread, in memory that it can read and
/// write. Packing and unpacking are compiled when they are first used. A value: copies
/// share the programs. Threads: all.
class TypePacker {
 public:
  /// @error invalid_argument, out_of_range as Datatype::contiguous()
  static Result<TypePacker> make(const Datatype& type, std::int64_t count);

  /// Returns the packed bytes of all items.
  std::int64_t bytes() const { return type_.bytes(); }

  /// Copies the elements of the items at `items` to bytes(). Two mappings of the same memory are
  /// not noticed.
  /// @error invalid_argument if their addresses overlap; unsupported as lower_types(); then nothing
  /// is copied
  Status pack(const std::byte* items, std::byte* packed) const;

  /// Copies packed bytes to the elements of the items at `items`, and nothing between them.
  /// @error as pack(), and invalid_argument if the type names a byte twice; then nothing is copied
  Status unpack(const std::byte* packed, std::byte* items) const;

 private:
  struct Programs;

  explicit TypePacker(Datatype type);
  Status check(const std::byte* items) const;

  Datatype type_;
  std::shared_ptr<Programs> programs_;
};

}  // namespace tranship
