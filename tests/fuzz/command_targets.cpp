// Commands in slots, on both sides of a link whose other side may overwrite the shared memory at
// any time.
#include <array>
#include <deque>
#include <vector>

#include "channels/host/copy.hpp"
#include "channels/host/runs.hpp"
#include "fabric/links/requester.hpp"
#include "fabric/links/slot_server.hpp"
#include "fabric/messages/command.hpp"
#include "fuzz/memory.hpp"
#include "fuzz/targets.hpp"

namespace tranship::fuzz {

using namespace fabric;
namespace {

using Wide = __int128;

/// First byte and one past the last byte that a nest touches, in numbers that cannot overflow.
struct Reach {
  Wide first = 0;
  Wide end = 0;
};
Reach reach_of(const LoopNest& nest, bool source) {
  Reach reach;
  reach.first = reach.end = source ? nest.source_offset : nest.target_offset;
  reach.end += nest.element_bytes;
  for (std::size_t k = 0; k < static_cast<std::size_t>(nest.rank); ++k) {
    const Loop& loop = nest.loops[k];
    const Wide stride = source ? loop.source_stride : loop.target_stride;
    const Wide span = Wide{loop.extent - 1} * stride;
    (span < 0 ? reach.first : reach.end) += span;
  }
  return reach;
}

void check_inside(const LoopNest& nest, bool source, std::int64_t bytes) {
  CHECK(nest.rank >= 0 && nest.rank <= LoopNest::loops_max, "a rank that there is not");
  CHECK(nest.element_bytes >= 1, "an element without bytes");
  const Reach reach = reach_of(nest, source);
  CHECK(reach.first >= 0 && reach.end <= bytes, "a command leads outside");
}

void check_inside(const tranship::Run& run, std::int64_t source_bytes, std::int64_t target_bytes) {
  CHECK(run.bytes >= 1, "a run without bytes");
  CHECK(run.source_offset >= 0 && run.source_offset <= source_bytes - run.bytes, "a run outside");
  CHECK(run.target_offset >= 0 && run.target_offset <= target_bytes - run.bytes, "a run outside");
}

}  // namespace

void run_commands(std::span<const std::byte> input) {
  Source source(input);
  const unsigned kind = source.byte();
  const std::int64_t slot_bytes = 4096 * (1 + kind % 2);
  // Commands on small exports are carried out; large exports test the arithmetic.
  const auto wanted = source.get<std::uint64_t>();
  const bool small = kind % 4 < 2;
  const auto export_bytes = static_cast<std::int64_t>(small ? wanted % 8192 : wanted >> 1);
  std::vector<std::byte> area(static_cast<std::size_t>(command_bytes_max));
  const auto words = source.take(area.size());
  if (!words.empty()) std::memcpy(area.data(), words.data(), words.size());
  Command command;
  command.header = read_header(area.data());
  std::vector<std::int64_t> scratch;
  if (!read_nests(area.data(), slot_bytes, export_bytes, scratch, command)) return;
  const bool write = command.header.operation == static_cast<std::uint32_t>(Operation::write);
  CHECK(command.header.bytes >= 0 && command.header.bytes <= slot_bytes, "more than a slot");
  for (const LoopNest& nest : command.nests) {
    check_inside(nest, write, slot_bytes);
    check_inside(nest, !write, export_bytes);
  }
  for (const tranship::Run& run : command.runs) {
    check_inside(run, write ? slot_bytes : export_bytes, write ? export_bytes : slot_bytes);
  }
  if (!small) return;
  // The sizes are exact, so that AddressSanitizer sees an access beyond them.
  std::vector<std::byte> slot(static_cast<std::size_t>(slot_bytes));
  std::vector<std::byte> array(static_cast<std::size_t>(export_bytes));
  const auto& from = write ? slot : array;
  auto& to = write ? array : slot;
  copy_nests(command.nests, from.data(), to.data(), command.header.cold != 0);
  copy_runs(command.runs, from.data(), to.data(), command.header.cold != 0);
}

namespace {

constexpr SlotGeometry geometry{3, 4096};

/// Writes some words at a place that the input chooses, as a peer may do to the memory at any time.
void scribble(const SlotSegment& segment, Source& source) {
  const unsigned where = source.byte();
  const int slot = static_cast<int>(where) % geometry.slots;
  const std::size_t offset = source.get<std::uint16_t>();
  const auto words = source.take(source.byte());
  const std::size_t room = where % 8 < 4 ? static_cast<std::size_t>(command_bytes_max)
                                         : static_cast<std::size_t>(geometry.slot_bytes);
  std::byte* area = where % 8 < 4 ? segment.command(slot) : segment.data(slot);
  const std::size_t begin = offset % room;
  const std::size_t length = std::min(words.size(), room - begin);
  if (length > 0) std::memcpy(area + begin, words.data(), length);
  if (where % 16 < 8) return;
  SlotControl& control = segment.control(slot);
  control.error_code = source.byte();
  control.text_bytes = source.get<std::uint32_t>();
  control.reply_bytes = source.get<std::uint32_t>();
  ExportLease& lease = segment.header().leases[offset % exports_max];
  lease.export_id.store(source.get<std::uint64_t>());
  lease.users.store(source.get<std::uint32_t>());
}

/// Three exports: one that is writable, one that is not, and one behind an attachment.
struct Exporter {
  struct Stub final : Attachment {};

  Guarded writable;
  Guarded readonly;
  Stub stub;
  std::shared_ptr<ExportTable> table = std::make_shared<ExportTable>();
  std::array<std::uint64_t, 4> ids{};
  std::deque<std::function<void(Status)>> pending;

  Exporter() {
    constexpr auto bytes = static_cast<std::int64_t>(array_bytes);
    ExportedArray noticed{"w", "", {writable.data(), nullptr}, bytes, true, nullptr};
    noticed.takes_notices = true;
    (void)table->add(std::move(noticed));
    (void)table->add({"r", "", {readonly.data(), nullptr}, bytes, false, nullptr});
    (void)table->add({"a", "", {nullptr, &stub}, bytes, true, nullptr});
    std::size_t k = 0;
    for (const char* name : {"w", "r", "a"}) ids[k++] = table->find(name)->id();
    ids[3] = 77;
  }

  SlotServer::Options options(const SlotSegment& segment, Source& source) {
    SlotServer::Options made;
    made.segment = segment;
    made.exports = table;
    // The peer continues to overwrite the memory while its command is carried out.
    made.copy.nests = [segment, &source](std::span<const LoopNest> nests, const std::byte* from,
                                         std::byte* to, bool cold) {
      scribble(segment, source);
      copy_nests(nests, from, to, cold);
    };
    made.copy.runs = [segment, &source](std::span<const tranship::Run> runs, const std::byte* from,
                                        std::byte* to, bool cold) {
      scribble(segment, source);
      copy_runs(runs, from, to, cold);
    };
    made.execute = [this](const Request& request, std::function<void(Status)> done) {
      for (const LoopNest& nest : request.payload.nests()) {
        const bool write = request.target.attachment != nullptr;
        check_inside(nest, !write, static_cast<std::int64_t>(array_bytes));
        check_inside(nest, write, geometry.slot_bytes);
      }
      pending.push_back(std::move(done));
    };
    made.answer = [segment, &source](RequesterId, std::span<const std::byte> question,
                                     std::span<std::byte> reply) -> Result<std::size_t> {
      CHECK(std::ssize(question) <= geometry.slot_bytes, "a question longer than a slot");
      scribble(segment, source);
      if (question.size() % 5 == 4) return Error{ErrorCode::io, std::string(3000, 'x')};
      const std::size_t length = std::min(question.size(), reply.size());
      if (length > 0) std::memcpy(reply.data(), question.data(), length);
      return length;
    };
    made.take_notice = [segment, &source](const CopyNotice& notice) -> Status {
      CHECK(check_notice_name(notice.name).ok(), "a notice with a name that no call gives");
      CHECK(notice.array == "w", "a notice of an array that takes none");
      scribble(segment, source);
      return notice.written ? Status{} : Status(Error{ErrorCode::out_of_memory, "no room"});
    };
    made.answered = [segment](int slot, const SlotBytes& bytes) {
      CHECK(slot >= 0 && slot < geometry.slots, "an answer of a slot that there is not");
      CHECK(bytes.bytes >= 0 && bytes.bytes <= geometry.slot_bytes, "an answer longer than a slot");
      CHECK(segment.control(slot).text_bytes <= 1024, "an error of any length");
    };
    return made;
  }
};

}  // namespace

/// Runs the exporting side: the input says what the peer writes, and when.
void run_slots(std::span<const std::byte> input) {
  Source source(input);
  const SlotSegment segment = fresh_segment<geometry>();
  Exporter exporter;
  const auto server = std::make_shared<SlotServer>(exporter.options(segment, source));
  while (!source.empty()) {
    const unsigned action = source.byte();
    const int slot = static_cast<int>(action) % geometry.slots;
    if (action % 8 < 3) {
      scribble(segment, source);
    } else if (action % 8 == 7 && !exporter.pending.empty()) {
      const auto done = std::move(exporter.pending.front());
      exporter.pending.pop_front();
      done(action < 128 ? Status{} : Status(Error{ErrorCode::io, "the disk is full"}));
    } else {
      // The header names one of the exports more often than by chance.
      CommandHeader header = read_header(segment.command(slot));
      header.export_id = exporter.ids[action / 64];
      if (action % 2 == 0) std::memcpy(segment.command(slot), &header, sizeof header);
      segment.set_state(slot, SlotState::submitted);
      bool more = false;
      std::vector<std::byte> question;
      (void)server->serve(more, question);
    }
  }
  server->stop();
  while (!exporter.pending.empty()) {
    exporter.pending.front()({});
    exporter.pending.pop_front();
  }
  CHECK(!server->executing(), "a command that never ends");
  exporter.writable.check(false);
  exporter.readonly.check(true);
}

/// Runs the requesting side: the exporter sends answers without a question, and of other kinds.
void run_requester(std::span<const std::byte> input) {
  Source source(input);
  const SlotSegment segment = fresh_segment<geometry>();
  Guarded mine;
  Requester::Options options;
  options.segment = segment;
  options.peer = "a peer";
  options.copy.nests = [&](std::span<const LoopNest> nests, const std::byte* from, std::byte* to,
                           bool cold) {
    scribble(segment, source);
    copy_nests(nests, from, to, cold);
  };
  options.copy.runs = [&](std::span<const tranship::Run> runs, const std::byte* from, std::byte* to,
                          bool cold) {
    scribble(segment, source);
    copy_runs(runs, from, to, cold);
  };
  options.publish = [](int, std::size_t, const SlotBytes&) {};
  Requester requester(std::move(options));
  const auto queue = std::make_shared<FinishedQueue>();
  LoopNest nest;
  nest.element_bytes = 10;
  nest.rank = 1;
  nest.loops[0] = {static_cast<std::int64_t>(array_bytes) / 10, 10, 10};
  const std::vector<std::byte> told(100);
  std::array<Finished, 8> finished;
  int asked = 0;
  while (!source.empty()) {
    const unsigned action = source.byte();
    const int slot = static_cast<int>(action / 16) % geometry.slots;
    switch (action % 5) {
      case 0: {
        if (++asked > 20) break;
        Requester::Transfer transfer;
        transfer.request.payload = std::span(&nest, 1);
        transfer.request.bytes = static_cast<std::int64_t>(array_bytes);
        transfer.operation = action % 2 == 0 ? Operation::read : Operation::write;
        (transfer.operation == Operation::read ? transfer.request.target : transfer.request.source)
            .address = mine.data();
        (void)requester.submit(transfer, queue);
        break;
      }
      case 1: (void)requester.tell(told); break;
      case 2: scribble(segment, source); break;
      case 3: segment.set_state(slot, static_cast<SlotState>(action / 32)); break;
      default: segment.set_state(slot, SlotState::done);
    }
    (void)requester.progress();
    while (queue->take(finished) > 0) continue;
  }
  requester.fail({ErrorCode::closed, "the end"});
  while (queue->take(finished) > 0) continue;
  mine.check(false);
}

}  // namespace tranship::fuzz
