// Copies one shape in blocks that fit the inner caches.
#pragma once

#include "channels/host/box.hpp"
#include "channels/host/kernels.hpp"
#include "channels/host/prefetch.hpp"
#include "channels/host/shape.hpp"

namespace tranship::host {

/// Copies `shape` without blocking. For shapes that fit the caches.
/// next: Prefetches lines of what is copied next meanwhile.
void copy_direct(const Shape& shape, BoxCopier& boxes, Prefetcher& next);

/// Copies `shape` in blocks. Each block is a box with runs as long as can be on both sides. If
/// `cold`, a block is first gathered in the target's order in a buffer in the L1 or L2 cache and
/// then written with streaming stores in whole lines, so that the target is never read. The caller
/// fences.
void copy_blocked(const Shape& shape, const Kernels& set, bool cold);

/// The size of the buffer that copy_staged() needs.
inline constexpr std::int64_t stage_bytes_max = 176 << 10;

/// Returns whether the target of `block` consists of runs long enough to stream, and fits the
/// buffer.
bool fits_stage(const Shape& block);

/// Copies a block through the buffer `stage`. If `cold`, it streams, and prefetches `next`.
void copy_staged(const Shape& block, const Kernels& set, bool cold, std::byte* stage,
                 BoxCopier& boxes, Prefetcher& next);

/// Copies one run with streaming stores, and prefetches as many lines as it writes, so that misses
/// overlap with stores.
void stream_run(const std::byte* source, std::byte* target, std::int64_t bytes, const Kernels& set,
                Prefetcher& next);

}  // namespace tranship::host
