// Requests about offers, as a server answers them.
#include <map>
#include <string>
#include <vector>

#include "staging/server/asking.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

constexpr ClientConnection producer = 1;
constexpr ClientConnection consumer = 2;
const OfferedMemory claimed{"unix:@there", "staging/offer/1", "somebody else"};

/// A server without memory for objects, and two clients.
struct OfferServer : Asked<OfferServer> {
  OfferServer() {
    REQUIRE(ask(producer, protocol::Hello{staging_version, "sim", {1, 1}}).ok());
    REQUIRE(ask(consumer, protocol::Hello{staging_version, "viz", {2, 1}}).ok());
  }

  std::map<ClientConnection, int> notices;
  Service service{options()};
  std::vector<std::byte> reply = std::vector<std::byte>(4096);

  Service::Options options() {
    Service::Options made;
    made.store.make_segment = [](std::int64_t) { return Status{}; };
    made.contact = "here";
    made.address_of = [](const Range&) -> std::byte* { return nullptr; };
    made.notify = [this](ClientConnection client) { ++notices[client]; };
    made.move = [](const Move&) {};
    return made;
  }

  std::uint64_t offer(std::int64_t version) {
    const PutRequest put{"v", version, *Box::make({0}, {4}), "i8", 8, {}};
    (void)well(producer, protocol::Declare{put});
    const auto begun = well(producer, protocol::Offer{put, claimed, 9});
    const std::uint64_t object = std::get<protocol::OfferBegun>(begun).object;
    (void)well(producer, protocol::Commit{object, 0, "v", 32, "offer"});
    return object;
  }
  FoundObjects get(std::int64_t version) {
    const auto got = well(
        consumer, protocol::Get{{"v", VersionChoice::exact, version, *Box::make({0}, {4}), {}}});
    return std::get<protocol::Objects>(got).found;
  }
};

}  // namespace

TEST(a_small_offer_is_named_and_not_sent) {
  OfferServer server;
  const std::uint64_t object = server.offer(1);
  const FoundObjects found = server.get(1);
  REQUIRE(found.objects.size() == 1);
  EXPECT_EQ(found.objects[0].range.segment, offered_segment);
  const auto where = server.well(consumer, protocol::QueryOffer{found.lease, object}).memory;
  EXPECT(where.contact == claimed.contact && where.name == claimed.name);
  EXPECT_EQ(where.producer, "sim");  // whatever it claimed
  EXPECT(!server.ask(producer, protocol::QueryOffer{found.lease, object}).ok());
  EXPECT_EQ(server.service.list()[0].traffic.puts.paths.at("offer"), 1);
}

TEST(a_producer_is_told_that_its_offers_end) {
  OfferServer server;
  const std::vector<std::uint64_t> all{server.offer(1), server.offer(2), 99};
  const FoundObjects found = server.get(2);
  auto left = server.well(producer, protocol::EndOffers{all, false});
  EXPECT(left.objects == std::vector(all.begin(), all.begin() + 2));
  EXPECT_EQ(left.why, "version 1 of \"v\", (0:4), is offered");
  EXPECT(server.well(consumer, protocol::EndOffers{all, true}).objects.empty());
  server.notices.clear();
  left = server.well(producer, protocol::EndOffers{all, true});
  EXPECT(left.objects == std::vector{all[1]});
  EXPECT_EQ(left.why, "version 2 of \"v\", (0:4), is being read by \"viz\"");
  const int before = server.notices[producer];
  (void)server.well(consumer, protocol::Release{found.lease, "v", true, 32, "memcpy"});
  EXPECT_EQ(server.notices[producer], before + 1);
  EXPECT(server.well(producer, protocol::EndOffers{all, false}).objects.empty());
}

TEST(a_lost_reader_lets_an_offer_end) {
  OfferServer server;
  const std::uint64_t object = server.offer(1);
  (void)server.get(1);
  EXPECT(server.well(producer, protocol::EndOffers{{object}, true}).objects.size() == 1);
  server.service.lost(consumer);
  EXPECT(server.well(producer, protocol::EndOffers{{object}, true}).objects.empty());
}

TEST(a_get_of_what_a_lost_producer_has_offered_fails) {
  OfferServer server;
  const std::uint64_t object = server.offer(1);
  server.service.gone(producer, true);
  const FoundObjects found = server.get(1);
  const auto where = server.ask(consumer, protocol::QueryOffer{found.lease, object});
  REQUIRE(!where.ok());
  EXPECT(where.error().code == ErrorCode::peer_lost);
  EXPECT(where.error().message.find("\"sim\"") != std::string::npos);
}

TEST(offers_are_refused_by_a_server_that_ends_and_of_stale_variables) {
  OfferServer server;
  PutRequest put{"v", 1, *Box::make({0}, {4}), "i8", 8, {7, 7}};
  EXPECT(std::holds_alternative<protocol::Stale>(
      server.well(producer, protocol::Offer{put, claimed})));
  put.step = 5;
  EXPECT(!server.ask(producer, protocol::Offer{put, claimed}).ok());  // it is in no step
  (void)server.well(producer, protocol::WithdrawEntry{{"v", 1, {1, 2}}});
  server.service.drain();
  put.step = 0;
  const auto refused = server.ask(producer, protocol::Offer{put, claimed});
  REQUIRE(!refused.ok());
  EXPECT(refused.error().code == ErrorCode::closed);
}
