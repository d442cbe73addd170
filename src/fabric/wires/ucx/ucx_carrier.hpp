// UCX as a carrier of bytes: one-sided puts and gets, and nothing else of it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "fabric/wires/bulk_carrier.hpp"

namespace tranship::fabric {

/// UCX with only those transports that no stranger can reach. TCP is never among them, whatever
/// UCX's environment variables and files say; nothing listens; there is no cache of registrations,
/// so that the end of a Registration is the end of the card's access.
/// Owns a context and a worker behind one mutex. Threads: all. Cost: opening takes some 40 ms; a
/// copy is done by the calling thread, in parts of a MiB between which others have their turn.
class UcxCarrier final : public BulkCarrier {
 public:
  enum class Reach {
    shared,  ///< Peers on this machine: posix, cma, self.
    rdma,    ///< Peers on others, over InfiniBand or RoCE. Not tried on a card yet.
  };
  struct Options {
    Reach reach = Reach::shared;
    std::string library{};  ///< Path of libucp.so.0; empty: ucx_candidates().
  };

  /// @error unsupported if UCX is not there, is too old, or has no such transport here
  static Result<std::shared_ptr<UcxCarrier>> open(const Options& options);
  ~UcxCarrier() override;

  const std::string& kind() const override { return kind_; }
  bool serves(bool local) const override { return local == (options_.reach == Reach::shared); }
  const std::vector<std::byte>& address() const override { return address_; }
  Result<std::unique_ptr<Registration>> register_memory(std::byte* address,
                                                        std::int64_t bytes) override;
  Result<std::shared_ptr<Peer>> connect(std::span<const std::byte> address) override;
  bool progress() override;

  /// The path of the library that is in use.
  const std::string& library() const;

  struct State;

 private:
  explicit UcxCarrier(Options options) : options_(std::move(options)) {}
  Status open_worker(const std::vector<std::string>& candidates);

  Options options_;
  std::string kind_;
  std::vector<std::byte> address_;
  std::shared_ptr<State> state_;
};

}  // namespace tranship::fabric
