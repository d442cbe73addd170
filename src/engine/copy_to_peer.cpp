#include "engine/copy_to_peer.hpp"

#include <chrono>

#include "fabric/links/remote_array.hpp"

namespace tranship {
namespace {

/// How long a caller polls for a small copy's answer before the channel's thread waits for it.
constexpr std::chrono::milliseconds answer_wait{2};

}  // namespace

std::optional<Status> copy_to_peer(const Plan& plan, const Array& source, const Array& target,
                                   bool waits) {
  const bool writes = !cpu_reaches(target.memory_kind);
  const Array& there = writes ? target : source;
  const auto* remote = static_cast<const fabric::RemoteArray*>(there.place.attachment);
  if (remote->withdrawn()) return std::nullopt;  // the channel says so in full
  fabric::Requester::Transfer transfer;
  transfer.request.nests = plan.nests;
  transfer.request.source = source.place;
  transfer.request.target = target.place;
  transfer.request.bytes = plan.bytes;
  transfer.remote = remote->remote();
  transfer.operation = writes ? fabric::Operation::write : fabric::Operation::read;
  fabric::Requester& requester = *remote->link().requester;
  if (auto status = requester.direct(transfer)) return status;
  if (!waits) return std::nullopt;
  return requester.carry_here(transfer, answer_wait, remote->link().bell());
}

}  // namespace tranship
