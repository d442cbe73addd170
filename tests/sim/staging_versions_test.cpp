// Versions by their own bounds: writers whose boxes vary from version to version, that have nothing
// in some, pass others by, put again over what they have put, end early or die, and readers that
// follow them. Whole versions are never left out. A failing seed prints the command that replays
// it; `test_sim staging_versions FIRST BEHIND` runs the seeds from one number up to another.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
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

constexpr std::uint64_t seeds = test::seed_count(1000);
constexpr std::int64_t patience_ns = 2'000'000'000;
constexpr std::int64_t versions = 6;
constexpr std::int64_t never = INT64_MAX;

/// What one writer did with one version.
struct Part {
  std::int64_t acknowledged =
      never;                   ///< step at which a put, or its lack of data, was acknowledged
  std::int64_t since = never;  ///< step at which the first box with elements was acknowledged
  bool box = false;            ///< whether there is such a box
  bool unknown = false;        ///< a call failed that may have had an effect
};

/// A version that came to a follower, or that it was told of as never whole.
struct Passed {
  std::int64_t version = 0;
  std::int64_t looked = 0;  ///< the search that ended with it began at this step, or later
  std::optional<Box> box;   ///< what came, unless it was empty
};

struct Follower {
  std::vector<Passed> listed;
  std::vector<Passed> skipped;
  std::optional<Passed> end;  ///< it was told that no more will come
};

struct Record {
  std::uint64_t seed = 0;
  int writers = 0;
  std::map<std::pair<std::int64_t, int>, Part> parts;  ///< by version and writer
  std::vector<std::int64_t> values;                    ///< versions of puts
  std::set<int> closed;                                ///< writers that have ended well
  std::vector<Follower> followers;
  std::vector<std::string> wrong;
  std::int64_t found = 0;
  std::int64_t skips = 0;
  std::int64_t too_late = 0;  ///< versions whose first box came behind a follower
  bool late = false;

  void complain(const std::string& text) { wrong.push_back(text); }
};

/// Returns the elements that a writer has in a version: none in some.
std::int64_t size_of(const Record& record, std::int64_t version, int writer) {
  const std::uint64_t mixed = (record.seed + 1) * 0x9e3779b97f4a7c15ULL ^
                              (static_cast<std::uint64_t>(version) << 32) ^
                              static_cast<std::uint64_t>(writer) * 0xbf58476d1ce4e5b9ULL;
  const auto size = static_cast<std::int64_t>((mixed * 0x94d049bb133111ebULL) >> 59);
  return size < 8 ? 0 : size;
}

Box box_of(const Record& record, std::int64_t version, int writer) {
  std::int64_t lower = 0;
  for (int k = 0; k < writer; ++k) lower += size_of(record, version, k);
  const std::int64_t size = std::max<std::int64_t>(size_of(record, version, writer), 1);
  return *Box::make({lower}, {lower + size});
}

bool takes_part(const Record& record, int writer) {
  return std::any_of(record.parts.begin(), record.parts.end(), [&](const auto& part) {
    const Part& one = part.second;
    return part.first.second == writer && (one.acknowledged != never || one.unknown);
  });
}

/// Returns the bounds of what was acknowledged before a step; nothing if there are gaps in them.
std::optional<Box> covered(const Record& record, std::int64_t version, std::int64_t before) {
  std::optional<Box> all;
  for (int writer = 0; writer < record.writers; ++writer) {
    const auto part = record.parts.find({version, writer});
    if (part == record.parts.end() || !part->second.box) continue;
    if (part->second.acknowledged >= before) continue;
    const Box box = box_of(record, version, writer);
    if (all && all->upper[0] != box.lower[0]) return std::nullopt;
    all = all ? around(*all, box) : box;
  }
  return all;
}

/// Returns whether a writer may still put to a version, or have died before it could.
bool may_lack_more(const Record& record, std::int64_t version, int writer) {
  if (record.closed.contains(writer)) return false;
  return std::none_of(record.parts.begin(), record.parts.end(), [&](const auto& part) {
    const auto& [number, whose] = part.first;
    return whose == writer && number > version && part.second.acknowledged != never;
  });
}

/// Returns whether a version was whole before a step, whatever else happens: all who ever put had
/// taken part in it, and nothing is uncertain.
bool was_whole(const Record& record, std::int64_t version, std::int64_t before) {
  bool any = false;
  for (int writer = 0; writer < record.writers; ++writer) {
    if (!takes_part(record, writer)) continue;
    const auto part = record.parts.find({version, writer});
    if (part == record.parts.end() || part->second.unknown) return false;
    if (part->second.acknowledged >= before) return false;
    if (may_lack_more(record, version, writer)) return false;
    any = any || part->second.box;
  }
  return any && covered(record, version, before).has_value();
}

/// Puts a box; returns whether that was acknowledged, and notes when nothing is certain.
bool put_box(StagingWorld& world, int client, Catalog& catalog, Record& record, Part& part,
             const PutRequest& request) {
  const auto number = std::ssize(record.values);
  record.values.push_back(request.version);
  const auto points = static_cast<std::size_t>(request.box.points());
  const std::int64_t end_ns = world.now_ns() + patience_ns;
  if (world.random().chance(0.5)) {
    const auto fill = [&](std::byte* data) {
      for (std::size_t k = 0; k < points; ++k) std::memcpy(data + 8 * k, &number, 8);
      return Status{};
    };
    const auto done = catalog.put(request, 8 * points, fill, end_ns);
    part.unknown = part.unknown || !done;
    if (!done || *done) return done.ok();
  }
  auto room = catalog.begin(request, end_ns);
  if (!room) {
    part.unknown = true;  // it counts as a writer from its declaration on
    return false;
  }
  for (std::size_t k = 0; k < points; ++k) {
    std::byte* data = world.memory(room->primary, room->range);
    if (data != nullptr) std::memcpy(data + 8 * k, &number, 8);
  }
  if (!world.step(client)) {
    part.unknown = true;
    return false;
  }
  if (world.random().chance(0.1)) {
    catalog.abort(*room);
    part.unknown = true;
    return false;
  }
  const bool committed = catalog.commit(*room).ok();
  part.unknown = part.unknown || !committed;
  return committed;
}

void take_part(StagingWorld& world, int client, Catalog& catalog, Record& record,
               std::int64_t version) {
  Random& random = world.random();
  Part& part = record.parts[{version, client}];
  const PutRequest request{"p", version, box_of(record, version, client), "i8", 8, {}};
  bool done = false;
  if (size_of(record, version, client) > 0) {
    for (bool again = true; again; again = random.chance(0.3)) {
      const bool put = put_box(world, client, catalog, record, part, request);
      part.box = part.box || put;
      if (put) part.since = std::min(part.since, world.steps());
      done = done || put;
    }
  } else {
    const Status status = random.chance(0.5)
                              ? catalog.put_empty(request, 1, world.now_ns() + patience_ns)
                              : catalog.nothing("p", version, version);
    part.unknown = part.unknown || !status;
    done = status.ok();
  }
  if (done && world.step(client)) part.acknowledged = std::min(part.acknowledged, world.steps());
  if (done && part.acknowledged == never) part.unknown = true;  // it died meanwhile
}

void write(StagingWorld& world, int client, SimulatedServers& servers, Record& record) {
  Catalog catalog(servers);
  Random& random = world.random();
  for (std::int64_t version = 0; version < versions; ++version) {
    if (random.chance(0.05)) break;    // it ends early
    if (random.chance(0.1)) continue;  // it passes the version by, and says nothing
    take_part(world, client, catalog, record, version);
  }
  if (world.step(client)) record.closed.insert(client);
  world.close(client);
}

/// Gets a box of a version that was found, and checks that all of it is of that version.
void judge_values(StagingWorld& world, int client, Catalog& catalog, Record& record,
                  const VersionExtent& found) {
  ReplyBuffer reply;
  const std::int64_t end_ns = world.now_ns() + patience_ns;
  const GetRequest request{"p", VersionChoice::exact, found.version, found.box, {}};
  const auto held = catalog.get(request, reply, end_ns);
  if (!held) {
    const bool excused = record.late || !world.all_alive() || !world.step(client);
    if (!excused) record.complain("what was found cannot be got: " + held.error().text());
    return;
  }
  const auto check = [&](const std::byte* data, std::int64_t offset) {
    std::int64_t number = -1;
    std::memcpy(&number, data + 8 * offset, 8);
    const bool known = number >= 0 && number < std::ssize(record.values);
    if (!known || record.values[static_cast<std::size_t>(number)] != found.version) {
      record.complain("a wrong byte");
    }
  };
  const std::int64_t points = found.box.points();
  if (!held->data.empty()) {
    for (std::int64_t k = 0; k < points; ++k) check(held->data.data(), k);
  }
  for (const staging::Part& one : held->parts) {
    const StoredObject& object = held->objects[one.object];
    for (std::int64_t k = one.box.lower[0]; k < one.box.upper[0]; ++k) {
      const std::byte* data = world.memory(object.primary, object.range);
      if (data != nullptr) check(data, k - object.box.lower[0]);
    }
  }
  (void)catalog.release(*held);
}

/// Checks a version that was found after a step.
void judge_found(StagingWorld& world, int client, Catalog& catalog, Record& record,
                 const VersionExtent& found, std::int64_t began) {
  ++record.found;
  if (found.empty_dimensions != 0) {
    const auto before = covered(record, found.version, began);
    if (before) record.complain("a version with data was found empty");
    return;
  }
  for (int writer = 0; writer < record.writers && world.all_alive(); ++writer) {
    const auto part = record.parts.find({found.version, writer});
    if (part == record.parts.end() || !part->second.box || part->second.acknowledged >= began) {
      continue;
    }
    const Box box = box_of(record, found.version, writer);
    if (intersection(box, found.box) != box) record.complain("a version was found too small");
  }
  judge_values(world, client, catalog, record, found);
}

/// The servers of a follower: records when each of its searches began.
class Searched final : public SimulatedServers {
 public:
  Searched(StagingWorld& world, int client) : SimulatedServers(world, client), world_(world) {}
  void wait(std::uint64_t seen, std::int64_t until_ns) override {
    SimulatedServers::wait(seen, until_ns);
    searches_.emplace_back(world_.steps(), skipped.size());
  }
  /// A call begins.
  void begin() {
    skipped.clear();
    searches_ = {{world_.steps(), 0}};
  }
  /// Returns a step no later than the begin of the search that skipped a version, or of the last.
  std::int64_t looked(std::size_t number) const {
    std::int64_t step = 0;
    for (const auto& [began, skips] : searches_) step = skips <= number ? began : step;
    return step;
  }

  std::vector<SkippedVersion> skipped;  ///< by the call

 private:
  StagingWorld& world_;
  std::vector<std::pair<std::int64_t, std::size_t>> searches_;  ///< steps, and skips before
};

void follow(StagingWorld& world, int client, SimulatedServers&, Record& record) {
  Searched servers(world, client);
  Catalog catalog(servers);
  Follower follower;
  std::int64_t version = -1;
  for (int calls = 0; calls < 100 && !follower.end; ++calls) {
    const std::int64_t began = world.steps();
    servers.begin();
    const auto found = catalog.find_version({"p", VersionChoice::next, version},
                                            world.now_ns() + patience_ns, &servers.skipped);
    const std::int64_t looked = servers.looked(SIZE_MAX);
    for (std::size_t k = 0; k < servers.skipped.size(); ++k) {
      if (servers.skipped[k].version <= version) record.complain("a version was passed by twice");
      version = servers.skipped[k].version;
      follower.skipped.push_back({version, servers.looked(k), {}});
    }
    if (!found) {
      const ErrorCode code = found.error().code;
      const bool ended = code == ErrorCode::closed || code == ErrorCode::peer_lost;
      if (ended) follower.end = Passed{never, looked, {}};
      if (ended || code == ErrorCode::timeout) continue;
      record.complain("a wait failed: " + found.error().text());
      break;
    }
    if (found->version <= version) record.complain("a version went back");
    version = found->version;
    const bool empty = found->empty_dimensions != 0;
    follower.listed.push_back(
        {version, looked, empty ? std::nullopt : std::optional<Box>(found->box)});
    judge_found(world, client, catalog, record, *found, began);
  }
  if (world.step(client)) record.followers.push_back(follower);
  world.close(client);
}

void look(StagingWorld& world, int client, SimulatedServers& servers, Record& record) {
  Catalog catalog(servers);
  Random& random = world.random();
  for (int calls = 0; calls < 6; ++calls) {
    const bool exact = random.chance(0.5);
    const std::int64_t began = world.steps();
    const VersionQuery query{"p", exact ? VersionChoice::exact : VersionChoice::latest,
                             exact ? random.below(versions) : INT64_MAX};
    std::int64_t lowest = -1;  // at least this one is whole
    for (std::int64_t one = 0; one < versions; ++one) {
      const bool asked = !exact || one == query.version;
      if (asked && was_whole(record, one, began)) lowest = one;
    }
    const auto found = catalog.find_version(query, world.now_ns() + patience_ns / 4);
    if (!world.step(client) || !world.all_alive()) break;
    if (found) {
      judge_found(world, client, catalog, record, *found, began);
    } else if (lowest >= 0 && !record.late && was_whole(record, lowest, began)) {
      record.complain("a whole version was not found: " + found.error().text());
    }
    if (found && found->version < lowest && was_whole(record, lowest, began)) {
      record.complain("a later version was whole");
    }
    if (!found) continue;
    const auto extent = catalog.extent_of("p", found->version, world.now_ns() + patience_ns);
    const auto boxes = catalog.boxes_of("p", found->version, world.now_ns() + patience_ns);
    const bool well = extent && boxes && extent->empty_dimensions == found->empty_dimensions;
    const bool excused = record.late || !world.step(client) || !world.all_alive();
    if (!well && !excused && found->empty_dimensions == 0) {
      record.complain("the bounds of what was found are not there");
    }
  }
  world.close(client);
}

/// Returns whether what a follower went on with covers all boxes of a step before.
bool covers_all(const Record& record, const Passed& passed) {
  if (!passed.box) return false;
  return std::all_of(record.parts.begin(), record.parts.end(), [&](const auto& part) {
    if (part.second.since > passed.looked) return true;
    const Box box = box_of(record, part.first.first, part.first.second);
    return intersection(box, *passed.box) == box;
  });
}

/// Returns whether nobody could know of a version when a follower began the search that led it
/// beyond: nothing of it had been acknowledged, and each of those who put to it later either had
/// not said a word, or had put before, and the version that came covers all that had been put.
bool came_too_late(const Record& record, std::int64_t version, const Passed& beyond) {
  const bool covers = covers_all(record, beyond);
  for (int writer = 0; writer < record.writers; ++writer) {
    const auto its = record.parts.find({version, writer});
    if (its == record.parts.end() || !its->second.box) continue;
    if (its->second.since <= beyond.looked) return false;
    bool known = false;
    bool box = false;
    for (const auto& [key, part] : record.parts) {
      if (key.second != writer) continue;
      known = known || std::min(part.acknowledged, part.since) <= beyond.looked;
      box = box || part.since <= beyond.looked;
    }
    if (known && !(box && covers)) return false;
  }
  return true;
}

/// Returns the first version beyond another one that a follower has passed, or its end.
const Passed* beyond(const Follower& follower, std::int64_t version) {
  const Passed* first = &*follower.end;
  for (const auto* some : {&follower.listed, &follower.skipped}) {
    for (const Passed& one : *some) {
      if (one.version > version && one.version < first->version) first = &one;
    }
  }
  return first;
}

/// Checks that each version that was put came, or was passed by, and that whole ones came.
void judge_followers(const StagingWorld& world, Record& record) {
  if (!world.all_alive()) return;
  for (const Follower& follower : record.followers) {
    record.skips += std::ssize(follower.skipped);
    if (!follower.end) continue;
    const auto has = [](const std::vector<Passed>& some, std::int64_t version) {
      return std::any_of(some.begin(), some.end(),
                         [&](const Passed& one) { return one.version == version; });
    };
    for (std::int64_t version = 0; version < versions; ++version) {
      bool any = false;
      for (int writer = 0; writer < record.writers; ++writer) {
        const auto part = record.parts.find({version, writer});
        any = any || (part != record.parts.end() && part->second.box);
      }
      if (!any || has(follower.listed, version)) continue;
      const bool skipped = has(follower.skipped, version);
      if (!skipped && came_too_late(record, version, *beyond(follower, version))) {
        ++record.too_late;
        continue;
      }
      if (!skipped) record.complain("a version was left out");
      if (was_whole(record, version, never)) record.complain("a whole version was passed by");
    }
  }
}

Record run_of(std::uint64_t seed) {
  Random random(seed);
  StagingWorld::Options options;
  options.seed = random.next();
  options.servers = static_cast<int>(random.between(1, 4));
  options.cell_bytes = random.chance(0.5) ? 8 : 256;
  options.client_death = random.chance(0.4) ? 0.003 : 0;
  options.server_death = random.chance(0.1) ? 0.001 : 0;
  options.late = random.chance(0.2) ? 0.02 : 0;
  Record record;
  record.seed = seed;
  record.late = options.late > 0;
  record.writers = static_cast<int>(random.between(1, 4));
  StagingWorld world(options);
  std::vector<StagingWorld::Script> scripts;
  const auto script_of = [&](auto work) {
    return [&record, work](StagingWorld& w, int client, SimulatedServers& servers) {
      work(w, client, servers, record);
    };
  };
  for (int k = 0; k < record.writers; ++k) scripts.emplace_back(script_of(write));
  for (std::int64_t k = random.between(1, 2); k > 0; --k) scripts.emplace_back(script_of(follow));
  if (random.chance(0.7)) scripts.emplace_back(script_of(look));
  if (!world.run(std::move(scripts), 200'000)) record.complain("it hangs");
  judge_followers(world, record);
  for (const std::string& offence : world.offences()) record.complain(offence);
  // What later puts have hidden is not held any more: at most one box of each writer and version.
  if (options.server_death > 0 || options.client_death > 0 || options.late > 0) return record;
  std::int64_t objects = 0;
  for (int k = 0; k < world.servers(); ++k) {
    for (const VariableInfo& info : world.service(k).list()) {
      for (const VersionInfo& one : info.versions) objects += one.objects;
    }
  }
  if (objects > versions * record.writers) record.complain("hidden objects are held");
  return record;
}

}  // namespace

namespace {

/// The servers of a follower: lets others go on once a server has named its lowest version.
class Overtaken final : public SimulatedServers {
 public:
  Overtaken(StagingWorld& world, int client, bool& goes_on)
      : SimulatedServers(world, client), world_(world), client_(client), goes_on_(goes_on) {}
  std::unique_ptr<Question> send(int server, const fabric::MessageWriter& question,
                                 ReplyBuffer& reply) override {
    auto sent = SimulatedServers::send(server, question, reply);
    if (kind_of(question.bytes()) != protocol::FindExtent::kind) return sent;
    return std::make_unique<Answered>(*this, std::move(sent));
  }

 private:
  class Answered final : public Question {
   public:
    Answered(Overtaken& servers, std::unique_ptr<Question> sent)
        : servers_(servers), sent_(std::move(sent)) {}
    Result<std::span<const std::byte>> reply() override {
      auto answer = sent_->reply();
      if (!servers_.goes_on_) {
        servers_.goes_on_ = true;
        for (int steps = 0; steps < 1000; ++steps) (void)servers_.world_.step(servers_.client_);
      }
      return answer;
    }

   private:
    Overtaken& servers_;
    std::unique_ptr<Question> sent_;
  };

  StagingWorld& world_;
  int client_;
  bool& goes_on_;
};

}  // namespace

TEST(staging_versions_that_are_put_while_a_follower_looks_are_not_left_out) {
  StagingWorld world({});
  bool first_put = false;
  bool goes_on = false;
  std::vector<std::int64_t> came;
  const auto put = [](Catalog& catalog, std::int64_t version, std::int64_t lower) {
    const PutRequest request{"p", version, *Box::make({lower}, {lower + 2}), "i8", 8, {}};
    const auto fill = [](std::byte* data) {
      std::memset(data, 0, 16);
      return Status{};
    };
    const auto done = catalog.put(request, 16, fill, patience_ns);
    EXPECT(done && *done);
  };
  const auto one = [&](StagingWorld& w, int client, SimulatedServers& servers) {
    Catalog catalog(servers);
    EXPECT(catalog.nothing("p", 0, 0).ok());
    put(catalog, 1, 0);
    first_put = true;
    while (!goes_on && w.step(client)) {
    }
    w.close(client);
  };
  const auto other = [&](StagingWorld& w, int client, SimulatedServers& servers) {
    Catalog catalog(servers);
    EXPECT(catalog.nothing("p", -1, -1).ok());
    while (!goes_on && w.step(client)) {
    }
    put(catalog, 0, 2);
    put(catalog, 1, 2);
    w.close(client);
  };
  const auto follower = [&](StagingWorld& w, int client, SimulatedServers&) {
    while (!first_put && w.step(client)) {
    }
    Overtaken servers(w, client, goes_on);
    Catalog catalog(servers);
    for (std::int64_t version = -1;;) {
      const auto found =
          catalog.find_version({"p", VersionChoice::next, version}, w.now_ns() + patience_ns);
      if (!found) break;
      came.push_back(version = found->version);
    }
    w.close(client);
  };
  EXPECT(world.run({one, other, follower}, 100'000));
  EXPECT(came == std::vector<std::int64_t>({0, 1}));
}

TEST(staging_versions_that_are_whole_are_never_left_out) {
  const std::string one = tranship::test::argument(2);
  const std::string end = tranship::test::argument(3);
  const std::uint64_t first = one.empty() ? 0 : std::stoull(one);
  const std::uint64_t behind = !end.empty() ? std::stoull(end) : one.empty() ? seeds : first + 1;
  std::int64_t found = 0;
  std::int64_t skips = 0;
  std::int64_t too_late = 0;
  for (std::uint64_t seed = first; seed < behind; ++seed) {
    const Record record = run_of(seed);
    found += record.found;
    skips += record.skips;
    too_late += record.too_late;
    for (const std::string& text : record.wrong) std::fprintf(stderr, "%s\n", text.c_str());
    if (!record.wrong.empty()) {
      std::fprintf(stderr, "replay with: test_sim staging_versions %llu\n",
                   static_cast<unsigned long long>(seed));
    }
    REQUIRE(record.wrong.empty());
  }
  std::printf("%lld versions were found, %lld passed by, %lld came too late\n",
              static_cast<long long>(found), static_cast<long long>(skips),
              static_cast<long long>(too_late));
  EXPECT(!one.empty() || found > static_cast<std::int64_t>(seeds));
  EXPECT(!one.empty() || skips > static_cast<std::int64_t>(seeds / 4));
}
