#include "os/memory_name.hpp"

#include "os/fork.hpp"
#include "os/process.hpp"

namespace tranship {
namespace {

constexpr const char* file_prefix = "file ";

/// What this process calls itself and its machine.
struct Spaces {
  std::uint64_t generation = 0;  ///< of forks
  std::string own;
  std::string machine;
};

const Spaces& spaces() {
  thread_local Spaces known;
  if (known.own.empty() || known.generation != fork_generation()) {
    const Identity self = own_identity();
    known.generation = fork_generation();
    known.machine = self.boot.empty() ? self.host : self.boot;
    known.own = "process " + known.machine + " " + self.pid_namespace + " " +
                std::to_string(self.pid) + " " + std::to_string(self.start_ticks);
  }
  return known;
}

}  // namespace

const std::string& own_space() { return spaces().own; }

std::string file_space(const FileNumber& file) {
  return file_prefix + spaces().machine + " " + std::to_string(file.device) + " " +
         std::to_string(file.inode);
}

bool is_file_space(const std::string& space) { return space.starts_with(file_prefix); }

MemoryName name_of_memory(const std::byte* begin, std::int64_t bytes) {
  const auto parts = mapped_parts(begin, bytes);
  if (parts.size() == 1 && parts[0].bytes == bytes && parts[0].shared) {
    return {file_space(parts[0].file), parts[0].offset};
  }
  return {own_space(), reinterpret_cast<std::intptr_t>(begin)};
}

}  // namespace tranship
