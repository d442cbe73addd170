#include "base/config.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace tranship {
namespace {

/// One setting: how it is read from text and shown.
struct Setting {
  const char* name;
  const char* help;
  std::function<Status(Config&, const std::string&)> set;
  std::function<std::string(const Config&)> show;
};

/// The least and the largest value of a number; none of them is out of reason for a machine.
struct Bounds {
  std::int64_t least = 0;
  std::int64_t most = 0;
};
constexpr std::int64_t bytes_most = std::int64_t{1} << 46;  ///< as much as an address space has
constexpr std::int64_t request_most = std::int64_t{1}
                                      << 30;                ///< of one slot, or one call of a file
constexpr std::int64_t count_most = std::int64_t{1} << 32;  ///< of what takes no room by itself
constexpr std::int64_t day_ms = 86'400'000;

Setting number(const char* name, std::int64_t Config::*member, Bounds bounds, const char* help) {
  return {name, help,
          [member, name, bounds](Config& config, const std::string& text) -> Status {
            const bool automatic = text == "-1" && Config{}.*member < 0;
            auto value = automatic ? Result<std::int64_t>(-1) : parse_bytes(text);
            if (!value && !std::string_view(name).ends_with("_bytes")) {
              return Error{ErrorCode::invalid_argument, "\"" + text + "\" is not a whole number",
                           "write a number, such as 4"};
            }
            if (!value) return value.error();
            if (*value < bounds.least || *value > bounds.most) {
              return Error{ErrorCode::invalid_argument,
                           "\"" + text + "\" is outside " + std::to_string(bounds.least) + " to " +
                               std::to_string(bounds.most),
                           "give a number between them"};
            }
            config.*member = *value;
            return {};
          },
          [member](const Config& config) { return std::to_string(config.*member); }};
}

Setting word(const char* name, std::string Config::*member, const char* help) {
  return {name, help,
          [member](Config& config, const std::string& text) -> Status {
            config.*member = text;
            return {};
          },
          [member](const Config& config) { return config.*member; }};
}

/// Returns a setting whose value is never shown.
Setting secret(const char* name, std::string Config::*member, const char* help) {
  Setting setting = word(name, member, help);
  setting.show = [member](const Config& config) {
    return std::string((config.*member).empty() ? "" : "(set)");
  };
  return setting;
}

Setting flag(const char* name, bool Config::*member, const char* help) {
  return {name, help,
          [member](Config& config, const std::string& text) -> Status {
            const bool on = text == "1" || text == "on";
            if (!on && text != "0" && text != "off") {
              return Error{ErrorCode::invalid_argument,
                           "\"" + text + "\" is neither 0 (or off) nor 1 (or on)"};
            }
            config.*member = on;
            return {};
          },
          [member](const Config& config) { return std::string(config.*member ? "1" : "0"); }};
}

std::vector<Setting> engine_settings() {
  return {
      number("threads", &Config::threads, {0, 1024},
             "threads that copy in host memory; 0: one a core, at most 16"),
      number("spin_us", &Config::spin_us, {-1, 1'000'000},
             "microseconds that an idle thread polls before it sleeps; -1: by cores"),
      number("buffer_bytes", &Config::buffer_bytes, {std::int64_t{1} << 20, bytes_most},
             "bytes of all intermediate buffers"),
      number("file_queue_depth", &Config::file_queue_depth, {0, 1024},
             "file reads and writes at the same time"),
      number("file_io_bytes", &Config::file_io_bytes, {0, request_most},
             "largest single file read or write"),
      flag("file_direct", &Config::file_direct, "large runs bypass the page cache"),
      word("listen", &Config::listen, "HOST:PORT for other machines to connect; empty: none"),
      secret("key", &Config::key, "64 hexadecimal digits that connections over a network prove"),
      word("users", &Config::users, "numbers of other users of this machine that are trusted"),
      number("clients_max", &Config::clients_max, {0, 65536},
             "processes that may be connected at the same time"),
      number("service_threads", &Config::service_threads, {0, 256},
             "threads that serve connected processes; 0: by the number of cores"),
      number("notices_max", &Config::notices_max, {1, 1 << 24},
             "notices of one other process that may wait to be read"),
      number("peer_timeout_ms", &Config::peer_timeout_ms, {0, day_ms},
             "how long withdrawing and closing wait for others' copies"),
      number("reconnect_ms", &Config::reconnect_ms, {0, day_ms},
             "time within which a broken network connection is made again"),
      flag("tls", &Config::tls, "connections over a network are encrypted, on both sides"),
      flag("wire_checksum", &Config::wire_checksum, "messages over a network carry a checksum"),
      number("tcp_sockets", &Config::tcp_sockets, {0, 16},
             "TCP sockets to each process of another machine, 1 to 16"),
      number("slots_per_peer", &Config::slots_per_peer, {1, 1024}, "slots for each peer"),
      number("slot_bytes", &Config::slot_bytes, {64, request_most}, "bytes of each slot"),
      number("peer_threads", &Config::peer_threads, {-1, 64},
             "threads that copy directly to and from other processes; -1: by the number of cores"),
      word(
          "ucx", &Config::ucx,
          "UCX carries bytes: automatic (with an RDMA card), rdma, shared, off, or the folder of a "
          "site's own UCX"),
      word("ucx_library", &Config::ucx_library, "path of libucp.so.0; empty: it is searched for"),
      word("transport", &Config::transport, "automatic, shared or network"),
      word("planner", &Config::planner, "automatic, full, simple, spsl or spdl"),
      number("full_plan_bytes", &Config::full_plan_bytes, {0, bytes_most},
             "size from which plans are full; 0: by predicted cost"),
      number("lanes", &Config::lanes, {0, 64}, "paths that a copy may use at the same time"),
      word("link_usage", &Config::link_usage,
           "folder of the table of GPUs' links that processes use, or off"),
      flag("gpus", &Config::gpus, "GPUs are used where there are some"),
      number("emulated_gpus", &Config::emulated_gpus, {0, 64},
             "emulated GPUs, in host memory; 0: the real ones"),
      number("emulated_pinning", &Config::emulated_pinning, {-1, bytes_most},
             "bytes a second that emulated GPUs pin; 0: they refuse to; -1: at once"),
      word("gpu_direct_storage", &Config::gpu_direct_storage,
           "automatic (with nvidia-fs), off, or a path of libcufile"),
  };
}

std::vector<Setting> server_settings() {
  return {
      number("staging_clients", &Config::staging_clients, {1, 65536},
             "clients of a staging server"),
      number("staging_variables", &Config::staging_variables, {1, count_most},
             "variables of a staging server"),
      number("staging_name_bytes", &Config::staging_name_bytes, {1, 1024},
             "bytes of a variable's name, at most 1024"),
      number("staging_discards", &Config::staging_discards, {1, 1 << 20},
             "intervals of discarded versions, of each variable"),
      number("staging_boxes", &Config::staging_boxes, {1, count_most},
             "objects and index entries of a server"),
      number("staging_version_boxes", &Config::staging_version_boxes, {1, 1 << 20},
             "objects and index entries of one version, at most 1048576"),
      number("staging_puts", &Config::staging_puts, {1, count_most},
             "puts that one client may have in flight"),
      number("staging_leases", &Config::staging_leases, {1, count_most},
             "gets of one client whose data may be read at the same time"),
      number("staging_lease_s", &Config::staging_lease_s, {1, count_most},
             "seconds for which one get may read"),
      number("staging_steps", &Config::staging_steps, {1, count_most},
             "steps that the first server of a group remembers"),
      number("staging_attribute_bytes", &Config::staging_attribute_bytes, {1, 1 << 30},
             "bytes of the attributes of a step, a variable, or a run"),
  };
}

std::vector<Setting> folder_settings() {
  return {
      number("trace_spans", &Config::trace_spans, {0, 1 << 28}, "spans that a trace keeps"),
      word("trace_folder", &Config::trace_folder, "folder for a trace of each engine; empty: none"),
      word("cache_folder", &Config::cache_folder, "folder of measured profiles"),
  };
}

/// Returns all settings, in the order in which they are shown.
std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const auto& some : {engine_settings(), server_settings(), folder_settings()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::string variable_of(const char* name) {
  std::string variable = "TRANSHIP_";
  for (const char* c = name; *c != 0; ++c) {
    variable += static_cast<char>(std::toupper(static_cast<unsigned char>(*c)));
  }
  return variable;
}

}  // namespace

Result<Config> config_from_environment(const ReadVariable& read) {
  Config config;
  for (const Setting& setting : settings()) {
    const std::string variable = variable_of(setting.name);
    const char* text = read(variable.c_str());
    if (text == nullptr) continue;
    if (Status status = setting.set(config, text); !status) {
      return Error{ErrorCode::invalid_argument,
                   variable + ": " + status.error().message + " (" + setting.help + ")",
                   status.error().hint};
    }
  }
  if (config.cache_folder.empty()) {
    if (const char* folder = read("XDG_CACHE_HOME"); folder != nullptr && *folder != 0) {
      config.cache_folder = std::string(folder) + "/tranship";
    } else if (const char* home = read("HOME"); home != nullptr && *home != 0) {
      config.cache_folder = std::string(home) + "/.cache/tranship";
    }
  }
  for (const char* name : {"TMP", "TEMP", "TMPDIR"}) {  // the last one counts
    const char* folder = read(name);
    if (folder != nullptr && access(folder, W_OK | X_OK) == 0) config.temporary_folder = folder;
  }
  return config;
}

std::vector<ConfigEntry> describe(const Config& config, const ReadVariable& read) {
  std::vector<ConfigEntry> entries;
  for (const Setting& setting : settings()) {
    const std::string variable = variable_of(setting.name);
    const bool set = read(variable.c_str()) != nullptr;
    entries.push_back(
        {setting.name, setting.show(config), set ? variable : "default", setting.help});
  }
  return entries;
}

Result<std::int64_t> parse_bytes(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  std::string unit(end);
  unit.erase(std::remove(unit.begin(), unit.end(), ' '), unit.end());
  static const std::pair<const char*, double> units[] = {{"", 1},
                                                         {"B", 1},
                                                         {"KB", 1e3},
                                                         {"kB", 1e3},
                                                         {"MB", 1e6},
                                                         {"GB", 1e9},
                                                         {"TB", 1e12},
                                                         {"KiB", 1024.0},
                                                         {"MiB", 1048576.0},
                                                         {"GiB", 1073741824.0},
                                                         {"TiB", 1099511627776.0}};
  const auto* const found = std::find_if(std::begin(units), std::end(units),
                                         [&](const auto& known) { return unit == known.first; });
  if (end == text.c_str() || found == std::end(units) || !(value >= 0) || value > 9e18) {
    return Error{ErrorCode::invalid_argument, "\"" + text + "\" is not a size",
                 "write a number of bytes, or one with a unit as "
                 "in 64MiB"};
  }
  return static_cast<std::int64_t>(value * found->second);
}

}  // namespace tranship
