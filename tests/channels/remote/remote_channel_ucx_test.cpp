// UCX over its shared-memory transports, between two processes.
#include <signal.h>

#include <array>
#include <filesystem>
#include <random>
#include <set>
#include <sstream>

#include "fabric/helpers.hpp"
#include "fabric/wires/ucx/ucx_library.hpp"

using namespace tranship;
using namespace tranship::fabric;
using namespace tranship::test;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

RemoteChannel::Options every_run() {
  RemoteChannel::Options options;
  options.carrier_threads = 2;
  options.carrier_run_bytes = 0;
  return options;
}

/// A child that exports its arrays, and a fabric with a counting carrier.
struct Stage {
  Stage() {
    auto options = options_for(Transport::automatic);
    options.carrier = std::make_shared<CountedCarrier>(ucx_or_skip(), counter);
    child = std::make_unique<Child>(folder.file("contact"), "ucx");
    fabric = open_fabric(options);
    peer = connect_to(*fabric, folder.file("contact"));
    array = look_up(*fabric, peer, "plain");
    channel = std::make_unique<RemoteChannel>(*fabric, every_run());
    REQUIRE(array->carried() != nullptr);
  }

  Request write_all() { return write_request({&all, 1}, data.data(), *array); }
  std::vector<std::byte> read_back() {
    std::vector<std::byte> back(child_bytes);
    EXPECT(carry(*channel, read_request({&all, 1}, *array, back.data())).ok());
    return back;
  }

  std::shared_ptr<CarrierCounter> counter = std::make_shared<CarrierCounter>();
  TemporaryFolder folder;
  std::unique_ptr<Child> child;
  std::unique_ptr<Fabric> fabric;
  PeerId peer;
  std::shared_ptr<RemoteArray> array;
  std::unique_ptr<RemoteChannel> channel;
  std::vector<std::byte> data = pattern(child_bytes, 4);
  LoopNest all = run_of(child_bytes);
};

void expect_lost(const Status& status, pid_t pid) {
  REQUIRE(!status);
  EXPECT_EQ(to_string(status.error().code), std::string("peer_lost"));
  EXPECT(status.error().text().find(std::to_string(pid)) != std::string::npos);
}

/// Returns the number of descriptors of this process that are TCP sockets.
int tcp_sockets() {
  std::set<std::string> inodes;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream lines(table);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string word;
      for (int k = 0; k < 10 && words >> word; ++k) continue;
      inodes.insert("socket:[" + word + "]");
    }
  }
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    found += inodes.contains(std::filesystem::read_symlink(entry.path(), gone).string()) ? 1 : 0;
  }
  return found;
}

}  // namespace

TEST(ucx_puts_and_gets_between_two_processes) {
  Stage stage;
  EXPECT(stage.read_back() == pattern(child_bytes, 1));
  EXPECT(carry(*stage.channel, stage.write_all()).ok());
  EXPECT(stage.read_back() == stage.data);
  EXPECT_EQ(stage.counter->writes.load(), 1);
  EXPECT_EQ(stage.counter->reads.load(), 2);
  EXPECT_EQ(stage.counter->failures.load(), 0);
  const auto bytes = static_cast<std::int64_t>(child_bytes);
  EXPECT(stage.channel->explain(stage.write_all()).find("long runs by UCX") != std::string::npos);
  EXPECT_EQ(stage.array->bytes(), bytes);
}

TEST(ucx_moves_sub_ranges_and_nothing_beside_them) {
  Stage stage;
  std::mt19937 random(7);
  auto expected = pattern(child_bytes, 1);
  for (int round = 0; round < 50; ++round) {
    LoopNest nest;
    nest.element_bytes = 1 + static_cast<std::int64_t>(random() % 5000);
    nest.rank = 1;
    const auto rows = 1 + static_cast<std::int64_t>(random() % 20);
    const std::int64_t stride = nest.element_bytes + static_cast<std::int64_t>(random() % 3000);
    nest.loops[0] = {rows, nest.element_bytes, stride};
    nest.source_offset = static_cast<std::int64_t>(random() % 1000);
    nest.target_offset = static_cast<std::int64_t>(random() % (child_bytes - 200'000));
    slow_copy({&nest, 1}, stage.data.data(), expected.data(), false);
    EXPECT(carry(*stage.channel, write_request({&nest, 1}, stage.data.data(), *stage.array)).ok());
  }
  EXPECT(stage.read_back() == expected);
  LoopNest part = run_of(100'003);
  part.source_offset = 77;
  part.target_offset = 5;
  std::vector<std::byte> got(100'100, std::byte{1});
  auto wanted = got;
  slow_copy({&part, 1}, expected.data(), wanted.data(), false);
  EXPECT(carry(*stage.channel, read_request({&part, 1}, *stage.array, got.data())).ok());
  EXPECT(got == wanted);
  EXPECT_EQ(stage.counter->failures.load(), 0);
}

TEST(ucx_refuses_what_leaves_the_array_or_may_not_be_written) {
  Stage stage;
  LoopNest beyond = run_of(100);
  beyond.target_offset = static_cast<std::int64_t>(child_bytes) - 50;
  const Status outside =
      stage.channel->submit(write_request({&beyond, 1}, stage.data.data(), *stage.array));
  REQUIRE(!outside);
  EXPECT(outside.error().code == ErrorCode::out_of_range);
  const auto readonly = look_up(*stage.fabric, stage.peer, "readonly");
  const LoopNest small = run_of(64);
  const Status forbidden =
      stage.channel->submit(write_request({&small, 1}, stage.data.data(), *readonly));
  REQUIRE(!forbidden);
  EXPECT(forbidden.error().code == ErrorCode::permission);
  EXPECT_EQ(stage.counter->writes.load(), 0);
}

/// UCX needs no help of the other process to put and get: a stopped peer delays no copy.
TEST(ucx_reaches_a_stopped_peer) {
  Stage stage;
  stage.child->stop();
  EXPECT(carry(*stage.channel, stage.write_all()).ok());
  EXPECT(stage.read_back() == stage.data);
  stage.child->go_on();
}

TEST(ucx_peer_killed_before_a_transfer) {
  Stage stage;
  const pid_t pid = stage.child->pid();
  stage.child->kill_now();
  const auto begin = Clock::now();
  Status status = stage.channel->submit(stage.write_all());
  if (status) status = finish_one(*stage.channel);
  expect_lost(status, pid);
  EXPECT(Clock::now() - begin < soon);
}

TEST(ucx_peer_killed_during_transfers) {
  for (int round = 0; round < 5; ++round) {
    Stage stage;
    const pid_t pid = stage.child->pid();
    for (std::uint64_t k = 0; k < 12; ++k) {
      Request request = stage.write_all();
      request.tag = k;
      REQUIRE(stage.channel->submit(request).ok());
    }
    std::this_thread::sleep_for(std::chrono::microseconds(700 * round));
    stage.child->kill_now();
    const auto begin = Clock::now();
    for (int k = 0; k < 12; ++k) {
      const Status status = finish_one(*stage.channel);
      if (!status) expect_lost(status, pid);
    }
    EXPECT(Clock::now() - begin < soon);
    Status after = stage.channel->submit(stage.write_all());
    if (after) after = finish_one(*stage.channel);
    expect_lost(after, pid);
  }
}

TEST(ucx_closes_with_requests_outstanding) {
  Stage stage;
  for (std::uint64_t k = 0; k < 12; ++k) {
    Request request = stage.write_all();
    request.tag = k;
    REQUIRE(stage.channel->submit(request).ok());
  }
  const auto begin = Clock::now();
  EXPECT(stage.fabric->close().ok());
  EXPECT(Clock::now() - begin < soon);
  for (int k = 0; k < 12; ++k) {
    const Status status = finish_one(*stage.channel);
    EXPECT(status.ok() || status.error().code == ErrorCode::closed);
  }
  EXPECT(!stage.channel->submit(stage.write_all()).ok());
}

TEST(ucx_exporter_closes_during_transfers) {
  Stage stage;
  for (std::uint64_t k = 0; k < 8; ++k) {
    Request request = stage.write_all();
    request.tag = k;
    REQUIRE(stage.channel->submit(request).ok());
  }
  EXPECT_EQ(stage.child->end(), 0);
  for (int k = 0; k < 8; ++k) {
    const Status status = finish_one(*stage.channel);
    EXPECT(status.ok() || status.error().code == ErrorCode::closed ||
           status.error().code == ErrorCode::peer_lost);
  }
}

/// When withdraw() has returned, nothing writes to the array any more.
TEST(ucx_withdraw_during_use) {
  const LoopNest large = run_of(300'000);
  for (int round = 0; round < 5; ++round) {
    auto options = patient_options_for(Transport::automatic);
    options.carrier = ucx_or_skip();
    auto exporter = open_fabric(options);
    options.carrier = ucx_or_skip();
    auto requester = open_fabric(options);
    std::vector<std::byte> remote(300'000);
    auto local = pattern(remote.size(), 3);
    REQUIRE(exporter->export_array({"array", "", {remote.data(), nullptr}, 300'000, true, nullptr})
                .ok());
    const PeerId peer = connect_to(*requester, exporter->contact());
    const auto array = look_up(*requester, peer, "array");
    REQUIRE(array->carried() != nullptr);
    RemoteChannel channel(*requester, every_run());
    std::thread withdrawer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1 + 2 * round));
      EXPECT(exporter->withdraw("array").ok());
      remote.assign(remote.size(), std::byte{0});
    });
    Status status;
    for (int k = 0; status && k < 100'000; ++k) {
      status = carry(channel, write_request({&large, 1}, local.data(), *array));
    }
    withdrawer.join();
    REQUIRE(!status);
    EXPECT(status.error().code == ErrorCode::not_found);
    std::this_thread::sleep_for(5ms);
    EXPECT(remote == std::vector<std::byte>(remote.size()));
  }
}

TEST(ucx_has_no_tcp_whatever_its_environment_says) {
  (void)ucx_or_skip();
  const int sockets = tcp_sockets();
  for (const char* transports : {"tcp", "all", "tcp,posix"}) {
    setenv("UCX_TLS", transports, 1);
    setenv("UCX_PROTO_EMULATION_ENABLE", "y", 1);
    {
      const auto one = ucx_or_skip();
      const auto other = ucx_or_skip();
      EXPECT(one->kind().find("(posix,cma,self)") != std::string::npos);
      auto data = pattern(100'000, 1);
      std::vector<std::byte> back(data.size());
      auto registration = one->register_memory(data.data(), 100'000);
      REQUIRE(registration.ok());
      auto peer = other->connect(one->address());
      REQUIRE(peer.ok());
      auto memory =
          (*peer)->open((*registration)->key(), reinterpret_cast<std::uint64_t>(data.data()));
      REQUIRE(memory.ok());
      const LoopNest all = run_of(100'000);
      EXPECT((*memory)
                 ->move({{&all, 1}, {}, back.data(), Operation::read}, [] { return false; })
                 .ok());
      EXPECT(back == data);
      EXPECT_EQ(tcp_sockets(), sockets);
    }
    unsetenv("UCX_TLS");
    unsetenv("UCX_PROTO_EMULATION_ENABLE");
  }
}

/// UCX could take the handlers only when it is loaded, so run this case alone to test it.
TEST(ucx_leaves_the_handlers_of_signals_alone) {
  const std::array signals{SIGHUP, SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
  std::array<struct sigaction, signals.size()> before{};
  for (std::size_t k = 0; k < signals.size(); ++k) sigaction(signals[k], nullptr, &before[k]);
  const auto carrier = ucx_or_skip();
  for (std::size_t k = 0; k < signals.size(); ++k) {
    struct sigaction after {};
    sigaction(signals[k], nullptr, &after);
    EXPECT(before[k].sa_handler == after.sa_handler);
  }
}

TEST(ucx_refuses_keys_and_addresses_of_wrong_sizes) {
  const auto carrier = ucx_or_skip();
  const std::vector<std::byte> large(carrier_address_bytes_max + 1);
  EXPECT(!carrier->connect({}).ok());
  EXPECT(!carrier->connect(large).ok());
  const auto peer = ucx_or_skip()->connect(carrier->address());
  REQUIRE(peer.ok());
  EXPECT(!(*peer)->open({}, 0).ok());
  EXPECT(!(*peer)->open(large, 0).ok());
}

TEST(ucx_stops_a_copy_between_its_parts) {
  const auto one = ucx_or_skip();
  std::vector<std::byte> data(64 << 20);
  auto back = data;
  auto registration = one->register_memory(data.data(), 64 << 20);
  auto peer = ucx_or_skip()->connect(one->address());
  REQUIRE(registration.ok());
  REQUIRE(peer.ok());
  auto memory = (*peer)->open((*registration)->key(), reinterpret_cast<std::uint64_t>(data.data()));
  REQUIRE(memory.ok());
  const LoopNest all = run_of(64 << 20);
  int asked = 0;
  const Status status = (*memory)->move({{&all, 1}, {}, back.data(), Operation::write},
                                        [&asked] { return ++asked > 3; });
  REQUIRE(!status);
  EXPECT(status.error().code == ErrorCode::cancelled);
  EXPECT(
      (*memory)->move({{&all, 1}, {}, back.data(), Operation::write}, [] { return false; }).ok());
}

/// RDMA that was requested works, or an error says why it does not.
TEST(ucx_without_cards_refuses_rdma) {
  (void)ucx_or_skip();
  if (rdma_card_is_up()) throw CaseSkipped("this machine has a card for RDMA");
  UcxCarrier::Options options = ucx_options();
  options.reach = UcxCarrier::Reach::rdma;
  const auto opened = UcxCarrier::open(options);
  REQUIRE(!opened.ok());
  EXPECT(opened.error().code == ErrorCode::unsupported);
  EXPECT(opened.error().text().find("with the transports rc,dc,ud") != std::string::npos);
}
