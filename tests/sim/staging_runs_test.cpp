// Random groups of servers, writers and readers, any of which may die at any step: no gap, no hang,
// no wrong byte. A failing seed prints the command that replays it.
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

constexpr std::uint64_t seeds = test::seed_count(10000);
constexpr std::int64_t patience_ns = 2'000'000'000;
constexpr std::int64_t never_ended = INT64_MAX;

/// A put. Its index is the value of all its elements.
struct Put {
  std::int64_t version = 0;
  Box box;
  std::int64_t begin = 0;          ///< step at which it began
  std::int64_t end = never_ended;  ///< step at which it returned successfully
  int primary = 0;
  bool may_count = false;  ///< it may have been committed
};

/// What all clients of a run did, with which each client's results are checked.
struct Record {
  std::vector<Put> puts;
  /// step at which a discard began, by version
  std::map<std::int64_t, std::int64_t> discarded;
  /// step at which a discard had succeeded, by version
  std::map<std::int64_t, std::int64_t> gone;
  /// pairs of puts that overlap, the upper one first
  std::set<std::pair<std::int64_t, std::int64_t>> above;
  std::vector<std::string> wrong;
  int writers = 0;
  int closed = 0;              ///< number of writers that have closed
  int whole = 0;               ///< number of gets that returned data
  std::int64_t came_back = 0;  ///< number of objects that came back from disk
  bool spills = false;
  bool reads_fail = false;
  bool answers_late = false;
  bool may_stay_full = true;  ///< memory or the disk may stay full longer than any client waits
  std::int64_t versions_kept = 0;
  bool keeps_to_versions = false;  ///< only `versions_kept` makes servers discard versions

  void complain(const std::string& text) { wrong.push_back(text); }
};

template <typename Visit>
void each_point(const Box& box, const Visit& visit) {
  Point point = box.lower;
  for (bool more = true; more;) {
    visit(point);
    more = false;
    for (std::size_t k = 0; k < static_cast<std::size_t>(box.rank) && !more; ++k) {
      more = ++point[k] < box.upper[k];
      if (!more) point[k] = box.lower[k];
    }
  }
}

bool holds(const Box& box, const Point& point) {
  for (std::size_t k = 0; k < static_cast<std::size_t>(box.rank); ++k) {
    if (point[k] < box.lower[k] || point[k] >= box.upper[k]) return false;
  }
  return true;
}

Box random_box(Random& random, int rank, std::int64_t longest) {
  std::vector<std::int64_t> lower;
  std::vector<std::int64_t> upper;
  for (int k = 0; k < rank; ++k) {
    lower.push_back(random.between(-20, 20));
    upper.push_back(lower.back() + random.between(1, longest));
  }
  return *Box::make(lower, upper);
}

/// The random choices of a run.
struct Run {
  int rank = 1;
  std::int64_t longest = 1;
  std::int64_t element_bytes = 8;
  std::int64_t versions = 3;
  bool discards = false;
  int writers = 0;             ///< number of writers that all of them declare
  std::int64_t calls_max = 8;  ///< most calls of each client
};

/// Judges a put that failed: deaths, versions that are gone and memory that stays full are valid
/// reasons.
void judge_failed_put(const StagingWorld& world, Record& record, const Error& error) {
  if (error.code != ErrorCode::timeout || record.may_stay_full || record.answers_late) return;
  if (world.all_alive() && !world.any_client_died()) {
    record.complain("a put waited for ever: " + error.text());
  }
}

/// Checks that a call that has put or got a version began before any discard of it had succeeded.
void judge_discarded(Record& record, std::int64_t version, std::int64_t began, const char* what) {
  const auto gone = record.gone.find(version);
  if (gone != record.gone.end() && gone->second < began) {
    record.complain(std::string("a discarded version was ") + what);
  }
}

/// Puts an object, in small steps between which anything may happen.
void put(StagingWorld& world, int client, Catalog& catalog, Record& record, const Run& run) {
  Random& random = world.random();
  const auto number = std::ssize(record.puts);
  const PutRequest request{"energy", random.below(run.versions),
                           random_box(random, run.rank, run.longest), "i8", run.element_bytes};
  const std::int64_t began = world.steps();
  record.puts.push_back({request.version, request.box, began, never_ended, 0});
  const auto points = static_cast<std::size_t>(request.box.points());
  const auto mark = [&] {  // a client that has died meanwhile has not returned
    judge_discarded(record, request.version, began, "put");
    if (world.step(client)) record.puts[static_cast<std::size_t>(number)].end = world.steps();
  };
  const std::int64_t end_ns = world.now_ns() + patience_ns;
  const auto commits = [&] { record.puts[static_cast<std::size_t>(number)].may_count = true; };
  if (random.chance(0.5)) {
    commits();
    const auto fill = [&](std::byte* data) {
      for (std::size_t k = 0; k < points; ++k) std::memcpy(data + 8 * k, &number, 8);
      return Status{};
    };
    const auto done = catalog.put(request, 8 * points, fill, end_ns);
    if (!done) return judge_failed_put(world, record, done.error());
    if (*done) return mark();
    record.puts[static_cast<std::size_t>(number)].may_count = false;
  }
  auto room = catalog.begin(request, end_ns);
  if (!room) return judge_failed_put(world, record, room.error());
  record.puts[static_cast<std::size_t>(number)].primary = room->primary;
  world.begin_writing(client, room->primary, room->range);
  bool copied = true;
  for (std::size_t k = 0; k < points && copied; ++k) {
    if (k % 16 == 0) copied = world.step(client);
    std::byte* data = world.memory(room->primary, room->range);
    copied = copied && data != nullptr;
    if (copied) std::memcpy(data + 8 * k, &number, 8);
  }
  world.end_writing(client);
  if (!copied || random.chance(0.1)) return catalog.abort(*room);
  commits();
  if (catalog.commit(*room)) mark();
}

/// Returns whether puts that had returned before `step` cover the box, while all servers live.
bool covered_before(const StagingWorld& world, const Record& record, std::int64_t version,
                    const Box& box, std::int64_t step) {
  bool whole = true;
  each_point(box, [&](const Point& point) {
    bool found = false;
    for (const Put& put : record.puts) {
      found = found || (put.version == version && put.end < step && holds(put.box, point));
    }
    whole = whole && found;
  });
  return whole && world.all_alive();
}

/// Returns the number of later versions of which something may have been committed.
std::int64_t later_versions(const Record& record, std::int64_t version) {
  std::set<std::int64_t> later;
  for (const Put& put : record.puts) {
    if (put.may_count && put.version > version) later.insert(put.version);
  }
  return std::ssize(later);
}

void judge_failure(const StagingWorld& world, Record& record, const GetRequest& request,
                   std::int64_t began, const Error& error) {
  if (record.writers > 0 && error.code == ErrorCode::closed && record.closed < record.writers) {
    record.complain("a variable ended before its writers");
  }
  if (error.code == ErrorCode::not_found && record.keeps_to_versions &&
      request.choice == VersionChoice::exact &&
      later_versions(record, request.version) < record.versions_kept) {
    record.complain("a put that never ended evicted a version");
  }
  const bool gone = !record.discarded.empty() || record.versions_kept > 0;
  if (error.code == ErrorCode::not_found && gone) return;
  if (error.code == ErrorCode::io && record.reads_fail) return;
  if (error.code == ErrorCode::timeout && record.answers_late) return;
  if (error.code == ErrorCode::timeout && record.spills && record.may_stay_full) return;
  if (error.code == ErrorCode::peer_lost && (!world.all_alive() || world.any_client_died())) {
    if (!world.all_alive()) return;
  } else if (error.code != ErrorCode::timeout && error.code != ErrorCode::closed &&
             error.code != ErrorCode::peer_lost) {
    record.complain("a get failed: " + error.text());
    return;
  }
  // Any error but a timeout claims that no more data will come, so later puts count as well.
  const std::int64_t by = error.code == ErrorCode::timeout ? began : world.steps();
  if (request.choice == VersionChoice::exact && !gone &&
      covered_before(world, record, request.version, request.box, by)) {
    record.complain("a get of what was there failed: " + error.text());
  }
}

/// Checks the values of a get: `values` is the dense box, in the order of each_point().
void judge_values(Record& record, const GetRequest& request, std::int64_t version,
                  std::int64_t began, const std::vector<std::int64_t>& values) {
  ++record.whole;
  std::set<std::int64_t> seen(values.begin(), values.end());
  std::size_t k = 0;
  each_point(request.box, [&](const Point& point) {
    const std::int64_t number = values[k++];
    if (number < 0 || number >= std::ssize(record.puts)) return record.complain("a wrong byte");
    const Put& got = record.puts[static_cast<std::size_t>(number)];
    if (got.version != version || !holds(got.box, point)) return record.complain("a wrong object");
    for (std::int64_t other = 0; other < std::ssize(record.puts); ++other) {
      const Put& put = record.puts[static_cast<std::size_t>(other)];
      if (other == number || put.version != version || !holds(put.box, point)) continue;
      // Both puts are visible to this get, so one is above the other: everywhere, and for every
      // client.
      if (put.end < began && got.end < put.begin) record.complain("an older object was seen");
      if (!seen.contains(other) && put.end >= began) continue;
      record.above.emplace(number, other);
      if (record.above.contains({other, number})) record.complain("a torn object");
    }
  });
}

Point strides_of(const Box& box) {
  Point strides{};
  std::int64_t stride = 1;
  for (int k = box.rank - 1; k >= 0; --k) {
    strides[static_cast<std::size_t>(k)] = stride;
    stride *= box.extent(k);
  }
  return strides;
}

std::int64_t index_in(const Box& box, const Point& strides, const Point& point) {
  std::int64_t index = 0;
  for (std::size_t k = 0; k < static_cast<std::size_t>(box.rank); ++k) {
    index += (point[k] - box.lower[k]) * strides[k];
  }
  return index;
}

/// Copies the leased objects, in small steps. Fails if the client or a server died meanwhile.
Status copy_out(StagingWorld& world, int client, const LeasedBox& held, const Box& box,
                std::vector<std::int64_t>& dense) {
  const Point strides = strides_of(box);
  bool well = true;
  if (!held.data.empty()) std::memcpy(dense.data(), held.data.data(), held.data.size());
  for (const Part& part : held.parts) {
    const StoredObject& object = held.objects[part.object];
    const Point theirs = strides_of(object.box);
    std::size_t count = 0;
    each_point(part.box, [&](const Point& point) {
      if (!well) return;
      if (count++ % 16 == 0) well = world.step(client);
      const std::byte* data = world.memory(object.primary, object.range);
      well = well && data != nullptr;
      if (!well) return;
      std::memcpy(&dense[static_cast<std::size_t>(index_in(box, strides, point))],
                  data + 8 * index_in(object.box, theirs, point), 8);
    });
  }
  return well ? Status{} : Status(Error{ErrorCode::peer_lost, "somebody died"});
}

/// Returns the values of the leased objects, in the order of each_point().
Result<std::vector<std::int64_t>> take(StagingWorld& world, int client, Catalog& catalog,
                                       const LeasedBox& held, const Box& box, std::int64_t end_ns) {
  std::vector<std::int64_t> dense(static_cast<std::size_t>(box.points()), -1);
  const auto copy = [&](const LeasedBox& here) {
    return copy_out(world, client, here, box, dense);
  };
  if (Status status = catalog.take(held, end_ns, copy); !status) return status.error();
  const Point strides = strides_of(box);
  std::vector<std::int64_t> values;
  each_point(box, [&](const Point& point) {
    values.push_back(dense[static_cast<std::size_t>(index_in(box, strides, point))]);
  });
  return values;
}

/// Gets a box, and checks it. Returns its version, or nothing if the get failed.
std::optional<std::int64_t> get(StagingWorld& world, int client, Catalog& catalog, Record& record,
                                const GetRequest& request) {
  const std::int64_t began = world.steps();
  ReplyBuffer reply;
  const std::int64_t end_ns = world.now_ns() + patience_ns;
  const auto held = catalog.get(request, reply, end_ns);
  if (!held) {
    if (world.step(client) && !world.cut_off(client)) {
      judge_failure(world, record, request, began, held.error());
    }
    return std::nullopt;
  }
  const auto values = take(world, client, catalog, *held, request.box, end_ns);
  if (values) {
    judge_discarded(record, held->version, began, "got");
    judge_values(record, request, held->version, began, *values);
  } else if (world.step(client) && !world.cut_off(client)) {
    GetRequest exact = request;
    exact.choice = VersionChoice::exact;
    exact.version = held->version;
    judge_failure(world, record, exact, world.steps(), values.error());
  }
  (void)catalog.release(*held);
  return held->version;
}

void write(StagingWorld& world, int client, SimulatedServers& servers, Record& record,
           const Run& run) {
  Catalog catalog(servers);
  if (run.writers > 0) {
    const std::vector<std::int64_t> far(static_cast<std::size_t>(run.rank), 300);
    const std::vector<std::int64_t> near(static_cast<std::size_t>(run.rank), -300);
    const auto domain = *Box::make(near, far);
    const auto define = [&] {
      return catalog.define({"energy", 0, domain, "i8", run.element_bytes}, run.writers);
    };
    Status defined = define();
    while (!defined && defined.error().code == ErrorCode::timeout) defined = define();
  }
  const auto count = world.random().between(1, run.calls_max);
  for (std::int64_t k = 0; k < count; ++k) {
    put(world, client, catalog, record, run);
    if (run.discards && world.random().chance(0.2)) {
      const auto version = world.random().below(run.versions);
      record.discarded.emplace(version, world.steps());
      if (catalog.discard("energy", version)) record.gone.emplace(version, world.steps());
    }
  }
  ++record.closed;
  world.close(client);
}

void read(StagingWorld& world, int client, SimulatedServers& servers, Record& record,
          const Run& run) {
  Catalog catalog(servers);
  Random& random = world.random();
  const auto count = random.between(1, run.calls_max);
  for (std::int64_t k = 0; k < count; ++k) {
    const Box box = random_box(random, run.rank, run.longest);
    const auto choice = static_cast<VersionChoice>(random.below(3));
    const std::int64_t version = choice == VersionChoice::latest
                                     ? INT64_MAX
                                     : random.below(run.versions) - (choice == VersionChoice::next);
    const auto got = get(world, client, catalog, record, {"energy", choice, version, box});
    if (got && choice == VersionChoice::next && *got <= version)
      record.complain("a version went back");
    if (random.chance(0.1)) (void)catalog.list();
    if (random.chance(0.1)) (void)catalog.describe("energy", true, world.now_ns());
  }
  world.close(client);
}

/// Checks what is left when all clients have gone.
void judge_end(const StagingWorld& world, Record& record) {
  for (int k = 0; k < world.servers(); ++k) {
    if (!world.alive(k)) continue;
    const Service& service = world.service(k);
    std::int64_t bytes = 0;
    for (const VariableInfo& info : service.list()) {
      for (const VersionInfo& version : info.versions) bytes += version.bytes;
      if (info.producers != 0) record.complain("a producer is left");
    }
    if (service.clients() != 0) record.complain("a client is left");
    if (service.busy()) record.complain("something is still written or read");
    if (service.fenced_bytes() != 0) record.complain("something is fenced for ever");
    const std::int64_t spilled = service.spilled_bytes();
    if (bytes != service.memory_bytes_used() + spilled) record.complain("memory was lost");
    if (service.disk_bytes_used() < spilled) record.complain("what was spilled is not on disk");
  }
}

/// Chooses memory for a few objects, and a disk that may be small or fail.
void let_spill(Random& random, StagingWorld::Options& options, Record& record) {
  options.memory_bytes = random.chance(0.7) ? 4096 : 8192;
  options.servers = static_cast<int>(random.between(1, 3));
  if (random.chance(0.2)) options.spill_bytes = 16384;
  if (random.chance(0.3)) options.write_failure = random.chance(0.2) ? 1 : 0.3;
  if (random.chance(0.2)) options.read_failure = 0.1;
  record.spills = true;
  record.reads_fail = options.read_failure > 0;
  record.may_stay_full = options.spill_bytes != spill_bytes_unlimited || options.write_failure > 0;
}

Record run_of(std::uint64_t seed) {
  Random random(seed);
  StagingWorld::Options options;
  options.seed = random.next();
  options.servers = static_cast<int>(random.between(1, 5));
  options.memory_bytes = random.chance(0.2) ? 16384 : 1 << 20;
  options.versions_max = random.chance(0.2) ? 2 : 0;
  options.cell_bytes = random.chance(0.5) ? 8 : 256;
  const Full policies[] = {Full::block, Full::discard_oldest, Full::spill};
  options.full = policies[random.below(3)];
  options.client_death = random.chance(0.5) ? 0.005 : 0;
  options.server_death = random.chance(0.3) ? 0.002 : 0;
  options.late = random.chance(0.3) ? 0.03 : 0;
  options.link_loss = random.chance(0.3) ? 0.005 : 0;
  Record record;
  record.answers_late = options.late > 0;
  if (options.full == Full::spill) let_spill(random, options, record);
  Run run;
  run.rank = static_cast<int>(random.between(1, 3));
  run.longest = run.rank == 1 ? 200 : run.rank == 2 ? 16 : 7;
  run.discards = random.chance(0.3);
  if (record.spills) run.calls_max = 24;
  record.versions_kept = options.versions_max;
  record.keeps_to_versions =
      options.versions_max > 0 && !run.discards && options.full != Full::discard_oldest;
  if (record.keeps_to_versions) run.versions = 5;
  if (options.memory_bytes == 16384 && options.full == Full::discard_oldest) {
    record.versions_kept = 1;  // a full server may discard versions
  }
  StagingWorld world(options);
  std::vector<StagingWorld::Script> scripts;
  const auto script_of = [&](auto work) {
    return [&record, &run, work](StagingWorld& w, int client, SimulatedServers& servers) {
      work(w, client, servers, record, run);
    };
  };
  const auto writers = random.between(1, 3);
  if (random.chance(0.3)) run.writers = static_cast<int>(writers);
  record.writers = run.writers;
  const auto readers = random.between(1, 3);
  for (std::int64_t k = 0; k < writers; ++k) scripts.emplace_back(script_of(write));
  for (std::int64_t k = 0; k < readers; ++k) scripts.emplace_back(script_of(read));
  if (!world.run(std::move(scripts), 200'000)) record.complain("it hangs");
  judge_end(world, record);
  for (const std::string& offence : world.offences()) record.complain(offence);
  record.came_back = world.came_back();
  return record;
}

bool run_well(std::uint64_t seed, std::int64_t& whole, std::int64_t& came_back) {
  const Record record = run_of(seed);
  whole += record.whole;
  came_back += record.came_back;
  for (const std::string& text : record.wrong) std::fprintf(stderr, "%s\n", text.c_str());
  if (record.wrong.empty()) return true;
  std::fprintf(stderr, "replay with: test_sim staging_runs %llu\n",
               static_cast<unsigned long long>(seed));
  return false;
}

}  // namespace

TEST(staging_runs_lose_nothing_whoever_dies) {
  const std::string one = tranship::test::argument(2);
  const std::string end = tranship::test::argument(3);
  const std::uint64_t first = one.empty() ? 0 : std::stoull(one);
  const std::uint64_t behind = !end.empty() ? std::stoull(end) : one.empty() ? seeds : first + 1;
  std::int64_t whole = 0;
  std::int64_t came_back = 0;
  for (std::uint64_t seed = first; seed < behind; ++seed) {
    REQUIRE(run_well(seed, whole, came_back));
  }
  EXPECT(!one.empty() || whole > static_cast<std::int64_t>(seeds));
  std::printf("%lld gets returned data, %lld objects came back from disk\n",
              static_cast<long long>(whole), static_cast<long long>(came_back));
  EXPECT(!one.empty() || came_back > static_cast<std::int64_t>(seeds / 20));
}
