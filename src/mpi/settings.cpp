#include "mpi/settings.hpp"

#include <cstdio>
#include <cstdlib>

namespace tranship::mpi {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

[[noreturn]] void refuse(const char* name, const std::string& value, const char* hint) {
  (void)std::fprintf(stderr, "tranship-mpi: %s is \"%s\": %s\n", name, value.c_str(), hint);
  std::exit(2);
}

Settings read() {
  Settings settings;
  const std::string packing = variable("TRANSHIP_MPI_PACK");
  if (packing == "always") {
    settings.packing = Packing::always;
  } else if (packing == "never") {
    settings.packing = Packing::never;
  } else if (!packing.empty() && packing != "measured") {
    refuse("TRANSHIP_MPI_PACK", packing, "use measured, always or never");
  }
  settings.choices = variable("TRANSHIP_MPI_CHOICES");
  const std::string gpus = variable("TRANSHIP_EMULATED_GPUS");
  settings.emulates_gpus = !gpus.empty() && gpus != "0";
  const std::string report = variable("TRANSHIP_MPI_REPORT");
  if (report == "all") {
    settings.report = 2;
  } else if (report == "1") {
    settings.report = 1;
  } else if (!report.empty() && report != "0") {
    refuse("TRANSHIP_MPI_REPORT", report, "use 0, 1 or all");
  }
  return settings;
}

}  // namespace

const Settings& settings() {
  static const Settings* const all = new Settings(read());
  return *all;
}

}  // namespace tranship::mpi
