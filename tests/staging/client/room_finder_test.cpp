// The servers that a client asks for room, in their order, and what they may do to make room.
#include "staging/client/room_finder.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

/// Servers of which some have room, and which record their requests.
class FullServers final : public Servers {
 public:
  struct Asked {
    int server = 0;
    Effort effort = Effort::all;
    std::vector<int> index_servers;
  };
  std::set<int> with_room;
  std::set<int> lost;
  std::vector<Asked> asked;

  int count() const override { return 4; }
  std::int64_t message_bytes() const override { return 16384; }
  Result<std::span<const std::byte>> ask(int server, const fabric::MessageWriter& request,
                                         ReplyBuffer& reply) override {
    if (!reply.bytes) reply.bytes = std::make_unique<std::byte[]>(16384);
    const std::span room(reply.bytes.get(), 16384);
    const auto answer = [&]<typename Request>(const Request& one) -> Result<std::size_t> {
      if constexpr (std::is_same_v<Request, protocol::Begin>) {
        asked.push_back({server, one.effort, one.index_servers});
        if (lost.contains(server)) return Error{ErrorCode::peer_lost, "the server is gone"};
        if (!with_room.contains(server)) return write_reply(room, protocol::Wait{"it is full"});
        return write_reply(room, protocol::RoomGranted{7, {0, 0, 32}, {}});
      }
      if constexpr (std::is_same_v<Request, protocol::Index>) {
        return write_reply(room, protocol::Ordered{static_cast<std::uint64_t>(10 + server), {}});
      }
      return Error{ErrorCode::invalid_argument, "another request"};
    };
    const auto length = read_request<Result<std::size_t>>(request.bytes(), answer);
    if (!length) return length.error();
    return std::span<const std::byte>(reply.bytes.get(), *length);
  }
  void tell(int, const fabric::MessageWriter&) override {}
  std::uint64_t notices() const override { return 0; }
  void wait(std::uint64_t, std::int64_t until_ns) override { now_ = until_ns; }
  std::int64_t now_ns() const override { return now_; }

 private:
  std::int64_t now_ = 0;
};

constexpr std::int64_t end_ns = 1'000'000'000;
const std::vector<int> candidates{1, 2, 3};
const std::vector<int> index_servers{0, 1};

PreparedPut put_of_energy() {
  PreparedPut put;
  put.request = {"energy", 1, *Box::make({0}, {4}), "f8", 8};
  return put;
}

}  // namespace

TEST(the_preferred_server_is_asked_first_and_may_discard) {
  FullServers servers;
  servers.with_room = {1, 2};
  RequestSender requester(servers);
  PreparedPut put = put_of_energy();
  REQUIRE(RoomFinder(requester).find(candidates, index_servers, put, end_ns).ok());
  REQUIRE(servers.asked.size() == 1);
  EXPECT(servers.asked[0].effort == Effort::discard);
  EXPECT(servers.asked[0].index_servers.empty());
  EXPECT_EQ(put.primary, 1);
  EXPECT_EQ(put.object, 7U);
  EXPECT(!put.overflow);
}

TEST(overflow_servers_give_free_memory_only_and_learn_the_index_servers) {
  FullServers servers;
  servers.with_room = {3};
  servers.lost = {2};  // the loss of this server is no error of the put
  RequestSender requester(servers);
  PreparedPut put = put_of_energy();
  REQUIRE(RoomFinder(requester).find(candidates, index_servers, put, end_ns).ok());
  REQUIRE(servers.asked.size() == 3);
  EXPECT(servers.asked[2].effort == Effort::free_memory);
  EXPECT(servers.asked[2].index_servers == index_servers);
  EXPECT_EQ(put.primary, 3);
  EXPECT(put.overflow);
}

TEST(a_put_waits_while_all_are_full_and_fails_with_the_reason) {
  FullServers servers;
  RequestSender requester(servers);
  PreparedPut put = put_of_energy();
  const Status status = RoomFinder(requester).find(candidates, index_servers, put, end_ns);
  REQUIRE(!status.ok());
  EXPECT(status.error().code == ErrorCode::timeout);
  EXPECT(status.error().text().find("it is full") != std::string::npos);
  const auto last = [&](int server) { return servers.asked.back().server == server; };
  EXPECT(last(1) && servers.asked.back().effort == Effort::all);
}

TEST(the_error_of_the_preferred_server_is_the_puts) {
  FullServers servers;
  servers.lost = {1};
  servers.with_room = {2};
  RequestSender requester(servers);
  PreparedPut put = put_of_energy();
  const Status status = RoomFinder(requester).find(candidates, index_servers, put, end_ns);
  REQUIRE(!status.ok());
  EXPECT(status.error().code == ErrorCode::peer_lost);
}

TEST(the_other_index_servers_index_the_object_and_give_the_highest_order) {
  FullServers servers;
  RequestSender requester(servers);
  PreparedPut put = put_of_energy();
  put.primary = 1;
  RoomFinder finder(requester);
  REQUIRE(finder.index({0, 1, 3}, put).ok());
  REQUIRE(finder.finish_index(put).ok());
  EXPECT(put.indexed == (std::vector<int>{0, 3}));
  EXPECT_EQ(put.order_before, 13U);
}
