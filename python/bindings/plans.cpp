// The Python class of plans.
#include "plans.hpp"

#include <nanobind/stl/shared_ptr.h>

#include <string>

namespace tranship::python {
namespace {

std::string plan_text(const BoundPlan& self) {
  if (self.plan->hops.empty()) return "<Plan of nothing>";
  return "<Plan " + self.plan->path(self.profile()) + ": " + std::to_string(self.plan->bytes) +
         " bytes, planner " + to_string(self.plan->planner) + ">";
}

}  // namespace

void bind_plans(nb::module_& module) {
  nb::class_<BoundPlan>(module, "Plan", "The way that a copy takes, and what it should cost.")
      .def(
          "explain", [](const BoundPlan& self) { return explain(*self.plan, self.profile()); },
          "Hops, layouts, tiles, predicted time, what binds it, and what it beat.")
      .def("to_json",
           [](const BoundPlan& self) { return explain_json(*self.plan, self.profile()); })
      .def("__str__", [](const BoundPlan& self) { return self.plan->path(self.profile()); })
      .def("__repr__", &plan_text)
      .def(
          "__reduce__",
          [](const BoundPlan&) -> nb::object {
            throw nb::type_error(
                "a Plan cannot be pickled: it belongs to an engine of this process; send "
                "plan.to_json() or plan.explain()");
          },
          nb::sig("def __reduce__(self) -> typing.NoReturn"))
      .def_prop_ro(
          "path", [](const BoundPlan& self) { return self.plan->path(self.profile()); },
          "The memories in order.")
      .def_prop_ro(
          "seconds", [](const BoundPlan& self) { return self.plan->seconds; }, "Predicted time.")
      .def_prop_ro(
          "throughput_gbps",
          [](const BoundPlan& self) { return self.plan->bytes_per_second / 1e9; },
          "Predicted gigabytes (10^9 bytes) a second, of a long transfer.")
      .def_prop_ro("bytes", [](const BoundPlan& self) { return self.plan->bytes; })
      .def_prop_ro(
          "direct", [](const BoundPlan& self) { return self.plan->direct; },
          "Whether it runs on the caller's thread.")
      .def_prop_ro(
          "binding", [](const BoundPlan& self) { return self.plan->bound_by(self.profile()); },
          "The channel or resource that limits it.")
      .def_prop_ro("planner", [](const BoundPlan& self) { return to_string(self.plan->planner); });
}

}  // namespace tranship::python
