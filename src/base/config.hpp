// All settings, in one struct that is passed down. Only this file reads the environment.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace tranship {

struct Config {
  /// Threads that copy in host memory. 0: one for each core that this process may use, at most 16,
  /// which saturate a memory. Lower it when the program computes while it copies.
  std::int64_t threads = 0;
  /// Microseconds for which an idle thread polls for work before it sleeps: waking it takes longer
  /// than copying a tile. -1: 200 on machines of eight cores or more, else 0.
  std::int64_t spin_us = -1;
  /// Bytes that all intermediate buffers of an engine may take. Raise it for many transfers of
  /// several hops at once.
  std::int64_t buffer_bytes = std::int64_t{256} << 20;
  /// Largest number of file reads and writes at the same time. Raise it on network file systems
  /// and disk arrays.
  std::int64_t file_queue_depth = 4;
  /// Size of the largest single file read or write, in bytes.
  std::int64_t file_io_bytes = std::int64_t{1} << 20;
  /// Whether large runs of a file bypass the page cache (O_DIRECT).
  bool file_direct = true;
  /// HOST:PORT on which this process listens for other machines, if it lets others connect at all;
  /// port 0 takes a free one. Empty: none, and only this machine's processes of the same user can
  /// connect. 0.0.0.0:0 is every interface.
  std::string listen;
  /// 64 hexadecimal digits that both sides of a connection over a network prove to each other that
  /// they have. Empty: a random one, which the contact file carries.
  std::string key;
  /// Other users of this machine, by number and separated by commas, that are trusted: they may
  /// connect, and this process connects to them.
  std::string users;
  /// Processes that may be connected at once.
  std::int64_t clients_max = 4096;
  /// Threads that serve connected processes; 0: as many as cores, but 8 to 32.
  std::int64_t service_threads = 0;
  /// Notices of other processes that may wait to be read: those beyond are refused, and the copies
  /// that they belong to fail at their end. Each takes up to a kilobyte.
  std::int64_t notices_max = 65536;
  /// Milliseconds for which withdrawing an array, and closing, wait for copies of other processes
  /// that have begun.
  std::int64_t peer_timeout_ms = 2000;
  /// Milliseconds within which a broken network connection is made again, or counts as lost.
  std::int64_t reconnect_ms = 1000;
  /// Whether connections over a network are encrypted, by TLS 1.3 under the key; all processes that
  /// connect must say the same. Set it where others can read or change what goes over the network.
  bool tls = false;
  /// Whether messages over a network carry a CRC-32C in addition to TCP's weak checksum; one side's
  /// setting is enough. Set it where network cards, switches or tunnels may corrupt bytes. It adds
  /// nothing to `tls`.
  bool wire_checksum = false;
  /// TCP sockets of each connection that this process makes to another machine, 1 to 16. Beyond the
  /// first they carry long runs of bytes: several where one does not fill the network.
  std::int64_t tcp_sockets = 1;
  /// Number of the slots through which a peer's arrays are copied, and the size of each in bytes.
  std::int64_t slots_per_peer = 8;
  std::int64_t slot_bytes = std::int64_t{256} << 10;
  /// Threads that copy directly to and from another process's memory, where the system allows it.
  /// -1: half the cores, at most 16, on machines of eight or more; 0: copies use slots.
  std::int64_t peer_threads = -1;
  /// UCX as a carrier of bytes beside the connections: automatic (over RDMA, where a card has an
  /// active port), rdma (or an error), shared (between processes of this machine, for trials), or
  /// off. Its TCP transport is never used.
  std::string ucx = "off";
  /// Path of libucp.so.0. Empty: the one of the system, or of the extra tranship[ucx].
  std::string ucx_library;
  /// automatic, shared (this machine only) or network (TCP even on one machine).
  std::string transport = "automatic";
  /// automatic, full, simple, spsl or spdl.
  std::string planner = "automatic";
  /// Size from which `automatic` plans fully, as 16 MB in the Isometry paper. 0: wherever the plan
  /// may save more time than it takes.
  std::int64_t full_plan_bytes = 0;
  /// Largest number of paths that a copy may use at the same time. 1: the best path only.
  std::int64_t lanes = 4;
  /// Folder of the table in which this user's processes mark the GPUs' links that they use, so that
  /// no lane takes a link from another process. `off`: each copy is planned as if
  /// it were alone. Set it where /dev/shm is missing, or is not common to the processes of a job.
  std::string link_usage = "/dev/shm";
  /// Whether GPUs are used where there are some.
  bool gpus = true;
  /// Number of emulated GPUs, whose memory is host memory, for programs and tests on machines
  /// without GPUs. 0: the real ones are used.
  std::int64_t emulated_gpus = 0;
  /// Bytes that emulated GPUs pin in a second, for tests. 0: they refuse to; -1: at once.
  std::int64_t emulated_pinning = -1;
  /// Files to and from GPUs without host memory between: automatic (where the kernel has
  /// nvidia-fs), off, or a path of libcufile, which is used whatever the kernel has.
  std::string gpu_direct_storage = "automatic";
  // Limits of a staging server: src/staging/model/limits.hpp says what each bounds. An error about
  // a limit names its setting.
  /// Clients that may be connected to a server.
  std::int64_t staging_clients = 4096;
  /// Variables of a server.
  std::int64_t staging_variables = 100'000;
  /// Bytes of a variable's name, at most 1024.
  std::int64_t staging_name_bytes = 1024;
  /// Intervals of discarded versions that a server remembers for each variable.
  std::int64_t staging_discards = 256;
  /// Objects and index entries of a server together, at some 500 bytes each.
  std::int64_t staging_boxes = std::int64_t{1} << 24;
  /// Objects and index entries of one version, at most 1048576.
  std::int64_t staging_version_boxes = std::int64_t{1} << 20;
  /// Puts that one client may have in flight.
  std::int64_t staging_puts = 4096;
  /// Gets of one client whose data may be read at the same time.
  std::int64_t staging_leases = 4096;
  /// Seconds for which one get may read: a client with an older get starts no new one before that
  /// one ends.
  std::int64_t staging_lease_s = 3600;
  /// Steps that the first server remembers.
  std::int64_t staging_steps = 100'000;
  /// Bytes of the attributes of a step, with the list of its variables, of a variable, or of a run.
  std::int64_t staging_attribute_bytes = std::int64_t{4} << 20;
  /// Spans that a trace keeps.
  std::int64_t trace_spans = 1 << 20;
  /// Folder into which each engine writes a trace of its own when it closes. Empty: none. Set it
  /// for all processes of a workflow, and look at them together: tranship trace.
  std::string trace_folder;
  /// Folder of measured profiles. Empty: $XDG_CACHE_HOME/tranship or ~/.cache/tranship.
  std::string cache_folder;
  /// Not a setting: $TMPDIR, $TEMP or $TMP, or else /tmp. Calibration measures the disk there.
  std::string temporary_folder = "/tmp";
};

/// One setting as `tranship config` shows it.
struct ConfigEntry {
  std::string name;  ///< member of Config; the variable is TRANSHIP_ and this in capitals
  std::string value;
  std::string source;  ///< "default", or the variable that set it
  std::string help;
};

/// Returns the value of an environment variable, or null if it is not set. std::getenv has this
/// type.
using ReadVariable = std::function<const char*(const char* name)>;

/// Returns the defaults, overridden by TRANSHIP_* variables.
/// @error invalid_argument naming the variable whose value cannot be read
Result<Config> config_from_environment(const ReadVariable& read);

/// Returns every setting with its value and its source.
std::vector<ConfigEntry> describe(const Config& config, const ReadVariable& read);

/// Reads a size such as "64MiB", "1.5 GiB" or "4096", with decimal (MB) or binary (MiB) units.
Result<std::int64_t> parse_bytes(const std::string& text);

}  // namespace tranship
