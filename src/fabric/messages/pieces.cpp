#include "fabric/messages/pieces.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/check.hpp"

namespace tranship::fabric {
namespace {

using Steps = std::array<std::int64_t, LoopNest::loops_max>;

std::size_t rank_of(const LoopNest& nest) { return static_cast<std::size_t>(nest.rank); }

/// Returns a loop's sort key in its side's memory order; a broadcast loop comes last.
std::int64_t order_key(std::int64_t stride) {
  return stride == 0 ? std::numeric_limits<std::int64_t>::max() : std::llabs(stride);
}

std::int64_t volume(const LoopNest& part, const Steps& step) {
  std::int64_t bytes = part.element_bytes;
  for (std::size_t k = 0; k < rank_of(part); ++k) bytes *= step[k];
  return bytes;
}

struct Growth {
  bool along_target = true;
  std::int64_t run_bytes = 0;    ///< growth stops when the run along this side has so many bytes
  std::int64_t piece_bytes = 0;  ///< limit of the whole piece
};

/// Enlarges a piece along one side's memory order.
void grow(const LoopNest& part, const Growth& growth, Steps& step) {
  std::array<std::size_t, LoopNest::loops_max> order{};
  for (std::size_t k = 0; k < rank_of(part); ++k) order[k] = k;
  const auto key = [&](std::size_t k) {
    const Loop& loop = part.loops[k];
    return order_key(growth.along_target ? loop.target_stride : loop.source_stride);
  };
  std::sort(order.begin(), order.begin() + part.rank,
            [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  std::int64_t run = part.element_bytes;
  for (std::size_t j = 0; j < rank_of(part) && run < growth.run_bytes; ++j) {
    const std::size_t k = order[j];
    const std::int64_t others = volume(part, step) / step[k];
    const std::int64_t wanted = (growth.run_bytes + run - 1) / run;
    const std::int64_t room = growth.piece_bytes / others;
    const std::int64_t grown = std::min({part.loops[k].extent, wanted, room});
    step[k] = std::max(step[k], grown);
    run *= step[k];
  }
}

}  // namespace

PieceCursor::PieceCursor(std::span<const LoopNest> nests, Options options)
    : nests_(nests), options_(options), finished_(false) {
  CHECK(options.piece_bytes >= 1, "a piece has at least one byte");
  begin_nest();
}

void PieceCursor::begin_nest() {
  while (nest_index_ < nests_.size() && nests_[nest_index_].bytes() == 0) ++nest_index_;
  if (nest_index_ == nests_.size()) {
    finished_ = true;
    return;
  }
  const LoopNest& nest = nests_[nest_index_];
  remainder_due_ = false;
  if (nest.element_bytes <= options_.piece_bytes || nest.rank == LoopNest::loops_max) {
    CHECK(nest.element_bytes <= options_.piece_bytes, "a nest of full rank has long elements");
    begin_part(nest);
    return;
  }
  LoopNest part = nest;
  const std::int64_t chunk = options_.piece_bytes;
  const std::int64_t whole = nest.element_bytes / chunk;
  part.element_bytes = chunk;
  std::copy_backward(part.loops.begin(), part.loops.begin() + nest.rank,
                     part.loops.begin() + nest.rank + 1);
  part.loops[0] = {whole, chunk, chunk};
  ++part.rank;
  if (nest.element_bytes % chunk != 0) {
    remainder_ = nest;
    remainder_.element_bytes = nest.element_bytes % chunk;
    remainder_.source_offset += whole * chunk;
    remainder_.target_offset += whole * chunk;
    remainder_due_ = true;
  }
  begin_part(part);
}

void PieceCursor::begin_part(const LoopNest& part) {
  part_ = part;
  std::sort(part_.loops.begin(), part_.loops.begin() + part_.rank,
            [](const Loop& a, const Loop& b) {
              return order_key(a.source_stride) < order_key(b.source_stride);
            });
  step_.fill(1);
  position_.fill(0);
  const std::int64_t bytes = options_.piece_bytes;
  grow(part_, {true, options_.run_bytes, bytes}, step_);
  grow(part_, {false, options_.run_bytes, bytes}, step_);
  grow(part_, {false, bytes, bytes}, step_);
  cut();
}

void PieceCursor::cut() {
  piece_ = part_;
  for (std::size_t k = 0; k < rank_of(part_); ++k) {
    Loop& loop = piece_.loops[k];
    piece_.source_offset += position_[k] * loop.source_stride;
    piece_.target_offset += position_[k] * loop.target_stride;
    loop.extent = std::min(step_[k], loop.extent - position_[k]);
  }
  const auto single = [](const Loop& loop) { return loop.extent == 1; };
  const auto begin = piece_.loops.begin();
  piece_.rank = static_cast<int>(std::remove_if(begin, begin + piece_.rank, single) - begin);
}

void PieceCursor::advance() {
  for (std::size_t k = 0; k < rank_of(part_); ++k) {
    position_[k] += step_[k];
    if (position_[k] < part_.loops[k].extent) {
      cut();
      return;
    }
    position_[k] = 0;
  }
  if (remainder_due_) {
    remainder_due_ = false;
    begin_part(remainder_);
    return;
  }
  ++nest_index_;
  begin_nest();
}

Run RunCursor::take(std::int64_t bytes_max) {
  Run taken = run_;
  taken.bytes = std::min(taken.bytes, bytes_max);
  run_.source_offset += taken.bytes;
  run_.target_offset += taken.bytes;
  run_.bytes -= taken.bytes;
  if (run_.bytes > 0) return taken;
  const IndexedNest& nest = nests_[0];
  if (--runs_left_ > 0) {
    run_.source_offset += nest.source_step - run_bytes_;
    run_.target_offset += nest.target_step - run_bytes_;
    run_.bytes = run_bytes_;
  } else if (++entry_ < nest.entries.size()) {
    begin_entry();
  } else {
    nests_ = nests_.subspan(1);
    begin_nest();
  }
  return taken;
}

void RunCursor::begin_nest() {
  while (!nests_.empty() && nests_[0].bytes() == 0) nests_ = nests_.subspan(1);
  entry_ = 0;
  if (!nests_.empty()) begin_entry();
}

void RunCursor::begin_entry() {
  const IndexedNest& one = nests_[0];
  CHECK(one.nest.rank == 0, "a list of runs has no loops");
  const IndexedEntry& entry = one.entries[entry_];
  CHECK(entry.count > 0, "an entry without moves");
  const std::int64_t bytes = one.nest.element_bytes;
  const bool touch = one.moves_touch();
  runs_left_ = touch ? 1 : entry.count;
  run_bytes_ = touch ? entry.count * bytes : bytes;
  run_ = {one.nest.source_offset + entry.source_offset,
          one.nest.target_offset + entry.target_offset, run_bytes_};
}

}  // namespace tranship::fabric
