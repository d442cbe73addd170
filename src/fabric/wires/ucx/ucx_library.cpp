#include "fabric/wires/ucx/ucx_library.hpp"

#include <dlfcn.h>
#include <signal.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <type_traits>

namespace tranship::fabric {
namespace {

constexpr const char* file_name = "libucp.so.0";
constexpr const char* install_hint =
    "install it with: pip install 'libucx-cu12>=1.22,<1.23', or set ucx_library to the path of "
    "libucp.so.0";
/// Signals that UCX handles: faults, and the one that starts its debugger.
constexpr std::array kept_signals{SIGHUP, SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV};

std::string path_of(void* function, const std::string& otherwise) {
  Dl_info found{};
  const bool known = dladdr(function, &found) != 0 && found.dli_fname != nullptr;
  return known ? found.dli_fname : otherwise;
}

}  // namespace

struct KeptSignals::Handlers {
  std::array<struct sigaction, kept_signals.size()> before{};
};

KeptSignals::KeptSignals() : handlers_(std::make_unique<Handlers>()) {
  for (std::size_t k = 0; k < kept_signals.size(); ++k) {
    (void)sigaction(kept_signals[k], nullptr, &handlers_->before[k]);
  }
}

KeptSignals::~KeptSignals() {
  for (std::size_t k = 0; k < kept_signals.size(); ++k) {
    (void)sigaction(kept_signals[k], &handlers_->before[k], nullptr);
  }
}

Result<std::shared_ptr<const UcxLibrary>> UcxLibrary::open(
    std::span<const std::string> candidates) {
  const KeptSignals kept;
  void* library = dlopen(file_name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE);
  const bool had_it = library != nullptr;
  std::string refusals;
  for (const std::string& candidate : candidates) {
    if (library != nullptr) break;
    const bool path = candidate.find('/') != std::string::npos;
    if (path && !std::filesystem::exists(candidate)) {
      refusals += (refusals.empty() ? "" : "; ") + candidate + " is not there";
      continue;
    }
    library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) refusals += (refusals.empty() ? "" : "; ") + std::string(dlerror());
  }
  if (library == nullptr) {
    return Error{ErrorCode::unsupported,
                 "UCX was not found (" + refusals + "): " + std::string(install_hint)};
  }
  std::shared_ptr<UcxLibrary> made(new UcxLibrary);
  made->own_ = !had_it;
  if (Status status = made->find_functions(library); !status) return status.error();
  return std::shared_ptr<const UcxLibrary>(std::move(made));
}

Status UcxLibrary::find_functions(void* library) {
  std::string missing;
  const auto find = [&](auto& function, const char* name, bool needed = true) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr && needed) missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
  ucp::Functions& all = functions_;
  find(all.version_text, "ucp_get_version_string");
  find(all.version, "ucp_get_version");
  find(all.status_text, "ucs_status_string");
  find(all.read_config, "ucp_config_read");
  find(all.modify_config, "ucp_config_modify");
  find(all.release_config, "ucp_config_release");
  find(all.init, "ucp_init_version");
  find(all.cleanup, "ucp_cleanup");
  find(all.create_worker, "ucp_worker_create");
  find(all.destroy_worker, "ucp_worker_destroy");
  find(all.progress, "ucp_worker_progress");
  find(all.get_address, "ucp_worker_get_address");
  find(all.release_address, "ucp_worker_release_address");
  find(all.map, "ucp_mem_map");
  find(all.unmap, "ucp_mem_unmap");
  find(all.pack_key, "ucp_rkey_pack");
  find(all.release_key_buffer, "ucp_rkey_buffer_release");
  find(all.create_endpoint, "ucp_ep_create");
  find(all.close_endpoint, "ucp_ep_close_nbx");
  find(all.flush, "ucp_ep_flush_nbx");
  find(all.unpack_key, "ucp_ep_rkey_unpack");
  find(all.destroy_key, "ucp_rkey_destroy");
  find(all.put, "ucp_put_nbx");
  find(all.get, "ucp_get_nbx");
  find(all.check, "ucp_request_check_status");
  find(all.free_request, "ucp_request_free");
  find(all.get_option, "ucs_global_opts_get_value", false);
  find(all.set_option, "ucs_global_opts_set_value", false);
  path_ = path_of(reinterpret_cast<void*>(all.version_text), file_name);
  if (!missing.empty()) {
    return Error{ErrorCode::unsupported,
                 "the UCX at " + path_ + " lacks " + missing + ": it is too old; " + install_hint};
  }
  version_ = all.version_text();
  return {};
}

Error UcxLibrary::error(ErrorCode code, const std::string& what, ucp::Status status) const {
  return {code,
          what + ": " + functions_.status_text(status) + " (UCX " + version_ + ", " + path_ + ")"};
}

std::vector<std::string> ucx_candidates(bool system_first) {
  std::vector<std::string> found;
  Dl_info own{};
  if (dladdr(reinterpret_cast<void*>(&ucx_candidates), &own) != 0 && own.dli_fname != nullptr) {
    // The Python module lies in site-packages/tranship; the C library, in its folder lib.
    std::error_code failed;
    const auto folder = std::filesystem::absolute(own.dli_fname, failed).parent_path();
    for (const char* up : {"..", "../.."}) {
      const auto wheel = (folder / up / "libucx" / "lib" / file_name).lexically_normal();
      if (std::filesystem::exists(wheel, failed)) found.push_back(wheel.string());
    }
  }
  found.insert(system_first ? found.begin() : found.end(), file_name);
  return found;
}

bool rdma_card_is_up(const std::string& folder) {
  std::error_code failed;
  for (const auto& card : std::filesystem::directory_iterator(folder, failed)) {
    for (const auto& port : std::filesystem::directory_iterator(card.path() / "ports", failed)) {
      std::ifstream file(port.path() / "state");
      std::string state;
      std::getline(file, state);
      if (state.find("ACTIVE") != std::string::npos) return true;
    }
  }
  return false;
}

}  // namespace tranship::fabric
