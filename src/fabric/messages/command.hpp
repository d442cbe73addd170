// Commands of a requester: a packed slot, and where its bytes belong in the exporting process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "data/loop_nest.hpp"
#include "data/run.hpp"

namespace tranship::fabric {

enum class Operation : std::uint32_t {
  write = 1,
  read = 2,
  call = 3,    ///< the slot holds a question for the exporting process, and then its answer
  notice = 4,  ///< the slot holds a notice of a copy to or from the export (copy_notice.hpp)
};

/// The fixed part of a command, as it lies in a slot; nests follow as 64-bit words: element bytes,
/// offset, rank, then (extent, stride) for each loop. With a nest count of 0, runs follow: offset
/// and bytes of each. The packed side is implied: dense, in the order of the loops, nest after
/// nest, or run after run.
struct CommandHeader {
  std::uint64_t sequence = 0;
  std::uint64_t export_id = 0;
  std::uint32_t operation = 0;
  std::uint32_t cold = 0;
  std::uint32_t nest_count = 0;
  std::uint32_t word_count = 0;
  std::int64_t bytes = 0;

  bool operator==(const CommandHeader&) const = default;
};

constexpr std::int64_t command_bytes_max = 16 * 1024;
constexpr std::size_t command_words_max =
    static_cast<std::size_t>(command_bytes_max - static_cast<std::int64_t>(sizeof(CommandHeader))) /
    sizeof(std::int64_t);

/// Returns the number of words of a nest of `rank` loops.
constexpr std::size_t command_words(int rank) { return 3 + 2 * static_cast<std::size_t>(rank); }

constexpr std::size_t run_words = 2;

/// Collects the nests or the runs of one slot. Reused from slot to slot; never allocates after
/// construction.
class CommandWriter {
 public:
  explicit CommandWriter(std::int64_t bytes_max);

  /// Starts a new command, with room for `bytes_max` packed bytes.
  void reset(std::int64_t bytes_max);

  /// Adds one piece. Sets `local` to the nest between the requester's array and the packed slot,
  /// with the packed side as target (write) or source (read).
  /// Returns false, and changes nothing, if the slot has no room for the piece.
  bool add(const LoopNest& piece, Operation operation, LoopNest& local);

  /// Whether the command has room for a run of at least one byte.
  bool room_for_run() const {
    return bytes_left() > 0 && words_.size() + run_words <= command_words_max;
  }
  /// Adds a run of at most bytes_left() to a command that has room for it and no nests. Returns the
  /// run between the requester's array and the packed slot.
  Run add(Run run, Operation operation);

  std::int64_t bytes() const { return bytes_; }
  std::int64_t bytes_left() const { return bytes_max_ - bytes_; }
  std::uint32_t nest_count() const { return nest_count_; }

  /// Writes the command to `target` (command_bytes_max bytes) and returns its length.
  std::size_t write(CommandHeader header, std::byte* target) const;

 private:
  std::int64_t bytes_max_;
  std::int64_t bytes_ = 0;
  std::uint32_t nest_count_ = 0;
  std::vector<std::int64_t> words_;
};

/// A command whose values have been checked against the array and the slot.
struct Command {
  CommandHeader header;
  std::vector<LoopNest> nests;  ///< from the slot into the array (write) or back (read)
  std::vector<Run> runs;        ///< instead of nests
};

/// Reads the fixed part of a command from memory that a peer may change at the same time.
CommandHeader read_header(const std::byte* source);

/// Takes a private copy of the command's words and checks each value: no value that a peer writes
/// can lead outside [0, export_bytes) of the array or [0, slot_bytes) of the slot.
Status read_nests(const std::byte* source, std::int64_t slot_bytes, std::int64_t export_bytes,
                  std::vector<std::int64_t>& scratch, Command& command);

/// First and one-past-last byte that a nest touches on one side, relative to that side's base.
struct Extent {
  std::int64_t first = 0;
  std::int64_t end = 0;
};
enum class Side { source, target };
Result<Extent> touched(const LoopNest& nest, Side side);

}  // namespace tranship::fabric
