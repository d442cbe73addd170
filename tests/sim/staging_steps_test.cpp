// Random groups of servers, writers of steps and readers, any of which may die at any message: a
// step is seen whole or not at all, none that was whole is lost, and nobody waits for what cannot
// come. A failing seed prints the command that replays it.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/staging_world.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;
using tranship::test::SimulatedServers;
using tranship::test::StagingWorld;

namespace {

constexpr std::uint64_t seeds = test::seed_count(4000);
constexpr std::int64_t patience_ns = 2'000'000'000;
constexpr std::int64_t width = 10;  ///< elements of each writer's box
const std::vector<std::string> names{"a", "b", "c"};

/// An attempt to write a step.
struct Attempt {
  std::int64_t number = 0;
  int ended = 0;          ///< writers whose end has returned without an error
  bool given_up = false;  ///< a writer has given it up before its end
};

struct Record {
  std::map<StepId, Attempt> attempts;
  std::vector<std::string> wrong;
  int writers = 1;
  std::size_t variables = 1;
  bool late = false;        ///< requests may be late: a failure may be that
  bool discards = false;    ///< servers may discard versions
  int seen = 0;             ///< steps that readers have seen whole
  StepQueue queue{};        ///< how long steps are kept
  int taken = 0;            ///< steps that members of groups have taken
  bool keeps_used = false;  ///< only what all readers have released is freed
  /// who has taken a step last, by group and number; and what was released there
  std::map<std::pair<std::string, std::int64_t>, int> holders;
  std::set<std::pair<std::string, std::int64_t>> released;

  void complain(const std::string& text) { wrong.push_back(text); }
  /// Returns whether a step may have been begun by some of its writers alone.
  bool leaves_open() const {
    return std::any_of(attempts.begin(), attempts.end(), [this](const auto& one) {
      return one.second.ended < writers && !one.second.given_up;
    });
  }
  Box whole() const { return *Box::make({0}, {width * writers}); }
};

Box box_of_writer(int writer) { return *Box::make({width * writer}, {width * (writer + 1)}); }

std::int64_t value_of(StepId id, int writer) { return static_cast<std::int64_t>(id) * 16 + writer; }

/// Returns whether a failed call has a reason that this client, the servers, or the run have.
bool has_reason(const StagingWorld& world, const Record& record, int client) {
  return record.late || world.cut_off(client) || !world.all_alive();
}

/// Puts a writer's box of a variable.
Status put(StagingWorld& world, int client, Catalog& catalog, const PutRequest& request,
           std::int64_t value, std::int64_t end_ns) {
  const auto bytes = static_cast<std::size_t>(8 * request.box.points());
  const auto store = [&](std::byte* data) {
    for (std::size_t k = 0; k < bytes; k += 8) std::memcpy(data + k, &value, 8);
    return Status{};
  };
  if (world.random().chance(0.5)) {
    const auto done = catalog.put(request, bytes, store, end_ns);
    if (!done) return done.error();
    if (*done) return {};
  }
  auto room = catalog.begin(request, end_ns);
  if (!room) return room.error();
  world.begin_writing(client, room->primary, room->range);
  const bool lives = world.step(client);
  std::byte* data = world.memory(room->primary, room->range);
  if (lives && data != nullptr) (void)store(data);
  world.end_writing(client);
  if (!lives || data == nullptr) {
    catalog.abort(*room);
    return Error{ErrorCode::peer_lost, "it was not copied"};
  }
  return catalog.commit(*room);
}

/// Writes one step, or gives it up. `writer`: The number of this writer in its group.
void write_step(StagingWorld& world, int client, Catalog& catalog, Record& record, int writer,
                std::int64_t number) {
  StepClient& steps = catalog.steps();
  const std::int64_t end_ns = world.now_ns() + patience_ns;
  const auto id = steps.begin(number, record.writers, end_ns);
  if (!id) {
    const bool late_joiner = id.error().code == ErrorCode::invalid_argument;
    const bool full = id.error().code == ErrorCode::timeout &&
                      (record.queue.steps > 0 || record.queue.readers > 0);
    if (!late_joiner && !full && world.step(client) && !has_reason(world, record, client)) {
      record.complain("a step did not begin: " + id.error().text());
    }
    return;
  }
  Attempt& attempt = record.attempts[*id];
  attempt.number = number;
  if (steps.is_dropped(*id)) {
    attempt.given_up = true;
    if (!steps.end(*id, end_ns)) record.complain("the end of a dropped step failed");
    return;
  }
  const auto give_up = [&](const std::string& why) {
    attempt.given_up = true;
    steps.give_up(*id, why);
  };
  for (std::size_t k = 0; k < record.variables; ++k) {
    PutRequest request{names[k], number, box_of_writer(writer), "i8", 8};
    request.step = *id;
    const Status done = put(world, client, catalog, request, value_of(*id, writer), end_ns);
    if (!done) return give_up(done.error().text());
    steps.add(*id, StepVariable{names[k], "i8", 8, request.box, 1});
    if (world.random().chance(0.03)) return give_up("an exception");
  }
  const auto set = steps.add(*id, Attribute{"", "w" + std::to_string(writer), "1"});
  if (!set) record.complain("an attribute was refused: " + set.error().text());
  const Status ended = steps.end(*id, world.now_ns() + patience_ns);
  if (ended && world.step(client)) ++attempt.ended;
}

void write(StagingWorld& world, int client, SimulatedServers& servers, Record& record, int writer,
           std::int64_t count) {
  Catalog catalog(servers);
  if (record.queue.steps > 0) (void)catalog.steps().define(record.queue);
  for (std::int64_t number = 0; number < count; ++number) {
    if (!world.step(client)) return;
    write_step(world, client, catalog, record, writer, number);
  }
  world.close(client);
}

/// Returns the lowest number above `after` of a step that is known to be whole.
std::optional<std::int64_t> known_after(const Record& record, std::int64_t after) {
  std::optional<std::int64_t> lowest;
  for (const auto& [id, attempt] : record.attempts) {
    if (attempt.ended < record.writers || attempt.number <= after) continue;
    lowest = std::min(lowest.value_or(INT64_MAX), attempt.number);
  }
  return lowest;
}

/// Gets a box of a variable at a step that is whole, and returns the attempt that wrote it.
std::optional<StepId> get(StagingWorld& world, int client, Catalog& catalog, Record& record,
                          const GetRequest& request, std::int64_t patience) {
  ReplyBuffer reply;
  const std::int64_t end_ns = world.now_ns() + patience;
  const auto held = catalog.get(request, reply, end_ns);
  if (!held) return std::nullopt;
  std::vector<std::int64_t> dense(static_cast<std::size_t>(request.box.points()), -1);
  const auto copy = [&](const LeasedBox& here) {
    if (!here.data.empty()) {
      std::memcpy(dense.data(), here.data.data(), here.data.size());
      return Status{};
    }
    for (const Part& part : here.parts) {
      const StoredObject& object = here.objects[part.object];
      const std::byte* data = world.memory(object.primary, object.range);
      if (data == nullptr) return Status(Error{ErrorCode::peer_lost, "a server has died"});
      for (std::int64_t x = part.box.lower[0]; x < part.box.upper[0]; ++x) {
        std::memcpy(&dense[static_cast<std::size_t>(x - request.box.lower[0])],
                    data + 8 * (x - object.box.lower[0]), 8);
      }
    }
    return Status{};
  };
  const Status taken = catalog.take(*held, end_ns, copy);
  (void)catalog.release(*held);
  if (!taken) return std::nullopt;
  const auto id = static_cast<StepId>(dense[0] / 16);
  for (std::int64_t x = request.box.lower[0]; x < request.box.upper[0]; ++x) {
    const auto writer = static_cast<int>(x / width);
    if (dense[static_cast<std::size_t>(x - request.box.lower[0])] != value_of(id, writer)) {
      record.complain("a step was seen in part: wrong elements at " + std::to_string(x));
    }
  }
  const Attempt& attempt = record.attempts[id];
  if (attempt.given_up) record.complain("a step was seen that was given up");
  if (attempt.number != held->version) record.complain("a step has another number");
  (void)client;
  return id;
}

/// Checks that a step that was seen in one variable is there in all.
void judge_whole(StagingWorld& world, int client, Catalog& catalog, Record& record,
                 std::int64_t number, StepId id) {
  for (std::size_t k = 0; k < record.variables; ++k) {
    const auto got = get(world, client, catalog, record,
                         {names[k], VersionChoice::exact, number, record.whole()}, 1'000'000);
    if (got && *got != id) record.complain("a step has variables of another attempt");
    if (got || !world.step(client) || has_reason(world, record, client) || record.discards)
      continue;
    record.complain("step " + std::to_string(number) + " was seen in part: " + names[k] +
                    " is missing");
  }
  ++record.seen;
}

/// Follows whole steps.
void follow(StagingWorld& world, int client, SimulatedServers& servers, Record& record) {
  Catalog catalog(servers);
  std::int64_t after = INT64_MIN;
  while (world.step(client)) {
    const auto known = known_after(record, after);
    std::vector<BrokenStep> broken;
    const auto found =
        catalog.steps().find({VersionChoice::next, after}, world.now_ns() + patience_ns, &broken);
    if (!world.step(client)) return;
    for (const BrokenStep& step : broken) {
      const bool whole =
          std::any_of(record.attempts.begin(), record.attempts.end(), [&](const auto& one) {
            return one.second.number == step.number && one.second.ended == record.writers;
          });
      if (whole) record.complain("a whole step was passed by: " + step.why);
    }
    if (!found) {
      if (known && !has_reason(world, record, client) && !record.discards) {
        record.complain("a whole step was lost: " + found.error().text());
      }
      break;
    }
    if (found->id == 0) {
      after = found->number;
      continue;
    }
    if (known && found->number > *known && !record.discards) {
      record.complain("a whole step was left out");
    }
    const auto& [variables, attributes] = found->contents;
    bool complete =
        variables.size() == record.variables && std::ssize(attributes) == record.writers;
    for (const StepVariable& variable : variables) {
      complete = complete && variable.boxes == record.writers && variable.bounds == record.whole();
    }
    if (!complete) record.complain("a step lacks variables or attributes");
    judge_whole(world, client, catalog, record, found->number, found->id);
    after = found->number;
  }
  world.close(client);
}

/// Takes steps as a member of a group, and releases them.
void use(StagingWorld& world, int client, SimulatedServers& servers, Record& record,
         const std::string& group, Sharing sharing) {
  Catalog catalog(servers);
  StepClient& steps = catalog.steps();
  if (!steps.join(group, sharing, INT64_MIN)) return world.close(client);
  std::int64_t last = INT64_MIN;
  while (world.step(client)) {
    const auto found = steps.take(group, world.now_ns() + patience_ns);
    if (!world.step(client)) return;
    if (!found && found.error().code == ErrorCode::timeout && record.late) continue;
    if (!found) break;
    const std::pair key(group, found->number);
    const auto holder = record.holders.find(key);
    const bool repeated =
        record.released.contains(key) ||
        (holder != record.holders.end() && holder->second == client && found->number == last);
    if (repeated && !record.late) record.complain("a step was given twice");
    record.holders[key] = client;
    last = found->number;
    ++record.taken;
    for (std::size_t k = 0; k < record.variables; ++k) {
      const auto got =
          get(world, client, catalog, record,
              {names[k], VersionChoice::exact, found->number, record.whole()}, 1'000'000);
      if (got && *got != found->id) record.complain("a step has variables of another attempt");
      if (got || !world.step(client) || has_reason(world, record, client)) continue;
      if (record.keeps_used) record.complain("a step went while a reader held it");
    }
    if (world.random().chance(0.1)) break;  // it leaves with what it holds
    if (steps.release(group, found->id) && world.step(client)) record.released.insert(key);
  }
  if (world.random().chance(0.5)) (void)steps.leave(group);
  world.close(client);
}

/// Gets variables as one that knows nothing of steps.
void get_plainly(StagingWorld& world, int client, SimulatedServers& servers, Record& record,
                 std::int64_t count) {
  Catalog catalog(servers);
  std::int64_t after = -1;
  while (world.step(client) && after < count) {
    const std::string& name = names[world.random().below(std::ssize(names)) % record.variables];
    if (world.random().chance(0.5)) {
      const auto version = world.random().below(count);
      const Box box = box_of_writer(static_cast<int>(world.random().below(record.writers)));
      const auto id = get(world, client, catalog, record,
                          {name, VersionChoice::exact, version, box}, 5'000'000);
      if (id) judge_whole(world, client, catalog, record, version, *id);
      ++after;
      continue;
    }
    const auto known = known_after(record, after);
    const auto found =
        catalog.find_version({name, VersionChoice::next, after}, world.now_ns() + patience_ns);
    if (!world.step(client)) return;
    if (!found) break;
    if (found->box != record.whole() && !record.discards) {
      record.complain("a version was seen in part: " + found->box.text());
    }
    if (known && found->version > *known && !record.discards) {
      record.complain("the version of a whole step was left out");
    }
    const auto id = get(world, client, catalog, record,
                        {name, VersionChoice::exact, found->version, found->box}, 1'000'000);
    if (id) judge_whole(world, client, catalog, record, found->version, *id);
    after = found->version;
  }
  world.close(client);
}

void judge_end(const StagingWorld& world, Record& record, bool nothing_failed) {
  for (int k = 0; k < world.servers(); ++k) {
    if (!world.alive(k)) continue;
    const Service& service = world.service(k);
    std::int64_t bytes = 0;
    for (const VariableInfo& info : service.list()) {
      for (const VersionInfo& version : info.versions) bytes += version.bytes;
    }
    const bool settled = service.withheld_steps() == 0;
    if (!settled && !record.leaves_open() && (k == 0 || nothing_failed))
      record.complain("a step is withheld for ever");
    if (settled && bytes != service.memory_bytes_used()) record.complain("memory was lost");
    if (service.busy()) record.complain("something is still written or read");
  }
}

Record run_of(std::uint64_t seed) {
  Random random(seed);
  StagingWorld::Options options;
  options.seed = random.next();
  options.servers = static_cast<int>(random.between(1, 4));
  options.cell_bytes = random.chance(0.5) ? 8 : 256;
  options.versions_max = random.chance(0.2) ? 2 : 0;
  options.client_death = random.chance(0.4) ? 0.003 : 0;
  options.server_death = random.chance(0.2) ? 0.001 : 0;
  options.late = random.chance(0.3) ? 0.02 : 0;
  options.link_loss = random.chance(0.3) ? 0.003 : 0;
  Record record;
  record.late = options.late > 0;
  if (random.chance(0.4)) {
    record.queue.steps = static_cast<int>(random.between(1, 3));
    record.queue.full = static_cast<QueueFull>(random.between(1, 3));
    record.queue.readers = random.chance(0.3) ? 1 : 0;
    record.queue.keep_first = random.chance(0.2);
  }
  const auto members = record.queue.steps > 0 || random.chance(0.3) ? random.between(1, 3) : 0;
  const Sharing sharing = random.chance(0.5) ? Sharing::demand : Sharing::round_robin;
  record.discards = options.versions_max > 0 || members > 0 || record.queue.steps > 0;
  record.keeps_used = options.versions_max == 0;
  record.writers = static_cast<int>(random.between(1, 3));
  record.variables = static_cast<std::size_t>(random.between(1, std::ssize(names)));
  const std::int64_t count = random.between(1, 5);
  StagingWorld world(options);
  std::vector<StagingWorld::Script> scripts;
  for (int writer = 0; writer < record.writers; ++writer) {
    scripts.emplace_back(
        [&record, writer, count](StagingWorld& w, int client, SimulatedServers& servers) {
          write(w, client, servers, record, writer, count);
        });
  }
  for (std::int64_t k = 0; k < members; ++k) {
    const std::string group = k == 2 ? "other" : "group";
    scripts.emplace_back(
        [&record, group, sharing](StagingWorld& w, int client, SimulatedServers& servers) {
          use(w, client, servers, record, group, sharing);
        });
  }
  for (auto readers = random.between(1, 2); readers > 0; --readers) {
    scripts.emplace_back([&record](StagingWorld& w, int client, SimulatedServers& servers) {
      follow(w, client, servers, record);
    });
  }
  for (auto readers = random.between(0, 2); readers > 0; --readers) {
    scripts.emplace_back([&record, count](StagingWorld& w, int client, SimulatedServers& servers) {
      get_plainly(w, client, servers, record, count);
    });
  }
  if (!world.run(std::move(scripts), 200'000)) record.complain("it hangs");
  const bool nothing_failed = options.client_death == 0 && options.server_death == 0 &&
                              options.late == 0 && options.link_loss == 0;
  judge_end(world, record, nothing_failed);
  for (const std::string& offence : world.offences()) record.complain(offence);
  return record;
}

}  // namespace

TEST(steps_are_seen_whole_or_not_at_all_whoever_dies) {
  const std::string one = tranship::test::argument(2);
  const std::uint64_t first = one.empty() ? 0 : std::stoull(one);
  std::int64_t seen = 0;
  std::int64_t taken = 0;
  for (std::uint64_t seed = first; seed < (one.empty() ? seeds : first + 1); ++seed) {
    const Record record = run_of(seed);
    seen += record.seen;
    taken += record.taken;
    for (const std::string& text : record.wrong) std::fprintf(stderr, "%s\n", text.c_str());
    if (record.wrong.empty()) continue;
    std::fprintf(stderr, "replay with: test_sim steps_are_seen %llu\n",
                 static_cast<unsigned long long>(seed));
    REQUIRE(record.wrong.empty());
  }
  std::printf("%lld times a step was seen whole, %lld were taken\n", static_cast<long long>(seen),
              static_cast<long long>(taken));
  EXPECT(!one.empty() || seen > static_cast<std::int64_t>(seeds));
}
