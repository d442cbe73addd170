// Helpers for the tests of the fabric and of its channel: a slow copier, a pair of fabrics in one
// process, and a second process that can be killed.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "channels/remote/remote_channel.hpp"
#include "fabric/fabric.hpp"
#include "fabric/ucx_support.hpp"
#include "support/test.hpp"
#include "support/waiting.hpp"

namespace tranship::test {

using namespace fabric;

using Transport = FabricOptions::Transport;

/// Copies every nest element by element, as an oracle.
inline void slow_copy(std::span<const LoopNest> nests, const std::byte* source, std::byte* target,
                      bool) {
  for (const LoopNest& nest : nests) {
    if (nest.bytes() == 0) continue;
    std::array<std::int64_t, LoopNest::loops_max> at{};
    for (bool more = true; more;) {
      std::int64_t from = nest.source_offset;
      std::int64_t to = nest.target_offset;
      for (std::size_t k = 0; k < static_cast<std::size_t>(nest.rank); ++k) {
        from += at[k] * nest.loops[k].source_stride;
        to += at[k] * nest.loops[k].target_stride;
      }
      std::memcpy(target + to, source + from, static_cast<std::size_t>(nest.element_bytes));
      more = false;
      for (std::size_t k = 0; k < static_cast<std::size_t>(nest.rank) && !more; ++k) {
        more = ++at[k] < nest.loops[k].extent;
        if (!more) at[k] = 0;
      }
    }
  }
}

/// Copies every run byte by byte, as an oracle.
inline void slow_runs(std::span<const Run> runs, const std::byte* source, std::byte* target, bool) {
  for (const Run& run : runs) {
    for (std::int64_t k = 0; k < run.bytes; ++k) {
      target[run.target_offset + k] = source[run.source_offset + k];
    }
  }
}

inline const Copier slow_copier{slow_copy, slow_runs};

inline FabricOptions options_for(Transport transport, int sockets = 1) {
  FabricOptions options;
  options.transport = transport;
  options.network_sockets = sockets;
  options.copy = slow_copier;
  options.slots_per_peer = 4;
  options.slot_bytes = 16 * 1024;  // small, so that medium-sized requests already reuse slots
  return options;
}

inline std::unique_ptr<Fabric> open_fabric(FabricOptions options) {
  auto fabric = Fabric::open(std::move(options));
  if (!fabric) record_failure(__FILE__, __LINE__, fabric.error().text());
  REQUIRE(fabric.ok());
  return std::move(*fabric);
}

inline PeerId connect_to(Fabric& fabric, const std::string& contact) {
  const auto peer = fabric.connect(contact, patience);
  if (!peer) record_failure(__FILE__, __LINE__, peer.error().text());
  REQUIRE(peer.ok());
  return *peer;
}

inline std::shared_ptr<RemoteArray> look_up(Fabric& fabric, PeerId peer, const std::string& name) {
  auto array = fabric.lookup(peer, name, patience);
  // A child exports its arrays after it has written its contact file.
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!array && array.error().code == ErrorCode::not_found &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    array = fabric.lookup(peer, name, patience);
  }
  if (!array) record_failure(__FILE__, __LINE__, array.error().text());
  REQUIRE(array.ok());
  return *array;
}

/// Returns such options with which withdrawing and closing also wait for peers' copies on a busy
/// machine.
inline FabricOptions patient_options_for(Transport transport) {
  FabricOptions options = options_for(transport);
  options.peer_timeout = patience;
  return options;
}

/// An exporting and a requesting fabric in one process.
struct Pair {
  explicit Pair(Transport transport, int sockets = 1)
      : exporter(open_fabric(patient_options_for(transport))),
        requester(open_fabric(options_for(transport, sockets))),
        peer(connect_to(*requester, exporter->contact())),
        channel(*requester, {}) {}

  std::unique_ptr<Fabric> exporter;
  std::unique_ptr<Fabric> requester;
  PeerId peer;
  RemoteChannel channel;
};

inline std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> data(bytes);
  std::uint64_t state = seed * 2654435761u + 1;
  for (auto& value : data) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<std::byte>(state >> 56);
  }
  return data;
}

inline std::int64_t bytes_of(std::span<const LoopNest> nests) {
  std::int64_t bytes = 0;
  for (const auto& nest : nests) bytes += nest.bytes();
  return bytes;
}

/// Drives the channel until one request has ended; returns its status.
inline Status finish_one(RemoteChannel& channel, std::chrono::milliseconds at_most = patience) {
  Finished finished[1];
  const auto end = std::chrono::steady_clock::now() + at_most;
  while (channel.poll(finished) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      return Error{ErrorCode::timeout, "the test waited in vain"};
    }
    channel.idle(std::chrono::milliseconds(20));
  }
  return finished[0].status;
}

inline Request write_request(std::span<const LoopNest> nests, std::byte* source,
                             RemoteArray& target) {
  Request request;
  request.payload = nests;
  request.source = {source, nullptr};
  request.target = {nullptr, &target};
  request.bytes = bytes_of(nests);
  return request;
}

inline Request read_request(std::span<const LoopNest> nests, RemoteArray& source,
                            std::byte* target) {
  Request request;
  request.payload = nests;
  request.source = {nullptr, &source};
  request.target = {target, nullptr};
  request.bytes = bytes_of(nests);
  return request;
}

inline Status carry(RemoteChannel& channel, const Request& request) {
  if (auto status = channel.submit(request); !status) return status;
  return finish_one(channel);
}

inline LoopNest run_of(std::int64_t bytes) {
  LoopNest nest;
  nest.element_bytes = bytes;
  return nest;
}

/// A directory that is removed with the test.
struct TemporaryFolder {
  TemporaryFolder() {
    char name[] = "/tmp/tranship_test_XXXXXX";
    path = mkdtemp(name);
  }
  ~TemporaryFolder() {
    for (const auto& file : {"contact", "other"}) unlink((path + "/" + file).c_str());
    rmdir(path.c_str());
  }
  std::string file(const std::string& name) const { return path + "/" + name; }
  std::string path;
};

/// This test program run as an exporting process, with the case fabric_child. It exports "plain"
/// (child_bytes bytes, pattern seed 1), "readonly" and "mapped".
constexpr std::size_t child_bytes = 8 << 20;

class Child {
 public:
  Child(const std::string& contact_file, Transport transport)
      : Child(contact_file, transport == Transport::network ? "network" : "automatic") {}
  /// Starts the child. how: A transport, or "ucx" for the automatic transport with that carrier.
  Child(const std::string& contact_file, const std::string& how) {
    pid_ = fork();
    if (pid_ == 0) {
      execl("/proc/self/exe", "tests", "fabric_child", contact_file.c_str(), how.c_str(),
            static_cast<char*>(nullptr));
      _exit(127);
    }
    (void)eventually([&] { return access(contact_file.c_str(), F_OK) == 0; });
  }
  ~Child() { kill_now(); }

  /// Stops the child; returns when all its threads stand still.
  void stop() const {
    ::kill(pid_, SIGSTOP);
    siginfo_t info{};
    EXPECT(waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED) == 0);
  }
  void go_on() const { ::kill(pid_, SIGCONT); }
  void kill_now() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  /// Closes the child's fabric cleanly and waits for its end; returns its exit status.
  int end() {
    ::kill(pid_, SIGTERM);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

/// This test program run as a requesting process, which writes to "plain" of `contact_file` until
/// it is killed.
class Requesting {
 public:
  Requesting(const std::string& contact_file, Transport transport) {
    const std::string how = transport == Transport::network ? "network" : "automatic";
    pid_ = fork();
    if (pid_ == 0) {
      execl("/proc/self/exe", "tests", "fabric_child", contact_file.c_str(), how.c_str(), "write",
            static_cast<char*>(nullptr));
      _exit(127);
    }
  }
  ~Requesting() {
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_ = 0;
};

[[noreturn]] inline void write_for_ever(const std::string& contact, const FabricOptions& options) {
  auto fabric = open_fabric(options);
  const PeerId peer = connect_to(*fabric, contact);
  const auto array = look_up(*fabric, peer, "plain");
  RemoteChannel channel(*fabric, {});
  auto data = pattern(child_bytes, 1);
  const LoopNest all = run_of(child_bytes);
  while (carry(channel, write_request({&all, 1}, data.data(), *array))) continue;
  std::_Exit(5);
}

inline volatile sig_atomic_t child_asked_to_end = 0;

/// Runs the case fabric_child. Does nothing if the program was not started by Child.
inline void child_main() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string one; std::getline(file, one, '\0');) arguments.push_back(one);
  if (arguments.size() < 4) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGTERM, [](int) { child_asked_to_end = 1; });
  auto options =
      patient_options_for(arguments[3] == "network" ? Transport::network : Transport::automatic);
  if (arguments.size() > 4) write_for_ever(arguments[2], options);
  if (arguments[3] == "ucx") {
    auto opened = UcxCarrier::open(ucx_options());
    if (!opened) std::_Exit(6);
    options.carrier = std::move(*opened);
  }
  options.contact_file = arguments[2];
  static auto plain = pattern(child_bytes, 1);
  static auto readonly = pattern(4096, 2);
  const auto memory = SharedMemory::allocate({child_bytes, true});
  auto fabric = Fabric::open(options);
  if (!fabric || !memory) std::_Exit(3);
  std::memset((*memory)->data(), 7, child_bytes);
  const auto bytes = static_cast<std::int64_t>(child_bytes);
  (void)(*fabric)->export_array({"plain", "{}", {plain.data(), nullptr}, bytes, true, nullptr});
  (void)(*fabric)->export_array({"readonly", "", {readonly.data(), nullptr}, 4096, false, nullptr});
  (void)(*fabric)->export_array({"mapped", "", {(*memory)->data(), nullptr}, bytes, true, *memory});
  while (child_asked_to_end == 0) usleep(2000);
  std::_Exit((*fabric)->close().ok() ? 0 : 4);
}

}  // namespace tranship::test
