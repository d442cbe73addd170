// Calibration, and the stored profile.
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>

#include "bindings.hpp"
#include "calibration/calibrate.hpp"
#include "calibration/kept_profile.hpp"

namespace tranship::python {
namespace {

/// Returns a function that reports a calibration's progress to Python; an empty one for None.
std::function<void(double, const std::string&)> progress_to(const nb::object& report) {
  if (report.is_none()) return {};
  return [&report](double share, const std::string& what) {
    const Acquired held;
    if (held) report(share, what);
  };
}

std::string calibrate_json(const std::optional<std::string>& folder, std::int64_t sample_bytes,
                           bool processes, const nb::object& progress,
                           const std::map<std::string, std::string>& overrides) {
  CalibrationOptions options;
  options.config = config_with(overrides);
  options.folder = folder.value_or(options.config.temporary_folder);
  options.sample_bytes = sample_bytes;
  options.processes = processes;
  options.progress = progress_to(progress);
  return unwrap(released([&] { return calibrate(options); })).to_json();
}

}  // namespace

void bind_calibration(nb::module_& module) {
  module.def("calibrate", &calibrate_json, nb::arg("folder").none(), nb::arg("sample_bytes"),
             nb::arg("processes"), nb::arg("progress").none(), nb::arg("overrides"));
  module.def(
      "profile_path",
      [](const std::map<std::string, std::string>& overrides) {
        return profile_path(config_with(overrides));
      },
      nb::arg("overrides"));
  module.def(
      "save_profile",
      [](const std::string& profile, const std::string& path) {
        return save_profile(profile, path).ok();
      },
      nb::arg("profile"), nb::arg("path"));
  module.def(
      "profile_of_this_machine",
      [](const nb::object& progress, const std::map<std::string, std::string>& overrides) {
        const Config config = config_with(overrides);
        const auto report = progress_to(progress);
        return unwrap(released([&] { return profile_of_this_machine(config, report); })).to_json();
      },
      nb::arg("progress").none(), nb::arg("overrides"));
}

}  // namespace tranship::python
