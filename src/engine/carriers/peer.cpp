// Small copies to and from arrays of other processes, on the caller's thread.
#include <chrono>

#include "base/check.hpp"
#include "engine/carriers/carriers.hpp"
#include "fabric/links/remote_array.hpp"

namespace tranship {
namespace {

/// How long a caller polls for a small copy's answer before the channel's thread waits for it.
constexpr std::chrono::milliseconds answer_wait{2};

/// Carries a step without the peer's help or, for a process on another machine and if `waits`, by a
/// message whose answer comes in a moment. Returns nothing if no such way is open.
std::optional<Status> carry(const RecipeStep& step, const StepEnds& ends, bool waits) {
  CHECK(!step.plan->hops[0].casts, "numbers are converted before they go to another process");
  const bool writes = !cpu_reaches(ends.target().memory_kind);
  const Array& there = writes ? ends.target() : ends.source();
  const auto* remote = static_cast<const fabric::RemoteArray*>(there.place.attachment);
  if (remote->withdrawn()) return std::nullopt;  // the channel says so in full
  fabric::Requester::Transfer transfer;
  transfer.request = EngineChannels::request_of(step, ends.source(), ends.target());
  transfer.request.priority = 0;
  transfer.remote = remote->remote();
  transfer.operation = writes ? fabric::Operation::write : fabric::Operation::read;
  fabric::Requester& requester = *remote->link().requester;
  if (auto status = requester.direct(transfer)) return status;
  if (!waits) return std::nullopt;
  return requester.carry_here(transfer, answer_wait, remote->link().bell());
}

}  // namespace

std::optional<Status> Carriers::carry_to_peer(const RecipeStep& step, const StepEnds& ends,
                                              const StartOptions& options) const {
  const std::int64_t begin_ns = now_ns();
  auto status = carry(step, ends, !options.among_others);
  if (status) note_span(*step.plan, begin_ns);
  return status;
}

}  // namespace tranship
