// The memory that a process may still take, read from the files of made-up machines.
#include "os/available_memory.hpp"

#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "support/test.hpp"

using namespace tranship;

namespace {

/// A folder with a machine's files, which is removed with the test.
struct Machine {
  std::filesystem::path root;

  Machine() {
    std::string name = std::filesystem::temp_directory_path() / "tranship-memory-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    root = name;
  }
  ~Machine() { std::filesystem::remove_all(root); }
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  AvailableMemory available() const {
    return available_memory((root / "proc").string(), (root / "groups").string());
  }
};

}  // namespace

TEST(a_machine_has_left_what_it_says_with_swap) {
  const Machine machine;
  machine.write("proc/meminfo", "MemTotal: 900 kB\nMemAvailable: 500 kB\nSwapFree: 100 kB\n");
  EXPECT_EQ(machine.available().bytes, 600 * 1024);
  EXPECT_EQ(machine.available().swap_bytes, 100 * 1024);
  EXPECT_EQ(machine.available().limited_by, "the machine");
}

TEST(what_cannot_be_read_limits_nothing) {
  const Machine machine;
  EXPECT_EQ(machine.available().bytes, INT64_MAX);
  EXPECT(available_memory().bytes > 0);
}

TEST(a_control_group_and_those_around_it_limit_a_process) {
  const Machine machine;
  machine.write("proc/meminfo", "MemAvailable: 500 kB\n");
  machine.write("proc/self/cgroup", "0::/batch/job\n");
  machine.write("groups/batch/job/memory.max", "max\n");
  machine.write("groups/batch/job/memory.current", "1000\n");
  EXPECT_EQ(machine.available().bytes, 500 * 1024);
  machine.write("groups/batch/memory.max", "100000\n");
  machine.write("groups/batch/memory.current", "70000\n");
  machine.write("groups/batch/memory.stat", "anon 1\ninactive_file 5000\nactive_file 500\n");
  EXPECT_EQ(machine.available().bytes, 35500);
  EXPECT_EQ(machine.available().limited_by, "the control group /batch");
  machine.write("groups/batch/job/memory.max", "500\n");  // more is in use than the limit allows
  EXPECT_EQ(machine.available().bytes, 0);
}

TEST(control_groups_of_version_1_limit_a_process) {
  const Machine machine;
  machine.write("proc/meminfo", "MemAvailable: 500 kB\n");
  machine.write("proc/self/cgroup", "5:cpu:/other\n4:hugetlb,memory:/job\n0::/\n");
  machine.write("groups/memory/job/memory.limit_in_bytes", "10000\n");
  machine.write("groups/memory/job/memory.usage_in_bytes", "4000\n");
  EXPECT_EQ(machine.available().bytes, 6000);
}
