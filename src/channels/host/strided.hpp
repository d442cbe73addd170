// Loops over strided elements, without any assumption about strides or alignment.
#pragma once

#include "channels/host/kernels.hpp"

namespace tranship::host {

/// Returns the plain kernel for elements of `element_bytes`: two nested loops, axis 0 inside.
GridKernel strided_kernel(std::int64_t element_bytes);

}  // namespace tranship::host
