// The table in shared memory of what other processes use: rows, times, files that are no table.
#include "os/usage_table.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/at.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

constexpr std::int64_t second = 1'000'000'000;
constexpr std::int64_t now = 1000 * second;
constexpr std::int64_t soon = now + second / 10;

/// A folder of its own for the tables of one test.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "usage-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }
  std::string file() const { return path_ + "/tranship-usage-" + std::to_string(geteuid()); }
  /// Opens the table for one more process.
  std::unique_ptr<UsageTable> open() const { return UsageTable::open(path_, ++processes_); }
  std::unique_ptr<UsageTable> open_as(std::uint64_t process) const {
    return UsageTable::open(path_, process);
  }

 private:
  std::string path_;
  mutable std::uint64_t processes_ = 0;
};

std::vector<UsageTable::Use> others_of(const UsageTable& table, std::vector<int> columns,
                                       std::int64_t now_ns) {
  std::vector<UsageTable::Use> uses;
  table.find_others(columns, now_ns, uses);
  return uses;
}

/// Returns the exit code of a child process that runs `body`.
template <typename Body>
int in_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status);
}

}  // namespace

TEST(a_mark_is_seen_by_others_until_its_time) {
  const Folder folder;
  const auto one = folder.open();
  const auto other = folder.open();
  REQUIRE(one && other);
  const int column = one->column_of("a link");
  EXPECT_EQ(other->column_of("a link"), column);
  EXPECT(other->column_of("another link") != column);
  EXPECT_EQ(one->row(), -1);
  one->mark(column, now, soon);
  EXPECT(others_of(*one, {column}, now).empty());
  EXPECT(others_of(*other, {column}, now) == (std::vector<UsageTable::Use>{{one->row(), column}}));
  EXPECT(others_of(*other, {other->column_of("another link"), -1}, now).empty());
  EXPECT(others_of(*other, {column}, soon).empty());
  EXPECT(one->has_marked(column, now) && !one->has_marked(column, soon));
  EXPECT(!other->has_marked(column, now));
}

TEST(an_earlier_time_does_not_replace_a_later_one) {
  const Folder folder;
  const auto one = folder.open();
  const auto other = folder.open();
  one->mark(0, now, now + 2 * second);
  one->mark(0, now, soon);
  EXPECT_EQ(others_of(*other, {0}, now + second).size(), 1u);
  one->mark(1, now, now + 100 * second);
  EXPECT(others_of(*other, {1}, now + UsageTable::ahead_max_ns).empty());
}

TEST(leaving_clears_what_was_marked) {
  const Folder folder;
  const auto one = folder.open();
  const auto other = folder.open();
  one->mark(0, now, soon);
  one->leave();
  EXPECT(others_of(*other, {0}, now).empty());
  other->mark(0, now, soon);
  EXPECT_EQ(other->row(), 0);
  one->mark(0, now, soon);
  EXPECT_EQ(one->row(), 1);
}

TEST(rows_are_taken_again_when_their_times_have_passed_for_long) {
  const Folder folder;
  std::vector<std::unique_ptr<UsageTable>> processes;
  for (int k = 0; k < UsageTable::rows_max; ++k) {
    processes.push_back(folder.open());
    processes.back()->mark(0, now, now + k);
    EXPECT_EQ(processes.back()->row(), k);
  }
  const auto late = folder.open();
  late->mark(0, now, soon);
  EXPECT_EQ(late->row(), -1);
  late->mark(0, now + UsageTable::row_kept_ns + 1, now + UsageTable::row_kept_ns + second);
  EXPECT_EQ(late->row(), 0);
  // The process that was away takes another row, and leaves the one that it had alone.
  processes[0]->mark(0, now + UsageTable::row_kept_ns + 3, now + UsageTable::row_kept_ns + second);
  EXPECT_EQ(processes[0]->row(), 1);
  EXPECT_EQ(others_of(*processes[0], {0}, now + UsageTable::row_kept_ns + 3).size(), 1u);
}

TEST(two_processes_see_each_other) {
  const Folder folder;
  const auto parent = folder.open();
  parent->mark(0, now, soon);
  const auto child_table = folder.open();
  const int code = in_child([&] {
    parent->mark(1, now, soon);                 // the parent's row is not the child's
    UsageTable* own = folder.open().release();  // which does not leave
    own->mark(2, now, soon);
    const bool sees = others_of(*own, {0, 1, 2}, now).size() == 1;
    parent->leave();
    own->mark(3, now, soon);
    return sees && own->row() == 1 ? 0 : 1;
  });
  EXPECT_EQ(code, 0);
  const std::vector<UsageTable::Use> uses = others_of(*parent, {0, 1, 2, 3}, now);
  EXPECT(uses == (std::vector<UsageTable::Use>{{1, 2}, {1, 3}}));
  EXPECT(others_of(*parent, {2, 3}, soon).empty());
  EXPECT_EQ(others_of(*child_table, {0}, now).size(), 1u);
}

TEST(objects_of_one_process_have_one_row) {
  const Folder folder;
  const std::uint64_t process = UsageTable::number_of(own_identity());
  EXPECT(process != 0);
  const auto one = folder.open_as(process);
  const auto second = folder.open_as(process);
  const auto other = folder.open_as(process + 1);
  one->mark(0, now, soon);
  second->mark(1, now, soon);
  EXPECT_EQ(second->row(), one->row());
  EXPECT(others_of(*second, {0, 1}, now).empty());
  EXPECT_EQ(others_of(*other, {0, 1}, now).size(), 2u);
  one->leave();
  EXPECT(others_of(*other, {0, 1}, now).empty());
  second->mark(1, now, soon);
  EXPECT_EQ(others_of(*other, {0, 1}, now).size(), 1u);
  Identity later = own_identity();
  ++later.start_ticks;
  EXPECT(UsageTable::number_of(later) != process);
}

TEST(threads_of_one_process_take_one_row) {
  const Folder folder;
  const auto table = folder.open();
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&, k] {
      for (int turn = 0; turn < 1000; ++turn) table->mark(k, now, soon);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(table->row(), 0);
  EXPECT(others_of(*folder.open(), {0, 1, 2, 3}, now).size() == 4u);
}

TEST(what_is_no_table_of_this_user_is_left_alone) {
  const Folder folder;
  EXPECT(!UsageTable::open(folder.path() + "/missing", 1));
  REQUIRE(mkdir(folder.file().c_str(), 0700) == 0);
  EXPECT(!folder.open());
  REQUIRE(rmdir(folder.file().c_str()) == 0);
  REQUIRE(mkfifo(folder.file().c_str(), 0600) == 0);
  EXPECT(!folder.open());
  REQUIRE(unlink(folder.file().c_str()) == 0);
  std::ofstream(folder.path() + "/elsewhere") << "";
  REQUIRE(symlink((folder.path() + "/elsewhere").c_str(), folder.file().c_str()) == 0);
  EXPECT(!folder.open());
  REQUIRE(unlink(folder.file().c_str()) == 0);
  std::ofstream(folder.file()) << "too short";
  REQUIRE(chmod(folder.file().c_str(), 0600) == 0);
  EXPECT(!folder.open());
  EXPECT_EQ(std::filesystem::file_size(folder.file()), 9u);
}

TEST(a_table_that_others_may_write_or_of_another_version_is_left_alone) {
  const Folder folder;
  REQUIRE(folder.open() != nullptr);
  REQUIRE(chmod(folder.file().c_str(), 0620) == 0);
  EXPECT(!folder.open());
  REQUIRE(chmod(folder.file().c_str(), 0600) == 0);
  EXPECT(folder.open() != nullptr);
  std::fstream(folder.file(), std::ios::in | std::ios::out | std::ios::binary) << "another";
  EXPECT(!folder.open());
}

TEST(damaged_cells_close_nothing_and_their_rows_are_taken) {
  const Folder folder;
  const auto table = folder.open();
  const auto size = std::filesystem::file_size(folder.file());
  for (const char byte : {'\x7f', '\xff', '\x55'}) {
    {
      std::fstream file(folder.file(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(8);  // behind the word that says what the file is
      file << std::string(size - 8, byte);
    }
    const auto other = folder.open();
    REQUIRE(other != nullptr);
    std::vector<int> all(at(UsageTable::columns_max));
    for (int k = 0; k < UsageTable::columns_max; ++k) all[at(k)] = k;
    EXPECT(others_of(*other, all, now).empty());
    EXPECT_EQ(other->column_of("a link"), -1);
    other->mark(3, now, soon);
    EXPECT(other->row() >= 0);
    EXPECT_EQ(others_of(*table, {3}, now).size(), 1u);
  }
}
