// Copies between many blocks of memory of one GPU, which are named by their addresses.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "data/piece_lowering.hpp"
#include "engine/copy_runner.hpp"

namespace tranship {

/// Copies `lengths[k]` bytes from the address `source_offsets[k]` to `target_offsets[k]`, all in
/// the memory of a GPU; no two targets may overlap. Returns nothing, before anything moves, if no
/// single launch carries them in the short form of a list: few, long ones, or short neighbours.
/// held: Keeps the memory until the copy has ended.
/// @error invalid_argument for two blocks of a pair that overlap; as Engine::copy()
Result<std::optional<Event>> copy_blocks(CopyRunner& runner, int device, const PieceLists& blocks,
                                         const CopyOptions& options, std::shared_ptr<void> held);

}  // namespace tranship
