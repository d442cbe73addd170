// Engines, as C sees them: opened with settings, closed once.
#include <algorithm>
#include <cstdlib>
#include <map>

#include "c/handles.hpp"
#include "calibration/kept_profile.hpp"
#include "engine/processes.hpp"
#include "os/new_file.hpp"

using namespace tranship;
using namespace tranship::c_api;

namespace {

std::string upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char letter) {
    return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
  });
  return text;
}

/// Returns the settings by the environment variables that they override.
/// @error invalid_argument for a setting that does not exist
Result<std::map<std::string, std::string>> overrides_of(const tranship_engine_options& options) {
  std::map<std::string, std::string> overrides;
  const Status given =
      check_list({"setting_count", options.setting_count}, {{"settings", options.settings}});
  if (!given) return given.error();
  const auto known = describe(Config{}, [](const char*) { return nullptr; });
  for (std::int64_t k = 0; k < options.setting_count; ++k) {
    const tranship_setting& setting = options.settings[k];
    if (Status given = check_given({{"name", setting.name}, {"value", setting.value}}); !given) {
      return given.error();
    }
    const std::string name = setting.name;
    const bool found = std::any_of(known.begin(), known.end(),
                                   [&](const ConfigEntry& entry) { return entry.name == name; });
    if (!found) {
      return Error{ErrorCode::invalid_argument, "there is no setting \"" + name + "\"",
                   "`tranship config` lists the settings"};
    }
    overrides["TRANSHIP_" + upper_case(name)] = setting.value;
  }
  return overrides;
}

/// Returns the profile in a file, or this machine's for null.
Result<Profile> profile_of(const char* path, const Config& config) {
  if (path == nullptr) return profile_of_this_machine(config, {});
  const auto text = read_whole(path);
  if (text) return Profile::from_json(*text);
  return Error{ErrorCode::not_found, "the profile \"" + std::string(path) + "\" cannot be read",
               "give the path of a file that `tranship calibrate --json` wrote"};
}

Result<std::unique_ptr<Engine>> open_engine(const tranship_engine_options& given) {
  const auto overrides = overrides_of(given);
  if (!overrides) return overrides.error();
  const ReadVariable environment = std::getenv;
  auto config = config_from_environment([&](const char* name) -> const char* {
    const auto found = overrides->find(name);
    return found != overrides->end() ? found->second.c_str() : environment(name);
  });
  if (!config) return config.error();
  auto profile = profile_of(given.profile, *config);
  if (!profile) return profile.error();
  Engine::Options options;
  options.config = std::move(*config);
  options.profile = std::move(*profile);
  options.accept = given.accept != 0;
  if (given.contact_file != nullptr) options.contact_file = given.contact_file;
  if (given.trace_file != nullptr) options.trace_file = given.trace_file;
  return Engine::open(std::move(options));
}

/// Keeps a handle for the rest of the process, in a list by which leak checkers find it.
tranship_engine* keep(std::unique_ptr<tranship_engine> handle) {
  static std::mutex mutex;
  static auto& all = *new std::vector<std::unique_ptr<tranship_engine>>;
  const std::lock_guard lock(mutex);
  return all.emplace_back(std::move(handle)).get();
}

}  // namespace

namespace tranship::c_api {

Result<std::shared_ptr<Engine>> use(
    tranship_engine* engine, std::initializer_list<std::pair<const char*, const void*>> arguments) {
  Status given = check_given({{"engine", engine}});
  if (given) given = check_given(arguments);
  if (!given) return given.error();
  // Checked before the lock, which a thread of the parent may have held at the fork.
  if (Status here = check_here(*engine); !here) return here.error();
  const std::lock_guard lock(engine->mutex);
  if (engine->engine) return engine->engine;
  return Error{ErrorCode::closed, "this engine was closed", "open another one"};
}

}  // namespace tranship::c_api

tranship_code tranship_engine_open(const tranship_engine_options* options,
                                   tranship_engine** engine) {
  return guarded([&]() -> Status {
    if (Status given = check_given({{"engine", engine}}); !given) return given;
    *engine = nullptr;
    const auto read = read_options(options);
    if (!read) return read.error();
    auto opened = open_engine(*read);
    if (!opened) return opened.error();
    auto handle = std::make_unique<tranship_engine>();
    handle->engine = std::move(*opened);
    if (read->accept != 0 || read->contact_file != nullptr) {
      const auto processes = handle->engine->processes();
      if (!processes) return processes.error();
      handle->contact = (*processes)->contact();
    }
    *engine = keep(std::move(handle));
    return {};
  });
}

tranship_code tranship_engine_close(tranship_engine* engine) {
  return guarded([&]() -> Status {
    // In a fork the threads live in the parent only: waiting for them would never end.
    if (engine == nullptr || !check_here(*engine)) return {};
    std::shared_ptr<Engine> closed;
    {
      const std::lock_guard lock(engine->mutex);
      closed.swap(engine->engine);
    }
    return closed ? closed->close() : Status{};
  });
}

tranship_code tranship_engine_contact(tranship_engine* engine, const char** contact) {
  return guarded([&]() -> Status {
    const auto used = use(engine, {{"contact", contact}});
    if (!used) return used.error();
    *contact = engine->contact.c_str();
    return {};
  });
}

int tranship_engine_gpu_of(tranship_engine* engine, const void* address) {
  int gpu = -1;
  (void)caught([&]() -> Status {
    const auto used = use(engine, {{"address", address}});
    if (!used || !(*used)->gpus()) return {};
    const PointerInfo info = (*used)->gpus()->where(address);
    if (info.kind == MemoryKind::device || info.kind == MemoryKind::managed) gpu = info.device;
    return {};
  });
  return gpu;
}
