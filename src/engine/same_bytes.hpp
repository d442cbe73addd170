// Finds out where two arrays show the same bytes, through whatever mappings, connections and files.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/array.hpp"
#include "os/memory_name.hpp"

namespace tranship {

/// Returns the distance in bytes from the source's base to the target's, in the memory, the file or
/// the process in which both lie. Two mappings of the same bytes count as one. No value: no byte of
/// the one can be a byte of the other. Memory that `backing` or its address shows to be this
/// process's own costs no system call; see mapped_parts() for other memory.
///
/// Two kinds of aliases are not found: GPU memory that the program itself maps at two addresses
/// (cuMemMap), and GPU memory of another process that the program has opened by itself.
std::optional<std::int64_t> distance_between(const Array& source, const Array& target);

/// Whether the bytes among which all elements of one array lie are none of the other's.
/// distance: What distance_between() returned.
bool lie_apart(const Mapping& source, const Mapping& target, std::int64_t distance);

/// Returns the name under which other processes find the same bytes. The array is this process's.
MemoryName name_of_export(const Array& array);

}  // namespace tranship
