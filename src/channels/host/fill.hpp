// Copies of elements that the source holds once and the target many times, as of a broadcast array.
#pragma once

#include "channels/host/kernels.hpp"
#include "channels/host/shape.hpp"

namespace tranship::host {

/// Returns whether the innermost axis repeats one element of the source in a run of the target, or
/// a short one at places that lie apart.
bool suits_fill(const Shape& shape);

/// Copies a shape that suits_fill(). cold: Whether to write past the caches.
void copy_fill(const Shape& shape, const Kernels& set, bool cold);

}  // namespace tranship::host
