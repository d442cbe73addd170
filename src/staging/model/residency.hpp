// Where the objects of a staging server lie: in its memory, on its disk, or between them. A state
// machine that decides which objects move; it moves no bytes and has no clock.
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

/// Alignment of objects in memory, in bytes.
constexpr std::int64_t object_alignment = 256;
/// No limit on disk: more than any disk has.
constexpr std::int64_t spill_bytes_unlimited = std::int64_t{1} << 60;

/// The objects of one server, by their numbers.
/// Laws: an object that is pinned, wanted or may not leave yet stays in memory, if it is there. An
/// object leaves memory once the disk has it whole, and not before. What came back keeps its place
/// on the disk, so that it may leave again without a move. A waiting object holds no
/// memory, so that objects never wait for each other. Costs are logarithms of the number of
/// objects. Not thread-safe.
class Residency {
 public:
  struct Options {
    std::int64_t memory_bytes = 0;
    std::int64_t segment_bytes = 0;
    std::int64_t spill_bytes = 0;  ///< Capacity on disk; 0: no object goes there.
    /// Makes a segment, numbered 0, 1, 2, …, whose pages may be missing.
    std::function<Status(std::int64_t bytes)> make_segment;
    /// Takes the pages of a part of a segment, or none. Empty: segments are made with their pages.
    std::function<Status(const Range& part)> take_pages{};
    /// Gives the pages of a part of a segment back to the system, for ever. Empty: segments keep
    /// them.
    std::function<void(const Range& part)> give_back_pages{};
  };
  explicit Residency(Options options);

  /// Takes free memory for an object, which stays there until may_leave(). Returns false if there
  /// is none, or other objects have waited for it longer. `ready`: Whether the object is written at
  /// once; otherwise its pages may be missing until take_pages().
  /// @error out_of_memory if the system has none
  Result<bool> place(std::uint64_t object, std::int64_t bytes, bool ready = true);
  /// Takes the pages of an object that is about to be written.
  /// @error out_of_memory if the system has none: call it again later, or drop() the object
  Status take_pages(std::uint64_t object);
  /// Returns whether the object's pages are there.
  bool has_pages(std::uint64_t object) const;
  /// Makes a segment of that size whose pages are taken before they are needed: by whoever claims
  /// parts of it, or, when they are needed earlier, by place(). May be called several times.
  /// @error as make_segment()
  Status add_stock(std::int64_t bytes);
  /// Returns a part, of at most `bytes`, of the stock that has no pages yet; nothing if there is
  /// none. The part belongs to the caller until it is returned. It is the next one of the segment
  /// of which the fewest parts are claimed: the kernel lets several threads take pages of several
  /// segments faster than of one.
  std::optional<Range> claim_stock(std::int64_t bytes);
  /// Returns a claimed part: with its pages, so that objects may take it, or without.
  void return_stock(const Range& part, bool ready);
  /// Records an object that lies in a client's memory: it takes none here, and goes nowhere.
  void add_offered(std::uint64_t object);
  /// Allows the object to leave memory. Objects of low `age` leave first.
  void may_leave(std::uint64_t object, std::uint64_t age);
  /// Frees the object's memory and disk; if it is being moved, when the move has ended.
  void drop(std::uint64_t object);

  /// Keeps the object in memory until unpin(). Returns false if it is not in memory.
  bool pin(std::uint64_t object);
  void unpin(std::uint64_t object);
  /// Requests that the object comes back, and stays until unwant(); ask_again() after a failure.
  void want(std::uint64_t object);
  void unwant(std::uint64_t object);
  void ask_again(std::uint64_t object);
  /// Returns why the object could not be read from disk since the last call.
  std::optional<Error> take_failure(std::uint64_t object);

  /// Makes room by letting objects leave. Returns true if one has left memory at once, so that
  /// place() may succeed. Otherwise moves may have begun that will make room later.
  bool let_go(std::int64_t bytes);

  /// Removes and returns the moves to carry out, in this order.
  std::vector<Move> take_moves();
  /// Records how a move ended.
  void ended(const Move& move, const Status& status);

  /// Returns the object's memory; without a segment while it is not there, and with
  /// `offered_segment` if it lies in a client's memory.
  Range range(std::uint64_t object) const;
  bool spills() const { return options_.spill_bytes > 0; }
  /// Returns whether an object of that size would fit an empty segment whose pages are there.
  bool could_hold(std::int64_t bytes) const {
    return heap_.rounded(bytes) <= heap_.largest_segment_bytes();
  }
  /// Returns the bytes of memory without pages.
  std::int64_t sparse_bytes() const { return sparse_.bytes(); }
  /// Returns whether objects are being written to disk.
  bool leaving() const { return leaving_bytes_ > 0; }
  /// Returns whether no object is in memory.
  bool empty() const { return memory_bytes_used() == 0; }
  /// Returns whether a part of the stock is claimed.
  bool is_growing() const { return !claims_.empty(); }
  /// Returns the reason why there is no room.
  std::string why_full() const;
  /// Returns the reason why a wanted object is not in memory yet.
  std::string why_away(std::uint64_t object) const;
  std::int64_t memory_bytes_used() const {
    return heap_.bytes() - heap_.bytes_free() - stock_bytes_ + sparse_.bytes() -
           sparse_.bytes_free();
  }
  /// Returns the bytes of objects that lie on disk only.
  std::int64_t spilled_bytes() const { return spilled_bytes_; }
  std::int64_t disk_bytes_used() const { return disk_.bytes() - disk_.bytes_free(); }
  /// Returns whether memory was freed, or can be, since the last call.
  bool take_freed() { return std::exchange(freed_, false); }

 private:
  enum class Moving { no, out, in };
  struct ObjectState {
    std::int64_t bytes = 0;
    std::optional<Range> memory;  ///< Taken; not filled yet while the object comes back.
    std::optional<Range> disk;    ///< Written.
    Moving moving = Moving::no;
    std::uint64_t age = 0;  ///< 0: it may not leave.
    int pins = 0;
    int wanted = 0;
    bool queued = false;
    bool offered = false;  ///< It lies in a client's memory.
    bool dropped = false;
    std::optional<Error> failure;
  };
  using ByAge = std::map<std::uint64_t, std::uint64_t>;

  bool is_here(const ObjectState& place) const {
    return place.memory && place.moving != Moving::in;
  }
  Result<std::optional<Range>> allocate(std::int64_t bytes, bool ready);
  Result<std::optional<Range>> allocate_sparse(std::int64_t bytes, bool ready);
  Result<std::optional<Range>> allocate_from_stock(std::int64_t bytes);
  bool give_back_segments(std::int64_t bytes);
  std::vector<Range> empty_segments() const;
  void remove_segment(const Range& segment);
  std::int64_t tail_of_stock(int segment) const;
  std::int64_t tail_bytes(int segment) const;
  void cut_tails(std::int64_t bytes);
  std::optional<Range> claim_part(std::int64_t least, std::int64_t most);
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
  Heap heap_{object_alignment};    ///< Segments whose pages are there.
  Heap sparse_{object_alignment};  ///< Segments without pages.
  Heap disk_{disk_alignment};
  std::vector<Range> stock_;      ///< Parts of `heap_` without pages that nobody has claimed.
  std::map<int, int> claims_;     ///< How many parts of a segment are claimed, if any.
  std::int64_t stock_bytes_ = 0;  ///< Of all parts without pages.
  int segments_ = 0;
  std::unordered_map<std::uint64_t, ObjectState> states_;
  ByAge idle_;                       ///< Objects that may leave, and must be written before.
  ByAge copied_;                     ///< Objects that may leave at once: the disk has them, too.
  std::deque<std::uint64_t> queue_;  ///< Wanted objects without room.
  std::vector<Move> moves_;          ///< Not handed out yet.
  std::int64_t leaving_bytes_ = 0;   ///< Of moves out that have not ended.
  std::int64_t spilled_bytes_ = 0;
  std::optional<Error> disk_failure_;  ///< Of the last move out.
  bool may_try_disk_ = true;           ///< After a failure: once for each call that needs room.
  bool freed_ = false;
};

}  // namespace tranship::staging
