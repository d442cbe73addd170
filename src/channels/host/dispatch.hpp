// Chooses the method by which a shape is copied.
#pragma once

#include "channels/host/kernels.hpp"
#include "channels/host/shape.hpp"

namespace tranship::host {

/// Copies one shape by the method that suits its size and form. The caller fences if `cold`.
void copy_shape(const Shape& shape, const Kernels& set, bool cold);

}  // namespace tranship::host
