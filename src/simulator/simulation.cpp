#include "simulator/simulation.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/at.hpp"
#include "base/check.hpp"
#include "machine/cluster.hpp"

namespace tranship {
namespace {

/// Number of simulation steps between two calls of `go_on`.
constexpr int steps_at_once = 1 << 14;

/// Longest virtual time that is kept in nanoseconds without rounding anywhere: about 104 days.
constexpr double seconds_max = 9007199;

/// Source numbers of tasks in the world's queue, which numbers channels from 0 on: tasks are below
/// StepDriver::no_channel.
int source_of(int task) { return -2 - task; }
int task_of(int source) { return -2 - source; }

std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }
double seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

bool is_time(double value) { return value >= 0 && value <= seconds_max; }

}  // namespace

Simulation::Simulation(const Options& options) : options_(options), world_({}) {}

Simulation::~Simulation() {
  closing_ = true;
  if (driver_) driver_->close({ErrorCode::closed, "the simulation was broken off"});
}

Result<std::unique_ptr<Simulation>> Simulation::make(Profile machine, const Options& options) {
  CHECK(options.clock != nullptr, "a simulation measures its own wall time");
  if (options.copier_threads < 0) {
    return Error{ErrorCode::invalid_argument, "the number of copier threads is negative",
                 "give 0 for the engine's own "
                 "scheduling, or 1 and more"};
  }
  std::unique_ptr<Simulation> made(new Simulation(options));
  if (Status status = made->assemble(std::move(machine)); !status) return status.error();
  return made;
}

Status Simulation::assemble(Profile machine) {
  auto cluster = Cluster::make(std::move(machine));
  if (!cluster) return cluster.error();
  Hardware::Options hardware;
  hardware.copier_requests_max = options_.copier_threads * WholeCopies::requests_in_flight;
  auto made = Hardware::make(std::move(*cluster), world_, hardware);
  if (!made) return made.error();
  hardware_ = std::move(*made);
  StepDriver::Options driver;
  driver.clock = &world_.clock();
  driver.with_data = false;
  driver.advance = [this] { return advance(); };
  driver_ = std::make_unique<StepDriver>(std::move(driver));
  hardware_->attach(*driver_);
  routes_ = std::make_unique<Routes>(*hardware_, *options_.clock, options_.full_from_bytes);
  WholeCopies::Options whole;
  whole.copiers = options_.copier_threads;
  whole.begin = [this](const WholeCopies::Hop& hop) { begin_transfer(hop.copy, hop.number); };
  whole.ended = [this](int copy) { end(copy); };
  whole_ = std::make_unique<WholeCopies>(*hardware_, std::move(whole));
  return {};
}

Status Simulation::check(const When& when) const {
  for (const int before : when.after) {
    if (before < 0 || before >= tasks()) {
      return Error{ErrorCode::invalid_argument,
                   "there is no task " + std::to_string(before) + " yet",
                   "a task can follow only tasks that were added before it"};
    }
  }
  if (!is_time(when.at_s)) {
    return Error{ErrorCode::invalid_argument,
                 "a task cannot begin at " + std::to_string(when.at_s) + " s",
                 "give a time from 0 to 9 million seconds"};
  }
  return {};
}

Result<RouteQuery> Simulation::route_query(const Copy& copy) const {
  RouteQuery query;
  auto source = hardware_->find(copy.source);
  if (!source) return source.error();
  auto target = hardware_->find(copy.target);
  if (!target) return target.error();
  query.source = *source;
  query.target = *target;
  query.source_mapping = copy.source_mapping;
  query.target_mapping = copy.target_mapping;
  query.planner = copy.planner.value_or(options_.planner);
  query.lanes_max = copy.lanes_max;
  query.whole = copy.whole;
  for (const std::string& name : copy.through) {
    auto memory = hardware_->find(name);
    if (!memory) return memory.error();
    query.through.push_back(*memory);
  }
  return query;
}

Result<int> Simulation::copy(const Copy& copy, const When& when) {
  if (Status status = check(when); !status) return status.error();
  auto query = route_query(copy);
  if (!query) return query.error();
  auto route = routes_->find(*query);
  if (!route) return route.error();
  Task task;
  task.route = *route;
  task.nodes = Routes::nodes_of(*query);
  task.priority = copy.priority;
  return add(task, when);
}

Result<int> Simulation::compute(const std::string& place, double seconds, const When& when) {
  if (Status status = check(when); !status) return status.error();
  if (!is_time(seconds)) {
    return Error{ErrorCode::invalid_argument,
                 "a computation cannot take " + std::to_string(seconds) + " s of virtual time",
                 "give from 0 to 9 million seconds"};
  }
  const auto [entry, added] = place_numbers_.try_emplace(place, static_cast<int>(places_.size()));
  if (added) places_.emplace_back();
  Task task;
  task.place = entry->second;
  task.compute_ns = nanoseconds(seconds);
  return add(task, when);
}

int Simulation::add(Task task, const When& when) {
  const int number = tasks();
  task.at_ns = nanoseconds(when.at_s);
  for (const int before : when.after) {
    Task& followed = tasks_[at(before)];
    if (followed.state == TaskState::ended) continue;
    ++task.waits;
    followers_.push_back({number, followed.first_follower});
    followed.first_follower = static_cast<int>(followers_.size()) - 1;
  }
  tasks_.push_back(task);
  // Even a task that may begin at once waits for run().
  if (task.waits == 0) {
    world_.expect(std::max(task.at_ns, world_.clock().now_ns()), source_of(number));
  }
  return number;
}

std::optional<int> Simulation::advance() {
  const std::optional<int> happened = world_.advance();
  if (!happened || *happened >= 0) return happened;
  if (!closing_) happen(task_of(*happened));
  return StepDriver::no_channel;
}

void Simulation::happen(int number) {
  if (tasks_[at(number)].state == TaskState::running) {
    end(number);
  } else if (tasks_[at(number)].place >= 0) {
    enter_place(number);
  } else {
    begin_copy(number);
  }
}

void Simulation::may_begin(int number) {
  const Task& task = tasks_[at(number)];
  if (task.at_ns > world_.clock().now_ns()) {
    world_.expect(task.at_ns, source_of(number));
  } else {
    happen(number);
  }
}

void Simulation::begin_copy(int number) {
  Task& task = tasks_[at(number)];
  task.begin_ns = world_.clock().now_ns();
  task.state = TaskState::running;
  if (task.route->whole) {
    whole_->add({number, task.priority, task.nodes, task.route});
  } else {
    begin_transfer(number, 0);
  }
}

void Simulation::begin_transfer(int number, std::size_t plan) {
  const Task& task = tasks_[at(number)];
  auto transfer = std::make_shared<Transfer>();
  transfer->plan = task.route->plans[plan];
  transfer->label = "task " + std::to_string(number);
  transfer->priority = task.priority;
  int in_flight_max = 0;
  if (task.route->whole && options_.copier_threads > 0) {
    transfer->priority = 0;
    in_flight_max = WholeCopies::requests_in_flight;
  }
  const Plan& made = *transfer->plan;
  transfer->descriptors.resize(made.hops.size());
  for (const Lane& lane : made.lanes) {
    for (int k = 0; k < lane.hop_count; ++k) {
      const Hop& hop = made.hops[at(lane.first_hop + k)];
      Descriptor& descriptor = transfer->descriptors[at(lane.first_hop + k)];
      descriptor.channel = hardware_->channel(task.nodes, hop.channel);
      descriptor.in_flight_max = in_flight_max;
      const bool buffered = k + 1 < lane.hop_count;
      if (buffered) descriptor.buffer_memory = hardware_->memory(task.nodes, hop.target_memory);
    }
  }
  transfer->completion->on_end([this, number, plan](const Status& status) {
    if (!closing_) transfer_ended(number, plan, status);
  });
  driver_->submit(std::move(transfer), {});
}

void Simulation::transfer_ended(int number, std::size_t plan, const Status& status) {
  if (!status) {
    if (failure_) failure_ = status;
    return;
  }
  if (tasks_[at(number)].route->whole) {
    whole_->hop_ended({number, plan});
  } else {
    end(number);
  }
}

void Simulation::enter_place(int number) {
  Processor& place = places_[at(tasks_[at(number)].place)];
  if (place.busy) {
    place.waiting.push_back(number);
  } else {
    begin_compute(number);
  }
}

void Simulation::begin_compute(int number) {
  Task& task = tasks_[at(number)];
  places_[at(task.place)].busy = true;
  task.begin_ns = world_.clock().now_ns();
  task.state = TaskState::running;
  world_.expect(task.begin_ns + task.compute_ns, source_of(number));
}

void Simulation::end(int number) {
  Task& task = tasks_[at(number)];
  task.end_ns = world_.clock().now_ns();
  task.state = TaskState::ended;
  ++tasks_ended_;
  if (task.route != nullptr) bytes_ += task.route->bytes;
  if (task.place >= 0) {
    Processor& place = places_[at(task.place)];
    place.busy = false;
    if (place.first < place.waiting.size()) {
      begin_compute(place.waiting[place.first++]);
    } else {
      place.waiting.clear();
      place.first = 0;
    }
  }
  for (int k = task.first_follower; k >= 0; k = followers_[at(k)].next) {
    const int follower = followers_[at(k)].task;
    if (--tasks_[at(follower)].waits == 0) may_begin(follower);
  }
}

Status Simulation::run(const std::function<bool()>& go_on) {
  const std::int64_t begin_ns = options_.clock->now_ns();
  bool more = true;
  bool asked_to_stop = false;
  while (more && !asked_to_stop) {
    for (int k = 0; k < steps_at_once && more; ++k) more = driver_->step();
    asked_to_stop = more && go_on && !go_on();
  }
  run_s_ += seconds(options_.clock->now_ns() - begin_ns);
  if (asked_to_stop) {
    return Error{ErrorCode::cancelled, "the simulation was broken off", "run it again to go on"};
  }
  if (!failure_) return failure_;
  CHECK(tasks_ended_ == tasks(), "a simulated task never ended");
  return {};
}

double Simulation::begin_s(int task) const { return seconds(tasks_[at(task)].begin_ns); }
double Simulation::end_s(int task) const { return seconds(tasks_[at(task)].end_ns); }

Result<std::string> Simulation::plan_json(int number) const {
  const Task& task = tasks_[at(number)];
  if (task.route == nullptr) {
    return Error{ErrorCode::invalid_argument,
                 "task " + std::to_string(number) + " is a computation", "only copies have plans"};
  }
  const std::vector<int> nodes = task.nodes.second >= 0
                                     ? std::vector<int>{task.nodes.first, task.nodes.second}
                                     : std::vector<int>{task.nodes.first};
  auto profile = hardware_->cluster().neighbourhood(nodes);
  if (!profile) return profile.error();
  const Route& route = *task.route;
  if (!route.whole) return explain_json(*route.plans[0], *profile);
  using Json = nlohmann::ordered_json;
  Json whole{{"path", ""},    {"planner", to_string(route.plans[0]->planner)},
             {"whole", true}, {"bytes", route.bytes},
             {"time_s", 0.0}, {"hops", Json::array()}};
  std::string path = profile->memories[at(route.plans[0]->hops[0].source_memory)].name;
  double time_s = 0;
  for (const auto& plan : route.plans) {
    const Json hop = Json::parse(explain_json(*plan, *profile));
    for (const Json& one : hop.at("hops")) whole["hops"].push_back(one);
    path += " > " + profile->memories[at(plan->hops[0].target_memory)].name;
    time_s += plan->seconds;
  }
  whole["path"] = path;
  whole["time_s"] = time_s;
  whole["throughput_gbps"] = time_s > 0 ? static_cast<double>(route.bytes) / time_s / 1e9 : 0.0;
  return whole.dump(2);
}

Simulation::Statistics Simulation::statistics() const {
  rusage usage{};
  (void)getrusage(RUSAGE_SELF, &usage);
  Statistics statistics;
  statistics.events = driver_->requests_ended();
  statistics.run_s = run_s_;
  statistics.tasks = tasks();
  statistics.bytes = bytes_;
  statistics.channels = static_cast<std::int64_t>(hardware_->channels_made());
  statistics.peak_rss_bytes = std::int64_t{usage.ru_maxrss} * 1024;
  statistics.routes = routes_->counters();
  return statistics;
}

}  // namespace tranship
