// The access of one requester to this process's exports.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "fabric/links/exports.hpp"
#include "fabric/links/fences.hpp"
#include "fabric/messages/protocol.hpp"
#include "fabric/wires/bulk_carrier.hpp"

namespace tranship::fabric {

/// Answers a requester's lookups, and grants it direct access to the arrays: leases on this
/// machine, and keys for a carrier. Owns both until they are ended.
/// Threads: one.
class ExportGrants {
 public:
  ExportGrants() = default;
  ExportGrants(std::shared_ptr<const ExportTable> exports, LinkMode mode, LeaseGrants leases)
      : exports_(std::move(exports)), mode_(mode), leases_(std::move(leases)) {}

  /// Makes later lookups also grant keys for this carrier.
  void set_carrier(std::shared_ptr<BulkCarrier> carrier) { carrier_ = std::move(carrier); }

  struct Found {
    LookupReply reply;
    /// Keeps `memory` open until the reply is sent.
    std::shared_ptr<const Export> held{};
    int memory = -1;  ///< Descriptor of the memory that contains the array; -1: it is not mapped.
  };
  /// Answers the body of a lookup message.
  Found look_up(std::span<const std::byte> body);

  /// Ends the lease of an export: the requester begins no direct copy under it any more.
  void end_lease(int index) { leases_.end(index); }
  /// Revokes the key to the export, unless a direct copy of the requester, which its lease counts,
  /// is under way. Returns whether one is.
  bool revoke(int index, std::uint64_t id);

  /// Revokes all keys, and hands over the leases, for a lost requester.
  LeaseGrants end();

 private:
  /// An export for which the requester has a carrier's key.
  struct CarriedExport {
    std::uint64_t id = 0;
    std::unique_ptr<BulkCarrier::Registration> registration;
  };

  void describe(const Export& one, Found& found);
  void grant_key(const Export& one, LookupReply& reply);

  std::shared_ptr<const ExportTable> exports_;
  LinkMode mode_ = LinkMode::network;
  LeaseGrants leases_;
  std::shared_ptr<BulkCarrier> carrier_;
  /// Registrations by export. Each ends before its memory has another use.
  std::map<int, CarriedExport> registrations_;
};

/// Returns the body of the reply that lists the exports' names.
std::vector<std::byte> encode_names(const ExportTable& exports);

}  // namespace tranship::fabric
