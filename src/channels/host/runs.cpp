#include "channels/host/runs.hpp"

#include <algorithm>
#include <cstring>

#include "channels/host/kernels.hpp"

namespace tranship {
namespace {

constexpr std::int64_t line_bytes = 64;
/// Bytes ahead of the copy, in the order of the list, that are on their way to the caches.
constexpr std::int64_t ahead_bytes = 4096;
/// Bytes at the beginning of a run that are prefetched: the processor sees the rest coming.
constexpr std::int64_t begin_bytes = 1024;
/// Shortest run, in bytes, that streaming stores write faster than stores through the cache.
constexpr std::int64_t streamed_least = 512;

void prefetch(const std::byte* first, std::int64_t bytes) {
  const std::int64_t end = std::min(bytes, begin_bytes);
  for (std::int64_t at = 0; at < end; at += line_bytes) __builtin_prefetch(first + at);
}

}  // namespace

void copy_runs(std::span<const Run> runs, const std::byte* source, std::byte* target, bool cold) {
  const host::Kernels& set = host::kernels();
  std::size_t next = 0;  // the first run that has not been prefetched
  std::int64_t ahead = 0;
  bool streamed = false;
  for (const Run& run : runs) {
    for (; next < runs.size() && ahead < ahead_bytes + run.bytes; ++next) {
      prefetch(source + runs[next].source_offset, runs[next].bytes);
      ahead += runs[next].bytes;
    }
    ahead -= run.bytes;
    const std::byte* from = source + run.source_offset;
    std::byte* to = target + run.target_offset;
    if (cold && run.bytes >= streamed_least) {
      set.stream(from, to, run.bytes);
      streamed = true;
    } else {
      std::memcpy(to, from, static_cast<std::size_t>(run.bytes));
    }
  }
  if (streamed) host::fence_streams();
}

}  // namespace tranship
