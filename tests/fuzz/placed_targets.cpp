// Bytes that a peer sends over a network, and that the receiving side places in slots or directly
// in arrays. The peer sends anything, in any order.
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/check.hpp"
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

constexpr SlotGeometry geometry{3, 4096, 64, 1024};

bool inside(const std::byte* first, std::size_t bytes, const std::byte* room,
            std::size_t room_bytes) {
  return first >= room && bytes <= room_bytes &&
         static_cast<std::size_t>(first - room) <= room_bytes - bytes;
}

/// Writes up to `left` bytes where the wire would, and checks that they lie in a slot or the array.
/// Returns the number of bytes written.
std::size_t write_into(const ReceiveBuffer& buffer, const SlotSegment& segment, Guarded* array,
                       std::int64_t left) {
  std::size_t written = 0;
  const auto write = [&](std::span<std::byte> part) {
    const std::size_t bytes = std::min(part.size(), static_cast<std::size_t>(left) - written);
    bool allowed = array != nullptr && inside(part.data(), bytes, array->data(), array_bytes);
    for (int slot = 0; slot < geometry.slots; ++slot) {
      allowed = allowed || inside(part.data(), bytes, segment.data(slot),
                                  static_cast<std::size_t>(geometry.slot_bytes));
    }
    CHECK(allowed, "a peer's bytes are to go where nobody allowed");
    std::memset(part.data(), 0x5a, bytes);
    written += bytes;
  };
  if (buffer.bytes.empty()) return 0;
  write(buffer.bytes);
  for (const auto& part : buffer.more) write(part);
  return written;
}

/// Sends all bytes of a message, in the places that the wire would ask for; may stop at any of
/// them.
template <typename Place>
void send_bulk(const Place& place, const SlotSegment& segment, Guarded* array, std::int64_t bytes,
               Source& source) {
  std::int64_t offset = 0;
  while (offset < bytes) {
    const std::int64_t piece = std::min<std::int64_t>(bytes - offset, 1 + source.byte() * 8);
    const ReceiveBuffer buffer = place(offset, bytes - offset);
    const std::size_t written = write_into(buffer, segment, array, piece);
    if (written == 0 || source.byte() % 16 == 1) return;
    offset += static_cast<std::int64_t>(written);
  }
}

/// Returns a command of one to three nests, or of as many runs, some of whose words are then
/// changed.
std::vector<std::byte> some_command(Source& source, const std::array<std::uint64_t, 4>& ids) {
  CommandWriter writer(geometry.straight_bytes);
  const unsigned kind = source.byte();
  const auto operation = static_cast<Operation>(1 + kind % 3);
  for (unsigned k = 0; k <= kind / 8 % 3; ++k) {
    LoopNest nest;
    nest.element_bytes = 1 + source.byte();
    if (kind % 2 == 0) {
      nest.rank = 1;
      const unsigned loop = source.byte();
      const std::int64_t stride = nest.element_bytes * (loop / 16 % 4 - std::int64_t{1});
      nest.loops[0] = {1 + loop % 8, stride, loop % 16 < 8 ? nest.element_bytes : stride};
    }
    nest.target_offset = nest.source_offset = source.get<std::uint16_t>() % 2048;
    LoopNest local;
    const tranship::Run run{nest.source_offset, nest.target_offset, nest.element_bytes};
    if (kind % 32 >= 24) {
      if (writer.room_for_run()) (void)writer.add(run, operation);
    } else {
      (void)writer.add(nest, operation, local);
    }
  }
  CommandHeader header;
  header.export_id = ids[kind / 64];
  header.operation = static_cast<std::uint32_t>(operation);
  header.bytes = writer.bytes();
  std::vector<std::byte> area(static_cast<std::size_t>(command_bytes_max));
  area.resize(writer.write(header, area.data()));
  for (unsigned changes = source.byte() % 4; changes > 0; --changes) {
    const std::size_t at = source.byte() % area.size();
    const auto words = source.take(1 + source.byte() % 8);
    if (!words.empty())
      std::memcpy(&area[at], words.data(), std::min(words.size(), area.size() - at));
  }
  if (source.byte() % 8 == 7) area.resize(source.byte() % (area.size() + 1));
  return area;
}

void run_exporting(Source& source) {
  const SlotSegment segment = fresh_segment<geometry>();
  Guarded writable;
  Guarded readonly;
  const auto table = std::make_shared<ExportTable>();
  constexpr auto bytes = static_cast<std::int64_t>(array_bytes);
  (void)table->add({"w", "", {writable.data(), nullptr}, bytes, true, nullptr});
  (void)table->add({"r", "", {readonly.data(), nullptr}, bytes, false, nullptr});
  const std::array<std::uint64_t, 4> ids{table->find("w")->id(), table->find("w")->id(),
                                         table->find("r")->id(), 77};
  bool withdrawn = false;
  SlotServer::Options options;
  options.segment = segment;
  options.exports = table;
  options.copy = {copy_nests, copy_runs};
  options.network = true;
  options.answered = [&](int, const SlotBytes& answer) {
    if (answer.array.empty()) {
      CHECK(answer.bytes >= 0 && answer.bytes <= geometry.slot_bytes, "an answer beyond its slot");
      return;
    }
    CHECK(answer.array.size() == static_cast<std::size_t>(answer.bytes), "another length");
    for (const auto& part : answer.array.parts()) {
      const bool known = inside(part.data(), part.size(), writable.data(), array_bytes) ||
                         inside(part.data(), part.size(), readonly.data(), array_bytes);
      CHECK(known && answer.owner != nullptr, "an answer of bytes that nobody exports");
    }
  };
  const auto server = std::make_shared<SlotServer>(std::move(options));
  while (!source.empty()) {
    const auto command = some_command(source, ids);
    const unsigned action = source.byte();
    const int slot = static_cast<int>(action) % (geometry.slots + 1);
    std::array<std::byte, sizeof(CommandHeader)> head{};
    std::copy_n(command.begin(), std::min(command.size(), head.size()), head.begin());
    const std::int64_t length =
        action % 4 == 0 ? source.get<std::uint16_t>() : read_header(head.data()).bytes;
    const auto place = [&](std::int64_t offset, std::int64_t left) {
      return server->place(slot, command, offset, left);
    };
    if (length > 0 && length <= 1 << 16) {
      send_bulk(place, segment, withdrawn ? nullptr : &writable, length, source);
    }
    if (slot < geometry.slots && segment.state(slot) != SlotState::submitted) {
      std::ranges::copy(command, segment.command(slot));
      segment.set_state(slot, SlotState::submitted);
      bool more = false;
      std::vector<std::byte> question;
      if (action % 16 != 15) (void)server->serve(more, question);
    }
    if (action == 255 && !withdrawn) {
      (void)table->remove("w");
      withdrawn = true;
    }
  }
  server->stop();
  writable.check(false);
  readonly.check(true);
}

void run_requesting(Source& source) {
  const SlotSegment segment = fresh_segment<geometry>();
  Guarded mine;
  Requester::Options options;
  options.segment = segment;
  options.peer = "a peer";
  options.leases = false;
  options.copy = {copy_nests, copy_runs};
  options.publish = [](int, std::size_t, const SlotBytes&) {};
  options.keep_bulk = [] {};
  Requester requester(std::move(options));
  const auto queue = std::make_shared<FinishedQueue>();
  std::array<LoopNest, 2> nests;
  for (LoopNest& nest : nests) nest.element_bytes = static_cast<std::int64_t>(array_bytes);
  nests[1].element_bytes = 10;
  nests[1].rank = 1;
  nests[1].loops[0] = {static_cast<std::int64_t>(array_bytes) / 10, 10, 10};
  std::array<Finished, 8> finished;
  int reads = 0;
  std::uint64_t tag = 0;
  const auto take = [&] {
    (void)requester.progress();
    while (const std::size_t count = queue->take(finished)) {
      for (std::size_t k = 0; k < count; ++k) reads -= finished[k].tag % 2 == 1 ? 1 : 0;
    }
  };
  while (!source.empty()) {
    const unsigned action = source.byte();
    const int slot = static_cast<int>(action / 8) % (geometry.slots + 1);
    switch (action % 4) {
      case 0: {
        if (tag > 40) break;
        Requester::Transfer transfer;
        const bool read = action % 8 == 0;
        transfer.operation = read ? Operation::read : Operation::write;
        ++tag;
        if ((tag % 2 == 1) != read) ++tag;  // reads have odd tags
        transfer.request.tag = tag;
        transfer.remote.plain = action < 192;
        transfer.request.payload = std::span(&nests[action / 16 % 2], 1);
        transfer.request.bytes = static_cast<std::int64_t>(array_bytes);
        (read ? transfer.request.target : transfer.request.source).address = mine.data();
        reads += read ? 1 : 0;
        (void)requester.submit(transfer, queue);
        break;
      }
      case 1: {
        const std::int64_t bytes = source.get<std::uint16_t>() % 4200;
        const auto place = [&](std::int64_t offset, std::int64_t left) {
          return requester.place(slot, offset, left);
        };
        send_bulk(place, segment, reads > 0 ? &mine : nullptr, bytes, source);
        break;
      }
      case 2:
        if (tag > 0) requester.cancel(*queue, 1 + source.byte() % tag);
        break;
      default:
        if (slot == geometry.slots || segment.state(slot) != SlotState::submitted) break;
        segment.control(slot).error_code = action % 32 == 3 ? source.byte() : 0;
        segment.set_state(slot, SlotState::done);
    }
    take();
  }
  requester.fail({ErrorCode::closed, "the end"});
  take();
  CHECK(reads == 0, "a read that never ends");
  mine.check(false);
}

}  // namespace

void run_placed(std::span<const std::byte> input) {
  Source source(input);
  if (source.byte() % 2 == 0) {
    run_exporting(source);
  } else {
    run_requesting(source);
  }
}

}  // namespace tranship::fuzz
