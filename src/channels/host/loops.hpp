// Copies of shapes whose two sides lie in the same order, by plain loops.
#pragma once

#include "channels/host/prefetch.hpp"
#include "channels/host/shape.hpp"

namespace tranship::host {

/// Whether plain loops copy the shape best: the source's strides grow as the target's do, so that
/// nothing is transposed, and the innermost loop is long enough.
bool suits_loops(const Shape& shape);

/// Copies a shape that suits_loops(), element by element in the target's order.
/// next: Prefetches lines of what is copied next meanwhile.
void copy_loops(const Shape& shape, Prefetcher& next);

}  // namespace tranship::host
