#include "fabric/messages/command.hpp"

#include <cstring>
#include <string>

#include "base/check.hpp"

namespace tranship::fabric {
namespace {

Error broken(const char* what) {
  return {ErrorCode::invalid_argument, std::string("a peer sent a command that cannot be right: ") +
                                           what + "; it was refused and nothing was touched"};
}

Error outside(std::int64_t first, std::int64_t end, std::int64_t export_bytes) {
  return {ErrorCode::out_of_range,
          "a peer asked for bytes " + std::to_string(first) + " to " + std::to_string(end) +
              " of an array of " + std::to_string(export_bytes) + " bytes; nothing was touched"};
}

/// Reads the runs of a command without nests.
Status read_runs(std::span<const std::int64_t> words, std::int64_t slot_bytes,
                 std::int64_t export_bytes, Command& command) {
  if (words.empty() || words.size() % run_words != 0) return broken("too few words");
  const bool write = command.header.operation == static_cast<std::uint32_t>(Operation::write);
  std::int64_t packed = 0;
  for (; !words.empty(); words = words.subspan(run_words)) {
    const std::int64_t offset = words[0];
    const std::int64_t bytes = words[1];
    if (bytes < 1 || bytes > slot_bytes - packed) return broken("more bytes than a slot holds");
    if (offset < 0 || offset > export_bytes - bytes) {
      std::int64_t end = 0;
      if (__builtin_add_overflow(offset, bytes, &end)) return broken("an offset beyond 63 bits");
      return outside(offset, end, export_bytes);
    }
    command.runs.push_back(write ? Run{packed, offset, bytes} : Run{offset, packed, bytes});
    packed += bytes;
  }
  return packed == command.header.bytes ? Status{} : broken("its lengths do not agree");
}

/// Reads one nest of the remote side from `words`; the packed side's strides follow from
/// `packed_offset`.
Status read_nest(std::span<const std::int64_t>& words, Operation operation,
                 std::int64_t packed_offset, std::int64_t slot_bytes, LoopNest& nest) {
  if (words.size() < 3) return broken("it ends inside a nest");
  const std::int64_t element_bytes = words[0];
  const std::int64_t offset = words[1];
  const std::int64_t rank = words[2];
  if (rank < 0 || rank > LoopNest::loops_max) return broken("a nest's rank");
  if (words.size() < command_words(static_cast<int>(rank))) return broken("too few words");
  if (element_bytes < 1 || element_bytes > slot_bytes) return broken("an element's size");
  const bool write = operation == Operation::write;
  nest.element_bytes = element_bytes;
  nest.rank = static_cast<int>(rank);
  nest.source_offset = write ? packed_offset : offset;
  nest.target_offset = write ? offset : packed_offset;
  std::int64_t packed = element_bytes;
  for (std::size_t k = 0; k < static_cast<std::size_t>(rank); ++k) {
    const std::int64_t extent = words[3 + 2 * k];
    const std::int64_t stride = words[4 + 2 * k];
    if (extent < 1 || extent > slot_bytes) return broken("a loop's extent");
    nest.loops[k].extent = extent;
    nest.loops[k].source_stride = write ? packed : stride;
    nest.loops[k].target_stride = write ? stride : packed;
    if (__builtin_mul_overflow(packed, extent, &packed) || packed > slot_bytes) {
      return broken("more bytes than a slot holds");
    }
  }
  words = words.subspan(command_words(static_cast<int>(rank)));
  return {};
}

}  // namespace

CommandWriter::CommandWriter(std::int64_t bytes_max) : bytes_max_(bytes_max) {
  words_.reserve(command_words_max);
}

void CommandWriter::reset(std::int64_t bytes_max) {
  bytes_max_ = bytes_max;
  bytes_ = 0;
  nest_count_ = 0;
  words_.clear();
}

bool CommandWriter::add(const LoopNest& piece, Operation operation, LoopNest& local) {
  const std::int64_t piece_bytes = piece.bytes();
  if (bytes_ + piece_bytes > bytes_max_) return false;
  if (words_.size() + command_words(piece.rank) > command_words_max) return false;
  const bool write = operation == Operation::write;
  local = piece;
  (write ? local.target_offset : local.source_offset) = bytes_;
  words_.push_back(piece.element_bytes);
  words_.push_back(write ? piece.target_offset : piece.source_offset);
  words_.push_back(piece.rank);
  std::int64_t packed = piece.element_bytes;
  for (std::size_t k = 0; k < static_cast<std::size_t>(piece.rank); ++k) {
    const Loop& loop = piece.loops[k];
    words_.push_back(loop.extent);
    words_.push_back(write ? loop.target_stride : loop.source_stride);
    (write ? local.loops[k].target_stride : local.loops[k].source_stride) = packed;
    packed *= loop.extent;
  }
  bytes_ += piece_bytes;
  ++nest_count_;
  return true;
}

Run CommandWriter::add(Run run, Operation operation) {
  const bool write = operation == Operation::write;
  words_.push_back(write ? run.target_offset : run.source_offset);
  words_.push_back(run.bytes);
  (write ? run.target_offset : run.source_offset) = bytes_;
  bytes_ += run.bytes;
  return run;
}

std::size_t CommandWriter::write(CommandHeader header, std::byte* target) const {
  header.nest_count = nest_count_;
  header.word_count = static_cast<std::uint32_t>(words_.size());
  header.bytes = bytes_;
  std::memcpy(target, &header, sizeof header);
  std::memcpy(target + sizeof header, words_.data(), words_.size() * sizeof(std::int64_t));
  return sizeof header + words_.size() * sizeof(std::int64_t);
}

CommandHeader read_header(const std::byte* source) {
  CommandHeader header;
  std::memcpy(&header, source, sizeof header);
  return header;
}

Status read_nests(const std::byte* source, std::int64_t slot_bytes, std::int64_t export_bytes,
                  std::vector<std::int64_t>& scratch, Command& command) {
  const CommandHeader& header = command.header;
  command.nests.clear();
  command.runs.clear();
  if (header.word_count < 1 || header.word_count > command_words_max) return broken("its length");
  if (header.nest_count > header.word_count) return broken("nest count");
  if (header.operation != static_cast<std::uint32_t>(Operation::write) &&
      header.operation != static_cast<std::uint32_t>(Operation::read)) {
    return broken("its operation");
  }
  const auto operation = static_cast<Operation>(header.operation);
  scratch.resize(header.word_count);
  std::memcpy(scratch.data(), source + sizeof header, header.word_count * sizeof(std::int64_t));
  std::span<const std::int64_t> words(scratch);
  if (header.nest_count == 0) return read_runs(words, slot_bytes, export_bytes, command);
  std::int64_t packed = 0;
  for (std::uint32_t k = 0; k < header.nest_count; ++k) {
    LoopNest nest;
    if (auto status = read_nest(words, operation, packed, slot_bytes, nest); !status) {
      return status;
    }
    const auto extent = touched(nest, operation == Operation::write ? Side::target : Side::source);
    if (!extent) return extent.error();
    if (extent->first < 0 || extent->end > export_bytes) {
      return outside(extent->first, extent->end, export_bytes);
    }
    packed += nest.bytes();
    if (packed > slot_bytes) return broken("more bytes than a slot holds");
    command.nests.push_back(nest);
  }
  if (!words.empty() || packed != header.bytes) return broken("its lengths do not agree");
  return {};
}

Result<Extent> touched(const LoopNest& nest, Side side) {
  const bool source = side == Side::source;
  Extent extent;
  extent.first = source ? nest.source_offset : nest.target_offset;
  extent.end = extent.first;
  bool overflow = __builtin_add_overflow(extent.end, nest.element_bytes, &extent.end);
  for (std::size_t k = 0; k < static_cast<std::size_t>(nest.rank); ++k) {
    const Loop& loop = nest.loops[k];
    if (loop.extent < 1) return Extent{0, 0};
    const std::int64_t stride = source ? loop.source_stride : loop.target_stride;
    std::int64_t span = 0;
    overflow |= __builtin_mul_overflow(loop.extent - 1, stride, &span);
    std::int64_t& bound = span < 0 ? extent.first : extent.end;
    overflow |= __builtin_add_overflow(bound, span, &bound);
  }
  if (overflow) return broken("an offset beyond 63 bits");
  return extent;
}

}  // namespace tranship::fabric
