// Bytes that go over a network directly from memory to memory, without the slots.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/random.hpp"
#include "fabric/helpers.hpp"

using namespace tranship;
using namespace tranship::fabric;
using namespace tranship::test;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t array_bytes = std::int64_t{5} << 20;

/// Returns a nest of rows, which on each side are dense or have gaps as long as a row.
LoopNest rows_of(std::int64_t rows, std::int64_t row_bytes, bool dense_source, bool dense_target) {
  LoopNest nest;
  nest.element_bytes = row_bytes;
  nest.rank = 1;
  nest.loops[0] = {rows, row_bytes * (dense_source ? 1 : 2), row_bytes * (dense_target ? 1 : 2)};
  return nest;
}

/// Returns a box of planes of rows, with gaps between the rows and between the planes.
LoopNest random_box(Random& random) {
  const std::int64_t row_bytes = random.between(1, 20000);
  LoopNest nest = rows_of(random.between(1, 20), row_bytes, random.chance(0.5), random.chance(0.5));
  Loop& rows = nest.loops[0];
  nest.loops[nest.rank++] = {random.between(1, 3), rows.source_stride * rows.extent + 100,
                             rows.target_stride * rows.extent + (random.chance(0.5) ? 100 : 0)};
  return nest;
}

LoopNest random_nest(Random& random) {
  const std::int64_t sizes[] = {1, 8191, 8192, 8193, 16384, 65536, 1 << 20, (1 << 20) + 1};
  if (random.chance(0.3)) return random_box(random);
  if (random.chance(0.4)) {
    return rows_of(random.between(1, 600), random.between(1, 3000), random.chance(0.5),
                   random.chance(0.5));
  }
  const std::int64_t bytes =
      random.chance(0.5) ? sizes[random.below(8)] : random.between(1, array_bytes / 2);
  LoopNest nest = run_of(bytes);
  nest.source_offset = random.below(array_bytes / 2);
  nest.target_offset = random.below(array_bytes / 2);
  return nest;
}

/// Compares by memcmp, which sanitizers do not slow down.
bool same(const std::vector<std::byte>& one, const std::vector<std::byte>& other) {
  return one.size() == other.size() && std::memcmp(one.data(), other.data(), one.size()) == 0;
}

/// Memory with a mapping of its own: an access after its release crashes the process.
struct Mapping {
  Mapping()
      : data(static_cast<std::byte*>(mmap(nullptr, array_bytes, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    REQUIRE(data != MAP_FAILED);
  }
  ~Mapping() { give_back(); }
  void give_back() {
    if (data != nullptr) munmap(data, array_bytes);
    data = nullptr;
  }
  std::byte* data;
};

/// Runs of one length each, scattered over the array, in several lists.
struct RandomLists {
  explicit RandomLists(Random& random) {
    const std::int64_t cell_bytes = random.between(1, 60000);
    const std::int64_t cells = array_bytes / cell_bytes;
    const std::int64_t count = std::min<std::int64_t>(cells, 3000);
    std::vector<std::int64_t> places(static_cast<std::size_t>(cells));
    std::iota(places.begin(), places.end(), 0);
    for (std::size_t k = places.size() - 1; k > 0; --k) {
      std::swap(places[k], places[static_cast<std::size_t>(random.below(std::ssize(places)))]);
    }
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t place = places[static_cast<std::size_t>(k)];
      entries.push_back({random.below(cells) * cell_bytes, place * cell_bytes, 1});
    }
    const std::size_t cut = entries.size() / 3;
    for (const auto& part : {std::span(entries).first(cut), std::span(entries).subspan(cut)}) {
      if (part.empty()) continue;
      IndexedNest& list = lists.emplace_back();
      list.nest = run_of(random.between(1, cell_bytes));
      list.entries = part;
    }
    expand(lists, nests);
  }

  std::vector<IndexedEntry> entries;
  std::vector<IndexedNest> lists;
  std::vector<LoopNest> nests;  ///< the same, as nests
};

/// A copy of the whole array, or of every second 64 KiB.
struct Copy {
  Copy(RemoteArray& array, std::byte* local, bool write, bool whole = true)
      : nest(whole ? run_of(array_bytes) : rows_of(array_bytes >> 17, 1 << 16, false, false)),
        request(write ? write_request({&nest, 1}, local, array)
                      : read_request({&nest, 1}, array, local)) {
    request.tag = 1;
  }

  LoopNest nest;
  Request request;
};

std::shared_ptr<RemoteArray> export_to(Pair& pair, std::byte* data) {
  REQUIRE(pair.exporter->export_array({"a", "", {data, nullptr}, array_bytes, true, nullptr}).ok());
  return look_up(*pair.requester, pair.peer, "a");
}

void bytes_arrive(int sockets) {
  Pair pair(Transport::network, sockets);
  auto there = pattern(array_bytes, 1);
  auto here = pattern(array_bytes, 2);
  const auto array = export_to(pair, there.data());
  auto expected_there = there;
  auto expected_here = here;
  Random random(7);
  for (int round = 0; round < 120; ++round) {
    const bool write = random.chance(0.5);
    const RandomLists lists(random);
    const bool listed = random.chance(0.4);
    std::vector<LoopNest> nests = lists.nests;
    if (!listed) {
      nests = {random_nest(random)};
    }
    Request request = write ? write_request(nests, here.data(), *array)
                            : read_request(nests, *array, here.data());
    if (listed) {
      request.payload = lists.lists;
    }
    EXPECT(carry(pair.channel, request).ok());
    slow_copy(nests, write ? expected_here.data() : expected_there.data(),
              write ? expected_there.data() : expected_here.data(), false);
    EXPECT(same(there, expected_there));
    EXPECT(same(here, expected_here));
  }
}

void cancel_copies(int sockets) {
  Pair pair(Transport::network, sockets);
  auto there = pattern(array_bytes, 1);
  const auto array = export_to(pair, there.data());
  for (int round = 0; round < 20; ++round) {
    Mapping local;
    Copy copy(*array, local.data, round % 2 == 0, round % 3 != 0);
    REQUIRE(pair.channel.submit(copy.request).ok());
    if (round % 4 >= 2) std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
    pair.channel.cancel(1);
    const Status status = finish_one(pair.channel);
    EXPECT(status.ok() || status.error().code == ErrorCode::cancelled);
    local.give_back();
  }
  auto here = pattern(array_bytes, 3);
  Copy copy(*array, here.data(), true);
  REQUIRE(pair.channel.submit(copy.request).ok());
  EXPECT(finish_one(pair.channel).ok());
  EXPECT(same(there, here));
}

void withdraw_under_copies(int sockets) {
  for (int round = 0; round < 10; ++round) {
    Pair pair(Transport::network, sockets);
    Mapping there;
    const auto array = export_to(pair, there.data);
    std::vector<std::byte> here(array_bytes);
    Copy copy(*array, here.data(), round % 2 == 0, round % 3 != 0);
    REQUIRE(pair.channel.submit(copy.request).ok());
    std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
    // The requester takes no answer while the array is withdrawn.
    EXPECT(pair.exporter->withdraw("a").ok());
    there.give_back();
    const Status status = finish_one(pair.channel);
    EXPECT(status.ok() || status.error().code == ErrorCode::not_found);
  }
}

void close_under_copies(int sockets) {
  for (int round = 0; round < 10; ++round) {
    Pair pair(Transport::network, sockets);
    Mapping there;
    Mapping here;
    const auto array = export_to(pair, there.data);
    Copy copy(*array, here.data, round % 2 == 0, round % 3 != 0);
    REQUIRE(pair.channel.submit(copy.request).ok());
    Fabric& first = round % 4 < 2 ? *pair.requester : *pair.exporter;
    EXPECT(first.close().ok());
    (first.contact() == pair.requester->contact() ? here : there).give_back();
    const Status status = finish_one(pair.channel);
    EXPECT(status.ok() || status.error().code == ErrorCode::closed ||
           status.error().code == ErrorCode::peer_lost);
  }
}

/// Runs the test over one socket, and over four.
template <typename Test>
void with_sockets(const Test& test) {
  for (const int sockets : {1, 4}) test(sockets);
}

}  // namespace

TEST(bytes_arrive_whether_they_go_straight_or_not) { with_sockets(bytes_arrive); }

TEST(memory_of_a_cancelled_copy_is_not_touched_any_more) { with_sockets(cancel_copies); }

TEST(withdrawn_memory_is_not_touched_any_more) { with_sockets(withdraw_under_copies); }

TEST(closing_ends_what_is_read_straight_from_memory) { with_sockets(close_under_copies); }

namespace {

/// A segment, and a server of one array, whose answers are kept.
struct Served {
  explicit Served(bool network, bool writable = true) : segment(make_segment()) {
    const ExportedArray array{"a", "", {data.data(), nullptr}, std::ssize(data), writable, nullptr};
    REQUIRE(exports->add(array).ok());
    SlotServer::Options options;
    options.segment = segment;
    options.exports = exports;
    options.copy = slow_copier;
    options.network = network;
    options.answered = [this](int, const SlotBytes& bytes) { answers.push_back(bytes); };
    server = std::make_shared<SlotServer>(std::move(options));
  }

  static SlotSegment make_segment() {
    const SlotGeometry geometry{1, 16384};
    return {*SharedMemory::allocate({SlotSegment::bytes(geometry), false, false}), geometry};
  }

  /// Writes a command of one run into the slot; returns the command's bytes.
  std::span<const std::byte> command(Operation operation, std::int64_t bytes) {
    CommandWriter writer(std::int64_t{1} << 30);
    LoopNest local;
    REQUIRE(writer.add(run_of(bytes), operation, local));
    CommandHeader header;
    header.export_id = exports->find("a")->id();
    header.operation = static_cast<std::uint32_t>(operation);
    return {segment.command(0), writer.write(header, segment.command(0))};
  }

  void serve() {
    segment.set_state(0, SlotState::submitted);
    bool more = false;
    std::vector<std::byte> question;
    EXPECT(server->serve(more, question));
    segment.set_state(0, SlotState::free);
  }

  SlotSegment segment;
  std::vector<std::byte> data = pattern(1 << 21, 1);
  std::shared_ptr<ExportTable> exports = std::make_shared<ExportTable>();
  std::vector<SlotBytes> answers;
  std::shared_ptr<SlotServer> server;
};

}  // namespace

TEST(a_peer_s_bytes_are_placed_only_as_its_command_says) {
  Served served(true);
  const auto write = served.command(Operation::write, 100000);
  const auto room = served.server->place(0, write, 1000, 99000);
  EXPECT(room.bytes.data() == served.data.data() + 1000 && room.bytes.size() == 99000);
  // fewer bytes than in the command
  EXPECT(served.server->place(0, write, 0, 99999).bytes.empty());
  // more bytes than in the command
  EXPECT(served.server->place(0, write, 1000, 100000).bytes.empty());
  EXPECT(served.server->place(1, write, 0, 100000).bytes.empty());  // no such slot
  EXPECT(served.server->place(0, write.first(write.size() - 8), 0, 100000).bytes.empty());
  const auto beyond = served.command(Operation::write, 3 << 20);
  // more bytes than one command may move
  EXPECT(served.server->place(0, beyond, 0, 3 << 20).bytes.empty());
  served.segment.set_state(0, SlotState::submitted);
  const auto again = served.command(Operation::write, 100000);
  // the command is being carried out
  EXPECT(served.server->place(0, again, 0, 100000).bytes.empty());
}

TEST(bytes_for_an_array_that_is_gone_stay_in_the_slot) {
  Served served(true);
  const auto write = served.command(Operation::write, 100000);
  const auto gone = served.exports->remove("a");
  for (std::int64_t offset = 0; offset < 100000;) {
    const auto room = served.server->place(0, write, offset, 100000 - offset).bytes;
    REQUIRE(!room.empty());
    EXPECT(room.data() >= served.segment.data(0));
    EXPECT(room.data() + room.size() <= served.segment.data(0) + 16384);
    offset += static_cast<std::int64_t>(std::min<std::size_t>(room.size(), 100000));
  }
  served.serve();
  EXPECT_EQ(served.segment.control(0).error_code,
            1 + static_cast<std::uint32_t>(ErrorCode::not_found));
}

TEST(bytes_for_an_array_that_is_read_only_stay_in_the_slot) {
  Served served(true, false);
  const auto write = served.command(Operation::write, 100000);
  const auto room = served.server->place(0, write, 0, 100000).bytes;
  EXPECT(room.data() == served.segment.data(0) && room.size() == 16384);
  served.serve();
  EXPECT_EQ(served.segment.control(0).error_code,
            1 + static_cast<std::uint32_t>(ErrorCode::permission));
}

TEST(an_answer_brings_what_was_asked_for) {
  const SlotSegment segment = Served::make_segment();
  std::vector<std::byte> here(100000);
  Requester::Options options;
  options.segment = segment;
  options.peer = "a peer";
  options.copy = slow_copier;
  options.publish = [](int, std::size_t, const SlotBytes&) {};
  options.keep_bulk = [] {};
  Requester requester(std::move(options));
  const LoopNest nest = run_of(100000);
  const auto queue = std::make_shared<FinishedQueue>();
  const auto ask = [&](std::uint64_t tag) {
    Requester::Transfer transfer;
    transfer.request.payload = std::span(&nest, 1);
    transfer.request.target.address = here.data();
    transfer.request.bytes = 100000;
    transfer.request.tag = tag;
    transfer.remote.plain = true;
    transfer.operation = Operation::read;
    REQUIRE(requester.submit(transfer, queue).ok());
  };
  const auto answer = [&] {
    segment.set_state(0, SlotState::done);
    (void)requester.progress();
  };
  EXPECT(requester.place(0, 0, 100000).bytes.empty());  // no request is in flight
  ask(1);
  EXPECT(requester.place(0, 0, 65536).bytes.data() == here.data());
  EXPECT(requester.place(0, 65536, 1).bytes.empty());
  EXPECT(requester.place(1, 0, 65536).bytes.empty());
  requester.cancel(*queue, 1);
  std::array<Finished, 1> finished;
  REQUIRE(queue->take(finished) == 1);
  const auto room = requester.place(0, 0, 65536).bytes;
  EXPECT(room.data() == segment.data(0));  // the bytes go to the slot, and the answer is dropped
  answer();
  ask(2);
  answer();  // the answer reports success, but no bytes came
  REQUIRE(queue->take(finished) == 1);
  EXPECT(!finished[0].status && finished[0].status.error().code == ErrorCode::peer_lost);
}

TEST(an_array_stays_in_use_until_its_answer_is_sent_no_more) {
  Served served(true);
  (void)served.command(Operation::read, 1 << 20);
  served.serve();
  REQUIRE(served.answers.size() == 1);
  REQUIRE(served.answers[0].array.parts().size() == 1);
  EXPECT(served.answers[0].array.parts()[0].data() == served.data.data());
  EXPECT(served.answers[0].bytes == 1 << 20 && served.answers[0].array.size() == 1 << 20);
  const auto gone = served.exports->remove("a");
  EXPECT(!served.exports->wait_unused(*gone, 0ms));
  served.answers.clear();
  EXPECT(served.exports->wait_unused(*gone, 0ms));
}

TEST(on_one_machine_no_command_moves_more_than_a_slot_holds) {
  Served served(false);
  (void)served.command(Operation::read, 100000);
  served.serve();
  EXPECT_EQ(served.segment.control(0).error_code,
            1 + static_cast<std::uint32_t>(ErrorCode::invalid_argument));
}

TEST(a_command_of_more_than_a_slot_holds_has_long_runs) {
  for (const std::int64_t row_bytes : {1000, 4000}) {
    Served served(true);
    CommandWriter writer(std::int64_t{1} << 30);
    LoopNest local;
    REQUIRE(writer.add(rows_of(100, row_bytes, false, false), Operation::read, local));
    CommandHeader header;
    header.export_id = served.exports->find("a")->id();
    header.operation = static_cast<std::uint32_t>(Operation::read);
    (void)writer.write(header, served.segment.command(0));
    served.serve();
    const auto refused = 1 + static_cast<std::uint32_t>(ErrorCode::invalid_argument);
    EXPECT_EQ(served.segment.control(0).error_code, row_bytes == 1000 ? refused : 0);
    REQUIRE(served.answers.size() == 1);
    EXPECT_EQ(served.answers[0].array.parts().size(), row_bytes == 1000 ? 0U : 100U);
  }
}
