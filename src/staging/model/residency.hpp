// Where the objects of a staging server lie: in its memory, on its disk, or on their way. Decides
// what goes and what comes; moves nothing and knows no clock.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/heap.hpp"
#include "staging/model/move.hpp"

namespace tranship::staging {

/// Objects begin at whole multiples of it.
constexpr std::int64_t object_alignment = 256;
/// More than any disk has.
constexpr std::int64_t spill_bytes_unlimited = std::int64_t{1} << 60;

/// The objects of one server, by their numbers.
/// Laws: an object that is pinned, wanted or may not leave yet stays in memory, if it is there. An
/// object leaves memory once the disk has it whole, and not before. What came back keeps its place
/// on the disk, so that it may leave again without a move. Whoever waits for memory here holds
/// none, so that nobody waits in a circle. Costs are logarithms of the number of objects. Not
/// thread-safe.
class Residency {
 public:
  struct Options {
    std::int64_t memory_bytes = 0;
    std::int64_t segment_bytes = 0;
    std::int64_t spill_bytes = 0;  ///< that the disk may take; 0: nothing goes there
    /// Makes a segment of so many bytes, numbered 0, 1, 2, …, whose pages need not be there.
    std::function<Status(std::int64_t bytes)> make_segment;
    /// Takes the pages of a segment. Empty: segments are made with theirs.
    std::function<Status(int segment)> take_pages{};
  };
  explicit Residency(Options options);

  /// Takes free memory for an object, which stays there until may_leave(). False: there is none, or
  /// others have waited for it longer. `ready`: somebody is about to write it; else its pages need
  /// not be there before take_pages().
  /// @error out_of_memory if the system has none
  Result<bool> place(std::uint64_t object, std::int64_t bytes, bool ready = true);
  /// Somebody is about to write the object, whose pages are there from now on.
  /// @error out_of_memory if the system has none: ask again later, or drop() the object
  Status take_pages(std::uint64_t object);
  /// Whether its pages are there.
  bool has_pages(std::uint64_t object) const;
  /// From now on the object may leave memory, of those that may those of low `age` first.
  void may_leave(std::uint64_t object, std::uint64_t age);
  /// It is needed no more. What is being moved of it stays until the move has ended.
  void drop(std::uint64_t object);

  /// Keeps it in memory until unpin(). False if it is not there.
  bool pin(std::uint64_t object);
  void unpin(std::uint64_t object);
  /// Asks for it to come, and to stay until unwant(); ask_again() after a failure.
  void want(std::uint64_t object);
  void unwant(std::uint64_t object);
  void ask_again(std::uint64_t object);
  /// Why it could not be read since the last call.
  std::optional<Error> take_failure(std::uint64_t object);

  /// Makes room of what may leave: true if something has left memory at once, so that place() may
  /// succeed. Else moves may have begun that will make room, if the disk takes them.
  bool let_go(std::int64_t bytes);

  /// What is to be carried out, in this order.
  std::vector<Move> take_moves();
  /// How a move ended.
  void ended(const Move& move, const Status& status);

  /// Its memory. Of no segment while it is not there.
  Range range(std::uint64_t object) const;
  bool spills() const { return options_.spill_bytes > 0; }
  /// Whether it would have room if nothing else were there, without more memory of the system.
  bool could_hold(std::int64_t bytes) const { return heap_.rounded(bytes) <= segment_largest_; }
  /// Memory of which the system has no pages yet.
  std::int64_t sparse_bytes() const { return sparse_.bytes(); }
  /// Objects are on their way to disk.
  bool leaving() const { return leaving_bytes_ > 0; }
  /// Nothing is in memory.
  bool empty() const { return memory_bytes_used() == 0; }
  /// Why there is no room.
  std::string why_full() const;
  /// Why an object that is wanted is not there yet.
  std::string why_away(std::uint64_t object) const;
  std::int64_t memory_bytes_used() const {
    return heap_.bytes() - heap_.bytes_free() + sparse_.bytes() - sparse_.bytes_free();
  }
  /// Of objects that lie on disk alone.
  std::int64_t spilled_bytes() const { return spilled_bytes_; }
  std::int64_t disk_bytes_used() const { return disk_.bytes() - disk_.bytes_free(); }
  /// Whether memory has been freed, or could be, since the last call.
  bool take_freed() { return std::exchange(freed_, false); }

 private:
  enum class Moving { no, out, in };
  struct ObjectState {
    std::int64_t bytes = 0;
    std::optional<Range> memory;  ///< taken; of what comes in, not filled yet
    std::optional<Range> disk;    ///< written
    Moving moving = Moving::no;
    std::uint64_t age = 0;  ///< 0: not allowed to leave
    int pins = 0;
    int wanted = 0;
    bool queued = false;
    bool dropped = false;
    std::optional<Error> failure;
  };
  using ByAge = std::map<std::uint64_t, std::uint64_t>;

  bool is_here(const ObjectState& place) const {
    return place.memory && place.moving != Moving::in;
  }
  Result<std::optional<Range>> allocate(std::int64_t bytes, bool ready);
  Result<std::optional<Range>> allocate_sparse(std::int64_t bytes, bool ready);
  Status take_pages_of(int segment);
  void release_memory(const Range& memory);
  void enlist(std::uint64_t object, const ObjectState& place);
  void strike(const ObjectState& place);
  void leave_memory(ObjectState& place);
  bool send_out(std::uint64_t object, ObjectState& place);
  void bring_in();
  void release_disk(const Range& disk);
  void forget(std::uint64_t object);

  Options options_;
  Heap heap_{object_alignment};    ///< segments whose pages are there
  Heap sparse_{object_alignment};  ///< the others
  Heap disk_{disk_alignment};
  int segments_ = 0;
  std::unordered_map<std::uint64_t, ObjectState> states_;
  ByAge idle_;                        ///< objects that may leave, and must be written before
  ByAge copied_;                      ///< that may leave at once: the disk has them, too
  std::deque<std::uint64_t> queue_;   ///< objects that are wanted and have no room yet
  std::vector<Move> moves_;           ///< not handed out yet
  std::int64_t segment_largest_ = 0;  ///< of those whose pages are there
  std::int64_t leaving_bytes_ = 0;    ///< of the moves out that have not ended
  std::int64_t spilled_bytes_ = 0;
  std::optional<Error> disk_failure_;  ///< of the last move out
  bool may_try_disk_ = true;           ///< after a failure: once each time that somebody asks
  bool freed_ = false;
};

}  // namespace tranship::staging
