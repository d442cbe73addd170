// Small copies to and from arrays of other processes, on the caller's thread.
#include <chrono>

#include "base/check.hpp"
#include "engine/carriers/carriers.hpp"
#include "fabric/links/remote_array.hpp"

namespace tranship {
namespace {

/// How long a caller polls for a small copy's answer before the channel's thread waits for it.
constexpr std::chrono::milliseconds answer_wait{2};

/// A step between this process's memory and an array of another one.
struct PeerCopy {
  PeerCopy(const RecipeStep& step, const Array& source, const Array& target)
      : writes(!cpu_reaches(target.memory_kind)),
        remote(
            static_cast<const fabric::RemoteArray*>((writes ? target : source).place.attachment)) {
    CHECK(!step.plan->hops[0].casts, "numbers are converted before they go to another process");
    transfer.request = EngineChannels::request_of(step, source, target);
    transfer.request.priority = 0;
    transfer.remote = remote->remote();
    transfer.operation = writes ? fabric::Operation::write : fabric::Operation::read;
  }

  /// Carries it without the peer's help; nothing if that cannot be, or the array was withdrawn,
  /// which the channel says in full.
  std::optional<Status> directly() const {
    if (remote->withdrawn()) return std::nullopt;
    return remote->link().requester->direct(transfer);
  }

  bool writes;
  const fabric::RemoteArray* remote;
  fabric::Requester::Transfer transfer;
};

/// Carries a step without the peer's help or, for a process on another machine and if `waits`, by a
/// message whose answer comes in a moment. Returns nothing if no such way is open.
std::optional<Status> carry(const RecipeStep& step, const StepEnds& ends, bool waits) {
  const PeerCopy copy(step, ends.source(), ends.target());
  if (auto status = copy.directly()) return status;
  if (!waits || copy.remote->withdrawn()) return std::nullopt;
  const fabric::Link& link = copy.remote->link();
  return link.requester->carry_here(copy.transfer, answer_wait, link.bell());
}

}  // namespace

std::optional<Status> Carriers::carry_to_peer(const RecipeStep& step, const StepEnds& ends,
                                              const StartOptions& options) const {
  const std::int64_t begin_ns = now_ns();
  auto status = carry(step, ends, !options.among_others);
  if (status) note_span(*step.plan, begin_ns);
  return status;
}

bool Carriers::carry_directly(const RecipeStep& step, const Array& source,
                              const Array& target) const {
  const auto entered = lifetime_.enter();
  if (!entered) return false;
  const auto status = PeerCopy(step, source, target).directly();
  return status && *status;
}

}  // namespace tranship
