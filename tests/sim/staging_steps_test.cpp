// Random groups of servers, writers of steps and readers, any of which may die at any message: a
// step is seen whole or not at all, none that was whole is lost, and nobody waits for what cannot
// come. A failing seed prints the command that replays it.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/staging_world.hpp"
#include "sim/step_record.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;
using namespace tranship::test;

namespace {

constexpr std::uint64_t seeds = test::seed_count(3000);
constexpr std::int64_t patience_ns = 2'000'000'000;
constexpr std::int64_t glance_ns = 5'000'000;

/// A step that a writer has begun and not ended.
struct OpenStep {
  StepId id = 0;
  std::int64_t number = 0;
  int writer = 0;
};

/// Writes steps, as one of their writers.
class Writer {
 public:
  Writer(StagingWorld& world, int client, Catalog& catalog, Record& record, int writer)
      : world_(world),
        client_(client),
        catalog_(catalog),
        steps_(catalog.steps()),
        record_(record),
        writer_(writer) {}

  /// Begins a step, and puts all that it has. Returns nothing if it was given up.
  std::optional<OpenStep> begin(std::int64_t number) {
    const std::int64_t end_ns = world_.now_ns() + patience_ns;
    const auto id = steps_.begin(number, record_.writers, end_ns);
    if (!id) {
      const bool late_joiner = id.error().code == ErrorCode::invalid_argument;
      const bool full = record_.queue.steps > 0 && id.error().code == ErrorCode::timeout;
      if (!late_joiner && !full && world_.step(client_) && !has_reason(world_, record_, client_)) {
        record_.complain("a step did not begin: " + id.error().text());
      }
      return {};
    }
    record_.attempts[*id].number = number;
    if (steps_.is_dropped(*id)) {
      record_.attempts[*id].given_up = true;
      if (!steps_.end(*id, end_ns)) record_.complain("the end of a dropped step failed");
      return {};
    }
    const OpenStep open{*id, number, writer_};
    for (std::size_t k = 0; k < record_.variables; ++k) {
      if (Status done = put_boxes(open, names[k], end_ns); !done) return give_up(open, done);
      if (world_.random().chance(0.02)) {
        return give_up(open, Error{ErrorCode::closed, "an exception"});
      }
    }
    if (record_.empties) {
      if (Status done = put_nothing(open, end_ns); !done) return give_up(open, done);
    }
    add_attributes(open);
    return open;
  }

  void end(const OpenStep& open) {
    Attempt& attempt = record_.attempts[open.id];
    ++attempt.ending;
    const Status ended = steps_.end(open.id, world_.now_ns() + patience_ns);
    if (ended && world_.step(client_)) ++attempt.ended;
    if (ended || record_.late) return;
    // Whatever has failed, it has ended.
    const auto state = steps_.settle(open.id, world_.now_ns() + patience_ns);
    if (state && !*state) record_.complain("a step stays open that its writer could not end");
  }

 private:
  std::optional<OpenStep> give_up(const OpenStep& open, const Status& why) {
    record_.attempts[open.id].given_up = true;
    steps_.give_up(open.id, why.error().text());
    return {};
  }

  Status put_box(const OpenStep& open, const std::string& name, const Box& box, std::int64_t value,
                 std::int64_t end_ns) {
    PutRequest request{name, open.number, box, "i8", 8};
    request.step = open.id;
    const Status done = put(world_, client_, catalog_, request, value, end_ns);
    if (!done) return done;
    steps_.add(open.id, StepVariable{name, "i8", 8, box, 1});
    ++record_.attempts[open.id].boxes[name];
    return {};
  }

  /// Puts this writer's box, in one piece or in two, after parts of it that are hidden then.
  Status put_boxes(const OpenStep& open, const std::string& name, std::int64_t end_ns) {
    const std::int64_t lower = width * writer_;
    const std::int64_t middle = lower + world_.random().between(1, width - 1);
    const std::int64_t upper = lower + width;
    const std::int64_t value = value_of(open.id, writer_);
    const auto put_part = [&](std::int64_t first, std::int64_t last, std::int64_t one) {
      return put_box(open, name, *Box::make({first}, {last}), one, end_ns);
    };
    if (record_.overlaps && world_.random().chance(0.5)) {
      const bool left = world_.random().chance(0.5);
      Status done = put_part(left ? lower : middle, left ? middle : upper, hidden_value);
      if (!done) return done;
    }
    if (world_.random().chance(0.6)) return put_part(lower, upper, value);
    Status done = put_part(middle, upper, value);
    return done ? put_part(lower, middle, value) : done;
  }

  Status put_nothing(const OpenStep& open, std::int64_t end_ns) {
    PutRequest request{nothing, open.number, *Box::make({0}, {1}), "i8", 8};
    request.step = open.id;
    const Status done = catalog_.put_empty(request, 1, end_ns);
    if (done) steps_.add(open.id, StepVariable{nothing, "i8", 8, {}, 0});
    return done;
  }

  void add_attributes(const OpenStep& open) {
    Random& random = world_.random();
    if (record_.conflicts) {
      const std::string value = random.chance(0.5) ? "1" : "2";
      (void)steps_.add(open.id, Attribute{"", "same", value});
      record_.attempts[open.id].attributes["same"] = value;
    }
    const std::int64_t count = record_.long_texts ? random.between(1, 6) : 1;
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t length = record_.long_texts ? random.between(1, 1500) : 1;
      const std::string key = "w" + std::to_string(writer_) + "." + std::to_string(k);
      const std::string value(static_cast<std::size_t>(length), static_cast<char>('a' + k));
      // The last value counts.
      const bool twice = random.chance(0.2);
      const Status first = twice ? steps_.add(open.id, {"", key, "0"}) : Status{};
      const Status set = steps_.add(open.id, Attribute{"", key, value});
      if (!first || !set) record_.complain("an attribute was refused");
      record_.attempts[open.id].attributes[key] = value;
    }
  }

  StagingWorld& world_;
  int client_;
  Catalog& catalog_;
  StepClient& steps_;
  Record& record_;
  int writer_;
};

void write(StagingWorld& world, int client, SimulatedServers& servers, Record& record, int writer,
           std::int64_t count) {
  Catalog catalog(servers);
  Writer steps(world, client, catalog, record, writer);
  if (record.queue.steps > 0) (void)catalog.steps().define(record.queue);
  std::deque<OpenStep> open;
  const auto end_one = [&] {
    const bool newest = world.random().chance(0.2);
    const OpenStep step = newest ? open.back() : open.front();
    if (newest) {
      open.pop_back();
    } else {
      open.pop_front();
    }
    steps.end(step);
  };
  for (std::int64_t number = 0; number < count; ++number) {
    if (!world.step(client)) return;
    auto begun = steps.begin(number);
    if (!begun && world.random().chance(0.3)) begun = steps.begin(number);  // another attempt
    if (begun) open.push_back(*begun);
    const std::size_t most = record.runs_at_once ? 1 : 0;
    while (open.size() > most && world.step(client)) end_one();
  }
  while (!open.empty() && world.step(client)) end_one();
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

/// Checks elements of a box, and returns the attempt that wrote them; 0: they were put beside
/// steps.
StepId judge_values(Record& record, const Box& box, std::int64_t version,
                    const std::vector<std::int64_t>& dense) {
  std::set<StepId> ids;
  for (std::int64_t x = box.lower[0]; x < box.upper[0]; ++x) {
    const std::int64_t value = dense[static_cast<std::size_t>(x - box.lower[0])];
    if (record.beside && value == beside_value) continue;
    const auto id = static_cast<StepId>(value / 16);
    ids.insert(id);
    if (value != value_of(id, static_cast<int>(x / width))) {
      record.complain("wrong elements were seen at " + std::to_string(x));
    }
  }
  if (ids.empty()) return 0;
  if (ids.size() > 1) record.complain("elements of several steps were seen in one version");
  const Attempt& attempt = record.attempts[*ids.begin()];
  if (!record.may_be_whole(attempt)) record.complain("a step was seen that cannot be whole");
  if (attempt.number != version) record.complain("a step has another number");
  return *ids.begin();
}

/// Gets a box of a variable, and returns the attempt that wrote it. 0: none did.
std::optional<StepId> get(StagingWorld& world, Catalog& catalog, Record& record,
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
  return judge_values(record, request.box, held->version, dense);
}

/// Checks that a step that was seen in one variable is there in all.
void judge_whole(StagingWorld& world, int client, Catalog& catalog, Record& record,
                 std::int64_t number, StepId id) {
  const auto excused = [&] {
    return !world.step(client) || has_reason(world, record, client) || record.discards;
  };
  for (std::size_t k = 0; k < record.variables; ++k) {
    const GetRequest request{names[k], VersionChoice::exact, number, record.whole()};
    const auto got = get(world, catalog, record, request, 1'000'000);
    if (got && *got != 0 && *got != id) record.complain("a step has variables of another attempt");
    if (got || excused()) continue;
    record.complain("step " + std::to_string(number) + " was seen in part: " + names[k] +
                    " is missing");
  }
  if (record.empties) {
    const auto extent = catalog.extent_of(nothing, number, world.now_ns() + 1'000'000);
    if (extent && extent->empty_dimensions != 1) record.complain("nothing has elements");
    if (!extent && !excused()) record.complain("a box without elements is missing");
  }
  ++record.seen;
}

/// Checks what a step says that it has.
void judge_contents(Record& record, const FoundStep& found) {
  const Attempt& attempt = record.attempts[found.id];
  const auto& [variables, attributes] = found.contents;
  if (!record.may_be_whole(attempt)) record.complain("a step was found that cannot be whole");
  if (attempt.number != found.number) record.complain("a step was found under another number");
  if (variables.size() != record.lists() && !record.discards) {
    record.complain("a step lacks variables");
  }
  for (const StepVariable& variable : variables) {
    if (variable.name == nothing) continue;
    const auto boxes = attempt.boxes.find(variable.name);
    const bool all = boxes != attempt.boxes.end() && variable.boxes == boxes->second &&
                     variable.bounds == record.whole();
    if (!all) record.complain("a step lacks boxes of " + variable.name);
  }
  Attributes there;
  for (const Attribute& one : attributes) there[one.key] = one.value;
  if (there != attempt.attributes || there.size() != attributes.size()) {
    record.complain("a step has other attributes than were set");
  }
}

void judge_broken(Record& record, const std::vector<BrokenStep>& broken) {
  for (const BrokenStep& step : broken) {
    for (const auto& [id, attempt] : record.attempts) {
      const bool whole = attempt.number == step.number && attempt.ended == record.writers;
      if (whole) record.complain("a whole step was passed by: " + step.why);
    }
  }
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
    judge_broken(record, broken);
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
    judge_contents(record, *found);
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
      const GetRequest request{names[k], VersionChoice::exact, found->number, record.whole()};
      const auto got = get(world, catalog, record, request, 1'000'000);
      if (got && *got != 0 && *got != found->id) record.complain("a step has other variables");
      if (got || !world.step(client) || has_reason(world, record, client)) continue;
      if (record.keeps_used) record.complain("a step went while a reader held it");
    }
    if (world.random().chance(0.1)) break;  // it leaves with what it holds
    if (steps.release(group, found->id) && world.step(client)) record.released.insert(key);
  }
  if (world.random().chance(0.5)) (void)steps.leave(group);
  world.close(client);
}

/// Gets a box of some version, as one that knows nothing of steps.
void get_some(StagingWorld& world, int client, Catalog& catalog, Record& record,
              const std::string& name, std::int64_t count) {
  Random& random = world.random();
  const auto version = random.below(count);
  const Box box = box_of_writer(static_cast<int>(random.below(record.writers)));
  if (record.empties && random.chance(0.2)) {
    const auto extent = catalog.extent_of(nothing, version, world.now_ns() + glance_ns);
    if (extent && !record.may_be_whole(version)) {
      record.complain("a box without elements was seen of a step that cannot be whole");
    }
    return;
  }
  const auto choice = static_cast<VersionChoice>(random.below(3));
  const auto id = get(world, catalog, record, {name, choice, version, box}, glance_ns);
  if (!id || *id == 0) return;
  const std::int64_t number = record.attempts[*id].number;
  judge_whole(world, client, catalog, record, number, *id);
}

/// Gets variables as one that knows nothing of steps.
void get_plainly(StagingWorld& world, int client, SimulatedServers& servers, Record& record,
                 std::int64_t count) {
  Catalog catalog(servers);
  std::int64_t after = -1;
  std::int64_t gets = 0;
  while (world.step(client) && after < count && gets < count) {
    const std::string& name = names[world.random().below(std::ssize(names)) % record.variables];
    if (world.random().chance(0.5)) {
      get_some(world, client, catalog, record, name, count);
      ++gets;
      continue;
    }
    const auto known = known_after(record, after);
    const auto found =
        catalog.find_version({name, VersionChoice::next, after}, world.now_ns() + patience_ns);
    if (!world.step(client)) return;
    if (!found) break;
    if (known && found->version > *known && !record.discards) {
      record.complain("the version of a whole step was left out");
    }
    after = found->version;
    if (found->box != record.whole() && record.beside) continue;
    if (found->box != record.whole() && !record.discards) {
      record.complain("a version was seen in part: " + found->box.text());
    }
    const auto id = get(world, catalog, record,
                        {name, VersionChoice::exact, found->version, found->box}, 1'000'000);
    if (id && *id != 0) judge_whole(world, client, catalog, record, found->version, *id);
  }
  world.close(client);
}

/// Puts boxes to versions of steps, within no step.
void put_beside(StagingWorld& world, int client, SimulatedServers& servers, Record& record,
                std::int64_t count) {
  Catalog catalog(servers);
  for (std::int64_t puts = world.random().between(1, 6); puts > 0 && world.step(client); --puts) {
    const std::string& name = names[world.random().below(std::ssize(names)) % record.variables];
    const std::int64_t lower = world.random().below(width * record.writers);
    const std::int64_t upper =
        std::min(lower + world.random().between(1, 2 * width), width * record.writers);
    const PutRequest request{name, world.random().below(count), *Box::make({lower}, {upper}), "i8",
                             8};
    (void)put(world, client, catalog, request, beside_value, world.now_ns() + glance_ns);
  }
  world.close(client);
}

/// Discards versions, forgets steps and deletes variables.
void discard(StagingWorld& world, int client, SimulatedServers& servers, Record& record,
             std::int64_t count) {
  Catalog catalog(servers);
  for (std::int64_t calls = world.random().between(1, 5); calls > 0 && world.step(client);
       --calls) {
    servers.wait(servers.notices(), world.now_ns() + world.random().below(50'000));
    const std::string& name = names[world.random().below(std::ssize(names)) % record.variables];
    const auto kind = world.random().below(4);
    if (kind == 0) {
      (void)catalog.remove(name);
    } else if (kind == 1) {
      const auto found =
          catalog.steps().find({VersionChoice::latest, INT64_MAX}, world.now_ns() + glance_ns);
      if (found) (void)catalog.steps().free(found->number, world.now_ns() + glance_ns);
    } else {
      (void)catalog.discard(name, world.random().below(count));
    }
  }
  world.close(client);
}

/// Sets attributes of the run, two of which always have the same value.
void set_attributes(StagingWorld& world, int client, SimulatedServers& servers) {
  Catalog catalog(servers);
  for (int k = 1; k <= 5 && world.step(client); ++k) {
    const std::string value = std::to_string(10 + k);
    (void)catalog.steps().set({{"", "a", value}, {"", "b", value}});
    const auto length = static_cast<std::size_t>(world.random().between(1, 1500));
    (void)catalog.steps().set({{"", "c" + value, std::string(length, 'x')}});
    if (world.random().chance(0.3)) (void)catalog.steps().set({{"", "c" + value, ""}});
  }
  world.close(client);
}

void read_attributes(StagingWorld& world, int client, SimulatedServers& servers, Record& record) {
  Catalog catalog(servers);
  std::string before;
  for (int k = 0; k < 5 && world.step(client); ++k) {
    const auto found = catalog.steps().attributes_of("");
    if (!found) {
      if (world.step(client) && !has_reason(world, record, client)) {
        record.complain("attributes were not read: " + found.error().text());
      }
      break;
    }
    Attributes there;
    for (const Attribute& one : *found) there[one.key] = one.value;
    if (there["a"] != there["b"]) record.complain("attributes were set one by one");
    if (there["a"] < before) record.complain("an attribute went back");
    before = there["a"];
  }
  world.close(client);
}

/// Checks that gets alone show all of a step that has ended, or nothing.
void get_all(StagingWorld& world, int client, Catalog& catalog, Record& record) {
  for (const auto& [id, attempt] : record.attempts) {
    if (!record.may_be_whole(attempt)) continue;
    const std::int64_t number = attempt.number;
    bool seen = false;
    for (std::size_t k = 0; k < record.variables; ++k) {
      const GetRequest request{names[k], VersionChoice::exact, number, record.whole()};
      const auto got = get(world, catalog, record, request, glance_ns);
      seen = seen || (got && *got == id);
      if (got || record.discards || !world.all_alive()) continue;
      if (attempt.ended == record.writers) record.complain("what was whole is not seen");
    }
    if (record.empties)
      seen = catalog.extent_of(nothing, number, world.now_ns() + glance_ns) || seen;
    if (seen) judge_whole(world, client, catalog, record, number, id);
    const auto found = catalog.find_version({names[0], VersionChoice::next, number - 1},
                                            world.now_ns() + glance_ns);
    const bool left_out = !found || found->version != number;
    if (seen && left_out && !record.discards && !record.beside && world.all_alive()) {
      record.complain("the version of a step that was seen is left out");
    }
  }
}

/// The last client, which comes when all others have ended: it finds all that was whole, and has
/// servers drop or show what they withhold.
void settle(StagingWorld& world, int client, SimulatedServers& servers, Record& record) {
  while (record.running > 1 && world.step(client)) {
    servers.wait(servers.notices(), world.now_ns() + patience_ns);
  }
  world.calm();
  record.late = record.fills = false;  // no excuse any more
  servers.wait(servers.notices(), world.now_ns() + patience_ns);
  Catalog catalog(servers);
  const auto look = [&](std::int64_t number) {
    return catalog.steps().find({VersionChoice::exact, number}, world.now_ns() + glance_ns);
  };
  if (world.random().chance(0.5)) get_all(world, client, catalog, record);
  for (int k = 0; k < 4; ++k) {
    (void)catalog.steps().find({VersionChoice::latest, INT64_MAX}, world.now_ns() + glance_ns);
  }
  for (const auto& [id, attempt] : record.attempts) {
    if (attempt.ended < record.writers || record.discards || !world.all_alive()) continue;
    const auto found = look(attempt.number);
    if (!found) {
      record.complain("a whole step is not found: " + found.error().text());
      continue;
    }
    judge_contents(record, *found);
    judge_whole(world, client, catalog, record, attempt.number, found->id);
    ++record.settled;
  }
  world.close(client);
}

void judge_end(const StagingWorld& world, Record& record) {
  for (int k = 0; k < world.servers(); ++k) {
    if (!world.alive(k)) continue;
    const Service& service = world.service(k);
    std::int64_t bytes = 0;
    for (const VariableInfo& info : service.list()) {
      for (const VersionInfo& version : info.versions) bytes += version.bytes;
    }
    const bool settled = service.withheld_steps() == 0;
    if (!settled && !record.leaves_open() && world.alive(0))
      record.complain("a step is withheld for ever");
    if (settled && bytes != service.memory_bytes_used() + service.spilled_bytes()) {
      record.complain("memory was lost");
    }
    if (service.busy()) record.complain("something is still written or read");
  }
}

StagingWorld::Options options_of(Random& random) {
  StagingWorld::Options options;
  options.seed = random.next();
  options.servers = static_cast<int>(random.between(1, 4));
  options.cell_bytes = random.chance(0.5) ? 8 : 256;
  options.versions_max = random.chance(0.2) ? 2 : 0;
  options.client_death = random.chance(0.4) ? (random.chance(0.3) ? 0.02 : 0.003) : 0;
  options.settler_death = random.chance(0.3) ? 0.2 : 0;
  options.server_death = random.chance(0.2) ? 0.001 : 0;
  options.late = random.chance(0.3) ? 0.02 : 0;
  options.link_loss = random.chance(0.2) ? 0.003 : 0;
  options.one_link_loss = random.chance(0.2) ? 0.003 : 0;
  if (random.chance(0.3)) {
    options.memory_bytes = 4096 * random.between(1, 3);
    options.full = static_cast<Full>(random.below(3));
  }
  return options;
}

Record record_of(Random& random, const StagingWorld::Options& options) {
  Record record;
  record.late = options.late > 0;
  record.fills = options.memory_bytes < 1 << 20;
  record.discards = options.versions_max > 0 || options.full == Full::discard_oldest;
  record.writers = static_cast<int>(random.between(1, 3));
  record.variables = static_cast<std::size_t>(random.between(1, std::ssize(names)));
  record.empties = random.chance(0.3);
  record.long_texts = random.chance(0.3);
  record.conflicts = random.chance(0.1);
  record.overlaps = random.chance(0.3);
  record.runs_at_once = random.chance(0.3);
  return record;
}

/// Adds members of groups of readers, and a queue that may be full.
template <typename Add>
void add_readers(Random& random, Record& record, const Add& add) {
  record.keeps_used = !record.discards;
  if (random.chance(0.5)) {
    record.queue.steps = static_cast<int>(random.between(1, 3));
    record.queue.full = static_cast<QueueFull>(random.between(1, 3));
    record.queue.readers = random.chance(0.3) ? 1 : 0;
    record.queue.keep_first = random.chance(0.2);
  }
  record.discards = true;
  const Sharing sharing = random.chance(0.5) ? Sharing::demand : Sharing::round_robin;
  for (std::int64_t k = random.between(0, 3); k > 0; --k) {
    const std::string group = k == 3 ? "other" : "group";
    add([&record, group, sharing](StagingWorld& w, int client, SimulatedServers& servers) {
      use(w, client, servers, record, group, sharing);
    });
  }
}

/// Returns what the clients of a run do, the last of which is settle().
std::vector<StagingWorld::Script> scripts_of(Random& random, Record& record) {
  const std::int64_t count = random.between(1, 5);
  std::vector<StagingWorld::Script> scripts;
  const auto add = [&](const auto& script) {
    ++record.running;
    scripts.emplace_back([&record, script](StagingWorld& w, int client, SimulatedServers& servers) {
      script(w, client, servers);
      --record.running;
    });
  };
  for (int writer = 0; writer < record.writers; ++writer) {
    add([&record, writer, count](StagingWorld& w, int client, SimulatedServers& servers) {
      write(w, client, servers, record, writer, count);
    });
  }
  for (auto readers = random.between(0, 2); readers > 0; --readers) {
    add([&record](StagingWorld& w, int client, SimulatedServers& servers) {
      follow(w, client, servers, record);
    });
  }
  for (auto readers = random.between(0, 2); readers > 0; --readers) {
    add([&record, count](StagingWorld& w, int client, SimulatedServers& servers) {
      get_plainly(w, client, servers, record, count);
    });
  }
  if (random.chance(0.2)) {
    record.beside = true;
    add([&record, count](StagingWorld& w, int client, SimulatedServers& servers) {
      put_beside(w, client, servers, record, count);
    });
  }
  const bool discards = random.chance(0.2);
  record.discards = record.discards || discards;
  if (random.chance(0.3)) add_readers(random, record, add);
  if (discards) {
    add([&record, count](StagingWorld& w, int client, SimulatedServers& servers) {
      discard(w, client, servers, record, count);
    });
  }
  if (random.chance(0.2)) {
    add(set_attributes);
    add([&record](StagingWorld& w, int client, SimulatedServers& servers) {
      read_attributes(w, client, servers, record);
    });
  }
  add([&record](StagingWorld& w, int client, SimulatedServers& servers) {
    settle(w, client, servers, record);
  });
  return scripts;
}

Record run_of(std::uint64_t seed) {
  Random random(seed);
  const StagingWorld::Options options = options_of(random);
  Record record = record_of(random, options);
  StagingWorld world(options);
  auto scripts = scripts_of(random, record);
  world.spare(static_cast<int>(std::ssize(scripts)) - 1);
  if (!world.run(std::move(scripts), 200'000)) record.complain("it hangs");
  judge_end(world, record);
  for (const std::string& offence : world.offences()) record.complain(offence);
  record.came_back = world.came_back();
  return record;
}

}  // namespace

TEST(steps_are_seen_whole_or_not_at_all_whoever_dies) {
  const std::string one = tranship::test::argument(2);
  const std::string last = tranship::test::argument(3);
  const std::uint64_t first = one.empty() ? 0 : std::stoull(one);
  const std::uint64_t end = one.empty() ? seeds : last.empty() ? first + 1 : std::stoull(last);
  std::int64_t seen = 0;
  std::int64_t settled = 0;
  std::int64_t came_back = 0;
  std::int64_t taken = 0;
  for (std::uint64_t seed = first; seed < end; ++seed) {
    const Record record = run_of(seed);
    seen += record.seen;
    settled += record.settled;
    came_back += record.came_back;
    taken += record.taken;
    for (const std::string& text : record.wrong) std::fprintf(stderr, "%s\n", text.c_str());
    if (record.wrong.empty()) continue;
    std::fprintf(stderr, "replay with: test_sim steps_are_seen %llu\n",
                 static_cast<unsigned long long>(seed));
    REQUIRE(record.wrong.empty());
  }
  std::printf(
      "%lld times a step was seen whole, %lld were so at the end, %lld objects came back, "
      "%lld were taken\n",
      static_cast<long long>(seen), static_cast<long long>(settled),
      static_cast<long long>(came_back), static_cast<long long>(taken));
  // Among the few seeds of a sanitizer build none may meet an object on disk.
  const bool any = settled > 0 && (came_back > 0 || test::sanitized) && taken > 0;
  EXPECT(!one.empty() || (seen > static_cast<std::int64_t>(seeds) && any));
}
