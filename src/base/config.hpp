// Every setting, in one struct that is passed down. The environment is read here and nowhere else.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace tranship {

struct Config {
  /// Threads that copy in host memory. 0: one for each core that this process may use, but not more
  /// than 16, which are enough for a memory. Lower it when the program computes while it copies.
  std::int64_t threads = 0;
  /// Microseconds that a thread looks out for its next work before it sleeps: to wake it costs more
  /// than a tile takes. -1: 200 on machines of eight cores or more, else 0.
  std::int64_t spin_us = -1;
  /// Bytes that all intermediate buffers of an engine may take. Raise it for many transfers of
  /// several hops at once.
  std::int64_t buffer_bytes = std::int64_t{256} << 20;
  /// File reads and writes at once. Raise it on network file systems and disk arrays.
  std::int64_t file_queue_depth = 4;
  /// Largest single file read or write.
  std::int64_t file_io_bytes = std::int64_t{1} << 20;
  /// Whether large runs of a file go around the page cache.
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
  /// Threads that answer them; 0: as many as cores, 8 to 32.
  std::int64_t service_threads = 0;
  /// How long withdrawing an array, and closing, wait for others' copies that have begun.
  std::int64_t peer_timeout_ms = 2000;
  /// How long a connection over a network that broke may take to be made anew.
  std::int64_t reconnect_ms = 1000;
  /// Whether connections over a network are encrypted, by TLS 1.3 under the key; all processes that
  /// connect must say the same. Set it where others can read or change what goes over the network.
  bool tls = false;
  /// Whether messages over a network carry a checksum of their bytes, beside TCP's weak one; one
  /// side's wish is enough. Set it where cards, switches or tunnels are not trusted to keep bytes
  /// as they are. With `tls` it adds nothing.
  bool wire_checksum = false;
  /// TCP sockets of each connection that this process makes to another machine, 1 to 16. Beyond the
  /// first they carry long runs of bytes: several where one does not fill the network.
  std::int64_t tcp_sockets = 1;
  /// Slots through which a peer's arrays are reached, and their size.
  std::int64_t slots_per_peer = 8;
  std::int64_t slot_bytes = std::int64_t{256} << 10;
  /// Threads that copy straight to and from another process's memory, where the system lets them.
  /// -1: half the cores, at most 10, on machines of eight or more; 0: copies take slots.
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
  /// Most paths that a copy may take at once. 1 keeps to the best one.
  std::int64_t lanes = 4;
  /// Whether GPUs are used where there are some.
  bool gpus = true;
  /// GPUs whose memory is host memory, to try programs and tests where there is none. 0: real ones.
  std::int64_t emulated_gpus = 0;
  /// Files to and from GPUs without host memory between: automatic (where the kernel has
  /// nvidia-fs), off, or a path of libcufile, which is used whatever the kernel has.
  std::string gpu_direct_storage = "automatic";
  /// Limits of a staging server; src/staging/model/limits.hpp says what each bounds. What is
  /// refused names its setting. Clients that are connected to it.
  std::int64_t staging_clients = 4096;
  /// Variables that it knows.
  std::int64_t staging_variables = 100'000;
  /// Bytes of a variable's name, at most 1024.
  std::int64_t staging_name_bytes = 1024;
  /// Intervals of discarded versions that are told apart, of each variable.
  std::int64_t staging_discards = 256;
  /// Objects, and index entries of other servers' objects, together. Some 500 bytes each.
  std::int64_t staging_boxes = std::int64_t{1} << 24;
  /// The same of one version, at most 1048576.
  std::int64_t staging_version_boxes = std::int64_t{1} << 20;
  /// Puts that one client has under way.
  std::int64_t staging_puts = 4096;
  /// Gets of one client whose data are being read.
  std::int64_t staging_leases = 4096;
  /// Seconds that one get may read: a client with an older one gets nothing new before that ends.
  std::int64_t staging_lease_s = 3600;
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

/// Looks a variable up; returns null if it is not set. std::getenv has this type.
using ReadVariable = std::function<const char*(const char* name)>;

/// The defaults, overridden by TRANSHIP_* variables.
/// @error invalid_argument naming the variable whose value cannot be read
Result<Config> config_from_environment(const ReadVariable& read);

/// Every setting, its value and where it came from.
std::vector<ConfigEntry> describe(const Config& config, const ReadVariable& read);

/// Reads "64MiB", "1.5 GiB", "4096"; decimal units (MB) and binary ones (MiB).
Result<std::int64_t> parse_bytes(const std::string& text);

}  // namespace tranship
