// Names of memory that are the same in every process and for every mapping of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "os/mapped_files.hpp"

namespace tranship {

/// A place in a space of bytes: a file or shared memory of a machine, or the memory of one process.
/// Two places are the same bytes if, and only if, both members are equal.
struct MemoryName {
  std::string space;  ///< empty: not known
  std::int64_t offset = 0;
};

/// Returns the space of this process's own memory, GPUs' included; its offsets are addresses. Valid
/// until the thread ends or forks.
const std::string& own_space();

/// Returns the space of a file of this machine; its offsets are the file's.
std::string file_space(const FileNumber& file);

/// Returns whether processes of this machine may have mapped the space; false for the memory of a
/// process.
bool is_file_space(const std::string& space);

/// Returns the name of a range of this process's memory: the file's, if one file shows all of it
/// and changes with it. Asks the kernel.
MemoryName name_of_memory(const std::byte* begin, std::int64_t bytes);

}  // namespace tranship
