#include "data/check_pieces.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "base/lent_vector.hpp"

namespace tranship {
namespace {

using List = std::span<const std::int64_t>;

Error outside(const PieceLists& pieces, const PieceBlocks& blocks) {
  const auto named = [&](std::size_t k, List offsets, std::int64_t bytes, const char* side) {
    return "piece " + std::to_string(k) + ", " + std::to_string(pieces.lengths[k]) +
           " bytes at offset " + std::to_string(offsets[k]) + ", lies outside the " + side +
           ", which has " + std::to_string(bytes) + " bytes";
  };
  const auto lies_outside = [&](std::size_t k, List offsets, std::int64_t bytes) {
    return offsets[k] < 0 || offsets[k] > bytes - pieces.lengths[k];
  };
  for (std::size_t k = 0; k < pieces.lengths.size(); ++k) {
    if (pieces.lengths[k] < 0) {
      return {ErrorCode::invalid_argument,
              "piece " + std::to_string(k) + " has a length of " +
                  std::to_string(pieces.lengths[k]) + " bytes",
              "give 0 or more"};
    }
    if (lies_outside(k, pieces.source_offsets, blocks.source_bytes)) {
      return {ErrorCode::out_of_range,
              named(k, pieces.source_offsets, blocks.source_bytes, "source")};
    }
    if (lies_outside(k, pieces.target_offsets, blocks.target_bytes)) {
      return {ErrorCode::out_of_range,
              named(k, pieces.target_offsets, blocks.target_bytes, "target")};
    }
  }
  return {ErrorCode::invalid_argument, "a list of pieces changed during the call"};
}

/// A set of bytes, of which `grain` neighbours are one bit.
class ByteSet {
 public:
  ByteSet(std::int64_t bytes, std::int64_t grain)
      : shift_(std::countr_zero(static_cast<std::uint64_t>(grain))) {
    words_->assign(word_of(bytes >> shift_) + 1, 0);
  }

  /// Adds a range. Returns whether a byte of it was in the set.
  bool add(std::int64_t offset, std::int64_t length) {
    const std::int64_t end = (offset + length) >> shift_;
    std::uint64_t met = 0;
    for (std::int64_t bit = offset >> shift_; bit < end;) {
      const std::int64_t in_word = bit & 63;
      const std::int64_t count = std::min<std::int64_t>(64 - in_word, end - bit);
      const std::uint64_t mask = (~std::uint64_t{0} >> (64 - count)) << in_word;
      std::uint64_t& word = (*words_)[word_of(bit)];
      met |= word & mask;
      word |= mask;
      bit += count;
    }
    return met != 0;
  }

 private:
  static std::size_t word_of(std::int64_t bit) { return static_cast<std::size_t>(bit >> 6); }

  int shift_;
  LentVector<std::uint64_t> words_;
};

/// Two pieces that have a byte in common, the one that begins first named first.
using Conflict = std::optional<std::pair<std::size_t, std::size_t>>;

/// Largest set, in bits for each piece, that is quicker than sorting the pieces.
constexpr std::int64_t set_bits_most = 40;

struct PieceRange {
  std::int64_t begin;
  std::int64_t end;
  std::size_t number;  ///< of the piece
};

/// Returns the pieces that have bytes in ascending order of their offsets, which are at most
/// `bytes`: first by buckets, of which there are about twice as many as pieces.
LentVector<PieceRange> by_offset(List offsets, List lengths, std::int64_t bytes) {
  const auto buckets_wanted = 2 * std::ssize(lengths);
  int shift = 0;
  while ((bytes >> shift) > buckets_wanted) ++shift;
  LentVector<std::uint32_t> counts;
  std::vector<std::uint32_t>& ends = *counts;
  ends.assign(static_cast<std::size_t>(bytes >> shift) + 2, 0);
  const auto bucket = [&](std::size_t k) { return static_cast<std::size_t>(offsets[k] >> shift); };
  for (std::size_t k = 0; k < lengths.size(); ++k) ends[bucket(k) + 1] += lengths[k] > 0 ? 1 : 0;
  std::uint32_t fullest = 0;
  for (std::size_t k = 1; k < ends.size(); ++k) {
    fullest = std::max(fullest, ends[k]);
    ends[k] += ends[k - 1];
  }
  LentVector<PieceRange> found;
  std::vector<PieceRange>& ranges = *found;
  ranges.resize(ends.back());
  for (std::size_t k = 0; k < lengths.size(); ++k) {
    if (lengths[k] > 0) ranges[ends[bucket(k)]++] = {offsets[k], offsets[k] + lengths[k], k};
  }
  constexpr std::uint32_t few = 32;
  const auto before = [](const PieceRange& a, const PieceRange& b) { return a.begin < b.begin; };
  if (fullest > few) {
    std::sort(ranges.begin(), ranges.end(), before);
    return found;
  }
  for (std::size_t k = 1; k < ranges.size(); ++k) {  // moves within a bucket alone
    const PieceRange range = ranges[k];
    std::size_t at = k;
    for (; at > 0 && before(range, ranges[at - 1]); --at) ranges[at] = ranges[at - 1];
    ranges[at] = range;
  }
  return found;
}

Conflict conflict_of(List offsets, List lengths, std::int64_t bytes) {
  const LentVector<PieceRange> sorted = by_offset(offsets, lengths, bytes);
  const std::vector<PieceRange>& ranges = *sorted;
  for (std::size_t k = 1; k < ranges.size(); ++k) {
    const PieceRange& before = ranges[k - 1];
    if (before.end > ranges[k].begin) return {{before.number, ranges[k].number}};
  }
  return std::nullopt;
}

/// Largest number of buckets for each piece of one length.
constexpr std::int64_t buckets_most = 32;
/// Largest length whose sums fit the buckets' numbers.
constexpr std::int64_t bucket_length_most = std::int64_t{1} << 29;

/// Whether no two pieces of one length have a byte in common. A bucket is a power of two of bytes,
/// at most the length and more than half of it: two pieces that begin in one bucket overlap, and
/// others do only if they begin in the next two.
bool lie_apart(List offsets, std::int64_t length, std::int64_t bytes) {
  const int shift = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(length))) - 1;
  const auto bucket_bytes = static_cast<std::int32_t>(std::int64_t{1} << shift);
  const auto count = static_cast<std::size_t>(bytes >> shift) + 1;
  LentVector<std::int32_t> begins;
  begins->assign(count + 2, 0);  // 1 is the bucket's first byte; 0: none begins
  std::int32_t* const begin = begins->data();
  std::int32_t met = 0;
  for (const std::int64_t offset : offsets) {
    std::int32_t& of_bucket = begin[static_cast<std::size_t>(offset >> shift)];
    met |= of_bucket;
    of_bucket = static_cast<std::int32_t>(offset & (bucket_bytes - 1)) + 1;
  }
  if (met != 0) return false;
  const auto reach = static_cast<std::int32_t>(length);
  int meet = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const std::int32_t end = begin[k] + reach;
    const int next = (begin[k + 1] != 0) & (begin[k + 1] + bucket_bytes < end);
    const int second = (begin[k + 2] != 0) & (begin[k + 2] + 2 * bucket_bytes < end);
    meet |= (begin[k] != 0) & (next | second);
  }
  return meet == 0;
}

Conflict written_twice(const PieceLists& pieces, const PieceSurvey& seen, std::int64_t bytes) {
  const List offsets = pieces.target_offsets;
  const List lengths = pieces.lengths;
  if (seen.ascending) return std::nullopt;
  const std::int64_t grain = seen.target_grain;
  const std::int64_t length = lengths[0];
  if (seen.equal && length != grain && length > 0 && length < bucket_length_most &&
      bytes / length <= buckets_most * std::ssize(lengths)) {
    return lie_apart(offsets, length, bytes) ? std::nullopt : conflict_of(offsets, lengths, bytes);
  }
  if (grain > 0 && bytes / grain <= set_bits_most * std::ssize(lengths)) {
    const bool single = seen.equal && lengths[0] == grain;
    if (single && bytes / grain <= marks_most * std::ssize(lengths)) {
      const int shift = std::countr_zero(static_cast<std::uint64_t>(grain));
      if (all_differ(offsets, bytes, shift)) return std::nullopt;
    } else {
      ByteSet written(bytes, grain);
      bool twice = false;
      for (std::size_t k = 0; k < lengths.size(); ++k) twice |= written.add(offsets[k], lengths[k]);
      if (!twice) return std::nullopt;
    }
  }
  return conflict_of(offsets, lengths, bytes);
}

/// A piece that is read and one that is written, which have a byte in common: numbers in the lists.
/// No byte is written twice.
Conflict read_and_written(const PieceLists& pieces, const PieceBlocks& blocks) {
  const auto sorted_reads = by_offset(pieces.source_offsets, pieces.lengths, blocks.source_bytes);
  const auto sorted_writes = by_offset(pieces.target_offsets, pieces.lengths, blocks.target_bytes);
  const std::vector<PieceRange>& writes = *sorted_writes;
  const std::int64_t distance = *blocks.distance;
  std::size_t first = 0;  // the first written piece that may reach into the ones that are read
  for (const PieceRange& read : *sorted_reads) {
    while (first < writes.size() && writes[first].end + distance <= read.begin) ++first;
    if (first == writes.size()) return std::nullopt;
    if (writes[first].begin + distance < read.end) return {{read.number, writes[first].number}};
  }
  return std::nullopt;
}

}  // namespace

Result<PieceSurvey> check_pieces(const PieceLists& pieces, const PieceBlocks& blocks) {
  const std::size_t count = pieces.lengths.size();
  if (pieces.source_offsets.size() != count || pieces.target_offsets.size() != count) {
    return Error{ErrorCode::invalid_argument,
                 "there are " + std::to_string(pieces.source_offsets.size()) + " source offsets, " +
                     std::to_string(pieces.target_offsets.size()) + " target offsets and " +
                     std::to_string(count) + " lengths",
                 "give as many of each"};
  }
  const PieceSurvey seen = survey(pieces, blocks.source_bytes, blocks.target_bytes);
  if (!seen.inside) return outside(pieces, blocks);
  if (const Conflict twice = written_twice(pieces, seen, blocks.target_bytes)) {
    return Error{ErrorCode::invalid_argument,
                 "pieces " + std::to_string(twice->first) + " and " +
                     std::to_string(twice->second) + " overlap in the target",
                 "write each byte of the target once"};
  }
  const bool apart = !blocks.distance || *blocks.distance >= blocks.source_bytes ||
                     *blocks.distance <= -blocks.target_bytes;
  if (apart) return seen;
  if (const Conflict both = read_and_written(pieces, blocks)) {
    return Error{ErrorCode::invalid_argument,
                 "the source of piece " + std::to_string(both->first) +
                     " overlaps the target of piece " + std::to_string(both->second),
                 "copy to pieces of their own first"};
  }
  return seen;
}

}  // namespace tranship
