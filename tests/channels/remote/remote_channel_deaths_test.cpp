#include "fabric/helpers.hpp"

using namespace tranship;
using namespace tranship::fabric;
using namespace tranship::test;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

/// Requests whose last one ends long after the first, so that a death or a close comes between.
constexpr int requests = 64;

const Transport transports[] = {Transport::automatic, Transport::network};

RemoteChannel::Options with(int carriers) {
  RemoteChannel::Options options;
  options.carriers = carriers;
  return options;
}

struct Theatre {
  explicit Theatre(Transport transport, int carriers = 0)
      : child(folder.file("contact"), transport),
        fabric(open_fabric(patient_options_for(transport))),
        peer(connect_to(*fabric, folder.file("contact"))),
        array(look_up(*fabric, peer, "plain")),
        channel(*fabric, with(carriers)) {}

  Request write_all() { return write_request({&all, 1}, data.data(), *array); }

  TemporaryFolder folder;
  Child child;
  std::unique_ptr<Fabric> fabric;
  PeerId peer;
  std::shared_ptr<RemoteArray> array;
  RemoteChannel channel;
  std::vector<std::byte> data = pattern(child_bytes, 4);
  LoopNest all = run_of(child_bytes);
};

void expect_lost(const Status& status, pid_t pid) {
  REQUIRE(!status);
  EXPECT_EQ(to_string(status.error().code), std::string("peer_lost"));
  EXPECT(status.error().text().find(std::to_string(pid)) != std::string::npos);
  EXPECT(status.error().text().find("contact") != std::string::npos);
}

}  // namespace

TEST(remote_peer_killed_before_a_transfer) {
  for (const auto transport : transports) {
    Theatre theatre(transport);
    const pid_t pid = theatre.child.pid();
    theatre.child.kill_now();
    const auto begin = Clock::now();
    Status status = theatre.channel.submit(theatre.write_all());
    if (status) status = finish_one(theatre.channel);
    EXPECT(Clock::now() - begin < soon);
    expect_lost(status, pid);
  }
}

TEST(remote_peer_killed_during_transfers) {
  for (const auto& [transport, carriers] :
       {std::pair{Transport::automatic, 0}, {Transport::automatic, 2}, {Transport::network, 0}}) {
    for (int round = 0; round < 3; ++round) {
      Theatre theatre(transport, carriers);
      const pid_t pid = theatre.child.pid();
      // Many requests are outstanding; the kill comes while the first ones are carried out.
      for (int k = 0; k < requests; ++k) REQUIRE(theatre.channel.submit(theatre.write_all()).ok());
      Finished none[4];
      for (int k = 0; k < 20 * round; ++k) (void)theatre.channel.poll(std::span(none, 0));
      theatre.child.kill_now();
      const auto begin = Clock::now();
      int lost = 0;
      for (int k = 0; k < requests; ++k) {
        const Status status = finish_one(theatre.channel);
        if (status) continue;
        ++lost;
        expect_lost(status, pid);
      }
      EXPECT(lost > 0 || carriers > 0);  // carriers may have moved all of them before the kill
      EXPECT(Clock::now() - begin < soon);
    }
  }
}

TEST(remote_peer_killed_after_a_transfer) {
  for (const auto transport : transports) {
    Theatre theatre(transport);
    const pid_t pid = theatre.child.pid();
    EXPECT(carry(theatre.channel, theatre.write_all()).ok());
    theatre.child.kill_now();
    const auto begin = Clock::now();
    EXPECT(eventually([&] { return !theatre.fabric->connected(theatre.peer); }));
    EXPECT(Clock::now() - begin < soon);
    expect_lost(carry(theatre.channel, theatre.write_all()), pid);
    const auto names = theatre.fabric->names(theatre.peer, patience);
    REQUIRE(!names);
    EXPECT(names.error().code == ErrorCode::peer_lost);
  }
}

TEST(a_stopped_peer_is_not_lost_and_goes_on_where_it_was) {
  for (const auto transport : transports) {
    Theatre theatre(transport);
    theatre.child.stop();
    REQUIRE(theatre.channel.submit(theatre.write_all()).ok());
    const Status early = finish_one(theatre.channel, 3s);
    REQUIRE(!early);
    EXPECT(early.error().code == ErrorCode::timeout);  // the time limit of finish_one()
    EXPECT(theatre.fabric->connected(theatre.peer));
    theatre.child.go_on();
    EXPECT(finish_one(theatre.channel).ok());
    std::vector<std::byte> back(child_bytes);
    EXPECT(
        carry(theatre.channel, read_request({&theatre.all, 1}, *theatre.array, back.data())).ok());
    EXPECT(back == theatre.data);
  }
}

TEST(a_copy_to_a_stopped_peer_can_be_cancelled) {
  for (const auto transport : transports) {
    Theatre theatre(transport);
    theatre.child.stop();
    Request request = theatre.write_all();
    request.tag = 5;
    REQUIRE(theatre.channel.submit(request).ok());
    theatre.channel.cancel(5);
    const Status status = finish_one(theatre.channel);
    REQUIRE(!status);
    EXPECT(status.error().code == ErrorCode::cancelled);
    theatre.data.assign(theatre.data.size(), std::byte{});  // the memory is the caller's again
    theatre.child.go_on();
    EXPECT(carry(theatre.channel, theatre.write_all()).ok());
  }
}

TEST(remote_exporter_survives_a_dead_requester) {
  // The child only serves a connection and asks nothing; a requester of this process dies while it
  // holds slots.
  for (const auto transport : transports) {
    TemporaryFolder folder;
    auto options = patient_options_for(transport);
    options.contact_file = folder.file("contact");
    auto exporter = open_fabric(options);
    auto data = pattern(child_bytes, 1);
    const auto bytes = static_cast<std::int64_t>(child_bytes);
    REQUIRE(
        exporter->export_array({"plain", "", {data.data(), nullptr}, bytes, true, nullptr}).ok());
    for (int round = 0; round < 3; ++round) {
      Requesting child(folder.file("contact"), transport);
      std::this_thread::sleep_for(std::chrono::milliseconds(100 + 30 * round));
    }
    const auto begin = Clock::now();
    EXPECT(exporter->withdraw("plain").ok());
    EXPECT(exporter->close().ok());
    EXPECT(Clock::now() - begin < soon);
  }
}

TEST(remote_close_with_requests_outstanding) {
  for (const auto transport : transports) {
    Theatre theatre(transport);
    theatre.child.stop();
    for (int k = 0; k < 3; ++k) REQUIRE(theatre.channel.submit(theatre.write_all()).ok());
    const auto begin = Clock::now();
    EXPECT(theatre.fabric->close().ok());
    EXPECT(Clock::now() - begin < soon);
    for (int k = 0; k < 3; ++k) {
      const Status status = finish_one(theatre.channel);
      REQUIRE(!status);
      EXPECT_EQ(to_string(status.error().code), std::string("closed"));
    }
    EXPECT(!theatre.channel.submit(theatre.write_all()).ok());
    theatre.child.go_on();
  }
}

TEST(remote_exporter_closes_during_a_transfer) {
  for (const auto transport : transports) {
    Theatre theatre(transport);
    for (int k = 0; k < requests; ++k) REQUIRE(theatre.channel.submit(theatre.write_all()).ok());
    EXPECT_EQ(theatre.child.end(), 0);
    int closed = 0;
    for (int k = 0; k < requests; ++k) {
      const Status status = finish_one(theatre.channel);
      if (status) continue;
      ++closed;
      EXPECT_EQ(to_string(status.error().code), std::string("closed"));
    }
    EXPECT(closed > 0);
  }
}
