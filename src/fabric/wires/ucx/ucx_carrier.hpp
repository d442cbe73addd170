// UCX as a carrier of bytes, by one-sided puts and gets only.
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
/// so that the card's access ends with its Registration.
/// Owns a context and a worker behind one mutex. Threads: all. Cost: opening takes some 40 ms; the
/// calling thread copies, in parts of 1 MiB, between which other threads have their turn.
class UcxCarrier final : public BulkCarrier {
 public:
  enum class Reach {
    shared,  ///< Peers on this machine: posix, cma, self.
    rdma,    ///< Peers on other machines, over InfiniBand or RoCE. Not tested on a card yet.
  };
  struct Options {
    Reach reach = Reach::shared;
    std::string library{};  ///< Path of libucp.so.0; empty: ucx_candidates().
  };

  /// Opens a carrier.
  /// @error unsupported if UCX is missing or too old, or has no such transport on this machine
  static Result<std::shared_ptr<UcxCarrier>> open(const Options& options);
  ~UcxCarrier() override;

  const std::string& kind() const override { return kind_; }
  bool serves(bool local) const override { return local == (options_.reach == Reach::shared); }
  const std::vector<std::byte>& address() const override { return address_; }
  Result<std::unique_ptr<Registration>> register_memory(std::byte* address,
                                                        std::int64_t bytes) override;
  Result<std::shared_ptr<Peer>> connect(std::span<const std::byte> address) override;
  bool progress() override;

  /// Returns the path of the library that is in use.
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
