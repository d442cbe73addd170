#include "os/usage_table.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/at.hpp"
#include "base/hash.hpp"
#include "os/descriptor.hpp"

namespace tranship {
namespace {

/// First word of a table: "tranship" in ASCII, plus the version of the layout below.
constexpr std::uint64_t layout_magic = 0x7472'616e'7368'6970 + 1;

using Word = std::atomic<std::uint64_t>;
using Time = std::atomic<std::int64_t>;
static_assert(Word::is_always_lock_free && Time::is_always_lock_free,
              "other processes cannot see locks of this one");

constexpr auto relaxed = std::memory_order_relaxed;

/// Whether a cell says that its column is in use. Damaged cells do not.
bool says_used(std::int64_t until_ns, std::int64_t now_ns) {
  return until_ns > now_ns && until_ns - now_ns <= UsageTable::ahead_max_ns;
}

/// Whether an open file is this user's alone, and holds nothing or a table of this size.
bool is_own(int file, std::size_t bytes) {
  struct stat info {};
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) return false;
  const bool only_mine =
      info.st_uid == geteuid() && (info.st_mode & (S_IRWXG | S_IRWXO)) == 0 && info.st_nlink == 1;
  return only_mine && (info.st_size == 0 || info.st_size == static_cast<off_t>(bytes));
}

}  // namespace

/// One process's row. The first line of a cache is all that others read of a row without marks.
struct alignas(64) UsageTable::Row {
  Word process;    ///< number_of() of its owner; 0: free
  Time latest_ns;  ///< largest time of the cells
  std::array<Time, columns_max> until_ns;

  bool is_free(std::int64_t now_ns) const {
    if (process.load(relaxed) == 0) return true;
    const std::int64_t latest = latest_ns.load(relaxed);
    return latest < now_ns - row_kept_ns || latest > now_ns + ahead_max_ns;
  }
};

/// The whole file. Zeros are a table that nobody uses.
struct UsageTable::Table {
  Word magic;
  Word rows;                            ///< number of the highest row that was ever taken, plus one
  std::array<Word, columns_max> names;  ///< hash of the name of each column; 0: free
  std::array<Row, rows_max> row;
};

std::unique_ptr<UsageTable> UsageTable::open(const std::string& folder, std::uint64_t process) {
  const std::string path = folder + "/tranship-usage-" + std::to_string(geteuid());
  const FileDescriptor file(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
  if (!file || !is_own(file.get(), sizeof(Table))) return nullptr;
  // Space is reserved, because a store to a full file system would end the process.
  if (posix_fallocate(file.get(), 0, sizeof(Table)) != 0) return nullptr;
  void* memory = mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return nullptr;
  std::unique_ptr<UsageTable> table(new UsageTable(static_cast<Table*>(memory), process));
  std::uint64_t seen = 0;
  const bool fresh = table->table_->magic.compare_exchange_strong(seen, layout_magic);
  return fresh || seen == layout_magic ? std::move(table) : nullptr;
}

std::uint64_t UsageTable::number_of(const Identity& process) {
  return hash_of(std::to_string(process.pid) + " " + std::to_string(process.start_ticks) + " " +
                 process.pid_namespace);
}

UsageTable::~UsageTable() {
  leave();
  munmap(table_, sizeof(Table));
}

int UsageTable::column_of(std::string_view name) {
  const std::uint64_t hash = hash_of(name);
  for (int k = 0; k < columns_max; ++k) {
    std::uint64_t seen = 0;
    if (table_->names[at(k)].compare_exchange_strong(seen, hash) || seen == hash) return k;
  }
  return -1;
}

/// Whether a row is this process's: another one may have taken it after a long pause.
bool UsageTable::owns(int row) const {
  return row >= 0 && table_->row[at(row)].process.load(relaxed) == process_;
}

void UsageTable::mark(int column, std::int64_t now_ns, std::int64_t until_ns) {
  if (column < 0 || column >= columns_max || fork_generation_ != fork_generation()) return;
  int number = row();
  if (!owns(number)) number = take_row(now_ns);
  if (number < 0) return;
  Row& row = table_->row[at(number)];
  const std::int64_t until = std::min(until_ns, now_ns + ahead_max_ns);
  // In one order for all processes: of two that mark and then look, one at least sees the other.
  if (row.until_ns[at(column)].load(relaxed) < until) row.until_ns[at(column)].store(until);
  if (row.latest_ns.load(relaxed) < until) row.latest_ns.store(until);
}

int UsageTable::take_row(std::int64_t now_ns) {
  const std::lock_guard lock(taking_);
  for (int k = 0; k < rows_max; ++k) {  // another thread or object may have taken one
    if (!owns(k)) continue;
    row_.store(k, relaxed);
    return k;
  }
  for (int k = 0; k < rows_max; ++k) {
    Row& row = table_->row[at(k)];
    std::uint64_t before = row.process.load(relaxed);
    if (!row.is_free(now_ns) || !row.process.compare_exchange_strong(before, process_)) continue;
    for (Time& cell : row.until_ns) cell.store(0, relaxed);
    row.latest_ns.store(now_ns, relaxed);
    const auto count = static_cast<std::uint64_t>(k) + 1;
    std::uint64_t seen = table_->rows.load(relaxed);
    while (seen < count && !table_->rows.compare_exchange_weak(seen, count, relaxed)) {
    }
    row_.store(k, relaxed);
    return k;
  }
  row_.store(-1, relaxed);
  return -1;
}

bool UsageTable::has_marked(int column, std::int64_t now_ns) const {
  const int number = row();
  if (column < 0 || column >= columns_max || !owns(number)) return false;
  return says_used(table_->row[at(number)].until_ns[at(column)].load(relaxed), now_ns);
}

void UsageTable::find_others(std::span<const int> columns, std::int64_t now_ns,
                             std::vector<Use>& uses) const {
  const std::uint64_t taken = table_->rows.load(relaxed);
  const int rows = static_cast<int>(std::min(taken, std::uint64_t{rows_max}));
  for (int k = 0; k < rows; ++k) {
    const Row& row = table_->row[at(k)];
    const std::uint64_t process = row.process.load(relaxed);
    if (process == process_ || process == 0) continue;
    if (!says_used(row.latest_ns.load(), now_ns)) continue;
    for (const int column : columns) {
      if (column < 0 || column >= columns_max) continue;
      if (says_used(row.until_ns[at(column)].load(), now_ns)) uses.push_back({k, column});
    }
  }
}

void UsageTable::leave() {
  if (fork_generation_ != fork_generation()) return;  // the row is the parent's
  const std::lock_guard lock(taking_);
  const int number = row();
  if (!owns(number)) return;
  Row& row = table_->row[at(number)];
  for (Time& cell : row.until_ns) cell.store(0, relaxed);
  row.latest_ns.store(0, relaxed);
  std::uint64_t process = process_;
  row.process.compare_exchange_strong(process, 0);
  row_.store(-1, relaxed);
}

}  // namespace tranship
