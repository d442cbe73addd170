// What the fabric promises with any carrier, tested with a carrier that waits, fails and is revoked
// on demand.
#include <map>
#include <set>

#include "fabric/helpers.hpp"

using namespace tranship;
using namespace tranship::fabric;
using namespace tranship::test;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t array_bytes = 100'000;
/// How long a withdrawal or a close waits for copies that do not end.
constexpr std::chrono::milliseconds brief{300};

/// The state that the fake carriers of a test share: the "card".
struct Card {
  std::mutex mutex;
  std::map<std::uint64_t, std::pair<std::byte*, std::int64_t>> registered;
  std::uint64_t last = 0;
  std::atomic<bool> held{false};      ///< Copies wait in the middle.
  std::atomic<bool> stubborn{false};  ///< Held copies ignore a request to stop.
  std::atomic<bool> fails{false};     ///< Copies fail after half of their bytes.
  std::atomic<int> waiting{0};
  std::atomic<int> moved{0};

  std::size_t keys() {
    const std::lock_guard lock(mutex);
    return registered.size();
  }
};

class FakeCarrier final : public BulkCarrier {
 public:
  FakeCarrier(std::shared_ptr<Card> card, bool local, std::string kind = "fake 1")
      : card_(std::move(card)), local_(local), kind_(std::move(kind)) {}
  const std::string& kind() const override { return kind_; }
  bool serves(bool local) const override { return local == local_; }
  const std::vector<std::byte>& address() const override { return address_; }
  Result<std::unique_ptr<Registration>> register_memory(std::byte* address,
                                                        std::int64_t bytes) override {
    return std::unique_ptr<Registration>(std::make_unique<Key>(card_, address, bytes));
  }
  Result<std::shared_ptr<Peer>> connect(std::span<const std::byte>) override {
    return std::shared_ptr<Peer>(std::make_shared<There>(card_));
  }
  bool progress() override { return false; }

 private:
  struct Key final : Registration {
    Key(std::shared_ptr<Card> shared, std::byte* address, std::int64_t bytes)
        : card(std::move(shared)), text(sizeof number) {
      const std::lock_guard lock(card->mutex);
      number = ++card->last;
      card->registered[number] = {address, bytes};
      std::memcpy(text.data(), &number, sizeof number);
    }
    ~Key() override {
      const std::lock_guard lock(card->mutex);
      card->registered.erase(number);
    }
    const std::vector<std::byte>& key() const override { return text; }
    std::shared_ptr<Card> card;
    std::uint64_t number = 0;
    std::vector<std::byte> text;
  };

  struct Reached final : Memory {
    Reached(std::shared_ptr<Card> shared, std::uint64_t key)
        : card(std::move(shared)), number(key) {}
    Status move(const Movement& movement, const std::function<bool()>& stop) override {
      ++card->waiting;
      while (card->held.load()) {
        if (stop() && !card->stubborn.load()) {
          --card->waiting;
          return Error{ErrorCode::cancelled, "stopped"};
        }
        std::this_thread::sleep_for(1ms);
      }
      --card->waiting;
      const std::lock_guard lock(card->mutex);
      const auto found = card->registered.find(number);
      if (found == card->registered.end()) return Error{ErrorCode::io, "the key was revoked"};
      if (card->fails.load()) return Error{ErrorCode::io, "the card failed"};
      const bool write = movement.operation == Operation::write;
      slow_copy(movement.nests, write ? movement.local : found->second.first,
                write ? found->second.first : movement.local, false);
      ++card->moved;
      return {};
    }
    std::shared_ptr<Card> card;
    std::uint64_t number;
  };

  struct There final : Peer {
    explicit There(std::shared_ptr<Card> shared) : card(std::move(shared)) {}
    Result<std::shared_ptr<Memory>> open(std::span<const std::byte> key, std::uint64_t) override {
      std::uint64_t number = 0;
      if (key.size() != sizeof number) return Error{ErrorCode::io, "no key"};
      std::memcpy(&number, key.data(), sizeof number);
      return std::shared_ptr<Memory>(std::make_shared<Reached>(card, number));
    }
    std::shared_ptr<Card> card;
  };

  std::shared_ptr<Card> card_;
  bool local_;
  std::string kind_;
  std::vector<std::byte> address_{16};
};

/// An exporter and a requester with fake carriers on one card.
struct Play {
  explicit Play(Transport transport, std::chrono::milliseconds peer_timeout = patience,
                const std::string& other_kind = "fake 1") {
    const bool local = transport != Transport::network;
    auto options = options_for(transport);
    options.peer_timeout = peer_timeout;
    options.carrier = std::make_shared<FakeCarrier>(card, local);
    options.on_requester_gone = [this](RequesterId, bool) {
      keys_when_gone = static_cast<int>(card->keys());
      gone = true;
    };
    exporter = open_fabric(options);
    options.on_requester_gone = {};
    options.carrier = std::make_shared<FakeCarrier>(card, local, other_kind);
    requester = open_fabric(options);
    REQUIRE(
        exporter->export_array({"array", "", {remote.data(), nullptr}, array_bytes, true, nullptr})
            .ok());
    const PeerId peer = connect_to(*requester, exporter->contact());
    array = look_up(*requester, peer, "array");
    RemoteChannel::Options way;
    way.carrier_threads = 2;
    channel = std::make_unique<RemoteChannel>(*requester, way);
  }
  ~Play() {
    card->held = false;
    channel.reset();
  }

  Request write_all(std::uint64_t tag = 0) {
    Request request = write_request({&all, 1}, local.data(), *array);
    request.tag = tag;
    return request;
  }
  /// Begins a copy, and returns when it waits in the middle.
  void begin_held(std::uint64_t tag = 0) {
    card->held = true;
    REQUIRE(channel->submit(write_all(tag)).ok());
    REQUIRE(eventually([&] { return card->waiting.load() == 1; }));
  }

  std::shared_ptr<Card> card = std::make_shared<Card>();
  std::atomic<bool> gone{false};
  std::atomic<int> keys_when_gone{-1};
  std::vector<std::byte> remote = std::vector<std::byte>(array_bytes);
  std::vector<std::byte> local = pattern(array_bytes, 5);
  LoopNest all = run_of(array_bytes);
  std::unique_ptr<Fabric> exporter;
  std::unique_ptr<Fabric> requester;
  std::shared_ptr<RemoteArray> array;
  std::unique_ptr<RemoteChannel> channel;
};

const Transport transports[] = {Transport::automatic, Transport::network};

}  // namespace

TEST(carriers_move_long_runs_and_no_others) {
  for (const auto transport : transports) {
    Play play(transport);
    EXPECT(carry(*play.channel, play.write_all()).ok());
    EXPECT_EQ(play.card->moved.load(), 1);
    EXPECT(play.remote == play.local);
    std::vector<std::byte> back(array_bytes);
    EXPECT(carry(*play.channel, read_request({&play.all, 1}, *play.array, back.data())).ok());
    EXPECT_EQ(play.card->moved.load(), 2);
    EXPECT(back == play.local);
    LoopNest pieces;
    pieces.element_bytes = 8;
    pieces.rank = 1;
    pieces.loops[0] = {10'000, 8, 8};
    EXPECT(carry(*play.channel, write_request({&pieces, 1}, play.local.data(), *play.array)).ok());
    EXPECT_EQ(play.card->moved.load(), 2);
  }
}

TEST(carriers_of_other_kinds_are_left_alone) {
  for (const auto transport : transports) {
    Play play(transport, patience, "fake 2");
    EXPECT(play.array->carried() == nullptr);
    EXPECT_EQ(play.card->keys(), std::size_t{0});
    EXPECT(carry(*play.channel, play.write_all()).ok());
    EXPECT_EQ(play.card->moved.load(), 0);
    EXPECT(play.remote == play.local);
    EXPECT(play.array->link().way.find("no fake 2, as the peer has fake 1") != std::string::npos);
  }
}

/// Half of the bytes may have arrived; the command sends all of them.
TEST(what_a_carrier_fails_to_move_goes_through_slots) {
  for (const auto transport : transports) {
    Play play(transport);
    play.card->fails = true;
    EXPECT(carry(*play.channel, play.write_all()).ok());
    EXPECT_EQ(play.card->moved.load(), 0);
    EXPECT(play.remote == play.local);
  }
}

TEST(copies_of_a_carrier_can_be_cancelled) {
  for (const auto transport : transports) {
    Play play(transport);
    play.begin_held(5);
    play.channel->cancel(5);
    const Status status = finish_one(*play.channel);
    REQUIRE(!status);
    EXPECT(status.error().code == ErrorCode::cancelled);
    EXPECT(play.remote == std::vector<std::byte>(array_bytes));
    play.card->held = false;
    EXPECT(carry(*play.channel, play.write_all()).ok());
  }
}

/// The end of a cancelled copy is reported only when nothing touches its memory any more.
TEST(cancelled_copies_in_flight_end_first) {
  Play play(Transport::automatic);
  play.card->stubborn = true;
  play.begin_held(5);
  play.channel->cancel(5);
  EXPECT(!finish_one(*play.channel, 200ms).ok());
  EXPECT_EQ(play.card->waiting.load(), 1);
  play.card->held = false;
  (void)finish_one(*play.channel);
  EXPECT_EQ(play.card->waiting.load(), 0);
}

TEST(withdraw_waits_for_the_copies_of_carriers) {
  Play play(Transport::automatic, brief);
  play.card->stubborn = true;
  play.begin_held();
  const Status early = play.exporter->withdraw("array");
  REQUIRE(!early);
  EXPECT(early.error().code == ErrorCode::timeout);
  EXPECT_EQ(play.card->keys(), std::size_t{1});
  play.card->held = false;
  EXPECT(eventually([&] { return play.exporter->withdraw("array").ok(); }));
  EXPECT_EQ(play.card->keys(), std::size_t{0});
  EXPECT(finish_one(*play.channel).ok());
  const Status late = carry(*play.channel, play.write_all());
  REQUIRE(!late);
  EXPECT(late.error().code == ErrorCode::not_found);
}

/// Over a network the exporter does not see whether a peer copies: the key is revoked, and the copy
/// fails.
TEST(withdraw_revokes_keys_over_a_network) {
  Play play(Transport::network);
  play.card->stubborn = true;
  play.begin_held();
  EXPECT(play.exporter->withdraw("array").ok());
  EXPECT_EQ(play.card->keys(), std::size_t{0});
  play.card->held = false;
  const Status status = finish_one(*play.channel);
  REQUIRE(!status);
  EXPECT(status.error().code == ErrorCode::not_found);
  EXPECT(play.remote == std::vector<std::byte>(array_bytes));
}

/// A requester that left in the middle of a copy is reported as gone only when the copy has ended.
TEST(lost_requesters_are_fenced_while_their_carriers_copy) {
  Play play(Transport::automatic, brief);
  play.card->stubborn = true;
  play.begin_held();
  (void)play.requester->close();
  std::this_thread::sleep_for(500ms);
  EXPECT(!play.gone.load());
  play.card->held = false;
  EXPECT(eventually([&] { return play.gone.load(); }));
}

TEST(lost_requesters_have_no_keys_when_they_are_gone) {
  Play play(Transport::network, brief);
  play.card->stubborn = true;
  play.begin_held();
  EXPECT_EQ(play.card->keys(), std::size_t{1});
  (void)play.requester->close();
  EXPECT(eventually([&] { return play.gone.load(); }));
  EXPECT_EQ(play.keys_when_gone.load(), 0);
  play.card->held = false;
  (void)finish_one(*play.channel);
  EXPECT(play.remote == std::vector<std::byte>(array_bytes));
}

TEST(closing_ends_the_copies_of_carriers) {
  for (const auto transport : transports) {
    Play play(transport);
    play.begin_held();
    EXPECT(play.requester->close().ok());
    const Status status = finish_one(*play.channel);
    REQUIRE(!status);
    EXPECT(status.error().code == ErrorCode::closed);
  }
}

TEST(an_export_of_the_same_name_has_a_key_of_its_own) {
  Play play(Transport::automatic);
  REQUIRE(play.exporter->withdraw("array").ok());
  std::vector<std::byte> other(array_bytes);
  REQUIRE(play.exporter
              ->export_array({"array", "", {other.data(), nullptr}, array_bytes, true, nullptr})
              .ok());
  const auto array = look_up(*play.requester, play.array->peer(), "array");
  EXPECT(carry(*play.channel, write_request({&play.all, 1}, play.local.data(), *array)).ok());
  EXPECT_EQ(play.card->moved.load(), 1);
  EXPECT(other == play.local);
  EXPECT(play.remote == std::vector<std::byte>(array_bytes));
}

/// A withdrawal that timed out leaves a key behind, and a new export takes the old one's place.
TEST(an_export_in_the_place_of_another_has_a_key_of_its_own) {
  Play play(Transport::automatic, brief);
  play.card->stubborn = true;
  play.begin_held();
  EXPECT(!play.exporter->withdraw("array").ok());
  std::vector<std::byte> other(array_bytes);
  REQUIRE(play.exporter
              ->export_array({"other", "", {other.data(), nullptr}, array_bytes, true, nullptr})
              .ok());
  const auto array = look_up(*play.requester, play.array->peer(), "other");
  play.card->held = false;
  (void)finish_one(*play.channel);
  const auto before = play.remote;
  play.local = pattern(array_bytes, 6);
  EXPECT(carry(*play.channel, write_request({&play.all, 1}, play.local.data(), *array)).ok());
  EXPECT(other == play.local);
  EXPECT(play.remote == before);
}
