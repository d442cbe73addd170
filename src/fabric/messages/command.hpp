// What a requester asks of an exporting process: a packed slot and where its bytes belong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "data/loop_nest.hpp"

namespace tranship::fabric {

enum class Operation : std::uint32_t {
  write = 1,
  read = 2,
  call = 3,  ///< the slot holds a question for the exporting process, and then its answer
};

/// The fixed part of a command as it lies in a slot; nests follow as 64-bit words: element bytes,
/// offset, rank, then (extent, stride) for each loop. The packed side is implied: dense, in the
/// order of the loops, nest after nest.
struct CommandHeader {
  std::uint64_t sequence = 0;
  std::uint64_t export_id = 0;
  std::uint32_t operation = 0;
  std::uint32_t cold = 0;
  std::uint32_t nest_count = 0;
  std::uint32_t word_count = 0;
  std::int64_t bytes = 0;
};

constexpr std::int64_t command_bytes_max = 16 * 1024;
constexpr std::size_t command_words_max =
    static_cast<std::size_t>(command_bytes_max - static_cast<std::int64_t>(sizeof(CommandHeader))) /
    sizeof(std::int64_t);

/// Words that a nest of `rank` loops takes.
constexpr std::size_t command_words(int rank) { return 3 + 2 * static_cast<std::size_t>(rank); }

/// Collects the nests of one slot. Reused from slot to slot; never allocates after construction.
class CommandWriter {
 public:
  explicit CommandWriter(std::int64_t bytes_max);

  /// Begins anew, with room for so many packed bytes.
  void reset(std::int64_t bytes_max);

  /// Adds one piece. `local` gets the nest between the requester's array and the packed slot,
  /// with the packed side as target (write) or source (read).
  /// Returns false, and changes nothing, if the slot has no room for it.
  bool add(const LoopNest& piece, Operation operation, LoopNest& local);

  std::int64_t bytes() const { return bytes_; }
  std::uint32_t nest_count() const { return nest_count_; }

  /// Writes the command to `target` (command_bytes_max bytes) and returns its length.
  std::size_t write(CommandHeader header, std::byte* target) const;

 private:
  std::int64_t bytes_max_;
  std::int64_t bytes_ = 0;
  std::uint32_t nest_count_ = 0;
  std::vector<std::int64_t> words_;
};

/// A command checked against everything that it may touch.
struct Command {
  CommandHeader header;
  std::vector<LoopNest> nests;  ///< from the slot into the array (write) or back (read)
};

/// Reads the fixed part from memory that a peer may be changing at the same time.
CommandHeader read_header(const std::byte* source);

/// Takes a private copy of the command's words and checks each value: nothing that a peer writes
/// can lead outside [0, export_bytes) of the array or [0, slot_bytes) of the slot.
/// @error invalid_argument if a value is impossible; out_of_range if it lies outside
Status read_nests(const std::byte* source, std::int64_t slot_bytes, std::int64_t export_bytes,
                  std::vector<std::int64_t>& scratch, Command& command);

/// First and one-past-last byte that `nest` touches on the given side, from that side's base.
struct Extent {
  std::int64_t first = 0;
  std::int64_t end = 0;
};
enum class Side { source, target };
Result<Extent> touched(const LoopNest& nest, Side side);

}  // namespace tranship::fabric
