// Copies between types.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "array.hpp"
#include "copy_options.hpp"
#include "end.hpp"
#include "engine_handle.hpp"
#include "event.hpp"
#include "prepared_copy.hpp"
#include "types.h"
#include "types.hpp"

namespace tranship {

/// Two instances, which must stay during the call, and the types whose elements are copied. Each
/// instance is one block of memory without gaps, from whose first byte its type counts.
struct TypedPair {
  const Instance* source = nullptr;
  const Instance* target = nullptr;
  Datatype source_type{};  ///< no type: as many raw bytes as the other has, from the first byte on
  Datatype target_type{};  ///< the same; one of the two is given
};

namespace detail {

inline std::vector<tranship_typed_pair> c_pairs(std::span<const TypedPair> pairs) {
  std::vector<tranship_typed_pair> ends;
  for (const TypedPair& pair : pairs) {
    ends.push_back({pair.source->handle(), pair.target->handle(), pair.source_type.handle(),
                    pair.target_type.handle()});
  }
  return ends;
}

}  // namespace detail

/// What an engine does with types: a base of Engine. Each end fills one block of memory, from whose
/// first byte its type counts.
class TypedCopies : public detail::EngineHandle {
 public:
  /// Starts a copy between types: the elements of `source_type` go to the places of `target_type`,
  /// one by one in their order. For raw bytes at one end give {} as its type. The options have no
  /// region.
  /// @throws as Engine::copy(); OutOfRange for a type that reaches outside its end; InvalidArgument
  ///         for types of different elements, a target's type that names a byte twice, and an end
  ///         with gaps; Error with Code::unsupported for two types that divide each other into
  ///         millions of pieces
  Event copy(End source, End target, const Datatype& source_type, const Datatype& target_type,
             const CopyOptions& options = {}) const {
    const Held from = held(source, false);
    const Held to = held(target, true);
    const tranship_typed_pair pair{from.handle(), to.handle(), source_type.handle(),
                                   target_type.handle()};
    return started(options, [&](const tranship_copy_options& given, tranship_event** made) {
      return tranship_copy_types(handle(), &pair, 1, &given, made);
    });
  }

  /// Starts several copies between types; the event is that of the end of all. Pairs between the
  /// same two memories are one copy, in one launch on a GPU. No two targets may overlap, and no
  /// target may overlap the source of another pair; neither is checked.
  /// @throws as copy(), for any pair; then none of the copies goes on
  Event copy_types(std::span<const TypedPair> pairs, const CopyOptions& options = {}) const {
    const std::vector<tranship_typed_pair> ends = detail::c_pairs(pairs);
    return started(options, [&](const tranship_copy_options& given, tranship_event** made) {
      return tranship_copy_types(handle(), ends.data(), static_cast<std::int64_t>(ends.size()),
                                 &given, made);
    });
  }

  /// Prepares what copy() or copy_types() would start, to start it again and again. The options
  /// have neither a region nor events, a stream or a notice.
  /// @throws as those
  PreparedCopy prepare(End source, End target, const Datatype& source_type,
                       const Datatype& target_type, const CopyOptions& options = {}) const {
    const Held from = held(source, false);
    const Held to = held(target, true);
    const tranship_typed_pair pair{from.handle(), to.handle(), source_type.handle(),
                                   target_type.handle()};
    return prepared(options, [&](const tranship_copy_options& given, tranship_prepared** made) {
      return tranship_prepare_types(handle(), &pair, 1, &given, made);
    });
  }
  PreparedCopy prepare_types(std::span<const TypedPair> pairs,
                             const CopyOptions& options = {}) const {
    const std::vector<tranship_typed_pair> ends = detail::c_pairs(pairs);
    return prepared(options, [&](const tranship_copy_options& given, tranship_prepared** made) {
      return tranship_prepare_types(handle(), ends.data(), static_cast<std::int64_t>(ends.size()),
                                    &given, made);
    });
  }

  /// Packs the elements of a type, of several items with types::contiguous(): they lie one behind
  /// the other in `packed`. Waits for the end; copy() with the types `type` and {} does not.
  /// @throws as copy() and Event::wait()
  void pack(End source, const Datatype& type, End packed, const CopyOptions& options = {}) const {
    copy(source, packed, type, {}, options).wait();
  }
  /// Returns the packed elements in memory of their own.
  std::vector<std::byte> pack(End source, const Datatype& type,
                              const CopyOptions& options = {}) const {
    const auto bytes = static_cast<std::size_t>(type.bytes());
    std::vector<std::byte> packed(std::max<std::size_t>(bytes, 1));  // an array has an element
    pack(source, type, Array(packed), options);
    packed.resize(bytes);
    return packed;
  }

  /// Writes packed elements to the places that a type names, the reverse of pack(). Waits for the
  /// end.
  /// @throws as copy() and Event::wait()
  void unpack(End packed, End target, const Datatype& type, const CopyOptions& options = {}) const {
    copy(packed, target, {}, type, options).wait();
  }

 protected:
  using EngineHandle::EngineHandle;
};

}  // namespace tranship
