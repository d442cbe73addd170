// Python functions for simulated clusters.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "base/clock.hpp"
#include "bindings.hpp"
#include "simulator/simulation.hpp"

namespace tranship::python {
namespace {

std::unique_ptr<Simulation> open(const std::string& profile, std::optional<int> nodes,
                                 const std::string& planner, int copier_threads,
                                 std::int64_t full_from_bytes) {
  static const SteadyClock clock;
  Profile machine = unwrap(Profile::from_json(profile));
  if (nodes) {
    if (*nodes < 1 || machine.nodes == 0) {
      raise({ErrorCode::invalid_argument, "nodes is " + std::to_string(*nodes),
             *nodes < 1 ? "a cluster has at least one node"
                        : "this machine's profile lists its nodes one by one: leave nodes out, or "
                          "give a profile that describes equal nodes"});
    }
    machine.nodes = *nodes;
  }
  Simulation::Options options;
  options.planner = unwrap(planner_kind_from(planner));
  options.copier_threads = copier_threads;
  options.full_from_bytes = full_from_bytes;
  options.clock = &clock;
  return unwrap(Simulation::make(std::move(machine), options));
}

/// Times, in seconds, at which tasks may begin: one value for all tasks, or one for each.
struct Times {
  const std::vector<std::vector<int>>& after;
  const std::vector<double>& at_s;

  Simulation::When of(std::size_t task) const {
    Simulation::When when;
    if (!after.empty()) when.after = after.size() == 1 ? after[0] : after[task];
    if (!at_s.empty()) when.at_s = at_s.size() == 1 ? at_s[0] : at_s[task];
    return when;
  }
};

std::vector<int> copies(Simulation& simulation, const std::vector<std::string>& sources,
                        const std::vector<std::string>& targets, const Extents& extents,
                        const Fields& fields, const std::pair<std::string, std::string>& layouts,
                        int priority, const std::optional<std::string>& planner, int lanes,
                        const std::vector<std::string>& through, bool whole,
                        const std::vector<std::vector<int>>& after,
                        const std::vector<double>& at_s) {
  Simulation::Copy copy;
  copy.source_mapping = mapping_of(extents, fields, layouts.first);
  copy.target_mapping = mapping_of(extents, fields, layouts.second);
  copy.priority = priority;
  if (planner) copy.planner = unwrap(planner_kind_from(*planner));
  copy.lanes_max = lanes;
  copy.through = through;
  copy.whole = whole;
  const Times times{after, at_s};
  std::vector<int> numbers;
  for (std::size_t k = 0; k < sources.size(); ++k) {
    copy.source = sources[k];
    copy.target = targets[k];
    numbers.push_back(unwrap(simulation.copy(copy, times.of(k))));
  }
  return numbers;
}

std::vector<int> computes(Simulation& simulation, const std::vector<std::string>& places,
                          const std::vector<double>& seconds,
                          const std::vector<std::vector<int>>& after,
                          const std::vector<double>& at_s) {
  const Times times{after, at_s};
  std::vector<int> numbers;
  for (std::size_t k = 0; k < places.size(); ++k) {
    const double one = seconds.size() == 1 ? seconds[0] : seconds[k];
    numbers.push_back(unwrap(simulation.compute(places[k], one, times.of(k))));
  }
  return numbers;
}

void run_all(Simulation& simulation) {
  bool signalled = false;
  const Status status = [&] {
    const Released released;
    return simulation.run([&] {
      signalled = interrupted();
      return !signalled;
    });
  }();
  if (signalled) throw nb::python_error();
  unwrap(status);
}

/// Returns begin and end of each task in seconds, as pairs of doubles in one bytes object.
nb::bytes times(const Simulation& simulation) {
  std::vector<double> all;
  for (int task = 0; task < simulation.tasks(); ++task) {
    all.push_back(simulation.begin_s(task));
    all.push_back(simulation.end_s(task));
  }
  return nb::bytes(all.data(), all.size() * sizeof(double));
}

nb::typed<nb::dict, nb::str, nb::object> statistics(const Simulation& simulation) {
  const Simulation::Statistics values = simulation.statistics();
  nb::dict all;
  all["events"] = values.events;
  all["run_s"] = values.run_s;
  all["tasks"] = values.tasks;
  all["bytes"] = values.bytes;
  all["channels"] = values.channels;
  all["peak_rss_bytes"] = values.peak_rss_bytes;
  all["planned_full"] = values.routes.planned.full;
  all["planned_simple"] = values.routes.planned.simple;
  all["planned_other"] = values.routes.planned.other;
  all["cached"] = values.routes.cached;
  all["planning_s"] = values.routes.planning_s;
  nb::dict by_node;
  for (const auto& [node, counts] : values.routes.by_node) {
    nb::dict one;
    one["full"] = counts.full;
    one["simple"] = counts.simple;
    one["other"] = counts.other;
    by_node[nb::int_(node)] = one;
  }
  all["planned_by_node"] = by_node;
  return all;
}

}  // namespace

void bind_simulation(nb::module_& module) {
  nb::class_<Simulation>(module, "Simulation")
      .def("copies", &copies, nb::arg("sources"), nb::arg("targets"), nb::arg("extents"),
           nb::arg("fields"), nb::arg("layouts"), nb::arg("priority"), nb::arg("planner").none(),
           nb::arg("lanes"), nb::arg("through"), nb::arg("whole"), nb::arg("after"),
           nb::arg("at_s"))
      .def("computes", &computes, nb::arg("places"), nb::arg("seconds"), nb::arg("after"),
           nb::arg("at_s"))
      .def("run", &run_all)
      .def("tasks", &Simulation::tasks)
      .def("begin_s", &Simulation::begin_s, nb::arg("task"))
      .def("end_s", &Simulation::end_s, nb::arg("task"))
      .def("times", &times)
      .def(
          "plan_json",
          [](const Simulation& simulation, int task) { return unwrap(simulation.plan_json(task)); },
          nb::arg("task"))
      .def("statistics", &statistics);
  module.def("open_simulation", &open, nb::arg("profile"), nb::arg("nodes").none(),
             nb::arg("planner"), nb::arg("copier_threads"), nb::arg("full_from_bytes"));
}

}  // namespace tranship::python
