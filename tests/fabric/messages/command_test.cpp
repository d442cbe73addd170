#include "fabric/messages/command.hpp"

#include <cstring>
#include <limits>

#include "support/test.hpp"

using namespace tranship;
using namespace tranship::fabric;

namespace {

constexpr std::int64_t slot_bytes = 64 * 1024;
constexpr std::int64_t big = std::numeric_limits<std::int64_t>::max();

LoopNest example() {
  LoopNest nest;
  nest.element_bytes = 8;
  nest.source_offset = 16;
  nest.target_offset = 4096;
  nest.rank = 2;
  nest.loops[0] = {4, 8, 128};
  nest.loops[1] = {3, 32, -512};
  return nest;
}

/// A header and words, as a peer may write them into a slot.
struct Forged {
  CommandHeader header{1, 1, 1, 0, 1, 0, 0};
  std::vector<std::int64_t> words;

  Status read(std::int64_t export_bytes) {
    std::vector<std::byte> memory(command_bytes_max);
    header.word_count = static_cast<std::uint32_t>(words.size());
    std::memcpy(memory.data(), &header, sizeof header);
    if (!words.empty()) std::memcpy(memory.data() + sizeof header, words.data(), words.size() * 8);
    std::vector<std::int64_t> scratch;
    Command command;
    command.header = read_header(memory.data());
    return read_nests(memory.data(), slot_bytes, export_bytes, scratch, command);
  }
};

Status forged(std::vector<std::int64_t> words, std::int64_t bytes,
              std::int64_t export_bytes = 4096) {
  Forged one;
  one.words = std::move(words);
  one.header.bytes = bytes;
  return one.read(export_bytes);
}

}  // namespace

TEST(command_comes_back_as_it_was_written) {
  for (const Operation operation : {Operation::write, Operation::read}) {
    CommandWriter writer(slot_bytes);
    LoopNest local;
    REQUIRE(writer.add(example(), operation, local));
    REQUIRE(writer.add(example(), operation, local));
    std::vector<std::byte> memory(command_bytes_max);
    CommandHeader header;
    header.export_id = 5;
    header.operation = static_cast<std::uint32_t>(operation);
    writer.write(header, memory.data());
    Command command;
    command.header = read_header(memory.data());
    std::vector<std::int64_t> scratch;
    const auto status = read_nests(memory.data(), slot_bytes, 1 << 20, scratch, command);
    REQUIRE(status.ok());
    REQUIRE(command.nests.size() == 2);
    const LoopNest& second = command.nests[1];
    EXPECT_EQ(second.bytes(), example().bytes());
    const bool write = operation == Operation::write;
    EXPECT_EQ(write ? second.source_offset : second.target_offset, example().bytes());
    EXPECT_EQ(write ? second.target_offset : second.source_offset, write ? 4096 : 16);
    EXPECT_EQ(write ? second.loops[1].target_stride : second.loops[1].source_stride,
              write ? -512 : 32);
    EXPECT_EQ(write ? second.loops[1].source_stride : second.loops[1].target_stride, 32);
  }
}

TEST(runs_come_back_as_they_were_written) {
  const std::vector<Run> runs{{16, 4096, 100}, {900, 8, 1}, {0, 5000, 28}};
  for (const Operation operation : {Operation::write, Operation::read}) {
    CommandWriter writer(slot_bytes);
    std::vector<Run> local;
    for (const Run& run : runs) local.push_back(writer.add(run, operation));
    std::vector<std::byte> memory(command_bytes_max);
    CommandHeader header;
    header.operation = static_cast<std::uint32_t>(operation);
    writer.write(header, memory.data());
    Command command;
    command.header = read_header(memory.data());
    std::vector<std::int64_t> scratch;
    REQUIRE(read_nests(memory.data(), slot_bytes, 1 << 20, scratch, command).ok());
    REQUIRE(command.runs.size() == runs.size() && command.nests.empty());
    const bool write = operation == Operation::write;
    std::int64_t packed = 0;
    for (std::size_t k = 0; k < runs.size(); ++k) {
      const Run& mine = local[k];
      const Run& theirs = command.runs[k];
      EXPECT_EQ(write ? mine.source_offset : theirs.source_offset, runs[k].source_offset);
      EXPECT_EQ(write ? theirs.target_offset : mine.target_offset, runs[k].target_offset);
      EXPECT_EQ(write ? mine.target_offset : mine.source_offset, packed);
      EXPECT_EQ(write ? theirs.source_offset : theirs.target_offset, packed);
      EXPECT(mine.bytes == runs[k].bytes && theirs.bytes == runs[k].bytes);
      packed += runs[k].bytes;
    }
  }
}

TEST(forged_runs_are_refused) {
  const auto forged_runs = [](std::vector<std::int64_t> words, std::int64_t bytes) {
    Forged one;
    one.header.nest_count = 0;
    one.header.bytes = bytes;
    one.words = std::move(words);
    return one.read(4096);
  };
  EXPECT(forged_runs({0, 8}, 8).ok());
  EXPECT(forged_runs({4088, 8, 0, 4096}, 4104).ok());
  EXPECT(!forged_runs({}, 0).ok());
  EXPECT(!forged_runs({0, 8, 16}, 8).ok());      // half a run
  EXPECT(!forged_runs({4089, 8}, 8).ok());       // beyond the end
  EXPECT(!forged_runs({-1, 8}, 8).ok());         // before the start
  EXPECT(!forged_runs({0, 0}, 0).ok());          // no bytes
  EXPECT(!forged_runs({0, -8, 0, 16}, 8).ok());  // fewer than none
  EXPECT(!forged_runs({big, 8}, 8).ok());        // the offset overflows
  EXPECT(!forged_runs({0, big}, big).ok());      // more than a slot
  EXPECT(!forged_runs({0, 8}, 9).ok());          // `bytes` differs
  EXPECT(!forged_runs({0, slot_bytes, 0, 1}, slot_bytes + 1).ok());
}

TEST(command_writer_stops_at_the_slot_and_at_its_words) {
  CommandWriter writer(100);
  LoopNest nest;
  nest.element_bytes = 60;
  LoopNest local;
  EXPECT(writer.add(nest, Operation::write, local));
  EXPECT(!writer.add(nest, Operation::write, local));
  EXPECT_EQ(writer.bytes(), 60);
  CommandWriter many(slot_bytes);
  nest.element_bytes = 1;
  std::size_t count = 0;
  while (many.add(nest, Operation::write, local)) ++count;
  EXPECT_EQ(count, command_words_max / 3);
}

TEST(forged_commands_are_refused) {
  EXPECT(forged({8, 0, 0}, 8).ok());
  EXPECT(forged({4096, 0, 0}, 4096).ok());
  EXPECT(forged({4, 4092, 1, 3, -8}, 12).ok());
  EXPECT(!forged({4097, 0, 0}, 4097).ok());  // beyond the end
  EXPECT(!forged({8, -8, 0}, 8).ok());       // before the start
  EXPECT(!forged({8, 4089, 0}, 8).ok());
  EXPECT(!forged({8, big, 0}, 8).ok());  // the offset overflows
  EXPECT(!forged({0, 0, 0}, 0).ok());
  EXPECT(!forged({-8, 0, 0}, -8).ok());
  EXPECT(!forged({big, 0, 0}, big).ok());
  EXPECT(!forged({8, 0, -1}, 8).ok());  // a rank out of range
  EXPECT(!forged({8, 0, 25}, 8).ok());
  EXPECT(!forged({8, 0, 1}, 8).ok());  // missing words
  EXPECT(!forged({8, 0}, 8).ok());
  EXPECT(!forged({8, 0, 1, 0, 8}, 0).ok());  // an extent out of range
  EXPECT(!forged({8, 0, 1, -1, 8}, -8).ok());
  EXPECT(!forged({8, 0, 1, big, 8}, 8).ok());
  EXPECT(!forged({8, 0, 2, 65536, 0, 65536, 0}, 8).ok());  // more bytes than a slot has
  EXPECT(!forged({8, 0, 1, 2, big}, 16).ok());             // a stride out of range
  EXPECT(!forged({8, 0, 1, 2, -8}, 16).ok());
  EXPECT(!forged({8, 0, 1, 3, std::numeric_limits<std::int64_t>::min()}, 24).ok());
  EXPECT(!forged({8, 0, 0, 7}, 8).ok());  // words left over
  EXPECT(!forged({8, 0, 0}, 16).ok());    // `bytes` differs from the nest's
  EXPECT_EQ(to_string(forged({4097, 0, 0}, 4097).error().code), std::string("out_of_range"));
}

TEST(forged_headers_are_refused) {
  Forged one;
  one.words = {8, 0, 0};
  one.header.bytes = 8;
  EXPECT(one.read(4096).ok());
  one.header.operation = 3;
  EXPECT(!one.read(4096).ok());
  one.header.operation = 1;
  one.header.nest_count = 0;
  EXPECT(!one.read(4096).ok());
  one.header.nest_count = 2;
  EXPECT(!one.read(4096).ok());
  one.header.nest_count = 0xffffffff;
  EXPECT(!one.read(4096).ok());
  CommandHeader header{1, 1, 1, 0, 1, 0xffffffff, 8};
  std::vector<std::byte> memory(command_bytes_max);
  std::memcpy(memory.data(), &header, sizeof header);
  std::vector<std::int64_t> scratch;
  Command command{header, {}, {}};
  EXPECT(!read_nests(memory.data(), slot_bytes, 4096, scratch, command).ok());
}

TEST(forged_counts_are_refused) {
  std::vector<std::int64_t> ranks{8, 0, LoopNest::loops_max + 1};
  for (int k = 0; k <= LoopNest::loops_max; ++k) ranks.insert(ranks.end(), {1, 8});
  EXPECT(!forged(ranks, 8).ok());
  Forged two;  // each nest fits the slot, both together do not
  two.words = {40000, 0, 0, 40000, 0, 0};
  two.header.nest_count = 2;
  two.header.bytes = 80000;
  EXPECT(!two.read(1 << 20).ok());
  // More words than a slot's command has room for, though the counts agree with each other.
  const std::size_t count = command_words_max / 3 * 3 + 3;
  std::vector<std::byte> memory(2 * command_bytes_max);
  CommandHeader header{1,
                       1,
                       1,
                       0,
                       static_cast<std::uint32_t>(count / 3),
                       static_cast<std::uint32_t>(count),
                       static_cast<std::int64_t>(count / 3)};
  for (std::size_t k = 0; k < count; k += 3) {
    const std::int64_t one = 1;
    std::memcpy(memory.data() + sizeof header + 8 * k, &one, 8);
  }
  std::vector<std::int64_t> scratch;
  Command command{header, {}, {}};
  EXPECT(!read_nests(memory.data(), slot_bytes, 4096, scratch, command).ok());
}
