// Planning on any machine profile, present or not.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"

namespace tranship::python {
namespace {

View view_of(const std::vector<std::pair<std::string, std::int64_t>>& extents,
             const std::vector<std::tuple<std::string, std::string, std::int64_t>>& fields,
             const std::string& layout) {
  IndexSpace space;
  for (const auto& [name, extent] : extents) space.push_back({name, extent});
  FieldSpace values;
  for (const auto& [name, type, bytes] : fields) values.push_back({name, type, bytes});
  return View::whole(
      unwrap(Mapping::make(std::move(space), std::move(values), unwrap(Layout::parse(layout)))));
}

int memory_at(const Profile& profile, const std::string& name) {
  const int found = profile.find_memory(name);
  if (found >= 0) return found;
  std::string known;
  for (const Memory& memory : profile.memories) known += (known.empty() ? "" : ", ") + memory.name;
  raise({ErrorCode::not_found, "the machine has no memory \"" + name + "\"; it has " + known});
}

std::pair<std::string, std::string> plan_on(
    const std::string& profile_json, const std::pair<std::string, std::string>& source,
    const std::pair<std::string, std::string>& target,
    const std::vector<std::pair<std::string, std::int64_t>>& extents,
    const std::vector<std::tuple<std::string, std::string, std::int64_t>>& fields,
    const std::string& planner, std::int64_t buffer_bytes) {
  const Profile profile = unwrap(Profile::from_json(profile_json));
  PlanQuery query;
  query.source = view_of(extents, fields, source.second);
  query.target = view_of(extents, fields, target.second);
  query.source_memory = memory_at(profile, source.first);
  query.target_memory = memory_at(profile, target.first);
  query.planner = unwrap(planner_kind_from(planner));
  query.buffer_bytes_max = buffer_bytes;
  const Plan made = unwrap(plan(query, profile));
  return {explain(made, profile), explain_json(made, profile)};
}

}  // namespace

void bind_planning(nb::module_& module) {
  module.def("plan_on", &plan_on, nb::arg("profile"), nb::arg("source"), nb::arg("target"),
             nb::arg("extents"), nb::arg("fields"), nb::arg("planner"), nb::arg("buffer_bytes"));
  module.def(
      "check_profile",
      [](const std::string& text) { return unwrap(Profile::from_json(text)).to_json(); },
      nb::arg("text"));
}

}  // namespace tranship::python
