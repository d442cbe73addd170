// What a forked child does not share with its parent.
#include "os/fork.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/shared_memory.hpp"
#include "support/test.hpp"

using namespace tranship;

namespace {

/// Returns the signal that ends a child which reads the address after it has taken `taken` memories
/// of `bytes`; 0 if none does.
int signal_of_reader(const std::byte* address, int taken, std::size_t bytes) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    for (int k = 0; k < taken; ++k) {
      (void)mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    _exit(static_cast<int>(*const_cast<const volatile std::byte*>(address)));
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

TEST(a_child_faults_where_guarded_memory_is_in_its_parent) {
  constexpr std::int64_t bytes = 1 << 20;
  const auto memory = *SharedMemory::allocate({bytes, true, true});
  auto mapped = *SharedMemory::map(FileDescriptor(dup(memory->descriptor())), bytes);
  REQUIRE(mapped->guard_in_children());
  REQUIRE(mapped->guard_in_children());
  EXPECT(memory->guard_in_children());
  std::byte* const address = mapped->data();
  for (int fork = 0; fork < 2; ++fork) {
    EXPECT_EQ(signal_of_reader(address, 8, bytes), SIGSEGV);
    EXPECT_EQ(signal_of_reader(memory->data(), 8, bytes), 0);
  }
  address[5] = std::byte{7};
  EXPECT(memory->data()[5] == std::byte{7});
  // Addresses that were given back are guarded no more.
  mapped.reset();
  const auto* other = static_cast<std::byte*>(
      mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(other == address);
  EXPECT_EQ(signal_of_reader(address, 0, bytes), 0);
  munmap(address, bytes);
}

TEST(a_bounded_number_of_memories_is_guarded) {
  alignas(4096) static std::byte memory[4096];
  int guarded = 0;
  while (guarded < 100000 && guard_in_children(memory + guarded % 4096, 1)) ++guarded;
  EXPECT(guarded >= 1024 && guarded < 100000);
  for (int k = 0; k < guarded; ++k) unguard_in_children(memory + k % 4096);
  EXPECT(guard_in_children(memory, 1));
  unguard_in_children(memory);
}
