#include "os/mapped_files.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "os/descriptor.hpp"
#include "os/fork.hpp"

namespace tranship {
namespace {

using Address = std::uint64_t;

Address address_of(const std::byte* pointer) { return reinterpret_cast<Address>(pointer); }

/// One line of /proc/self/maps.
struct Area {
  Address begin = 0;
  Address end = 0;
  std::int64_t offset = 0;
  FileNumber file{};
  bool shared = false;
  std::string name{};
};

/// struct procmap_query of linux/fs.h, which headers before Linux 6.11 lack.
struct AreaQuery {
  std::uint64_t size = sizeof(AreaQuery);
  std::uint64_t flags = 0;
  std::uint64_t address = 0;
  std::uint64_t area_begin = 0;
  std::uint64_t area_end = 0;
  std::uint64_t area_flags = 0;
  std::uint64_t page_bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t inode = 0;
  std::uint32_t device_major = 0;
  std::uint32_t device_minor = 0;
  std::uint32_t name_bytes = 0;
  std::uint32_t build_id_bytes = 0;
  std::uint64_t name_address = 0;
  std::uint64_t build_id_address = 0;
};

constexpr std::uint64_t covering_or_next = 0x10;
constexpr std::uint64_t is_shared = 0x08;

/// Asks for the first area that ends after `address`. maps: /proc/self/maps. Returns whether the
/// kernel answered; `area.end` is 0 if there is none.
bool ask(int maps, Address address, Area& area) {
  std::array<char, 256> name{};
  AreaQuery query;
  query.flags = covering_or_next;
  query.address = address;
  query.name_address = reinterpret_cast<std::uint64_t>(name.data());
  query.name_bytes = name.size();
  constexpr unsigned long request = _IOWR(0x66, 17, AreaQuery);
  int answer = ioctl(maps, request, &query);
  if (answer != 0 && errno == ENAMETOOLONG) {  // of a device, or of a pseudo file: never so long
    query.name_address = query.name_bytes = 0;
    answer = ioctl(maps, request, &query);
  }
  area = {};
  if (answer != 0) return errno == ENOENT;
  area.begin = query.area_begin;
  area.end = query.area_end;
  area.offset = static_cast<std::int64_t>(query.offset);
  area.file = {makedev(query.device_major, query.device_minor), query.inode};
  area.shared = (query.area_flags & is_shared) != 0;
  if (query.name_bytes > 0) area.name = name.data();
  return true;
}

/// Whether /proc/self/pagemap says that each page of the range is in use and is no file's. A
/// kernel of before PROCMAP_QUERY answers this in a thousandth of the time of its list of areas.
bool has_private_pages(Address begin, Address end) {
  constexpr std::uint64_t of_file = std::uint64_t{1} << 61;
  constexpr std::uint64_t in_use = std::uint64_t{3} << 62;
  constexpr Address pages_most = 16384;  // more pages take longer than the list
  const auto page = static_cast<Address>(sysconf(_SC_PAGESIZE));
  if ((end - begin) / page > pages_most) return false;
  const FileDescriptor pages(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  if (!pages) return false;
  std::array<std::uint64_t, 512> entries{};
  for (Address at = begin / page; at <= (end - 1) / page;) {
    const auto count = std::min<Address>(entries.size(), (end - 1) / page + 1 - at);
    const ssize_t wanted = static_cast<ssize_t>(count * sizeof(std::uint64_t));
    const auto place = static_cast<off_t>(at * sizeof(std::uint64_t));
    if (pread(pages.get(), entries.data(), static_cast<std::size_t>(wanted), place) != wanted)
      return false;
    for (std::size_t k = 0; k < count; ++k) {
      if ((entries[k] & of_file) != 0 || (entries[k] & in_use) == 0) return false;
    }
    at += count;
  }
  return true;
}

/// Reads one line of /proc/self/maps.
bool read_area(const std::string& line, Area& area) {
  std::uint64_t offset = 0;
  unsigned major = 0;
  unsigned minor = 0;
  std::uint64_t inode = 0;
  std::array<char, 5> rights{};
  int used = 0;
  const int values =
      std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
                  &area.begin, &area.end, rights.data(), &offset, &major, &minor, &inode, &used);
  if (values < 7) return false;
  area.offset = static_cast<std::int64_t>(offset);
  area.file = {makedev(major, minor), inode};
  area.shared = rights[3] == 's';
  area.name = line.substr(std::min(line.size(), static_cast<std::size_t>(used)));
  return true;
}

/// Whether equal numbers and offsets mean equal bytes: not for devices, which choose their offsets
/// as they like.
bool is_data(const Area& area) {
  if (area.file.inode == 0) return false;
  for (const char* pseudo : {"anon_inode:", "/dmabuf", "socket:", "["}) {
    if (area.name.starts_with(pseudo)) return false;
  }
  if (!area.name.starts_with("/dev/")) return true;
  for (const char* memory : {"/dev/shm/", "/dev/zero", "/dev/hugepages/"}) {
    if (area.name.starts_with(memory)) return true;
  }
  struct stat known {};
  return stat(area.name.c_str(), &known) == 0 && S_ISREG(known.st_mode);
}

void add_part(const Area& area, Address begin, Address end, std::vector<MappedPart>& parts) {
  if (area.end <= begin || area.begin >= end || !is_data(area)) return;
  const Address first = std::max(begin, area.begin);
  const Address last = std::min(end, area.end);
  const std::int64_t offset = area.offset + static_cast<std::int64_t>(first - area.begin);
  if (!parts.empty()) {  // neighbours differ in their rights alone where they continue each other
    MappedPart& before = parts.back();
    const bool continues = before.file == area.file && before.shared == area.shared &&
                           address_of(before.begin + before.bytes) == first &&
                           before.offset + before.bytes == offset;
    if (continues) {
      before.bytes += static_cast<std::int64_t>(last - first);
      return;
    }
  }
  parts.push_back({reinterpret_cast<const std::byte*>(first),
                   static_cast<std::int64_t>(last - first), area.file, offset, area.shared});
}

/// The descriptor that KeptMaps share, with the generation of forks that opened it: a child's list
/// is another one. A number that was closed meanwhile, and given to another file, answers no query.
std::atomic<std::uint64_t> kept{0};  // generation << 32 | descriptor + 1; 0: none
std::atomic<int> holders{0};

/// Returns the descriptor; -1 if this process has none.
int kept_descriptor(std::uint64_t value) {
  return value >> 32 == (fork_generation() & 0xffffffff) ? static_cast<int>(value & 0xffffffff) - 1
                                                         : -1;
}

void close_kept(std::uint64_t value) {
  const int descriptor = kept_descriptor(value);
  if (descriptor < 0) return;
  keep_in_children(descriptor);
  (void)close(descriptor);
}

/// Returns whether the kernel answers queries.
bool ask_for_parts(Address begin, Address end, std::vector<MappedPart>& parts) {
  int maps = kept_descriptor(kept.load(std::memory_order_acquire));
  FileDescriptor opened;
  if (maps < 0) {
    opened = FileDescriptor(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
    maps = opened.get();
  }
  Area area;
  for (Address at = begin; at < end; at = area.end) {
    if (!ask(maps, at, area)) return false;
    if (area.end == 0) break;
    add_part(area, begin, end, parts);
  }
  return true;
}

/// Returns where the heap begins; 0 if that is not known.
Address find_heap() {
  std::ifstream stat("/proc/self/stat");
  std::string line;
  std::getline(stat, line);
  const auto end = line.rfind(')');
  if (end == std::string::npos) return 0;
  std::istringstream fields(line.substr(end + 1));
  std::string skipped;
  for (int k = 3; k < 47; ++k) fields >> skipped;
  Address begin = 0;
  fields >> begin;  // field 47: start_brk
  return begin;
}

}  // namespace

bool in_heap(const std::byte* begin, std::int64_t bytes) {
  static const Address heap_begin = find_heap();
  const Address first = address_of(begin);
  if (heap_begin == 0 || first < heap_begin) return false;
  return first + static_cast<Address>(bytes) <= reinterpret_cast<Address>(sbrk(0));
}

std::vector<MappedPart> mapped_parts(const std::byte* begin, std::int64_t bytes) {
  std::vector<MappedPart> parts;
  if (bytes <= 0) return parts;
  const Address first = address_of(begin);
  const Address end = first + static_cast<Address>(bytes);
  if (ask_for_parts(first, end, parts)) return parts;
  parts.clear();
  if (has_private_pages(first, end)) return parts;
  std::ifstream maps("/proc/self/maps");
  Area area;
  for (std::string line; std::getline(maps, line);) {
    if (!read_area(line, area)) continue;
    if (area.begin >= end) break;
    add_part(area, first, end, parts);
  }
  return parts;
}

KeptMaps::KeptMaps() {
  holders.fetch_add(1);
  if (kept_descriptor(kept.load()) >= 0) return;
  const int opened = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (opened < 0) return;
  close_in_children(opened);
  const std::uint64_t generation = fork_generation() & 0xffffffff;
  close_kept(kept.exchange(generation << 32 | static_cast<std::uint64_t>(opened + 1)));
}

KeptMaps::~KeptMaps() {
  if (holders.fetch_sub(1) == 1) close_kept(kept.exchange(0));
}

FileNumber number_of_file(int descriptor) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const FileDescriptor readable(
      open(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), O_RDONLY | O_CLOEXEC));
  void* shown =
      readable ? mmap(nullptr, page, PROT_READ, MAP_SHARED, readable.get(), 0) : MAP_FAILED;
  if (shown != MAP_FAILED) {
    const auto parts =
        mapped_parts(static_cast<const std::byte*>(shown), static_cast<std::int64_t>(page));
    munmap(shown, page);
    if (!parts.empty()) return parts[0].file;
  }
  struct stat known {};
  if (fstat(descriptor, &known) != 0) return {};
  return {known.st_dev, known.st_ino};
}

}  // namespace tranship
