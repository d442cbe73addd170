// Several copies that are asked for together.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "engine/copy_runner.hpp"

namespace tranship {

/// Copies each source to its target: in one launch where one hop of one GPU carries the largest and
/// reaches all the others, else each by itself, beside the others.
/// @error as Engine::copy_all()
Result<Event> copy_all(CopyRunner& runner, std::span<const CopyPair> pairs,
                       const CopyOptions& options);

/// Joins several pairs into one copy of a GPU, `copy`, which is empty. Its offsets count from the
/// ends of the first pair. Returns its plan; null if no single launch carries them.
/// @error as Engine::copy_all()
Result<std::shared_ptr<const Plan>> join(CopyRunner& runner, std::span<const CopyPair> pairs,
                                         const CopyOptions& options, IndexedCopy& copy);

/// Starts pairs that join() has joined, and keeps their memory until the copy has ended.
/// @error as Engine::copy(), for what is found at the start
Result<Event> start_joined(CopyRunner& runner, const std::shared_ptr<const Plan>& plan,
                           std::span<const CopyPair> pairs, const CopyOptions& options,
                           const Cargo& cargo);

/// Copies each pair by itself, beside the others; the event is that of all.
/// @error as Engine::copy(): then none of them goes on
Result<Event> copy_each(CopyRunner& runner, std::span<const CopyPair> pairs,
                        const CopyOptions& options);

/// Calls `start` with each number below `count`, in this order, or the usual one if it is empty.
/// The event is that of all copies that it starts, with the plan of number 0; of none, that of a
/// copy of nothing with these options.
/// @error the first error of `start`: then none of them goes on
Result<Event> start_each(CopyRunner& runner, const CopyOptions& options, std::size_t count,
                         const std::function<Result<Event>(std::size_t)>& start,
                         std::span<const std::size_t> order = {});

}  // namespace tranship
