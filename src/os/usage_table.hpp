// A table in shared memory in which the processes of one user mark what hardware they use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "os/fork.hpp"
#include "os/process.hpp"

namespace tranship {

/// A file of fixed size that all processes of one user on one machine map: a row for each process,
/// a column for each piece of hardware that they share. A cell holds the time until which the
/// process expects to use the hardware. All of it is a hint: a wrong cell may cost speed, and
/// nothing else.
///
/// A row whose times have all passed for `row_kept_ns` may be taken by another process, so that a
/// killed one needs no clean-up. A process that lost its row takes another one at its next mark.
/// Owns the mapping. The destructor and leave() give the process's row back; another object of the
/// process that uses it takes one again. Threads: all. Cost of a mark: some loads and two stores.
///
/// Times are nanoseconds of the system's monotonic clock, the same in all processes.
class UsageTable {
 public:
  static constexpr int rows_max = 128;
  static constexpr int columns_max = 128;
  /// Largest time ahead that a cell may say; cells that say more count as damaged.
  static constexpr std::int64_t ahead_max_ns = 10'000'000'000;
  /// How long a row is kept after its last time has passed.
  static constexpr std::int64_t row_kept_ns = 10'000'000'000;

  /// What another process uses now.
  struct Use {
    int row = 0;
    int column = 0;
    friend bool operator==(const Use&, const Use&) = default;
  };

  /// Opens this user's table in a folder of a memory file system, or makes it. Returns null if that
  /// is not possible: no such folder, no space, or a file there that is not such a table of this
  /// user.
  /// process: Distinguishes this process from all others, as number_of(own_identity()) does; not 0.
  static std::unique_ptr<UsageTable> open(const std::string& folder, std::uint64_t process);
  /// Returns a number for a process, by which its row is known.
  static std::uint64_t number_of(const Identity& process);
  ~UsageTable();
  UsageTable(const UsageTable&) = delete;
  UsageTable& operator=(const UsageTable&) = delete;

  /// Returns the column of the hardware of that name, the same in all processes; -1 if all columns
  /// have other names.
  int column_of(std::string_view name);

  /// Marks that this process uses a column until `until_ns`, unless its cell says a later time.
  /// Does nothing if all rows are taken.
  void mark(int column, std::int64_t now_ns, std::int64_t until_ns);

  /// Returns this process's row; -1 before the first mark.
  int row() const { return row_.load(std::memory_order_relaxed); }

  /// Returns whether this process has marked that it uses a column now.
  bool has_marked(int column, std::int64_t now_ns) const;

  /// Appends which of the columns other processes use now.
  void find_others(std::span<const int> columns, std::int64_t now_ns, std::vector<Use>& uses) const;

  /// Clears this process's cells and gives its row back.
  void leave();

 private:
  struct Row;
  struct Table;

  UsageTable(Table* table, std::uint64_t process) : table_(table), process_(process) {}
  bool owns(int row) const;
  int take_row(std::int64_t now_ns);

  Table* table_;
  std::uint64_t process_;
  std::mutex taking_;  ///< held while a row is taken or given back
  std::atomic<int> row_{-1};
  const std::uint64_t fork_generation_ = fork_generation();
};

}  // namespace tranship
