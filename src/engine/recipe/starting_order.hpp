// The order in which copies that are asked for together are started.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/copy_options.hpp"

namespace tranship {

/// Returns the numbers of the pairs in the order in which they are best started; empty if that is
/// the pairs' own. Where several GPUs send to several GPUs, the targets of each source take turns,
/// first those whose numbers follow the source's: if all sources sent to GPU 0 first, they would
/// share its links while those of other GPUs had nothing to do. The arrays' memories are known
/// (is_resolved()).
std::vector<std::size_t> starting_order(std::span<const CopyPair> pairs);

}  // namespace tranship
