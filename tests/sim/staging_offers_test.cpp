// Clients offer arrays, read those of each other and take their own back, while clients, servers
// and connections are lost at any message: an array that has been taken back is read no more.
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "sim/staging_world.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;
using tranship::test::SimulatedServers;
using tranship::test::StagingWorld;

namespace {

constexpr std::uint64_t seeds_of_offers = test::seed_count(2000);
constexpr std::int64_t patience_ns = 2'000'000'000;
constexpr std::int64_t versions_of_client = 3;
constexpr std::int64_t taken_back = -1;

/// An array, which changes when its offer has ended.
struct OfferedSlot {
  std::int64_t value = 0;
  int producer = 0;
  int primary = 0;
};

struct OfferRecord {
  std::vector<std::pair<std::int64_t, Box>> offered{};  ///< Versions and boxes.
  std::vector<OfferedSlot> slots{};  ///< The name of an array is its index, and so is its value.
  std::vector<std::string> wrong{};
  std::int64_t read = 0;
  std::int64_t ended = 0;
  std::int64_t waited = 0;  ///< Questions whether an offer has ended that were answered by no.
};

/// One client, which offers and reads.
class OfferClient {
 public:
  OfferClient(StagingWorld& world, int client, SimulatedServers& servers, OfferRecord& record)
      : world_(world), client_(client), catalog_(servers), record_(record) {}

  void run(int clients) {
    for (int k = 0; k < 10 && world_.step(client_); ++k) {
      const auto what = world_.random().below(10);
      if (what < 4) {
        offer(random_version(client_), random_box());
      } else if (what < 7) {
        read_one(clients);
      } else if (!open_.empty()) {
        end_one();
      }
    }
    while (!open_.empty()) withdraw();
    world_.close(client_);
  }

 private:
  struct Open {
    std::size_t slot = 0;
    PreparedPut put;
  };

  std::int64_t random_version(int client) {
    return client * versions_of_client + world_.random().below(versions_of_client);
  }
  Box random_box() {
    const std::int64_t lower = world_.random().between(-200, 200);
    return *Box::make({lower}, {lower + world_.random().between(1, 100)});
  }
  std::int64_t end_ns() const { return world_.now_ns() + patience_ns; }

  void offer(std::int64_t version, const Box& box) {
    const std::size_t slot = record_.slots.size();
    record_.slots.push_back({static_cast<std::int64_t>(slot), client_, 0});
    const PutRequest put{"x", version, box, "i8", 8, {}};
    auto begun = catalog_.begin_offer(put, {"unix:@there", std::to_string(slot), ""}, end_ns());
    if (!begun) return;
    record_.slots[slot].primary = begun->primary;
    if (!catalog_.commit(*begun, "offer")) return catalog_.withdraw_later(*begun);
    open_.push_back({slot, std::move(*begun)});
    record_.offered.emplace_back(version, box);
    const bool there = read(version, box);
    const bool must = world_.all_alive() && !world_.any_client_died() && !may_be_late;
    if (!there && must) record_.wrong.emplace_back("what was offered is not there");
  }

  /// Reads what was offered not long ago, or any box.
  void read_one(int clients) {
    const auto count = std::ssize(record_.offered);
    if (count == 0 || world_.random().chance(0.2)) {
      read(random_version(static_cast<int>(world_.random().below(clients))), random_box());
      return;
    }
    const auto back = world_.random().between(1, std::min<std::int64_t>(count, 5));
    const auto [version, box] = record_.offered[static_cast<std::size_t>(count - back)];
    read(version, box);
  }

  /// Reads a box for some steps, if it is there.
  bool read(std::int64_t version, const Box& box) {
    ReplyBuffer reply;
    const GetRequest get{"x", VersionChoice::exact, version, box, {}};
    const auto held = catalog_.get(get, reply, world_.now_ns());
    if (!held) return false;
    for (const Part& part : held->parts) {
      const StoredObject& object = held->objects[part.object];
      if (object.range.segment != offered_segment) {
        record_.wrong.emplace_back("an object that nobody has put");
        continue;
      }
      const auto memory = catalog_.find_offer(object, end_ns());
      if (memory) look(std::stoul(memory->name));
    }
    catalog_.release(*held);
    return true;
  }

  /// Looks at an array for some steps. Another line of defence, the engine's, protects those whose
  /// server does not know any more who reads them.
  void look(std::size_t slot) {
    for (std::int64_t left = world_.random().below(20); left >= 0; --left) {
      const OfferedSlot& there = record_.slots[slot];
      const bool known = !world_.cut_off(client_) && !world_.cut_off(there.producer) &&
                         world_.alive(there.primary);
      if (known && there.value != static_cast<std::int64_t>(slot)) {
        record_.wrong.push_back("array " + std::to_string(slot) +
                                " was taken back while it is read");
        return;
      }
      ++record_.read;
      if (!world_.step(client_)) return;
    }
  }

  /// Withdraws an offer, or discards or hides it and waits for its end.
  void end_one() {
    const auto which = world_.random().below(3);
    if (which == 0) return withdraw();
    Open one = take_first();
    if (which == 1) {
      if (!catalog_.discard("x", one.put.request.version))
        return open_.push_back(std::move(one));  // for later
    } else {
      const std::size_t before = open_.size();
      offer(one.put.request.version, one.put.request.box);
      if (open_.size() == before) return open_.push_back(std::move(one));  // for later
    }
    await_end(one, false);
  }

  Open take_first() {
    Open one = std::move(open_.front());
    open_.erase(open_.begin());
    return one;
  }

  void withdraw() { await_end(take_first(), true); }

  void await_end(const Open& one, bool withdraws) {
    const std::int64_t end = end_ns();
    while (true) {
      const std::uint64_t seen = catalog_.notices();
      const auto left = catalog_.end_offers(one.put.primary, {one.put.object}, withdraws, end);
      if (!left) return;  // the array is kept
      if (left->objects.empty()) break;
      ++record_.waited;
      if (!catalog_.pause(seen, end, left->why)) {
        // All clients stop reading long before that.
        if (!may_be_late && !world_.any_client_died() && world_.all_alive())
          record_.wrong.push_back("an offer does not end: " + left->why);
        return;
      }
    }
    if (withdraws) {
      const PutRequest& put = one.put.request;
      const protocol::IndexEntryId entry{
          put.variable, put.version, {one.put.primary, one.put.object}};
      if (!catalog_.withdraw_entries(entry, one.put.indexed, end)) return;  // the array is kept
    }
    record_.slots[one.slot].value = taken_back;
    ++record_.ended;
  }

 public:
  bool may_be_late = false;

 private:
  StagingWorld& world_;
  int client_;
  Catalog catalog_;
  OfferRecord& record_;
  std::vector<Open> open_;
};

StagingWorld::Options options_of_run(std::uint64_t seed) {
  StagingWorld::Options options;
  options.seed = seed;
  options.servers = static_cast<int>(1 + seed % 4);
  options.cell_bytes = seed % 3 == 0 ? 8 : 256;
  options.memory_bytes = 4096;
  if (seed % 2 == 0) return options;
  options.client_death = seed % 5 == 0 ? 0.001 : 0;
  options.server_death = seed % 7 == 0 ? 0.0005 : 0;
  options.link_loss = seed % 11 == 0 ? 0.001 : 0;
  options.one_link_loss = seed % 13 == 0 ? 0.001 : 0;
  options.late = seed % 3 == 0 ? 0.02 : 0;
  return options;
}

}  // namespace

TEST(an_array_that_was_taken_back_is_read_no_more) {
  std::int64_t read = 0;
  std::int64_t ended = 0;
  std::int64_t waited = 0;
  for (std::uint64_t seed = 0; seed < seeds_of_offers; ++seed) {
    const StagingWorld::Options options = options_of_run(seed);
    StagingWorld world(options);
    OfferRecord record;
    const auto clients = static_cast<int>(2 + seed % 3);
    const auto script = [&](StagingWorld& w, int client, SimulatedServers& servers) {
      OfferClient one(w, client, servers, record);
      one.may_be_late = options.late > 0;
      one.run(clients);
    };
    const bool done = world.run(
        std::vector<StagingWorld::Script>(static_cast<std::size_t>(clients), script), 200'000);
    if (!done) record.wrong.emplace_back("it hangs");
    const bool calm = !world.any_client_died() && world.all_alive() && options.late == 0;
    for (int k = 0; calm && k < world.servers(); ++k) {
      for (const auto& variable : world.service(k).list()) {
        if (!variable.versions.empty()) record.wrong.emplace_back("an offer was left behind");
      }
    }
    for (const std::string& text : record.wrong) {
      std::fprintf(stderr, "seed %llu: %s\n", static_cast<unsigned long long>(seed), text.c_str());
    }
    REQUIRE(record.wrong.empty());
    read += record.read;
    ended += record.ended;
    waited += record.waited;
  }
  std::printf("%lld looks at arrays, %lld offers ended, %lld times others were read\n",
              static_cast<long long>(read), static_cast<long long>(ended),
              static_cast<long long>(waited));
  const auto runs = static_cast<std::int64_t>(seeds_of_offers);
  EXPECT(read > runs && ended > runs && (waited > 0 || seeds_of_offers < 100));
}
