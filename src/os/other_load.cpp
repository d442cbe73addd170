#include "os/other_load.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

namespace tranship {

OtherLoad::OtherLoad() : begin_(now()) {}

OtherLoad::Ticks OtherLoad::now() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  const bool known = sched_getaffinity(0, sizeof usable, &usable) == 0;
  Ticks ticks;
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line) && line.starts_with("cpu");) {
    std::istringstream words(line.substr(3));
    int number = -1;
    // The first line, "cpu " without a number, is the sum of all.
    if (line.size() < 4 || line[3] == ' ' || !(words >> number)) continue;
    if (known && (number >= CPU_SETSIZE || !CPU_ISSET(number, &usable))) continue;
    // user, nice, system, idle, waiting for disks, interrupts twice, taken by the hypervisor
    std::int64_t time = 0;
    for (int column = 0; column < 8 && words >> time; ++column) {
      ticks.all += time;
      if (column != 3 && column != 4) ticks.busy += time;
    }
  }
  timespec own{};
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
  const double seconds = static_cast<double>(own.tv_sec) + static_cast<double>(own.tv_nsec) * 1e-9;
  ticks.own = static_cast<std::int64_t>(seconds * static_cast<double>(sysconf(_SC_CLK_TCK)));
  return ticks;
}

double OtherLoad::share() const {
  const Ticks end = now();
  const std::int64_t all = end.all - begin_.all;
  if (all <= 0) return 0;
  const std::int64_t others = (end.busy - begin_.busy) - (end.own - begin_.own);
  return std::clamp(static_cast<double>(others) / static_cast<double>(all), 0.0, 1.0);
}

}  // namespace tranship
