// How many round trips a put of a large object waits for, and what becomes of one whose index
// servers fail while it is copied.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "staging/client/catalog.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

constexpr std::int64_t round_trip_ns = 1000;
constexpr std::int64_t round_trips_end_ns = 1'000'000'000;
constexpr std::size_t message_bytes = 16384;

/// Servers whose replies arrive one round trip after their requests, on a clock that only waits for
/// replies move.
class DistantServers final : public Servers {
 public:
  explicit DistantServers(int count) : count_(count) {}

  std::vector<std::string> asked;  ///< kinds of the requests, in their order
  std::vector<std::string> told;
  std::map<std::string, int> in_batches;  ///< Numbers of requests within others, by kind.
  std::set<int> lost;                     ///< servers that index nothing
  bool deleted = false;                   ///< Whether the index servers know the variable no more.

  int count() const override { return count_; }
  std::int64_t message_bytes() const override { return ::message_bytes; }
  Result<std::span<const std::byte>> ask(int server, const fabric::MessageWriter& request,
                                         ReplyBuffer& buffer) override {
    return send(server, request, buffer)->reply();
  }
  std::unique_ptr<Question> send(int server, const fabric::MessageWriter& request,
                                 ReplyBuffer& buffer) override {
    asked.emplace_back(to_string(kind_of(request.bytes())));
    if (!buffer.bytes) buffer.bytes = std::make_unique<std::byte[]>(::message_bytes);
    const std::span room(buffer.bytes.get(), ::message_bytes);
    const auto length = read_request<Result<std::size_t>>(
        request.bytes(), [&](const auto& one) { return answer(server, one, room); });
    auto reply = length ? Result<std::span<const std::byte>>(room.first(*length)) : length.error();
    return std::make_unique<Late>(*this, now_ + round_trip_ns, std::move(reply));
  }
  void tell(int, const fabric::MessageWriter& request) override {
    told.emplace_back(to_string(kind_of(request.bytes())));
  }
  std::uint64_t notices() const override { return 0; }
  void wait(std::uint64_t, std::int64_t until_ns) override { now_ = until_ns; }
  std::int64_t now_ns() const override { return now_; }

  /// Lets time pass as a copy does.
  void copy() { now_ += round_trip_ns; }

 private:
  class Late final : public Question {
   public:
    Late(DistantServers& servers, std::int64_t arrives_ns, Result<std::span<const std::byte>> reply)
        : servers_(servers), arrives_ns_(arrives_ns), reply_(std::move(reply)) {}
    Result<std::span<const std::byte>> reply() override {
      servers_.now_ = std::max(servers_.now_, arrives_ns_);
      return reply_;
    }

   private:
    DistantServers& servers_;
    std::int64_t arrives_ns_;
    Result<std::span<const std::byte>> reply_;
  };

  template <typename Request>
  Result<std::size_t> answer(int server, const Request& one, std::span<std::byte> room) {
    if constexpr (std::is_same_v<Request, protocol::Declare>) {
      VariableMetadata metadata;
      metadata.type = one.object.type;
      metadata.element_bytes = one.object.element_bytes;
      metadata.first = *Box::make({0}, {cell});
      metadata.incarnation = {1, 1};
      metadata.cells = Cells::around(metadata.first, 8, 1);
      return write_reply(room, protocol::Declared{metadata});
    } else if constexpr (std::is_same_v<Request, protocol::Begin>) {
      return write_reply(room, protocol::RoomGranted{7, {0, 0, 32}, {}});
    } else if constexpr (std::is_same_v<Request, protocol::Index>) {
      if (lost.contains(server)) return Error{ErrorCode::peer_lost, "the server is gone"};
      if (deleted) return write_reply(room, protocol::Stale{});
      return write_reply(room, protocol::Ordered{static_cast<std::uint64_t>(10 + server), {}});
    } else if constexpr (std::is_same_v<Request, protocol::Commit>) {
      order_before = one.order_before;
      return write_reply(room, protocol::Ordered{20, {}});
    } else if constexpr (std::is_same_v<Request, protocol::Confirm>) {
      return write_reply(room, protocol::DoneWithOrphans{});
    } else if constexpr (std::is_same_v<Request, protocol::Batch>) {
      protocol::BatchReplies batch;
      std::vector<std::vector<std::byte>> parts;
      for (const Payload& each : one.requests) {
        auto& part = parts.emplace_back(2048);
        const auto length = read_request<Result<std::size_t>>(
            each.bytes, [&](const auto& request) { return answer(server, request, part); });
        auto& said = batch.replies.emplace_back();
        if (!length) said.error = length.error();
        if (length) said.reply = payload_of(std::span<const std::byte>(part).first(*length));
        ++in_batches[to_string(kind_of(each.bytes))];
      }
      return write_reply(room, batch);
    }
    return Error{ErrorCode::invalid_argument, "another request"};
  }

 public:
  static constexpr std::int64_t cell = 1024;
  std::uint64_t order_before = 0;

 private:
  int count_;
  std::int64_t now_ = 0;
};

/// An object that meets the cells of all servers.
PutRequest wide(int servers, std::int64_t version) {
  return {"energy", version, *Box::make({0}, {servers * DistantServers::cell}), "f8", 8};
}

std::int64_t count_of(const std::vector<std::string>& kinds, const std::string& kind) {
  return std::count(kinds.begin(), kinds.end(), kind);
}

}  // namespace

TEST(a_large_put_waits_for_three_round_trips_beside_its_copy) {
  for (const int servers : {1, 2, 4, 8}) {
    DistantServers there(servers);
    Catalog catalog(there);
    for (std::int64_t version = 0; version < 3; ++version) {
      const std::int64_t begin = there.now_ns();
      there.asked.clear();
      auto put = catalog.begin(wide(servers, version), round_trips_end_ns);
      REQUIRE(put.ok());
      EXPECT_EQ(std::ssize(put->indexed), servers - 1);
      there.copy();
      REQUIRE(catalog.commit(*put).ok());
      const std::int64_t first = version == 0 ? 1 : 0;  // which asks for the variable
      const std::int64_t others = servers > 1 ? 1 : 0;
      const std::int64_t trips = (there.now_ns() - begin) / round_trip_ns - 1;
      EXPECT_EQ(trips, first + 2 + others);
      EXPECT_EQ(count_of(there.asked, "index"), servers - 1);
      EXPECT_EQ(count_of(there.asked, "confirm"), servers - 1);
    }
    if (servers > 1) EXPECT(there.order_before >= 10U);
  }
}

/// Puts of 100 variables, that meet the cells of all servers.
std::vector<PutRequest> hundred(int servers, std::int64_t version) {
  std::vector<PutRequest> puts(100, wide(servers, version));
  for (std::size_t k = 0; k < puts.size(); ++k) puts[k].variable = "v" + std::to_string(k);
  return puts;
}

TEST(a_hundred_puts_together_wait_for_the_round_trips_of_one) {
  for (const int servers : {1, 2, 4, 8}) {
    DistantServers there(servers);
    Catalog catalog(there);
    for (std::int64_t version = 0; version < 3; ++version) {
      const std::int64_t begin = there.now_ns();
      there.in_batches.clear();
      {
        PutBatch batch = catalog.put_batch(round_trips_end_ns);
        REQUIRE(batch.begin(hundred(servers, version)).ok());
        EXPECT_EQ(std::ssize(batch.begun()), 100);
        there.copy();
        REQUIRE(batch.commit().ok());
        EXPECT(batch.left().empty());
      }
      const std::int64_t first = version == 0 ? 1 : 0;
      const std::int64_t others = servers > 1 ? 1 : 0;
      EXPECT_EQ((there.now_ns() - begin) / round_trip_ns - 1, first + 2 + others);
      EXPECT_EQ(there.in_batches["commit"], 100);
      EXPECT_EQ(there.in_batches["index"], 100 * (servers - 1));
      EXPECT_EQ(there.in_batches["confirm"], 100 * (servers - 1));
    }
  }
}

TEST(puts_together_that_are_not_indexed_everywhere_are_all_given_back) {
  DistantServers there(4);
  Catalog catalog(there);
  PutBatch batch = catalog.put_batch(round_trips_end_ns);
  there.lost = {2};
  REQUIRE(batch.begin(hundred(4, 0)).ok());
  const Status refused = batch.commit();
  REQUIRE(!refused.ok());
  EXPECT(refused.error().code == ErrorCode::peer_lost);
  EXPECT_EQ(there.in_batches["commit"], 0);
  EXPECT_EQ(count_of(there.told, "abort"), 100);
  EXPECT_EQ(count_of(there.told, "unindex"), 300);
}

TEST(puts_together_of_variables_that_were_deleted_are_left) {
  DistantServers there(2);
  Catalog catalog(there);
  there.deleted = true;
  PutBatch batch = catalog.put_batch(round_trips_end_ns);
  REQUIRE(batch.begin(hundred(2, 0)).ok());
  REQUIRE(batch.commit().ok());
  EXPECT_EQ(std::ssize(batch.left()), 100);
  EXPECT_EQ(there.in_batches["commit"], 0);
  EXPECT_EQ(count_of(there.told, "abort"), 100);
}

TEST(what_puts_together_hold_is_given_back_if_they_are_left) {
  DistantServers there(1);
  Catalog catalog(there);
  {
    PutBatch batch = catalog.put_batch(round_trips_end_ns);
    REQUIRE(batch.begin(hundred(1, 0)).ok());
  }
  EXPECT_EQ(count_of(there.told, "abort"), 100);
}

TEST(an_object_that_is_not_indexed_everywhere_is_not_committed) {
  DistantServers there(4);
  Catalog catalog(there);
  auto first = catalog.begin(wide(4, 0), round_trips_end_ns);
  REQUIRE(first.ok());
  there.lost = {first->indexed.front()};
  auto put = catalog.begin(wide(4, 1), round_trips_end_ns);
  REQUIRE(put.ok());
  there.copy();
  const Status refused = catalog.commit(*put);
  REQUIRE(!refused.ok());
  EXPECT(refused.error().code == ErrorCode::peer_lost);
  EXPECT(!put->stale);
  EXPECT_EQ(count_of(there.asked, "commit"), 0);
  EXPECT_EQ(count_of(there.told, "abort"), 1);
  EXPECT_EQ(count_of(there.told, "unindex"), 3);
}

TEST(an_object_of_a_variable_that_was_deleted_during_the_copy_begins_again) {
  DistantServers there(2);
  Catalog catalog(there);
  there.deleted = true;
  auto put = catalog.begin(wide(2, 0), round_trips_end_ns);
  REQUIRE(put.ok());
  const Status refused = catalog.commit(*put);
  REQUIRE(!refused.ok());
  EXPECT(put->stale);
  EXPECT_EQ(count_of(there.told, "unindex"), 1);
  there.deleted = false;
  there.asked.clear();
  auto again = catalog.begin(wide(2, 0), round_trips_end_ns);
  REQUIRE(again.ok());
  EXPECT_EQ(count_of(there.asked, "declare"), 1);
  EXPECT(catalog.commit(*again).ok());
}

TEST(a_put_that_is_given_up_does_not_wait_for_its_index_servers) {
  DistantServers there(4);
  Catalog catalog(there);
  auto put = catalog.begin(wide(4, 0), round_trips_end_ns);
  REQUIRE(put.ok());
  const std::int64_t begun = there.now_ns();
  catalog.abort(*put);
  EXPECT_EQ(there.now_ns(), begun);
  EXPECT_EQ(count_of(there.told, "abort"), 1);
  EXPECT_EQ(count_of(there.told, "unindex"), 3);
}
