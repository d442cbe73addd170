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

/// Returns whether all pages are in memory, so that to map them allocates none. `address` begins a
/// page.
bool pages_are_there(std::byte* address, std::int64_t bytes);

/// Returns whether a page is not in memory; false if the system does not say. `address` begins it.
bool page_is_gone(std::byte* address);

/// Bytes of neighbouring pages, from an offset on.
struct PageRun {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};
/// Returns the longest run of pages that are in memory, of those from `address` on, which begins a
/// page; 0 bytes if none is.
PageRun longest_run(std::byte* address, std::int64_t bytes);

/// Returns whether the process may map so many bytes more, whose pages need not be there.
bool has_address_space(std::int64_t bytes);

/// Lets the calling thread give way to those that do what somebody waits for.
void lower_priority();

}  // namespace tranship
