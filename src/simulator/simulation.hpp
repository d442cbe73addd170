// Copies and computations on a cluster that need not be there: the real planner and the real
// scheduler on virtual time. All times that it reports are simulated.
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

/// A graph of tasks on a cluster. Tasks are added, run() lets time pass until all have ended, and
/// more may be added then. Memory follows the tasks and the hardware that they use. Not
/// thread-safe.
class Simulation {
 public:
  struct Options {
    PlannerKind planner = PlannerKind::automatic;  ///< of copies that do not say
    /// `automatic` plans fully from this size on; 0: by predicted cost.
    std::int64_t full_from_bytes = 0;
    /// Copiers of each node for whole copies, which share channels regardless of priority; 0: this
    /// project's own scheduling.
    int copier_threads = 0;
    const Clock* clock = nullptr;  ///< wall time, for the statistics
  };
  /// @error invalid_argument for a profile that describes no cluster, or a negative number
  static Result<std::unique_ptr<Simulation>> make(Profile machine, const Options& options);
  ~Simulation();

  /// When a task may begin.
  struct When {
    std::vector<int> after;  ///< tasks that must have ended
    double at_s = 0;         ///< virtual time before which it does not begin
  };

  struct Copy {
    std::string source;  ///< a memory, such as "node7/device1"
    std::string target;
    std::shared_ptr<const Mapping> source_mapping;
    std::shared_ptr<const Mapping> target_mapping;
    int priority = 0;
    std::optional<PlannerKind> planner;  ///< nothing: the simulation's
    int lanes_max = 1;                   ///< most paths that it may use at once
    std::vector<std::string> through;    ///< memories to pass, ends included; empty: any
    bool whole = false;                  ///< hop after hop, with whole instances between
  };
  /// Adds a copy and plans it; returns the task's number.
  /// @error not_found or out_of_range for a memory; invalid_argument for what it may not follow;
  ///        as of plan()
  Result<int> copy(const Copy& copy, const When& when);

  /// Adds a computation. Those at one place (any name) run one after another, in the order in
  /// which they may begin.
  /// @error invalid_argument if the time is not one, or for what it may not follow
  Result<int> compute(const std::string& place, double seconds, const When& when);

  /// Lets time pass until all tasks have ended. `go_on` is asked now and then; where it says no,
  /// the run breaks off, and may be taken up again.
  /// @error cancelled if it was broken off; else why a task failed
  Status run(const std::function<bool()>& go_on);

  int tasks() const { return static_cast<int>(tasks_.size()); }
  /// Virtual seconds at which a task began (a copy: was handed in) and ended; negative: not yet.
  double begin_s(int task) const;
  double end_s(int task) const;

  /// A copy's plan as JSON, with the names of its own nodes.
  /// @error invalid_argument if the task is no copy
  Result<std::string> plan_json(int task) const;

  struct Statistics {
    std::int64_t events = 0;  ///< requests that have ended on channels
    double run_s = 0;         ///< wall time within run()
    std::int64_t tasks = 0;
    std::int64_t bytes = 0;  ///< of the copies that have ended
    std::int64_t channels = 0;
    std::int64_t peak_rss_bytes = 0;  ///< of the whole process
    Routes::Counters routes;
  };
  Statistics statistics() const;

 private:
  enum class TaskState : std::uint8_t { waiting, running, ended };
  struct Task {
    std::int64_t at_ns = 0;
    std::int64_t begin_ns = -1;
    std::int64_t end_ns = -1;
    const Route* route = nullptr;  ///< of a copy
    NodePair nodes;
    std::int64_t compute_ns = 0;
    int place = -1;  ///< of a computation
    int priority = 0;
    int waits = 0;            ///< tasks that it follows and that have not ended
    int first_follower = -1;  ///< index into followers_
    TaskState state = TaskState::waiting;
  };
  struct Follower {
    int task = 0;
    int next = -1;
  };
  struct Place {
    bool busy = false;
    std::vector<int> waiting;  ///< a queue from `first` on
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
  std::vector<Place> places_;
  std::unordered_map<std::string, int> place_numbers_;
  std::int64_t tasks_ended_ = 0;
  std::int64_t bytes_ = 0;
  double run_s_ = 0;
  Status failure_;
  bool closing_ = false;
};

}  // namespace tranship
