// Several copies that are asked for together.
#pragma once

#include <span>

#include "engine/copy_runner.hpp"

namespace tranship {

/// Copies each source to its target: in one launch where one hop of one GPU carries the largest and
/// reaches all the others, else each by itself, beside the others.
/// @error as Engine::copy_all()
Result<Event> copy_all(CopyRunner& runner, std::span<const CopyPair> pairs,
                       const CopyOptions& options);

/// Copies each pair by itself, beside the others; the event is that of all.
/// @error as Engine::copy(): then none of them goes on
Result<Event> copy_each(CopyRunner& runner, std::span<const CopyPair> pairs,
                        const CopyOptions& options);

}  // namespace tranship
