// What a call asks to copy, read from Python.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/lent_vector.hpp"
#include "bindings.hpp"
#include "engine/region.hpp"
#include "integer_lists.hpp"

namespace tranship::python {

using Region = std::vector<NamedRange>;

/// Returns the ranges of a region from Python; none for None.
Region region_of(nb::handle region);

/// Gives each array without an owner one that keeps its memory alive after the call.
void own(CopyPair& ends, nb::handle source, nb::handle target);

/// Returns the casting rule that Python gave; None: numbers keep their types.
/// @throws InvalidArgument for an unknown rule
Casting casting_of(nb::handle cast);

/// cast: As for casting_of().
/// @throws InvalidArgument for an unknown planner or rule
CopyOptions copy_options(int priority, nb::handle planner, std::int64_t buffer_bytes,
                         nb::handle cast);

/// The two arrays of a copy, as Python objects.
using ObjectPair = std::pair<nb::object, nb::object>;

/// How arrays are read.
struct Reading {
  Hold held = Hold::object;
  Follows follows = Follows::current;
  std::vector<ObjectPair>* objects = nullptr;  ///< gets the arrays as objects, unless it is null
};

/// An iterable of tuples (source, target, type of the source or None, type of the target or None).
using TypedPairs =
    nb::typed<nb::iterable, nb::typed<nb::tuple, nb::object, nb::object, nb::object, nb::object>>;

/// What a call asks to copy. Owns its arrays; lists of integers are the caller's.
class ReadRequest {
 public:
  void read(nb::handle source, nb::handle target, const Region& region, const Reading& reading);
  void read_all(const Pairs& pairs, const Reading& reading);
  void read_pages(nb::handle source, nb::handle target, nb::handle source_pages,
                  nb::handle target_pages, const Reading& reading);
  void read_pieces(nb::handle source, nb::handle target, nb::handle source_offsets,
                   nb::handle target_offsets, nb::handle lengths, const Reading& reading);
  /// None for a type stands for raw bytes.
  void read_types(const TypedPairs& pairs, const Reading& reading);

  const std::vector<CopyPair>& pairs() const { return *pairs_; }
  /// Returns the request, which refers to this object.
  CopyRequest with(const CopyOptions& options) const {
    if (typed_) return {*pairs_, std::span<const TypePair>(types_), options};
    return {*pairs_, parts_, options};
  }

 private:
  LentVector<CopyPair> pairs_;
  bool typed_ = false;
  std::vector<TypePair> types_;
  std::optional<IntegerLists> lists_;
  decltype(CopyRequest::parts) parts_{};
};

}  // namespace tranship::python
