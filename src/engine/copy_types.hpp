// Copies between types: elements at places that types name, at either end.
#pragma once

#include <span>
#include <vector>

#include "datatypes/datatype.hpp"
#include "engine/copy_lists.hpp"

namespace tranship {

/// Two arrays that each fill one block of memory, and the types whose elements are copied; types
/// count from the first byte of their array.
struct TypedPair {
  CopyPair ends;
  Datatype source;
  Datatype target;
};

/// Checks that types and arrays can be the ends of a copy. Arrays of different pairs are not
/// compared.
/// @error as Engine::copy_types()
Status check_types(const TypedPair& pair);

/// Returns the pairs in as few groups as one copy of an indexed nest carries each: pairs whose
/// sources lie in one memory, and whose targets do. Arrays of other processes are groups of their
/// own.
std::vector<std::span<const TypedPair>> groups_of(std::span<const TypedPair> pairs);

/// Plans the pairs of one group as one copy of an indexed nest, whose ends keep all arrays alive;
/// the list goes into `copy`, which is empty.
/// @error as Engine::copy_types()
Result<ListPlan> plan_types(CopyRunner& runner, std::span<const TypedPair> group,
                            const CopyOptions& options, IndexedCopy& copy);

/// Copies all pairs; the event is that of all.
/// @error as Engine::copy_types(): then none of them goes on
Result<Event> copy_types(CopyRunner& runner, std::span<const TypedPair> pairs,
                         const CopyOptions& options);

}  // namespace tranship
