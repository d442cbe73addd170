#include "os/available_memory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include "os/pages.hpp"

namespace tranship {
namespace {

/// The number behind a name in a file of lines such as "MemFree: 12 kB" or "inactive_file 12".
std::optional<std::int64_t> value_of(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    std::int64_t value = 0;
    if (words >> key >> value && key == name) return value;
  }
  return std::nullopt;
}

/// Returns the number in a file; nothing if the file states that there is no limit.
std::optional<std::int64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

/// Names of the files of a version of control groups.
struct Names {
  const char* limit;
  const char* usage;
  const char* inactive_file;
  const char* active_file;
};
constexpr Names version_1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
                          "total_active_file"};
constexpr Names version_2{"memory.max", "memory.current", "inactive_file", "active_file"};

/// Returns the bytes that the control group of a folder may still take of its limit; nothing if it
/// has none.
std::optional<std::int64_t> left_in(const std::string& folder, const Names& names) {
  const auto limit = number_in(folder + "/" + names.limit);
  const auto usage = number_in(folder + "/" + names.usage);
  if (!limit || !usage) return std::nullopt;
  const std::string statistics = folder + "/memory.stat";
  const std::int64_t cached = value_of(statistics, names.inactive_file).value_or(0) +
                              value_of(statistics, names.active_file).value_or(0);
  return *limit - std::max<std::int64_t>(*usage - cached, 0);
}

/// A group's limit holds for all groups inside it.
void look_upwards(const std::string& root, std::string group, const Names& names,
                  AvailableMemory& found) {
  while (true) {
    const auto left = left_in(root + group, names);
    if (left && *left < found.bytes) {
      found = {std::max<std::int64_t>(*left, 0),
               "the control group " + (group.empty() ? std::string("/") : group)};
    }
    if (group.empty()) return;
    group.resize(group.find_last_of('/') == std::string::npos ? 0 : group.find_last_of('/'));
  }
}

}  // namespace

AvailableMemory available_memory(const std::string& proc, const std::string& groups) {
  AvailableMemory found{INT64_MAX, "the machine"};
  if (const auto kib = value_of(proc + "/meminfo", "MemAvailable:")) {
    found.swap_bytes = value_of(proc + "/meminfo", "SwapFree:").value_or(0) * 1024;
    found.bytes = *kib * 1024 + found.swap_bytes;
  }
  std::ifstream file(proc + "/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // number:controllers:group
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string group = line.substr(second + 1);
    while (!group.empty() && group.back() == '/') group.pop_back();
    if (controllers == ",,") look_upwards(groups, group, version_2, found);
    if (controllers.find(",memory,") == std::string::npos) continue;
    look_upwards(groups + "/memory", group, version_1, found);
  }
  return found;
}

/// The kernel ends a process of a control group that takes more than its limit, rather than refuse
/// the pages: so it is asked for no more than there are.
Status take_pages(const SharedMemory& memory, std::int64_t offset, std::int64_t bytes) {
  const AvailableMemory available = available_memory();
  if (available.bytes < bytes) {
    return Error{ErrorCode::out_of_memory, std::to_string(bytes) + " bytes were asked for, and " +
                                               available.limited_by + " has " +
                                               std::to_string(available.bytes) + " left"};
  }
  int failed = 0;
  do {
    failed = fallocate(memory.descriptor(), 0, offset, bytes) == 0 ? 0 : errno;
  } while (failed == EINTR);
  if (failed == 0) return {};
  give_back_pages(memory, offset, bytes);
  return Error{ErrorCode::out_of_memory, "shared memory of " + std::to_string(bytes) +
                                             " bytes got no pages: " + std::strerror(failed)};
}

void give_back_pages(const SharedMemory& memory, std::int64_t offset, std::int64_t bytes) {
  constexpr int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  while (fallocate(memory.descriptor(), punch, offset, bytes) != 0 && errno == EINTR) {
  }
}

void clear_pages(const SharedMemory& memory, std::int64_t offset, std::int64_t bytes) {
  const std::int64_t first = offset / sysconf(_SC_PAGESIZE) * sysconf(_SC_PAGESIZE);
  (void)map_for_writing(memory.data() + first, offset + bytes - first);
}

AvailableMemory available_memory() { return available_memory("/proc", "/sys/fs/cgroup"); }

}  // namespace tranship
