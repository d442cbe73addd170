#include "channels/file/file_channel.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/test.hpp"
#include "support/waiting.hpp"

namespace tranship {
namespace {

using Bytes = std::vector<std::byte>;

/// Copies element by element, as an oracle.
void slow_copy(std::span<const LoopNest> nests, const std::byte* source, std::byte* target, bool) {
  for (const LoopNest& nest : nests) {
    const std::int64_t points = nest.element_bytes > 0 ? nest.bytes() / nest.element_bytes : 0;
    for (std::int64_t point = 0; point < points; ++point) {
      std::int64_t rest = point;
      std::int64_t from = nest.source_offset;
      std::int64_t to = nest.target_offset;
      for (std::size_t k = 0; k < static_cast<std::size_t>(nest.rank); ++k) {
        const std::int64_t index = rest % nest.loops[k].extent;
        rest /= nest.loops[k].extent;
        from += index * nest.loops[k].source_stride;
        to += index * nest.loops[k].target_stride;
      }
      std::memmove(target + to, source + from, static_cast<std::size_t>(nest.element_bytes));
    }
  }
}

/// A folder that is removed with its content.
class Folder {
 public:
  explicit Folder(const std::string& parent) {
    std::string name = parent + "/tranship-file-XXXXXX";
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~Folder() {
    if (!path_.empty()) std::filesystem::remove_all(path_);
  }
  Folder(const Folder&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  bool made() const { return !path_.empty(); }

 private:
  std::string path_;
};

/// Returns the current folder (where O_DIRECT works, if the folder is on a disk) and one in memory
/// (where O_DIRECT may fail).
std::vector<std::string> parents() {
  std::vector<std::string> all{std::filesystem::current_path().string()};
  if (access("/dev/shm", W_OK) == 0) all.push_back("/dev/shm");
  return all;
}

FileChannelOptions options_of(int queue_depth, std::int64_t io_bytes) {
  FileChannelOptions options;
  options.copy = slow_copy;
  options.queue_depth = queue_depth;
  options.io_bytes = io_bytes;
  return options;
}

/// Waits for `count` requests; returns their statuses by tag (tags are below `count`).
std::vector<Status> collect(Channel& channel, std::size_t count) {
  std::vector<Status> statuses(count);
  std::array<Finished, 4> finished;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (std::size_t done = 0; done < count;) {
    const std::size_t got = channel.poll(finished);
    for (std::size_t i = 0; i < got; ++i) statuses[finished[i].tag] = finished[i].status;
    done += got;
    if (got == 0) channel.idle(std::chrono::seconds(1));
    REQUIRE(std::chrono::steady_clock::now() < end);
  }
  return statuses;
}

std::byte* as_address(std::int64_t offset) {
  return reinterpret_cast<std::byte*>(static_cast<std::intptr_t>(offset));
}

Request request_of(std::span<const LoopNest> nests, Place source, Place target,
                   std::uint64_t tag = 0) {
  Request request;
  request.payload = nests;
  request.source = source;
  request.target = target;
  for (const LoopNest& nest : nests) request.bytes += nest.bytes();
  request.tag = tag;
  return request;
}

Status carry(Channel& channel, const Request& request) {
  if (Status submitted = channel.submit(request); !submitted) return submitted;
  return collect(channel, 1).front();
}

Bytes random_bytes(std::size_t count, std::mt19937_64& random) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; i += 8) {
    const std::uint64_t word = random();
    std::memcpy(&bytes[i], &word, std::min<std::size_t>(8, count - i));
  }
  return bytes;
}

Bytes content(const std::string& path) {
  Bytes bytes(std::filesystem::file_size(path));
  const int descriptor = ::open(path.c_str(), O_RDONLY);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got =
        ::pread(descriptor, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  ::close(descriptor);
  return bytes;
}

void put_content(const std::string& path, const Bytes& bytes) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  REQUIRE(descriptor >= 0);
  REQUIRE(::write(descriptor, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  ::close(descriptor);
}

std::shared_ptr<File> open_file(const std::string& path, FileMode mode, std::int64_t bytes_min = 0,
                                bool direct = true) {
  auto file = File::open(path, {.mode = mode, .bytes_min = bytes_min, .direct = direct});
  if (!file) test::record_failure(path.c_str(), 0, file.error().text());
  REQUIRE(file.ok());
  return file.value();
}

/// One side of random nests: a dense or gappy array in a random order of dimensions.
struct Side {
  std::int64_t bytes = 0;  ///< bytes that the strides span, members included
  std::int64_t base = 0;
  std::vector<std::int64_t> strides;
  std::vector<std::int64_t> members;  ///< offset of each member
};

Side random_side(const std::vector<std::int64_t>& extents, const std::vector<std::int64_t>& widths,
                 std::mt19937_64& random) {
  const auto below = [&](std::uint64_t bound) {
    return static_cast<std::int64_t>(random() % bound);
  };
  Side side;
  side.strides.resize(extents.size());
  std::vector<std::size_t> order(extents.size() + 1);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  if (random() % 2 == 0) {  // records: the members come first
    std::iter_swap(order.begin(), std::find(order.begin(), order.end(), extents.size()));
  }
  // The distance between members is the widest member, so that any order of dimensions is
  // injective.
  const bool packed = order.front() == extents.size();
  std::int64_t widest = *std::max_element(widths.begin(), widths.end());
  std::int64_t reach = packed ? 0 : widest;
  std::int64_t points_left = std::ssize(widths);
  for (const std::int64_t extent : extents) points_left *= extent;
  for (const std::size_t dimension : order) {
    const std::int64_t gaps[] = {0, 0, 0, 1, 4, 600, 5000, 20000};
    std::int64_t gap = gaps[below(8)];
    if ((reach + gap) * points_left > 2000000) gap = 0;
    points_left /= dimension == extents.size() ? std::ssize(widths) : extents[dimension];
    if (dimension == extents.size()) {
      std::int64_t at = 0;
      const std::int64_t step = reach + gap;
      for (const std::int64_t width : widths) {
        side.members.push_back(at);
        at += packed ? width + (random() % 4 == 0 ? gap % 64 : 0) : step;
      }
      reach = packed ? at : side.members.back() + reach;
    } else {
      side.strides[dimension] = reach + gap;
      reach += (reach + gap) * (extents[dimension] - 1);
    }
  }
  side.bytes = reach;
  for (std::size_t k = 0; k < extents.size(); ++k) {
    if (random() % 5 != 0) continue;
    side.base += side.strides[k] * (extents[k] - 1);
    side.strides[k] = -side.strides[k];
  }
  return side;
}

struct Case {
  std::vector<LoopNest> nests;
  std::int64_t file_bytes = 0;
  std::int64_t memory_bytes = 0;
};

Case random_case(file::Direction direction, std::mt19937_64& random) {
  const std::int64_t widths_known[] = {1, 2, 4, 4, 8, 12, 16, 100, 3000, 70000};
  std::vector<std::int64_t> extents(random() % 4);
  std::vector<std::int64_t> widths(random() % 3 == 0 ? 1 + random() % 5 : 1);
  for (auto& width : widths) width = widths_known[random() % 10];
  const std::int64_t total = std::accumulate(widths.begin(), widths.end(), std::int64_t{0});
  std::int64_t budget = 300000 / total + 2;
  for (auto& extent : extents) {
    extent = 1 + static_cast<std::int64_t>(
                     random() % static_cast<std::uint64_t>(std::min<std::int64_t>(budget, 300)));
    budget = std::max<std::int64_t>(1, budget / extent);
  }
  const Side file = random_side(extents, widths, random);
  const Side memory = random_side(extents, widths, random);
  const bool reading = direction == file::Direction::read;
  Case made{{}, file.bytes, memory.bytes};
  for (std::size_t i = 0; i < widths.size(); ++i) {
    LoopNest nest;
    nest.element_bytes = widths[i];
    const std::int64_t file_offset = file.base + file.members[i];
    const std::int64_t memory_offset = memory.base + memory.members[i];
    nest.source_offset = reading ? file_offset : memory_offset;
    nest.target_offset = reading ? memory_offset : file_offset;
    nest.rank = static_cast<int>(extents.size());
    for (std::size_t k = 0; k < extents.size(); ++k) {
      nest.loops[k] = {extents[k], reading ? file.strides[k] : memory.strides[k],
                       reading ? memory.strides[k] : file.strides[k]};
    }
    made.nests.push_back(nest);
  }
  return made;
}

void check_random_case(FileChannel& channel, const std::string& path, file::Direction direction,
                       std::mt19937_64& random) {
  const Case made = random_case(direction, random);
  const std::size_t before = random() % 3 == 0 ? 0 : random() % 9000;
  const std::size_t after = random() % 2 == 0 ? 0 : random() % 9000;
  const auto file_bytes = static_cast<std::size_t>(made.file_bytes);
  Bytes image = random_bytes(before + file_bytes + after, random);
  Bytes memory = random_bytes(static_cast<std::size_t>(made.memory_bytes) + 64, random);
  put_content(path, image);
  std::byte* base = memory.data() + random() % 64;
  const bool reading = direction == file::Direction::read;
  auto file = open_file(path, reading ? FileMode::read : FileMode::write, 0, random() % 4 != 0);
  if (random() % 2 == 0) {
    (void)::fsync(file->cached_descriptor());
    ::posix_fadvise(file->cached_descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  }
  const Place disk{as_address(static_cast<std::int64_t>(before)), file.get()};
  const Place plain{base, nullptr};
  Bytes expected = reading ? memory : image;
  if (reading) {
    slow_copy(made.nests, image.data() + before, expected.data() + (base - memory.data()), false);
  } else {
    slow_copy(made.nests, base, expected.data() + before, false);
  }
  const Status status =
      carry(channel, request_of(made.nests, reading ? disk : plain, reading ? plain : disk));
  if (!status) test::record_failure(path.c_str(), 0, status.error().text());
  EXPECT((reading ? memory : content(path)) == expected);
}

TEST(file_random_nests) {
  for (const std::string& parent : parents()) {
    Folder folder(parent);
    REQUIRE(folder.made());
    for (int seed = 0; seed < 300; ++seed) {
      std::mt19937_64 random(static_cast<std::uint64_t>(seed));
      FileChannel channel(options_of(1 + seed % 4, seed % 3 == 0 ? 1 << 20 : 1 << 16));
      const auto direction = seed % 2 == 0 ? file::Direction::read : file::Direction::write;
      check_random_case(channel, folder.file("array"), direction, random);
    }
  }
}

LoopNest rows(std::int64_t element_bytes, std::int64_t count, std::int64_t source_stride,
              std::int64_t target_stride) {
  LoopNest nest;
  nest.element_bytes = element_bytes;
  nest.rank = 1;
  nest.loops[0] = {count, source_stride, target_stride};
  return nest;
}

LoopNest run_of(std::int64_t bytes, std::int64_t source_offset, std::int64_t target_offset) {
  LoopNest nest;
  nest.element_bytes = bytes;
  nest.source_offset = source_offset;
  nest.target_offset = target_offset;
  return nest;
}

/// Writes tiles of a row-major array concurrently, and reads them back; their rows share sectors
/// with neighbouring tiles.
void check_tiles(const std::string& path, std::int64_t columns, std::int64_t tile_columns,
                 std::int64_t row_count) {
  std::mt19937_64 random(1);
  const std::int64_t offset = 137;
  const auto bytes = static_cast<std::size_t>(columns * row_count);
  Bytes memory = random_bytes(bytes, random);
  Bytes expected = random_bytes(bytes + 500, random);
  put_content(path, expected);
  std::copy(memory.begin(), memory.end(), expected.begin() + offset);
  FileChannel channel(options_of(4, 1 << 18));
  auto file = open_file(path, FileMode::write);
  std::vector<LoopNest> tiles;
  for (std::int64_t column = 0; column < columns; column += tile_columns) {
    LoopNest nest = rows(std::min(tile_columns, columns - column), row_count, columns, columns);
    nest.source_offset = nest.target_offset = column;
    tiles.push_back(nest);
  }
  std::shuffle(tiles.begin(), tiles.end(), random);
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    REQUIRE(channel
                .submit(request_of({&tiles[i], 1}, {memory.data(), nullptr},
                                   {as_address(offset), file.get()}, i))
                .ok());
  }
  for (const Status& status : collect(channel, tiles.size())) EXPECT(status.ok());
  EXPECT(file->flush().ok());
  EXPECT(content(path) == expected);
  Bytes back(bytes);
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    REQUIRE(channel
                .submit(request_of({&tiles[i], 1}, {as_address(offset), file.get()},
                                   {back.data(), nullptr}, i))
                .ok());
  }
  for (const Status& status : collect(channel, tiles.size())) EXPECT(status.ok());
  EXPECT(back == memory);
}

TEST(file_requests_that_share_sectors) {
  for (const std::string& parent : parents()) {
    Folder folder(parent);
    REQUIRE(folder.made());
    check_tiles(folder.file("a"), 1000, 100, 500);      // stores into mapped pages
    check_tiles(folder.file("b"), 50001, 5001, 40);     // small writes
    check_tiles(folder.file("c"), 1000001, 200001, 6);  // direct middles, cached heads and tails
    check_tiles(folder.file("d"), 300, 1, 3000);        // single bytes
  }
}

TEST(file_fields_of_records_in_turn_and_jointly) {
  Folder folder(parents().front());
  std::mt19937_64 random(2);
  const std::int64_t count = 40000;
  const std::int64_t widths[] = {4, 8, 2};
  const std::int64_t record_bytes = 14;
  Bytes memory = random_bytes(static_cast<std::size_t>(record_bytes * count), random);
  std::vector<LoopNest> fields;
  std::int64_t file_offset = 0;
  for (const std::int64_t width : widths) {
    LoopNest nest = rows(width, count, width, record_bytes);
    nest.source_offset = file_offset * count;
    nest.target_offset = file_offset;
    fields.push_back(nest);
    file_offset += width;
  }
  Bytes expected(memory.size());
  slow_copy(fields, memory.data(), expected.data(), false);
  FileChannel channel(options_of(3, 1 << 16));
  for (const bool jointly : {true, false}) {
    const std::string path = folder.file(jointly ? "jointly" : "in turn");
    auto file = open_file(path, FileMode::write, record_bytes * count);
    const std::size_t step = jointly ? fields.size() : 1;
    std::size_t requests = 0;
    for (std::size_t i = 0; i < fields.size(); i += step) {
      const std::span<const LoopNest> nests(&fields[i], step);
      REQUIRE(channel
                  .submit(request_of(nests, {memory.data(), nullptr}, {nullptr, file.get()},
                                     requests++))
                  .ok());
    }
    for (const Status& status : collect(channel, requests)) EXPECT(status.ok());
    EXPECT(content(path) == expected);
  }
}

TEST(file_beyond_four_gigabytes_and_more_than_two_at_once) {
  Folder folder(parents().front());
  const std::string path = folder.file("sparse");
  const std::int64_t far = (std::int64_t{5} << 30) + 123;
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT, 0666);
  REQUIRE(::ftruncate(descriptor, far + (std::int64_t{5} << 29)) == 0);
  ::close(descriptor);
  FileChannel channel(options_of(4, 1 << 20));
  auto file = open_file(path, FileMode::read_write);
  std::mt19937_64 random(3);
  Bytes memory = random_bytes(300001, random);
  const LoopNest one = run_of(300001, 0, 0);
  EXPECT(
      carry(channel, request_of({&one, 1}, {memory.data(), nullptr}, {as_address(far), file.get()}))
          .ok());
  Bytes back(memory.size());
  EXPECT(
      carry(channel, request_of({&one, 1}, {as_address(far), file.get()}, {back.data(), nullptr}))
          .ok());
  EXPECT(back == memory);
  // One byte in each 64 KiB, over 2.5 GiB.
  const std::int64_t stride = 1 << 16;
  const LoopNest column = rows(1, (std::int64_t{5} << 29) / stride, stride, 1);
  Bytes bytes(static_cast<std::size_t>(column.loops[0].extent), std::byte{7});
  EXPECT(carry(channel,
               request_of({&column, 1}, {as_address(far), file.get()}, {bytes.data(), nullptr}))
             .ok());
  EXPECT(bytes.front() == memory.front() && bytes[1] == memory[65536] &&
         bytes.back() == std::byte{});
}

TEST(file_many_requests_and_empty_ones) {
  Folder folder(parents().front());
  std::mt19937_64 random(4);
  Bytes memory = random_bytes(200 * 1000, random);
  auto file = open_file(folder.file("array"), FileMode::write, 200 * 1000);
  FileChannel channel(options_of(4, 1 << 16));
  EXPECT(!channel.capabilities().synchronous);
  EXPECT_EQ(channel.capabilities().width, 1);
  std::vector<LoopNest> nests;
  for (std::int64_t i = 0; i < 200; ++i) nests.push_back(run_of(1000, i * 1000, i * 1000));
  nests.push_back(rows(4, 0, 8, 8));
  for (std::size_t i = 0; i < nests.size(); ++i) {
    REQUIRE(
        channel
            .submit(request_of({&nests[i], 1}, {memory.data(), nullptr}, {nullptr, file.get()}, i))
            .ok());
  }
  REQUIRE(
      channel.submit(request_of({}, {memory.data(), nullptr}, {nullptr, file.get()}, 201)).ok());
  for (const Status& status : collect(channel, 202)) EXPECT(status.ok());
  EXPECT(content(folder.file("array")) == memory);
  // All nests as one request: the runs are assembled.
  std::reverse(nests.begin(), nests.end());
  Bytes back(memory.size());
  EXPECT(carry(channel, request_of(nests, {nullptr, file.get()}, {back.data(), nullptr})).ok());
  EXPECT(back == memory);
}

bool says(const Error& error, const std::string& text) {
  if (error.text().find(text) != std::string::npos) return true;
  test::record_failure("message", 0, error.text() + " (expected: " + text + ")");
  return false;
}

TEST(file_open_errors_say_what_to_do) {
  Folder folder(parents().front());
  auto missing = File::open(folder.file("none"), {});
  REQUIRE(!missing.ok());
  EXPECT(missing.error().code == ErrorCode::not_found);
  EXPECT(says(missing.error(), "check the path"));
  auto no_folder = File::open(folder.file("none/file"), {.mode = FileMode::write});
  REQUIRE(!no_folder.ok());
  EXPECT(no_folder.error().code == ErrorCode::not_found);
  auto directory = File::open(folder.file(""), {.mode = FileMode::write});
  REQUIRE(!directory.ok());
  EXPECT(directory.error().code == ErrorCode::invalid_argument);
  EXPECT(says(directory.error(), "name a file in it"));
  auto device = File::open("/dev/null", {});
  REQUIRE(!device.ok());
  EXPECT(says(device.error(), "neither a regular file nor a block device"));
  put_content(folder.file("short"), Bytes(100));
  auto short_file = File::open(folder.file("short"), {.bytes_min = 101});
  REQUIRE(!short_file.ok());
  EXPECT(short_file.error().code == ErrorCode::out_of_range);
  EXPECT(says(short_file.error(), "has 100 bytes and the array needs 101"));
}

TEST(file_open_without_permission) {
  Folder folder(parents().front());
  put_content(folder.file("array"), Bytes(100));
  ::chmod(folder.file("array").c_str(), 0);
  const uid_t user = ::geteuid();
  if (user == 0 && ::seteuid(65534) != 0) return;  // root is never refused
  auto refused = File::open(folder.file("array"), {});
  if (user == 0) REQUIRE(::seteuid(user) == 0);
  REQUIRE(!refused.ok());
  EXPECT(refused.error().code == ErrorCode::permission);
  EXPECT(says(refused.error(), "check the permissions"));
}

TEST(file_replaces_what_is_there_when_it_is_whole) {
  Folder folder(parents().front());
  const std::string path = folder.file("array");
  put_content(path, Bytes(10));
  FileOptions options{.mode = FileMode::replace, .bytes_min = 5000};
  options.head = "head";
  auto opened = File::open(path, options);
  REQUIRE(opened.ok());
  const std::shared_ptr<File> file = *opened;
  EXPECT_EQ(content(path).size(), 10u);
  auto failed = file->note_transfer("a copy", 100);
  EXPECT(!file->wait_for_transfers(std::chrono::milliseconds(1)));
  failed({});
  EXPECT(file->flush().ok());
  EXPECT_EQ(content(path).size(), 5000u);
  EXPECT(std::memcmp(content(path).data(), "head", 4) == 0);
}

TEST(file_gets_no_name_after_a_failed_transfer) {
  Folder folder(parents().front());
  const std::string path = folder.file("array");
  for (const bool closes : {false, true}) {
    auto opened = File::open(path, {.mode = FileMode::replace, .bytes_min = 50});
    REQUIRE(opened.ok());
    (*opened)->note_transfer("host0 > file0", 100)(Error{ErrorCode::cancelled, "was cancelled"});
    const Status ended = closes ? (*opened)->close() : (*opened)->flush();
    REQUIRE(!ended.ok());
    EXPECT(says(ended.error(), "copy 1 into it (100 bytes, host0 > file0) ended with: was canc"));
    opened->reset();
    EXPECT(::access(path.c_str(), F_OK) != 0);
  }
}

TEST(file_keeps_its_permissions_when_it_is_replaced) {
  Folder folder(parents().front());
  const std::string path = folder.file("array");
  put_content(path, Bytes(10));
  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  auto opened = File::open(path, {.mode = FileMode::replace, .bytes_min = 50});
  REQUIRE(opened.ok());
  EXPECT((*opened)->flush().ok());
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  EXPECT_EQ(info.st_mode & 0777u, 0640u);
}

TEST(file_flush_waits_for_what_is_copied_into_it) {
  Folder folder(parents().front());
  const std::string path = folder.file("array");
  auto opened = File::open(path, {.mode = FileMode::replace, .bytes_min = 50});
  REQUIRE(opened.ok());
  auto ended = (*opened)->note_transfer("a copy", 50);
  std::atomic<bool> flushed{false};
  std::thread flushing([&] {
    EXPECT((*opened)->flush().ok());
    flushed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT(!flushed.load());
  EXPECT(::access(path.c_str(), F_OK) != 0);
  ended({});
  flushing.join();
  EXPECT(::access(path.c_str(), F_OK) == 0);
}

TEST(file_that_is_let_go_takes_its_name_if_all_was_written) {
  Folder folder(parents().front());
  const std::string path = folder.file("array");
  for (const std::int64_t written : {0, 50}) {
    FileOptions options{.mode = FileMode::replace, .bytes_min = 50};
    options.payload_bytes = 50;
    auto opened = File::open(path, options);
    REQUIRE(opened.ok());
    if (written > 0) {
      const Bytes bytes(50, std::byte{1});
      EXPECT(::pwrite((*opened)->cached_descriptor(), bytes.data(), 50, 0) == 50);
      (*opened)->note_transfer("a copy", written)({});
      EXPECT((*opened)->missing().empty());
    }
    opened->reset();
    EXPECT_EQ(::access(path.c_str(), F_OK) == 0, written == 50);
  }
}

TEST(file_says_what_was_not_written) {
  Folder folder(parents().front());
  constexpr std::int64_t bytes = 1 << 20;
  FileOptions options{.mode = FileMode::replace, .bytes_min = bytes};
  options.payload_bytes = bytes;
  auto file = File::open(folder.file("array"), options);
  REQUIRE(file.ok());
  EXPECT((*file)->missing().find("0 of its 1048576 bytes") != std::string::npos);
  for (int k = 0; k < 2; ++k) {  // twice the same half
    const Bytes half(bytes / 2, std::byte{1});
    EXPECT(::pwrite((*file)->cached_descriptor(), half.data(), half.size(), 0) == bytes / 2);
    (*file)->note_transfer("a copy", bytes / 2)({});
  }
  EXPECT((*file)->flush().ok());
  EXPECT((*file)->missing().find("nothing was copied to byte") != std::string::npos);
}

TEST(file_to_be_changed_must_exist) {
  Folder folder(parents().front());
  auto missing = File::open(folder.file("none"), {.mode = FileMode::update, .bytes_min = 50});
  REQUIRE(!missing.ok());
  EXPECT(missing.error().code == ErrorCode::not_found);
  EXPECT(::access(folder.file("none").c_str(), F_OK) != 0);
}

TEST(file_keeps_what_is_there_and_extends) {
  Folder folder(parents().front());
  std::mt19937_64 random(5);
  const Bytes bytes = random_bytes(1000, random);
  put_content(folder.file("array"), bytes);
  auto file = open_file(folder.file("array"), FileMode::write, 5000);
  EXPECT_EQ(file->size(), 5000);
  EXPECT(file->writable());
  EXPECT_EQ(file->path(), folder.file("array"));
  const Bytes now = content(folder.file("array"));
  EXPECT(std::equal(bytes.begin(), bytes.end(), now.begin()));
  EXPECT(file->flush().ok());
  auto same = open_file(folder.file("array"), FileMode::write, 10);
  EXPECT_EQ(same->size(), 5000);
}

TEST(file_full_disk_is_an_error_at_open) {
  for (const std::string& parent : parents()) {
    Folder folder(parent);
    auto file = File::open(folder.file("huge"),
                           {.mode = FileMode::write, .bytes_min = std::int64_t{1} << 50});
    REQUIRE(!file.ok());
    EXPECT(file.error().code == ErrorCode::io);
    EXPECT(says(file.error(), "free some space"));
    EXPECT(!std::filesystem::exists(folder.file("huge")));
  }
}

/// Limits the size of the files of this process until the limit is destroyed.
class SizeLimit {
 public:
  explicit SizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST(file_write_error_is_the_request_s_own) {
  Folder folder(parents().front());
  auto file = open_file(folder.file("array"), FileMode::write, 1000);
  FileChannel channel(options_of(2, 1 << 16));
  Bytes memory(3 << 20, std::byte{1});
  const LoopNest small = run_of(1000, 0, 0);
  const LoopNest large = run_of(3 << 20, 0, 0);
  std::vector<Status> statuses;
  {
    SizeLimit limit(1 << 20);
    auto refused =
        File::open(folder.file("other"), {.mode = FileMode::write, .bytes_min = 2 << 20});
    REQUIRE(!refused.ok());
    EXPECT(says(refused.error(), "ulimit -f"));
    const Place plain{memory.data(), nullptr};
    REQUIRE(channel.submit(request_of({&small, 1}, plain, {nullptr, file.get()}, 0)).ok());
    REQUIRE(channel.submit(request_of({&large, 1}, plain, {nullptr, file.get()}, 1)).ok());
    REQUIRE(channel.submit(request_of({&small, 1}, plain, {nullptr, file.get()}, 2)).ok());
    statuses = collect(channel, 3);
  }
  EXPECT(statuses[0].ok());
  EXPECT(statuses[2].ok());
  REQUIRE(!statuses[1].ok());
  EXPECT(statuses[1].error().code == ErrorCode::io);
  EXPECT(says(statuses[1].error(), "the file is incomplete"));
  EXPECT(says(statuses[1].error(), "array"));
  EXPECT(file->incomplete());
  const Status flushed = file->flush();
  REQUIRE(!flushed.ok());
  EXPECT(says(flushed.error(), "incomplete"));
}

TEST(file_read_only_target_and_reads_before_the_start) {
  Folder folder(parents().front());
  put_content(folder.file("array"), Bytes(100));
  auto file = open_file(folder.file("array"), FileMode::read);
  EXPECT(!file->writable());
  FileChannel channel(options_of(1, 1 << 16));
  Bytes memory(100);
  LoopNest nest = run_of(100, 0, 0);
  const Status refused =
      channel.submit(request_of({&nest, 1}, {memory.data(), nullptr}, {nullptr, file.get()}));
  REQUIRE(!refused.ok());
  EXPECT(refused.error().code == ErrorCode::permission);
  EXPECT(says(refused.error(), "open it for writing"));
  nest.source_offset = -1;
  const Status before =
      channel.submit(request_of({&nest, 1}, {nullptr, file.get()}, {memory.data(), nullptr}));
  REQUIRE(!before.ok());
  EXPECT(before.error().code == ErrorCode::out_of_range);
  EXPECT(says(before.error(), "check its offset"));
}

TEST(file_cut_short_after_it_was_opened) {
  for (const std::string& parent : parents()) {
    Folder folder(parent);
    put_content(folder.file("array"), Bytes(1 << 20));
    auto file = open_file(folder.file("array"), FileMode::read, 1 << 20);
    REQUIRE(::truncate(folder.file("array").c_str(), 500000) == 0);
    FileChannel channel(options_of(2, 1 << 18));
    Bytes memory(1 << 20);
    const LoopNest contiguous = run_of(1 << 20, 0, 0);
    const LoopNest strided = rows(4, 1 << 17, 8, 4);
    for (const LoopNest& nest : {contiguous, strided}) {
      const Status status =
          carry(channel, request_of({&nest, 1}, {nullptr, file.get()}, {memory.data(), nullptr}));
      REQUIRE(!status.ok());
      EXPECT(status.error().code == ErrorCode::io);
      EXPECT(says(status.error(), "has 500000 bytes and the array needs"));
    }
  }
}

/// Another process may cut a file at any time: requests fail then, or they are right.
TEST(file_that_is_cut_and_filled_meanwhile) {
  Folder folder(parents().front());
  constexpr std::int64_t bytes = 1 << 20;
  const Bytes ones(bytes, std::byte{1});
  put_content(folder.file("array"), ones);
  auto file = open_file(folder.file("array"), FileMode::read_write, bytes);
  FileChannel channel(options_of(2, 1 << 18));
  std::atomic<bool> stop{false};
  std::thread cutting([&] {
    while (!stop.load()) {
      (void)::ftruncate(file->cached_descriptor(), 4096);
      (void)::pwrite(file->cached_descriptor(), ones.data(), ones.size(), 0);
    }
  });
  const LoopNest column = rows(4, bytes / 512, 512, 4);
  const LoopNest back = rows(4, bytes / 512, 4, 512);
  int failed = 0;
  for (int k = 0; k < 200; ++k) {
    Bytes memory(static_cast<std::size_t>(bytes / 128), std::byte{1});
    const Place plain{memory.data(), nullptr};
    const Place disk{nullptr, file.get()};
    const Status status = k % 2 == 0 ? carry(channel, request_of({&column, 1}, disk, plain))
                                     : carry(channel, request_of({&back, 1}, plain, disk));
    if (!status) {
      ++failed;
      EXPECT(says(status.error(), "the array needs those up to"));
    }
  }
  stop = true;
  cutting.join();
  std::printf("%d of 200 requests failed\n", failed);
}

TEST(file_idle_ends_when_a_request_does) {
  Folder folder(parents().front());
  put_content(folder.file("array"), Bytes(1000));
  auto file = open_file(folder.file("array"), FileMode::read);
  FileChannel channel(options_of(1, 1 << 16));
  Bytes memory(1000);
  const LoopNest nest = run_of(1000, 0, 0);
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE(
      channel.submit(request_of({&nest, 1}, {nullptr, file.get()}, {memory.data(), nullptr})).ok());
  std::array<Finished, 1> finished;
  while (channel.poll(finished) == 0) channel.idle(test::patience);
  EXPECT(std::chrono::steady_clock::now() - begin < test::soon);
}

}  // namespace
}  // namespace tranship
