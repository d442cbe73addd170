// A discrete-event simulation of copies and computations on a cluster: the real planner and the
// real scheduler on virtual time. All times are simulated.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.hpp"
#include "channels/sim/sim_channel.hpp"
#include "machine/profile.hpp"
#include "plan/plan.hpp"
#include "runtime/step_driver.hpp"
#include "simulator/hardware.hpp"
#include "simulator/routes.hpp"
#include "simulator/whole_copies.hpp"

namespace tranship {

/// A graph of tasks on a cluster. Callers add tasks, and run() advances virtual time until all have
/// ended; then more tasks may be added. Memory use grows with the tasks and the hardware that they
/// use. Threads: one.
class Simulation {
 public:
  struct Options {
    PlannerKind planner = PlannerKind::automatic;  ///< for copies that name no planner
    /// Size in bytes from which `automatic` plans fully; 0: `automatic` decides by predicted cost.
    std::int64_t full_from_bytes = 0;
    /// Copier threads of each node for whole copies, which share channels regardless of priority;
    /// 0: the scheduling of the real engine.
    int copier_threads = 0;
    const Clock* clock = nullptr;  ///< wall time, for the statistics
  };
  /// Returns a simulation without tasks.
  /// @error invalid_argument for a profile that describes no cluster, or a negative number
  static Result<std::unique_ptr<Simulation>> make(Profile machine, const Options& options);
  ~Simulation();

  /// When a task may begin.
  struct When {
    std::vector<int> after;  ///< tasks that must have ended
    double at_s = 0;         ///< virtual time, in seconds, before which the task does not begin
  };

  struct Copy {
    std::string source;  ///< a memory, such as "node7/device1"
    std::string target;
    std::shared_ptr<const Mapping> source_mapping;
    std::shared_ptr<const Mapping> target_mapping;
    int priority = 0;
    std::optional<PlannerKind> planner;  ///< none: the simulation's planner
    int lanes_max = 1;                   ///< largest number of paths used at the same time
    std::vector<std::string> through;    ///< memories to pass, including the ends; empty: any
    bool whole = false;                  ///< hop after hop, with whole instances between the hops
  };
  /// Adds a copy and plans it; returns the task's number.
  /// @error not_found or out_of_range for an unknown memory; invalid_argument for a task that it
  ///        cannot follow; as plan()
  Result<int> copy(const Copy& copy, const When& when);

  /// Adds a computation. Computations with the same `place` (any name) run one after another, in
  /// the order in which they may begin.
  /// @error invalid_argument for an invalid time, or a task that it cannot follow
  Result<int> compute(const std::string& place, double seconds, const When& when);

  /// Advances virtual time until all tasks have ended. Calls `go_on` from time to time; if it
  /// returns false, the run stops, and a later run() continues it.
  /// @error cancelled if `go_on` returned false; else the error of the task that failed
  Status run(const std::function<bool()>& go_on);

  int tasks() const { return static_cast<int>(tasks_.size()); }
  /// Return the virtual seconds at which a task began (for a copy: was submitted) and ended;
  /// negative: not yet.
  double begin_s(int task) const;
  double end_s(int task) const;

  /// Returns a copy's plan as JSON, with the names of its nodes.
  /// @error invalid_argument if the task is a computation
  Result<std::string> plan_json(int task) const;

  struct Statistics {
    std::int64_t events = 0;  ///< requests that have ended on channels
    double run_s = 0;         ///< wall time within run()
    std::int64_t tasks = 0;
    std::int64_t bytes = 0;  ///< bytes of the copies that have ended
    std::int64_t channels = 0;
    std::int64_t peak_rss_bytes = 0;  ///< peak of the whole process
    Routes::Counters routes;
  };
  Statistics statistics() const;

 private:
  enum class TaskState : std::uint8_t { waiting, running, ended };
  struct Task {
    std::int64_t at_ns = 0;
    std::int64_t begin_ns = -1;
    std::int64_t end_ns = -1;
    const Route* route = nullptr;  ///< for a copy
    NodePair nodes;
    std::int64_t compute_ns = 0;
    int place = -1;  ///< for a computation
    int priority = 0;
    int waits = 0;            ///< unfinished tasks that the task follows
    int first_follower = -1;  ///< index into followers_
    TaskState state = TaskState::waiting;
  };
  struct Follower {
    int task = 0;
    int next = -1;
  };
  struct Processor {
    bool busy = false;
    std::vector<int> waiting;  ///< a queue that begins at index `first`
    std::size_t first = 0;
  };

  explicit Simulation(const Options& options);
  Status assemble(Profile machine);
  Result<RouteQuery> route_query(const Copy& copy) const;
  Status check(const When& when) const;
  int add(Task task, const When& when);
  void may_begin(int task);
  void happen(int task);
  void begin_copy(int task);
  void begin_transfer(int task, std::size_t plan);
  void enter_place(int task);
  void begin_compute(int task);
  void end(int task);
  void transfer_ended(int task, std::size_t plan, const Status& status);
  std::optional<int> advance();

  Options options_;
  SimWorld world_;
  std::unique_ptr<Hardware> hardware_;
  std::unique_ptr<StepDriver> driver_;
  std::unique_ptr<Routes> routes_;
  std::unique_ptr<WholeCopies> whole_;
  std::vector<Task> tasks_;
  std::vector<Follower> followers_;
  std::vector<Processor> places_;
  std::unordered_map<std::string, int> place_numbers_;
  std::int64_t tasks_ended_ = 0;
  std::int64_t bytes_ = 0;
  double run_s_ = 0;
  Status failure_;
  bool closing_ = false;
};

}  // namespace tranship
