#include "staging/model/residency.hpp"

#include <algorithm>
#include <span>
#include <tuple>

#include "staging/model/parts.hpp"

namespace tranship::staging {
namespace {

/// The disk counts as full after so many older objects that do not fit what is left of it.
constexpr int misfits_max = 64;

/// Objects go to disk in batches, so that not every put of a full server has to wait for one.
std::int64_t batch_bytes(std::int64_t memory_bytes) {
  return std::min(memory_bytes / 16, std::int64_t{64} << 20);
}

/// Bytes of a segment that takes the place of others, so that of objects that grow slowly not each
/// takes a new one.
std::int64_t with_growth(std::int64_t bytes) {
  return (bytes + bytes / 2) / object_alignment * object_alignment;
}

Error disk_is_full(std::int64_t spill_bytes) {
  return {ErrorCode::io,
          "the " + std::to_string(spill_bytes) + " bytes that it may take there are full",
          "discard versions, keep "
          "fewer, or start the server with a larger --spill-max"};
}

}  // namespace

Residency::Residency(Options options) : options_(std::move(options)) {
  if (spills()) disk_.add_segment(0, options_.spill_bytes);
}

Result<bool> Residency::place(std::uint64_t object, std::int64_t bytes, bool ready) {
  may_try_disk_ = true;
  bring_in();
  // Wanted objects go first, unless a disk that fails would let them wait for ever.
  if (!queue_.empty() && !disk_failure_) return false;
  const auto range = allocate(bytes, ready);
  if (!range) return range.error();
  if (!*range) return false;
  ObjectState place;
  place.bytes = (*range)->bytes;
  place.memory = *range;
  states_.emplace(object, place);
  return true;
}

/// Returns nothing if there is no room.
Result<std::optional<Range>> Residency::allocate(std::int64_t bytes, bool ready) {
  auto range = heap_.allocate(bytes);
  if (range) return range;
  if (could_hold(bytes)) {
    auto stocked = allocate_from_stock(bytes);
    if (!stocked || *stocked) return stocked;
  }
  return allocate_sparse(bytes, ready);
}

/// Allocates memory whose pages are taken now, since they are needed before their turn.
Result<std::optional<Range>> Residency::allocate_from_stock(std::int64_t bytes) {
  const std::int64_t whole = heap_.rounded(bytes);
  while (const auto part = claim_part(whole, whole)) {
    Status status = options_.take_pages ? options_.take_pages(*part) : Status{};
    return_stock(*part, status.ok());
    if (!status) return status.error();
    if (auto range = heap_.allocate(bytes)) return range;
  }
  return std::optional<Range>{};
}

Status Residency::add_stock(std::int64_t bytes) {
  if (Status status = options_.make_segment(bytes); !status) return status;
  heap_.add_segment(segments_++, bytes);
  const auto all = heap_.allocate(bytes / object_alignment * object_alignment);
  if (!all) return {};
  stock_.push_back(*all);
  stock_bytes_ += all->bytes;
  return {};
}

std::optional<Range> Residency::claim_stock(std::int64_t bytes) { return claim_part(0, bytes); }

/// Claims a part of at most `most` bytes, where so many follow each other that an object of `least`
/// bytes fits, those included that are free in front of them.
std::optional<Range> Residency::claim_part(std::int64_t least, std::int64_t most) {
  const auto claims_of = [this](const Range& part) {
    const auto found = claims_.find(part.segment);
    return found == claims_.end() ? 0 : found->second;
  };
  const auto order = [&](const Range& part) {
    return std::tuple(claims_of(part), part.segment, part.offset);
  };
  const auto is_long = [&](const Range& part) {
    return part.bytes + heap_.free_before(part.segment, part.offset) >= least;
  };
  auto first = stock_.end();
  for (auto one = stock_.begin(); one != stock_.end(); ++one) {
    if (is_long(*one) && (first == stock_.end() || order(*one) < order(*first))) first = one;
  }
  if (first == stock_.end()) return std::nullopt;
  const Range part{first->segment, first->offset, std::min(first->bytes, heap_.rounded(most))};
  first->offset += part.bytes;
  first->bytes -= part.bytes;
  if (first->bytes == 0) stock_.erase(first);
  ++claims_[part.segment];
  return part;
}

void Residency::return_stock(const Range& part, bool ready) {
  freed_ = true;  // puts that wait for it may take it, or hear why they cannot
  if (--claims_[part.segment] == 0) claims_.erase(part.segment);
  if (!ready) {
    stock_.push_back(part);
    return;
  }
  heap_.release(part);
  stock_bytes_ -= part.bytes;
}

/// Allocates memory without pages, in segments that are there or in a new one.
Result<std::optional<Range>> Residency::allocate_sparse(std::int64_t bytes, bool ready) {
  auto range = sparse_.allocate(bytes);
  const bool gave_back = !range && give_back_segments(bytes);
  if (!range && options_.memory_bytes - heap_.bytes() - sparse_.bytes() < bytes) return range;
  if (!range) {
    const std::int64_t room = options_.memory_bytes - heap_.bytes() - sparse_.bytes();
    const std::int64_t wanted =
        gave_back ? std::max(options_.segment_bytes, with_growth(bytes)) : options_.segment_bytes;
    const std::int64_t segment = std::max(heap_.rounded(bytes), std::min(wanted, room));
    if (Status status = options_.make_segment(segment); !status) return status.error();
    sparse_.add_segment(segments_++, segment);
    range = sparse_.allocate(bytes);
  }
  if (!range || !ready) return range;
  if (Status status = take_pages_of(range->segment); !status) {
    sparse_.release(*range);
    return status.error();
  }
  return range;
}

/// Where there is no room for one more segment of that size, gives back segments in which no object
/// lies, each of which is too small: first those without pages, then the small ones; and then what
/// is free at the end of others. Gives back nothing if all that does not make room. Returns whether
/// any has gone. It does not come back: clients may have pinned its pages.
bool Residency::give_back_segments(std::int64_t bytes) {
  std::int64_t room = options_.memory_bytes - heap_.bytes() - sparse_.bytes();
  if (room >= bytes || !options_.give_back_pages) return false;
  const std::vector<Range> free = empty_segments();
  std::size_t needed = 0;
  for (; needed < free.size() && room < with_growth(bytes); ++needed) room += free[needed].bytes;
  if (room < bytes) {
    std::int64_t tails = 0;
    for (const int segment : heap_.segments()) tails += tail_bytes(segment);
    for (const Range& segment : free) {
      if (heap_.has_segment(segment.segment)) tails -= tail_bytes(segment.segment);
    }
    if (room + tails < bytes) return false;
  }
  for (const Range& segment : std::span(free).first(needed)) remove_segment(segment);
  if (room < bytes) cut_tails(bytes - room);
  return true;
}

/// Returns how many bytes at the end of a segment are stock that nobody has claimed.
std::int64_t Residency::tail_of_stock(int segment) const {
  const std::int64_t end = heap_.segment_bytes(segment);
  for (const Range& part : stock_) {
    if (part.segment == segment && part.offset + part.bytes == end) return part.bytes;
  }
  return 0;
}

/// Returns how many bytes at the end of a segment hold no object: stock, and what is free before.
std::int64_t Residency::tail_bytes(int segment) const {
  const std::int64_t stock = tail_of_stock(segment);
  return stock + heap_.free_before(segment, heap_.segment_bytes(segment) - stock);
}

/// Gives back so many bytes at the ends of segments, as many as there are.
void Residency::cut_tails(std::int64_t bytes) {
  for (const int segment : heap_.segments()) {
    while (bytes > 0 && tail_bytes(segment) > 0) {
      const std::int64_t end = heap_.segment_bytes(segment);
      const std::int64_t stock = tail_of_stock(segment);
      const std::int64_t tail = stock > 0 ? stock : tail_bytes(segment);
      const std::int64_t cut = std::min(tail, heap_.rounded(bytes));
      if (stock > 0) {
        std::erase_if(stock_, [&](Range& part) {
          if (part.segment != segment || part.offset + part.bytes != end) return false;
          part.bytes -= cut;
          return part.bytes == 0;
        });
        stock_bytes_ -= cut;
        heap_.release({segment, end - cut, cut});
      }
      heap_.cut_tail(segment, cut);
      options_.give_back_pages({segment, end - cut, cut});
      bytes -= cut;
    }
  }
}

/// Returns the segments in which no object lies, and of which no part is claimed: first those
/// without pages, then the small ones.
std::vector<Range> Residency::empty_segments() const {
  std::vector<Range> free = heap_.free_segments();
  std::map<int, std::int64_t> stock;
  for (const Range& part : stock_) stock[part.segment] += part.bytes;
  for (const auto& [segment, bytes] : stock) {
    const std::int64_t all = heap_.segment_bytes(segment);
    if (heap_.segment_bytes_free(segment) + bytes == all) free.push_back({segment, 0, all});
  }
  std::ranges::sort(free, {}, &Range::bytes);
  const std::vector<Range> without_pages = sparse_.free_segments();
  free.insert(free.begin(), without_pages.begin(), without_pages.end());
  return free;
}

/// Removes an empty segment, and gives its pages back.
void Residency::remove_segment(const Range& segment) {
  std::erase_if(stock_, [&](const Range& part) {
    if (part.segment != segment.segment) return false;
    heap_.release(part);
    stock_bytes_ -= part.bytes;
    return true;
  });
  (heap_.has_segment(segment.segment) ? heap_ : sparse_).remove_segment(segment.segment);
  options_.give_back_pages(segment);
}

/// Takes the pages of a segment, which counts among those with pages from then on.
Status Residency::take_pages_of(int segment) {
  if (!sparse_.has_segment(segment)) return {};
  const Range whole{segment, 0, sparse_.segment_bytes(segment)};
  Status status = options_.take_pages ? options_.take_pages(whole) : Status{};
  if (!status) return status;
  sparse_.move_segment(segment, heap_);
  return {};
}

Status Residency::take_pages(std::uint64_t object) {
  if (states_.at(object).offered) return {};
  return take_pages_of(states_.at(object).memory->segment);
}

bool Residency::has_pages(std::uint64_t object) const {
  const ObjectState& state = states_.at(object);
  return state.offered || (state.memory && heap_.has_segment(state.memory->segment));
}

void Residency::add_offered(std::uint64_t object) {
  ObjectState state;
  state.offered = true;
  states_.emplace(object, state);
}

void Residency::release_memory(const Range& memory) {
  (heap_.has_segment(memory.segment) ? heap_ : sparse_).release(memory);
}

void Residency::may_leave(std::uint64_t object, std::uint64_t age) {
  ObjectState& place = states_.at(object);
  place.age = age;
  enlist(object, place);
}

/// Lists an object among those that may leave memory, if nothing keeps it there.
void Residency::enlist(std::uint64_t object, const ObjectState& place) {
  const bool kept = place.age == 0 || place.pins > 0 || place.wanted > 0;
  if (!spills() || kept || !place.memory || place.moving != Moving::no) return;
  // Waiting puts try again if this object may give memory that no other one did.
  freed_ = freed_ || place.disk || idle_.empty();
  (place.disk ? copied_ : idle_).emplace(place.age, object);
}

void Residency::strike(const ObjectState& place) {
  if (!spills()) return;
  idle_.erase(place.age);
  copied_.erase(place.age);
}

bool Residency::pin(std::uint64_t object) {
  ObjectState& place = states_.at(object);
  if (!is_here(place)) return false;
  strike(place);
  ++place.pins;
  return true;
}

void Residency::unpin(std::uint64_t object) {
  ObjectState& place = states_.at(object);
  if (--place.pins == 0) enlist(object, place);
}

void Residency::want(std::uint64_t object) {
  ObjectState& place = states_.at(object);
  strike(place);
  // A failure for a reader that has gone is tried again.
  if (place.wanted == 0 && place.moving == Moving::no) place.failure.reset();
  ++place.wanted;
  ask_again(object);
}

void Residency::unwant(std::uint64_t object) {
  ObjectState& place = states_.at(object);
  if (--place.wanted == 0) enlist(object, place);
}

void Residency::ask_again(std::uint64_t object) {
  may_try_disk_ = true;
  ObjectState& place = states_.at(object);
  if (!place.memory && !place.queued) {
    place.queued = true;
    queue_.push_back(object);
  }
  bring_in();
}

std::optional<Error> Residency::take_failure(std::uint64_t object) {
  return std::exchange(states_.at(object).failure, std::nullopt);
}

/// Brings wanted objects back, one after the other. An object that waits holds no memory.
void Residency::bring_in() {
  while (!queue_.empty()) {
    const std::uint64_t object = queue_.front();
    const auto found = states_.find(object);
    if (found == states_.end() || found->second.wanted == 0) {
      if (found != states_.end()) found->second.queued = false;
      queue_.pop_front();
      freed_ = true;  // puts may go on
      continue;
    }
    ObjectState& place = found->second;
    const auto range = allocate(place.bytes, true);
    if (range && *range) {
      place.memory = *range;
      place.moving = Moving::in;
      place.queued = false;
      queue_.pop_front();
      moves_.push_back({Move::Kind::in, object, **range, *place.disk});
      freed_ = true;
    } else if (!let_go(place.bytes)) {
      return;
    }
  }
}

bool Residency::let_go(std::int64_t bytes) {
  if (!copied_.empty()) {
    ObjectState& place = states_.at(copied_.begin()->second);
    strike(place);
    leave_memory(place);
    return true;
  }
  if (leaving_bytes_ > 0 || (disk_failure_ && !may_try_disk_)) return false;
  may_try_disk_ = false;
  const std::int64_t goal = disk_failure_ ? 1 : std::max(bytes, batch_bytes(options_.memory_bytes));
  int misfits = 0;
  for (auto next = idle_.begin();
       leaving_bytes_ < goal && next != idle_.end() && misfits < misfits_max;) {
    const std::uint64_t object = next++->second;
    if (!send_out(object, states_.at(object))) ++misfits;
  }
  if (misfits > 0 && leaving_bytes_ == 0) disk_failure_ = disk_is_full(options_.spill_bytes);
  return false;
}

void Residency::leave_memory(ObjectState& place) {
  release_memory(*place.memory);
  place.memory.reset();
  spilled_bytes_ += place.bytes;
  freed_ = true;
}

/// Begins to write an object to disk. Returns false if the disk has no room for it.
bool Residency::send_out(std::uint64_t object, ObjectState& place) {
  const auto disk = disk_.allocate(place.bytes);
  if (!disk) return false;
  strike(place);
  place.moving = Moving::out;
  leaving_bytes_ += place.bytes;
  moves_.push_back({Move::Kind::out, object, *place.memory, *disk});
  return true;
}

std::vector<Move> Residency::take_moves() {
  bring_in();
  return std::exchange(moves_, {});
}

void Residency::ended(const Move& move, const Status& status) {
  if (move.kind == Move::Kind::drop) return;
  ObjectState& place = states_.at(move.object);
  const bool out = move.kind == Move::Kind::out;
  place.moving = Moving::no;
  if (out) leaving_bytes_ -= place.bytes;
  if (out && status) {
    place.disk = move.disk;
    disk_failure_.reset();
  } else if (out) {
    release_disk(move.disk);
    disk_failure_ = status.error();
  } else if (status) {
    spilled_bytes_ -= place.bytes;
  } else {
    release_memory(*place.memory);
    place.memory.reset();
    place.failure = status.error();
  }
  if (place.dropped) return forget(move.object);
  const bool kept = place.pins > 0 || place.wanted > 0;
  if (out && status && !kept) return leave_memory(place);
  // An object that could not be written frees nothing: waiting puts try again by themselves.
  const bool freed = freed_;
  enlist(move.object, place);
  if (out && !status) freed_ = freed;
}

void Residency::drop(std::uint64_t object) {
  ObjectState& place = states_.at(object);
  strike(place);
  place.dropped = true;
  if (place.moving == Moving::no) forget(object);
}

void Residency::forget(std::uint64_t object) {
  const ObjectState& place = states_.at(object);
  if (place.memory) release_memory(*place.memory);
  if (!place.memory) spilled_bytes_ -= place.bytes;
  if (place.disk) release_disk(*place.disk);
  states_.erase(object);
  freed_ = true;
}

void Residency::release_disk(const Range& disk) {
  disk_.release(disk);
  moves_.push_back({Move::Kind::drop, 0, {}, disk});
}

Range Residency::range(std::uint64_t object) const {
  const ObjectState& place = states_.at(object);
  if (place.offered) return {offered_segment, 0, 0};
  return is_here(place) ? *place.memory : Range{-1, 0, place.bytes};
}

std::string Residency::why_away(std::uint64_t object) const {
  const std::string why = "an object comes back from disk";
  return states_.at(object).queued ? why + ", and " + why_full() : why;
}

std::string Residency::why_full() const {
  const std::string full =
      "the server's memory of " + std::to_string(options_.memory_bytes) + " bytes is full";
  if (!spills()) return full + ": discard versions, keep fewer, or start it with more";
  if (disk_failure_) return full + ", and its objects cannot go to disk: " + disk_failure_->text();
  if (leaving_bytes_ > 0) return full + ", and objects are on their way to disk";
  return full + " of objects that are being written or read";
}

}  // namespace tranship::staging
