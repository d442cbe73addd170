// Packing in host memory, at once: for those who pack and send messages in every step.
//
//   const ts::Packer packer(column);      // a type of types.hpp
//   packer.pack(matrix, message);         // on the caller's thread, without an engine
#pragma once

#include <cstdint>
#include <memory>

#include "error.hpp"
#include "packer.h"
#include "types.hpp"

namespace tranship {

/// Packs and unpacks items of one type in memory that the caller gives by its address; nothing is
/// checked against its length. A value, whose copies share everything. Any thread may use it.
class Packer {
 public:
  /// @throws InvalidArgument for a negative count; OutOfRange for items beyond 2^61 bytes
  explicit Packer(const Datatype& type, std::int64_t count = 1) {
    tranship_packer* made = nullptr;
    detail::check(tranship_packer_new(type.handle(), count, &made));
    handle_ = std::shared_ptr<tranship_packer>(made, detail::Free<tranship_packer_free>{});
  }

  /// Returns the bytes of all items, packed.
  std::int64_t bytes() const noexcept { return tranship_packer_bytes(handle_.get()); }

  /// Copies the elements of the items at `items` to bytes() one behind the other, which may not
  /// overlap them.
  /// @throws Error with Code::unsupported for a type of millions of pieces
  void pack(const void* items, void* packed) const {
    detail::check(tranship_packer_pack(handle_.get(), items, packed));
  }

  /// Copies packed bytes to the elements of the items at `items`, and nothing between them.
  /// @throws InvalidArgument for a type that names a byte twice; as pack()
  void unpack(const void* packed, void* items) const {
    detail::check(tranship_packer_unpack(handle_.get(), packed, items));
  }

 private:
  std::shared_ptr<tranship_packer> handle_;
};

}  // namespace tranship
