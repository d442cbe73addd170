// The disk of a staging server, and the thread that moves objects to it and back.
#include "staging/server/mover.hpp"

#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "support/test.hpp"

using namespace tranship;
using namespace tranship::staging;

namespace {

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A folder that is removed with its content.
struct Folder {
  Folder() {
    char pattern[] = "/tmp/tranship-disk-XXXXXX";
    path = ::mkdtemp(pattern);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path;
};

std::vector<std::byte> some_bytes(std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& one : bytes) one = static_cast<std::byte>(random());
  return bytes;
}

/// A disk in memory that fails on demand, and records its calls.
class FakeDisk final : public Disk {
 public:
  struct State {
    std::vector<std::byte> bytes = std::vector<std::byte>(1 << 20);
    std::string calls;
    bool is_full = false;
    bool flush_fails = false;
  };
  explicit FakeDisk(State& state) : state_(state) {}
  Status write(std::int64_t offset, std::span<const std::byte> data) override {
    state_.calls += 'w';
    if (state_.is_full) return Error{ErrorCode::io, "no space left"};
    std::copy(data.begin(), data.end(), state_.bytes.begin() + offset);
    return {};
  }
  Status read(std::int64_t offset, std::span<std::byte> data) override {
    state_.calls += 'r';
    std::copy_n(state_.bytes.begin() + offset, data.size(), data.begin());
    return {};
  }
  Status flush() override {
    state_.calls += 'f';
    return state_.flush_fails ? Status(Error{ErrorCode::io, "no space left after all"}) : Status{};
  }
  void drop(std::int64_t, std::int64_t) override { state_.calls += 'd'; }

 private:
  State& state_;
};

Move move_of(Move::Kind kind, std::uint64_t object, std::int64_t offset, std::int64_t bytes) {
  return {kind, object, {0, 0, bytes}, {0, offset, bytes}};
}

/// The results of moves, in the order in which they ended.
struct Ends {
  std::mutex mutex;
  std::condition_variable condition;
  std::vector<std::pair<std::uint64_t, Status>> all;

  Mover::Ended reporter() {
    return [this](const Move& move, const Status& status) {
      std::lock_guard lock(mutex);
      all.emplace_back(move.object, status);
      condition.notify_all();
    };
  }
  void await(std::size_t count) {
    std::unique_lock lock(mutex);
    condition.wait(lock, [&] { return all.size() >= count; });
  }
};

}  // namespace

TEST(what_is_spilled_is_read_back) {
  const Folder folder;
  auto disk = SpillFile::open(folder.path);
  REQUIRE(disk.ok());
  EXPECT(std::filesystem::is_empty(folder.path));  // the file has no name
  auto* aligned = static_cast<std::byte*>(std::aligned_alloc(4096, 1 << 20));
  struct {
    std::int64_t offset;
    std::size_t bytes;
    std::size_t shift;  // offset of the memory from a page's beginning, in bytes
  } const runs[] = {{0, 256, 0},
                    {4096, 300 * 1024, 0},
                    {1 << 20, (256 << 10) + 768, 0},
                    {2 << 20, 70000, 256},
                    {std::int64_t{5} << 32, 4096, 0}};
  for (const auto& run : runs) {
    const auto bytes = some_bytes(run.bytes, 1);
    std::copy(bytes.begin(), bytes.end(), aligned + run.shift);
    REQUIRE((*disk)->write(run.offset, {aligned + run.shift, run.bytes}).ok());
    REQUIRE((*disk)->flush().ok());
    std::fill_n(aligned, 1 << 20, std::byte{0});
    REQUIRE((*disk)->read(run.offset, {aligned + run.shift, run.bytes}).ok());
    EXPECT(std::equal(bytes.begin(), bytes.end(), aligned + run.shift));
  }
  (*disk)->drop(1 << 20, 1 << 20);
  REQUIRE((*disk)->read(4096, {aligned, 300 * 1024}).ok());
  const auto kept = some_bytes(300 * 1024, 1);
  EXPECT(std::equal(kept.begin(), kept.end(), aligned));
  const auto beyond = (*disk)->read(std::int64_t{9} << 32, {aligned, 4096});
  REQUIRE(!beyond.ok());
  EXPECT(says(beyond.error().text(), "cannot read what was spilled to the folder"));
  std::free(aligned);
}

TEST(a_folder_that_cannot_be_used_says_what_to_do) {
  const auto missing = SpillFile::open("/nowhere/at/all");
  REQUIRE(!missing.ok());
  EXPECT(missing.error().code == ErrorCode::not_found);
  EXPECT(says(missing.error().text(), "folders are not created; or name another folder"));
  if (::geteuid() == 0) return;  // root may write everywhere
  const Folder folder;
  ::chmod(folder.path.c_str(), 0500);
  const auto closed = SpillFile::open(folder.path);
  REQUIRE(!closed.ok());
  EXPECT(closed.error().code == ErrorCode::permission);
}

TEST(a_limit_on_file_sizes_is_an_error_and_no_signal) {
  const Folder folder;
  const auto disk = SpillFile::open(folder.path);
  REQUIRE(disk.ok());
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit limit = before;
  limit.rlim_cur = 1 << 16;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  const auto bytes = some_bytes(4096, 2);
  const Status inside = (*disk)->write(0, bytes);
  const Status outside = (*disk)->write(1 << 16, bytes);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  EXPECT(inside.ok());
  REQUIRE(!outside.ok());
  EXPECT(says(outside.error().text(), "raise the limit on file sizes"));
}

/// Needs root, to mount a small file system.
TEST(a_full_disk_says_so_and_what_lies_there_stays) {
  const Folder folder;
  if (::mount("tmpfs", folder.path.c_str(), "tmpfs", 0, "size=1m") != 0) {
    std::printf("skipped: mounting a file system needs root (errno %d)\n", errno);
    return;
  }
  {
    const auto disk = SpillFile::open(folder.path);
    REQUIRE(disk.ok());
    const auto bytes = some_bytes(768 << 10, 3);
    EXPECT((*disk)->write(0, bytes).ok());
    const Status full = (*disk)->write(1 << 20, bytes);
    REQUIRE(!full.ok());
    EXPECT(says(full.error().text(), "No space left on device; free some space"));
    (*disk)->drop(1 << 20, 768 << 10);
    std::vector<std::byte> back(bytes.size());
    EXPECT((*disk)->read(0, back).ok());
    EXPECT(back == bytes);
    (*disk)->drop(0, 768 << 10);
    EXPECT((*disk)->write(1 << 20, bytes).ok());
  }
  EXPECT(::umount(folder.path.c_str()) == 0);
}

TEST(moves_are_carried_out_in_their_order) {
  FakeDisk::State state;
  Ends ends;
  auto one = some_bytes(512, 4);
  auto two = some_bytes(512, 5);
  std::vector<std::byte> back(512);
  Mover mover(std::make_unique<FakeDisk>(state), ends.reporter());
  mover.add(move_of(Move::Kind::out, 1, 0, 512), one.data());
  mover.add(move_of(Move::Kind::out, 2, 4096, 512), two.data());
  mover.add(move_of(Move::Kind::drop, 0, 0, 4096), nullptr);
  mover.add(move_of(Move::Kind::in, 2, 4096, 512), back.data());
  ends.await(3);
  EXPECT(back == two);
  EXPECT(ends.all[0].first == 1 && ends.all[1].first == 2 && ends.all[2].first == 2);
  for (const auto& [object, status] : ends.all) EXPECT(status.ok());
}

TEST(what_the_disk_says_late_is_not_taken_for_written) {
  FakeDisk::State state;
  state.flush_fails = true;
  Ends ends;
  auto bytes = some_bytes(512, 6);
  Mover mover(std::make_unique<FakeDisk>(state), ends.reporter());
  mover.add(move_of(Move::Kind::out, 1, 0, 512), bytes.data());
  ends.await(1);
  REQUIRE(!ends.all[0].second.ok());
  EXPECT_EQ(ends.all[0].second.error().text(), "no space left after all");
  EXPECT_EQ(state.calls, "wf");
}

TEST(a_full_disk_ends_the_moves_that_meet_it) {
  FakeDisk::State state;
  state.is_full = true;
  Ends ends;
  auto bytes = some_bytes(512, 7);
  Mover mover(std::make_unique<FakeDisk>(state), ends.reporter());
  mover.add(move_of(Move::Kind::out, 1, 0, 512), bytes.data());
  mover.add(move_of(Move::Kind::in, 2, 4096, 512), bytes.data());
  ends.await(2);
  EXPECT(!ends.all[0].second.ok());
  EXPECT(ends.all[1].second.ok());
}

TEST(bytes_that_changed_on_disk_are_not_given_back) {
  FakeDisk::State state;
  CheckedDisk disk(std::make_unique<FakeDisk>(state));
  const auto one = some_bytes(5000, 1);
  const auto other = some_bytes(300, 2);
  REQUIRE(disk.write(0, one).ok());
  REQUIRE(disk.write(8192, other).ok());
  std::vector<std::byte> back(5000);
  REQUIRE(disk.read(0, back).ok());
  EXPECT(back == one);
  for (const std::size_t place : {std::size_t{0}, std::size_t{2500}, std::size_t{4999}}) {
    state.bytes[place] ^= std::byte{0x10};
    const Status changed = disk.read(0, back);
    EXPECT(!changed && says(changed.error().text(), "has changed on disk"));
    state.bytes[place] ^= std::byte{0x10};
  }
  REQUIRE(disk.read(0, back).ok());
  std::vector<std::byte> few(300);
  REQUIRE(disk.read(8192, few).ok());
  EXPECT(few == other);
  // A place that was never written, or was dropped, holds no object.
  EXPECT(!disk.read(4096, few).ok());
  EXPECT(!disk.read(0, few).ok());
  disk.drop(8192, 4096);
  EXPECT(!disk.read(8192, few).ok());
  state.is_full = true;
  EXPECT(!disk.write(0, other).ok());
  EXPECT(!disk.read(0, back).ok());
}
