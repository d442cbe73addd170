// UCX, loaded while the program runs.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "fabric/wires/ucx/ucp_api.hpp"

namespace tranship::fabric {

/// The UCX library. A process has one: two copies of UCX in one process hang or crash it, so that a
/// copy that is already loaded is used, and none is ever unloaded. Threads: all.
class UcxLibrary {
 public:
  /// Opens the library that the process has loaded; else the first of `candidates` (paths, or names
  /// that the linker finds) that can be loaded.
  /// @error unsupported if there is none, or it lacks a function
  static Result<std::shared_ptr<const UcxLibrary>> open(std::span<const std::string> candidates);

  const ucp::Functions& calls() const { return functions_; }
  const std::string& path() const { return path_; }
  const std::string& version() const { return version_; }
  /// Returns whether this object loaded the library, and so may change its settings.
  bool own() const { return own_; }

  /// Returns an error with UCX's own text for the status.
  Error error(ErrorCode code, const std::string& what, ucp::Status status) const;

 private:
  UcxLibrary() = default;
  Status find_functions(void* library);

  ucp::Functions functions_;
  std::string path_;
  std::string version_;
  bool own_ = false;
};

/// Returns the possible paths of libucp: in the wheel of the extra tranship[ucx] beside this
/// package, and in the system, whose library comes first if `system_first`: only that one has RDMA.
std::vector<std::string> ucx_candidates(bool system_first);

/// Returns whether a card for RDMA has a port that is up. folder: The kernel's list of cards.
bool rdma_card_is_up(const std::string& folder = "/sys/class/infiniband");

/// Keeps the process's signal handlers unchanged during its lifetime: UCX replaces some when it
/// starts.
class KeptSignals {
 public:
  KeptSignals();
  ~KeptSignals();
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;

 private:
  struct Handlers;
  std::unique_ptr<Handlers> handlers_;
};

}  // namespace tranship::fabric
