#include <atomic>
#include <cmath>
#include <mutex>
#include <random>

#include "fabric/helpers.hpp"

using namespace tranship;
using namespace tranship::fabric;
using namespace tranship::test;
using namespace std::chrono_literals;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A pair of fabrics with one exported array, and an oracle for its content.
struct Scene {
  explicit Scene(Transport transport, std::size_t bytes = 300'000)
      : pair(transport), remote(pattern(bytes, 1)), local(pattern(bytes, 2)) {
    ExportedArray array;
    array.name = "array";
    array.place.address = remote.data();
    array.bytes = static_cast<std::int64_t>(bytes);
    REQUIRE(pair.exporter->export_array(array).ok());
    this->array = look_up(*pair.requester, pair.peer, "array");
  }

  void expect_write(std::span<const LoopNest> nests) {
    auto expected = remote;
    slow_copy(nests, local.data(), expected.data(), false);
    expect_ok(carry(pair.channel, write_request(nests, local.data(), *array)));
    EXPECT(remote == expected);
  }

  void expect_read(std::span<const LoopNest> nests) {
    auto expected = local;
    slow_copy(nests, remote.data(), expected.data(), false);
    expect_ok(carry(pair.channel, read_request(nests, *array, local.data())));
    EXPECT(local == expected);
  }

  static void expect_ok(const Status& status) {
    if (!status) record_failure(__FILE__, __LINE__, status.error().text());
  }

  Pair pair;
  std::vector<std::byte> remote;
  std::vector<std::byte> local;
  std::shared_ptr<RemoteArray> array;
};

const Transport transports[] = {Transport::automatic, Transport::network};

LoopNest transpose(std::int64_t rows, std::int64_t columns, std::int64_t element_bytes) {
  LoopNest nest;
  nest.element_bytes = element_bytes;
  nest.rank = 2;
  nest.loops[0] = {rows, columns * element_bytes, element_bytes};
  nest.loops[1] = {columns, element_bytes, rows * element_bytes};
  return nest;
}

LoopNest random_nest(std::mt19937& random, std::int64_t bytes) {
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  LoopNest nest;
  nest.element_bytes = pick(1, 3) == 1 ? pick(1, 3000) : 1 << pick(0, 4);
  nest.rank = static_cast<int>(pick(0, 3));
  std::int64_t source_span = nest.element_bytes;
  std::int64_t target_span = nest.element_bytes;
  for (std::size_t k = 0; k < static_cast<std::size_t>(nest.rank); ++k) {
    const std::int64_t room = bytes / 4 / std::max(source_span, target_span);
    const std::int64_t extent =
        pick(1, std::max<std::int64_t>(1, std::min<std::int64_t>(40, room)));
    nest.loops[k] = {extent, source_span + pick(0, 8), target_span + pick(0, 8)};
    if (pick(0, 5) == 0) nest.loops[k].source_stride = 0;
    source_span += (extent - 1) * nest.loops[k].source_stride;
    target_span += (extent - 1) * nest.loops[k].target_stride;
  }
  if (source_span > bytes || target_span > bytes) return run_of(1);
  nest.source_offset = pick(0, bytes - source_span);
  nest.target_offset = pick(0, bytes - target_span);
  if (nest.rank > 0 && pick(0, 2) == 0) {  // one loop runs backwards
    Loop& loop = nest.loops[0];
    nest.target_offset += (loop.extent - 1) * loop.target_stride;
    loop.target_stride = -loop.target_stride;
  }
  if (nest.rank > 1) std::swap(nest.loops[0], nest.loops[1]);
  return nest;
}

}  // namespace

TEST(remote_contiguous_of_all_sizes) {
  for (const auto transport : transports) {
    Scene scene(transport);
    for (const std::int64_t bytes : {1, 8, 100, 4096, 16384, 16385, 65536, 300'000}) {
      const LoopNest nest = run_of(bytes);
      scene.expect_write({&nest, 1});
      scene.expect_read({&nest, 1});
    }
  }
}

TEST(remote_strided_and_transposed) {
  for (const auto transport : transports) {
    Scene scene(transport);
    LoopNest rows;
    rows.element_bytes = 52;
    rows.source_offset = 12;
    rows.target_offset = 7;
    rows.rank = 1;
    rows.loops[0] = {1000, 100, 200};
    const std::vector<std::vector<LoopNest>> requests{
        {rows}, {transpose(200, 300, 4)}, {transpose(129, 77, 8)}, {transpose(500, 600, 1)}};
    for (const auto& nests : requests) {
      scene.expect_write(nests);
      scene.expect_read(nests);
    }
    std::vector<LoopNest> many;
    for (int k = 0; k < 3000; ++k) {
      LoopNest nest = run_of(1 + k % 17);
      nest.source_offset = 90 * k;
      nest.target_offset = 270'000 - 80 * k;
      many.push_back(nest);
    }
    scene.expect_write(many);
    scene.expect_read(many);
  }
}

TEST(remote_random_nests_match_the_oracle) {
  for (const auto transport : transports) {
    Scene scene(transport, 100'000);
    std::mt19937 random(11);
    for (int round = 0; round < 150; ++round) {
      std::vector<LoopNest> nests{random_nest(random, 100'000)};
      if (round % 3 == 0) nests.push_back(random_nest(random, 100'000));
      scene.expect_write(nests);
      scene.expect_read(nests);
    }
  }
}

TEST(remote_many_requests_at_once) {
  for (const auto transport : transports) {
    Scene scene(transport);
    constexpr std::size_t count = 200;
    std::vector<LoopNest> nests(count);
    auto expected = scene.remote;
    for (std::size_t k = 0; k < count; ++k) {
      nests[k] = run_of(k % 7 == 0 ? 64 : 1400);
      nests[k].source_offset = nests[k].target_offset = static_cast<std::int64_t>(k) * 1500;
      Request request = write_request({&nests[k], 1}, scene.local.data(), *scene.array);
      request.tag = k;
      REQUIRE(scene.pair.channel.submit(request).ok());
    }
    slow_copy(nests, scene.local.data(), expected.data(), false);
    std::vector<bool> seen(count);
    std::vector<Finished> finished(16);
    std::size_t ended = 0;
    const auto end = std::chrono::steady_clock::now() + patience;
    while (ended < count && std::chrono::steady_clock::now() < end) {
      const std::size_t some = scene.pair.channel.poll(finished);
      for (std::size_t k = 0; k < some; ++k) {
        EXPECT(finished[k].status.ok());
        EXPECT(!seen[finished[k].tag]);
        seen[finished[k].tag] = true;
      }
      ended += some;
      if (some == 0) scene.pair.channel.idle(10ms);
    }
    EXPECT_EQ(ended, count);
    EXPECT(scene.remote == expected);
  }
}

TEST(remote_scattered_pieces_go_both_ways_at_once) {
  constexpr std::int64_t piece = 4096;
  constexpr std::size_t requests = 16;
  Scene scene(Transport::automatic, requests * 160 * piece);
  RemoteChannel::Options options;
  options.carriers = 1;
  options.bytes_in_flight_max = std::int64_t{64} << 20;
  RemoteChannel channel(*scene.pair.requester, options);
  // Every second place of both arrays, the target's from the end.
  std::vector<LoopNest> nests(requests);
  for (std::size_t k = 0; k < requests; ++k) {
    LoopNest& nest = nests[k];
    nest.element_bytes = piece;
    nest.rank = 1;
    nest.loops[0] = {80, 2 * piece, -2 * piece};
    nest.source_offset = static_cast<std::int64_t>(k) * 160 * piece;
    nest.target_offset = static_cast<std::int64_t>(requests - k) * 160 * piece - piece;
  }
  const auto explained =
      channel.explain(write_request({nests.data(), 1}, scene.local.data(), *scene.array));
  if (!scene.array->link().direct) return;  // the system forbids process_vm_writev
  EXPECT(contains(explained, "carried: runs that are not short, beside slots, on 1 threads"));
  bool carried = false;
  bool through_slots = false;
  for (int round = 0; round < 200 && !(carried && through_slots); ++round) {
    scene.local = pattern(scene.local.size(), static_cast<unsigned>(100 + round));
    auto expected = scene.remote;
    slow_copy(nests, scene.local.data(), expected.data(), false);
    const std::uint64_t before = scene.array->link().requester->answers();
    for (std::size_t k = 0; k < requests; ++k) {
      Request request = write_request({&nests[k], 1}, scene.local.data(), *scene.array);
      request.tag = k;
      REQUIRE(channel.submit(request).ok());
    }
    std::vector<Finished> finished(requests);
    std::size_t ended = 0;
    const auto end = std::chrono::steady_clock::now() + patience;
    while (ended < requests && std::chrono::steady_clock::now() < end) {
      const std::size_t some = channel.poll(finished);
      for (std::size_t k = 0; k < some; ++k) Scene::expect_ok(finished[k].status);
      ended += some;
      if (some == 0) channel.idle(10ms);
    }
    REQUIRE(ended == requests);
    EXPECT(scene.remote == expected);
    const std::uint64_t answers = scene.array->link().requester->answers() - before;
    constexpr std::uint64_t of_one = 80 * piece / (16 * 1024);  // a slot has 16 KiB
    through_slots = through_slots || answers > 0;
    carried = carried || answers < requests * of_one;
  }
  EXPECT(through_slots);
  EXPECT(carried);
}

TEST(remote_empty_request_finishes) {
  Scene scene(Transport::automatic);
  const LoopNest nothing = run_of(0);
  EXPECT(carry(scene.pair.channel, write_request({&nothing, 1}, scene.local.data(), *scene.array))
             .ok());
}

TEST(remote_another_process) {
  for (const auto transport : transports) {
    TemporaryFolder folder;
    Child child(folder.file("contact"), transport);
    auto fabric = open_fabric(options_for(transport));
    const PeerId peer = connect_to(*fabric, folder.file("contact"));
    RemoteChannel channel(*fabric, {});
    const auto array = look_up(*fabric, peer, "plain");
    const LoopNest all = run_of(child_bytes);
    std::vector<std::byte> out(child_bytes);
    EXPECT(carry(channel, read_request({&all, 1}, *array, out.data())).ok());
    EXPECT(out == pattern(child_bytes, 1));
    auto mine = pattern(child_bytes, 5);
    EXPECT(carry(channel, write_request({&all, 1}, mine.data(), *array)).ok());
    const LoopNest turned = transpose(1024, 2048, 4);
    std::vector<std::byte> expected(child_bytes);
    slow_copy({&turned, 1}, mine.data(), expected.data(), false);
    EXPECT(carry(channel, read_request({&turned, 1}, *array, out.data())).ok());
    EXPECT(out == expected);
    const LoopNest eight = run_of(8);
    EXPECT(carry(channel, write_request({&eight, 1}, out.data(), *array)).ok());
    EXPECT(carry(channel, read_request({&eight, 1}, *array, mine.data() + 64)).ok());
    EXPECT(std::memcmp(mine.data() + 64, out.data(), 8) == 0);
    EXPECT_EQ(child.end(), 0);
  }
}

TEST(remote_mapped_arrays_are_copied_here) {
  TemporaryFolder folder;
  Child child(folder.file("contact"), Transport::automatic);
  auto fabric = open_fabric(options_for(Transport::automatic));
  const PeerId peer = connect_to(*fabric, folder.file("contact"));
  RemoteChannel channel(*fabric, {});
  const auto array = look_up(*fabric, peer, "mapped");
  auto mine = pattern(child_bytes, 6);
  const LoopNest all = run_of(child_bytes);
  const Request request = write_request({&all, 1}, mine.data(), *array);
  EXPECT(contains(channel.explain(request), "mapped:"));
  EXPECT(carry(channel, request).ok());
  EXPECT(std::memcmp(array->mapped(), mine.data(), child_bytes) == 0);
}

TEST(remote_explains_its_way) {
  const LoopNest eight = run_of(8);
  const LoopNest large = run_of(200'000);
  {
    Scene scene(Transport::automatic);
    const auto& channel = scene.pair.channel;
    const auto small =
        channel.explain(write_request({&eight, 1}, scene.local.data(), *scene.array));
    EXPECT(contains(small, "process_vm_writev") || contains(small, "forbids"));
    const auto slots = channel.explain(read_request({&large, 1}, *scene.array, scene.local.data()));
    EXPECT(contains(slots, "slots: 4 slots of 16 KiB; shared memory"));
    EXPECT(contains(channel.explain(Request{}), "exactly one end"));
  }
  Scene scene(Transport::network);
  const auto network =
      scene.pair.channel.explain(write_request({&eight, 1}, scene.local.data(), *scene.array));
  EXPECT(contains(network, "network: 4 slots of 16 KiB; TCP"));
}

TEST(remote_refuses_what_is_not_allowed) {
  for (const auto transport : transports) {
    Scene scene(transport);
    auto& channel = scene.pair.channel;
    ExportedArray readonly;
    readonly.name = "readonly";
    readonly.place.address = scene.remote.data();
    readonly.bytes = 1000;
    readonly.writable = false;
    REQUIRE(scene.pair.exporter->export_array(readonly).ok());
    const auto array = look_up(*scene.pair.requester, scene.pair.peer, "readonly");
    const LoopNest nest = run_of(1000);
    EXPECT(carry(channel, read_request({&nest, 1}, *array, scene.local.data())).ok());
    const auto write = carry(channel, write_request({&nest, 1}, scene.local.data(), *array));
    REQUIRE(!write);
    EXPECT(write.error().code == ErrorCode::permission);
    EXPECT(contains(write.error().text(), "read-only"));
    LoopNest beyond = run_of(1001);
    const auto outside = carry(channel, read_request({&beyond, 1}, *array, scene.local.data()));
    REQUIRE(!outside);
    EXPECT(outside.error().code == ErrorCode::out_of_range);
    Request both = read_request({&nest, 1}, *array, scene.local.data());
    both.target.attachment = array.get();
    EXPECT(!channel.submit(both).ok());
  }
}

TEST(remote_exporter_refuses_a_lying_requester) {
  // The test bypasses the channel's own checks: the command itself asks for what is not allowed.
  for (const auto transport : transports) {
    Scene scene(transport);
    const auto before = scene.remote;
    Requester& requester = *scene.array->link().requester;
    const auto attempt = [&](const LoopNest& nest, std::uint64_t id) {
      auto queue = std::make_shared<FinishedQueue>();
      Requester::Transfer transfer;
      transfer.request = write_request({&nest, 1}, scene.local.data(), *scene.array);
      transfer.remote = scene.array->remote();
      transfer.remote.id = id;
      REQUIRE(requester.submit(transfer, queue).ok());
      Finished finished[1];
      const auto end = std::chrono::steady_clock::now() + patience;
      while (queue->take(finished) == 0 && std::chrono::steady_clock::now() < end) {
        requester.progress();
        std::this_thread::sleep_for(1ms);
      }
      return finished[0].status;
    };
    LoopNest outside = run_of(100'000);
    outside.target_offset = 250'000;
    const auto beyond = attempt(outside, scene.array->remote().id);
    REQUIRE(!beyond);
    EXPECT(beyond.error().code == ErrorCode::out_of_range);
    outside.target_offset = -50'000;
    EXPECT(!attempt(outside, scene.array->remote().id).ok());
    const auto unknown = attempt(run_of(100'000), 12345);
    REQUIRE(!unknown);
    EXPECT(unknown.error().code == ErrorCode::not_found);
    // The parts of a request inside the array may have been written, and nothing else.
    EXPECT(std::equal(before.begin() + 50'000, before.begin() + 250'000,
                      scene.remote.begin() + 50'000));
    const LoopNest nest = run_of(5000);
    scene.expect_write({&nest, 1});
  }
}

TEST(remote_scribbled_slots_harm_only_their_own_link) {
  Scene scene(Transport::shared);
  const SlotSegment& segment = scene.array->link().requester->segment();
  const auto before = scene.remote;
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    const int slot = round % segment.geometry().slots;
    for (std::int64_t k = 0; k < 256; k += 8) {
      std::uint64_t value = random() >> (random() % 64);
      if (k == 8) value = scene.array->remote().id;
      if (k == 16) value = 1 + (random() % 2);
      if (k == 24) value = 1 + ((random() % 40) << 32);
      std::memcpy(segment.command(slot) + k, &value, 8);
    }
    segment.control(slot).state.store(static_cast<std::uint32_t>(SlotState::submitted));
    scene.array->link().requester->ring();
    std::this_thread::sleep_for(100us);
  }
  Pair other(Transport::automatic);
  const PeerId peer = connect_to(*other.requester, scene.pair.exporter->contact());
  const auto array = look_up(*other.requester, peer, "array");
  auto mine = pattern(300'000, 9);
  const LoopNest all = run_of(300'000);
  RemoteChannel channel(*other.requester, {});
  EXPECT(carry(channel, write_request({&all, 1}, mine.data(), *array)).ok());
  EXPECT(scene.remote == mine);
}

TEST(remote_withdrawn_arrays_fail_clearly) {
  for (const auto transport : transports) {
    Scene scene(transport);
    REQUIRE(scene.pair.exporter->withdraw("array").ok());
    const auto before = scene.remote;
    for (const std::int64_t bytes : {8, 200'000}) {
      const LoopNest nest = run_of(bytes);
      const auto status =
          carry(scene.pair.channel, write_request({&nest, 1}, scene.local.data(), *scene.array));
      REQUIRE(!status);
      EXPECT(status.error().code == ErrorCode::not_found);
    }
    EXPECT(scene.remote == before);
  }
}

TEST(remote_withdraw_during_use) {
  for (const auto transport : transports) {
    for (int round = 0; round < 5; ++round) {
      Scene scene(transport);
      const LoopNest small = run_of(8);
      const LoopNest large = run_of(300'000);
      std::atomic<bool> withdrawn{false};
      std::thread withdrawer([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(1 + round));
        EXPECT(scene.pair.exporter->withdraw("array").ok());
        scene.remote.assign(scene.remote.size(), std::byte{0});
        withdrawn = true;
      });
      Status status;
      for (int k = 0; status && k < 100'000; ++k) {
        status = carry(scene.pair.channel, write_request({k % 2 == 0 ? &small : &large, 1},
                                                         scene.local.data(), *scene.array));
      }
      withdrawer.join();
      REQUIRE(!status);
      EXPECT(status.error().code == ErrorCode::not_found);
      std::this_thread::sleep_for(5ms);
      EXPECT(scene.remote == std::vector<std::byte>(scene.remote.size()));
    }
  }
}

namespace {

/// Memory behind an attachment, which only `execute` reaches, on its own threads.
struct Vault : Attachment {
  std::vector<std::byte> data = pattern(100'000, 8);
};

struct Executor {
  ~Executor() {
    for (auto& thread : threads) thread.join();
  }
  void operator()(const Request& request, std::function<void(Status)> done) {
    std::lock_guard lock(mutex);
    threads.emplace_back([request, done = std::move(done)] {
      auto* source = dynamic_cast<Vault*>(request.source.attachment);
      auto* target = dynamic_cast<Vault*>(request.target.attachment);
      slow_copy(request.payload.nests(), source ? source->data.data() : request.source.address,
                target ? target->data.data() : request.target.address, false);
      done(request.bytes == 13 ? Status(Error{ErrorCode::io, "the vault is jammed"}) : Status());
    });
  }
  std::mutex mutex;
  std::vector<std::thread> threads;
};

}  // namespace

TEST(remote_exports_with_an_attachment) {
  for (const auto transport : transports) {
    Vault vault;
    Executor executor;
    auto options = options_for(transport);
    options.execute = std::ref(executor);
    auto exporter = open_fabric(options);
    REQUIRE(exporter->export_array({"vault", "", {nullptr, &vault}, 100'000, true, nullptr}).ok());
    auto requester = open_fabric(options_for(transport));
    const PeerId peer = connect_to(*requester, exporter->contact());
    const auto array = look_up(*requester, peer, "vault");
    RemoteChannel channel(*requester, {});
    auto mine = pattern(100'000, 9);
    const LoopNest all = run_of(100'000);
    EXPECT(carry(channel, write_request({&all, 1}, mine.data(), *array)).ok());
    EXPECT(vault.data == mine);
    const LoopNest turned = transpose(100, 250, 4);
    std::vector<std::byte> out(100'000);
    std::vector<std::byte> expected(100'000);
    slow_copy({&turned, 1}, mine.data(), expected.data(), false);
    EXPECT(carry(channel, read_request({&turned, 1}, *array, out.data())).ok());
    EXPECT(out == expected);
    const LoopNest jam = run_of(13);
    const auto failed = carry(channel, write_request({&jam, 1}, mine.data(), *array));
    REQUIRE(!failed);
    EXPECT(failed.error().code == ErrorCode::io);
    EXPECT(contains(failed.error().text(), "jammed"));
    EXPECT(contains(failed.error().text(), std::to_string(getpid())));
  }
}

TEST(remote_answers_to_others_do_not_wake_it) {
  auto options = options_for(Transport::automatic);
  options.answer = [](RequesterId, std::span<const std::byte>,
                      std::span<std::byte>) -> Result<std::size_t> { return std::size_t{0}; };
  auto exporter = open_fabric(options);
  auto requester = open_fabric(options_for(Transport::automatic));
  const PeerId peer = connect_to(*requester, exporter->contact());
  RemoteChannel channel(*requester, {});
  std::array<Finished, 1> none;
  REQUIRE(channel.poll(none) == 0);
  std::atomic<bool> awake{false};
  std::thread sleeper([&] {
    channel.idle(patience);
    awake = true;
  });
  std::byte reply{};
  for (int k = 0; k < 200; ++k) {
    if (!requester->ask(peer, {}, {&reply, 1}, patience)) record_failure(__FILE__, __LINE__, "ask");
  }
  EXPECT(!awake.load());
  const auto begin = std::chrono::steady_clock::now();
  channel.wake();
  sleeper.join();
  EXPECT(std::chrono::steady_clock::now() - begin < patience / 2);
}

TEST(remote_a_requester_is_gone_when_nothing_writes_for_it_any_more) {
  for (const auto transport : transports) {
    Vault vault;
    std::mutex mutex;
    std::function<void(Status)> end;
    std::atomic<bool> begun{false};
    std::atomic<bool> gone{false};
    auto options = options_for(transport);
    options.execute = [&](const Request&, std::function<void(Status)> done) {
      std::lock_guard lock(mutex);
      end = std::move(done);
      begun = true;
    };
    options.on_requester_gone = [&](RequesterId, bool) { gone = true; };
    auto exporter = open_fabric(options);
    REQUIRE(exporter->export_array({"vault", "", {nullptr, &vault}, 100'000, true, nullptr}).ok());
    auto mine = pattern(1000, 9);
    const LoopNest all = run_of(1000);
    {
      auto requester = open_fabric(options_for(transport));
      const PeerId peer = connect_to(*requester, exporter->contact());
      const auto array = look_up(*requester, peer, "vault");
      RemoteChannel channel(*requester, {});
      REQUIRE(channel.submit(write_request({&all, 1}, mine.data(), *array)).ok());
      REQUIRE(eventually([&] { return begun.load(); }));
      (void)requester->close();
    }
    std::this_thread::sleep_for(200ms);
    EXPECT(!gone.load());
    {
      std::lock_guard lock(mutex);
      end(Status{});
      end = nullptr;
    }
    EXPECT(eventually([&] { return gone.load(); }));
  }
}
