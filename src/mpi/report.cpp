#include "mpi/report.hpp"

#include <cstdio>
#include <string>

#include "mpi/settings.hpp"

namespace tranship::mpi {
namespace {

constexpr const char* call_names[] = {"messages sent", "messages received", "collectives",
                                      "MPI_Pack", "MPI_Unpack"};
constexpr const char* reasons[] = {"contiguous", "MPI's way is faster",
                                   "longer than its call counts", "no memory to pack into",
                                   "in place"};

std::string bytes_text(std::int64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  (void)std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text;
}

}  // namespace

Report::Report() : on_(settings().report != 0), all_ranks_(settings().report == 2) {}

void Report::print(int rank) const {
  if (!on_ || (rank != 0 && !all_ranks_)) return;
  std::string text = "tranship-mpi, rank " + std::to_string(rank) + "\n";
  const auto line = [&text](const char* what, const Count& count, const char* tail) {
    const std::int64_t calls = count.calls.load();
    if (calls == 0) return;
    text += "  ";
    text += what;
    text += ": " + std::to_string(calls) + ", " + bytes_text(count.bytes.load());
    if (count.on_gpu.load() > 0) text += ", of GPU memory " + std::to_string(count.on_gpu.load());
    text += tail;
    text += "\n";
  };
  for (int k = 0; k < Report::calls; ++k) line(mpi::call_names[k], did_[k], "");
  for (int k = 0; k < Report::reasons; ++k) line(mpi::reasons[k], left_[k], " (left alone)");
  if (types_left_.load() > 0) {
    text += "  types that are not known here: " + std::to_string(types_left_.load()) +
            " (left alone)\n";
  }
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
}

Report& report() {
  static Report* const all = new Report;  // calls may come while the process ends
  return *all;
}

}  // namespace tranship::mpi
