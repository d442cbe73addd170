// The order in which copies that are asked for together are started.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/copy_options.hpp"

namespace tranship {

/// Returns the numbers of the pairs in the order in which they are best started. Where several GPUs
/// send to several GPUs, the targets of each source take turns, and begin with the GPU after it:
/// if all sources sent to GPU 0 first, they would share its links while those of other GPUs had
/// nothing to do. All other pairs keep their order. The arrays' memories are known (is_resolved()).
std::vector<std::size_t> starting_order(std::span<const CopyPair> pairs);

}  // namespace tranship
