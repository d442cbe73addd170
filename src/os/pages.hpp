// Requests about pages of memory that older headers lack, and the priority of threads that make
// them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tranship {

/// Maps pages, many at a time, before they are read or written. `address` begins a page.
/// Returns false if the kernel refuses, as those before Linux 5.14 do.
bool map_for_reading(std::byte* address, std::int64_t bytes);
bool map_for_writing(std::byte* address, std::int64_t bytes);

/// Lets the calling thread give way to those that do what somebody waits for.
void lower_priority();

}  // namespace tranship
