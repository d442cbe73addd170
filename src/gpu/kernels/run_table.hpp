// Contiguous runs in a table, as kernels read them.
#pragma once

#include <cstdint>

#include "data/run.hpp"

namespace tranship::gpu {

/// Runs, as a table of two numbers for each: first those of all sources, then those of all targets.
/// A run begins `offset + number * step` bytes from its side's address. If runs differ in length,
/// the lengths follow, in units of `length_step` bytes.
struct RunTable {
  const std::uint32_t* numbers = nullptr;
  std::int64_t count = 0;
  std::int64_t bytes = 0;  ///< of each run; 0: they differ
  std::int64_t length_step = 1;
  std::int64_t source_offset = 0;
  std::int64_t target_offset = 0;
  std::int64_t source_step = 1;
  std::int64_t target_step = 1;
};

}  // namespace tranship::gpu
