#include "engine/carriers/waits.hpp"

#include <algorithm>
#include <utility>

#include "base/unless_interrupted.hpp"

namespace tranship {

bool Waits::over() const {
  return std::all_of(options_.after.begin(), options_.after.end(),
                     [](const Event& event) { return event.done(); });
}

bool Waits::over_well() const {
  return std::all_of(options_.after.begin(), options_.after.end(),
                     [](const Event& event) { return event.ended_well(); });
}

Status Waits::status() const {
  for (const Event& event : options_.after) {
    if (Status status = event.wait({}); !status) return status;
  }
  return {};
}

bool Waits::need_transfer() const {
  if (options_.stream) return false;
  for (const Event& given : options_.after) {
    for (const Event& event : given.parts()) {
      if (!event.flight() && !event.done()) return true;
    }
  }
  return false;
}

GpuStream Waits::stream(int device) const {
  return {options_.stream_device >= 0 ? options_.stream_device : device,
          reinterpret_cast<void*>(options_.stream.value_or(0))};
}

Result<std::vector<GpuEvent>> Waits::gpu_events() const {
  std::vector<GpuEvent> events;
  for (const Event& given : options_.after) {
    for (const Event& event : given.parts()) {
      if (event.done() || !event.flight()) {
        if (Status status = wait(event); !status) return status.error();
      } else {
        events.push_back(event.flight()->event());
      }
    }
  }
  return events;
}

Result<std::vector<std::shared_ptr<Completion>>> Waits::completions(const Plan& plan,
                                                                    int own) const {
  std::vector<std::shared_ptr<Completion>> after;
  const ChannelSpec* gpu_hop = channels_.any_gpu_channel();
  for (const Hop& hop : plan.hops) {
    if (traits_of(channels_.spec_of(hop).kind).gpu) gpu_hop = &channels_.spec_of(hop);
  }
  ThreadDriver& driver = channels_.driver();
  for (const Event& given : options_.after) {
    for (const Event& event : given.parts()) {
      if (event.flight() && !event.done()) {
        if (gpu_hop == nullptr) {  // it is another engine's, and this one has no GPU
          if (Status status = wait(event); !status) return status.error();
          continue;
        }
        after.push_back(driver.completion_of(event.flight(), channels_.number_of(*gpu_hop)));
      } else {
        after.push_back(event.completion());
      }
    }
  }
  if (!options_.stream || gpu_hop == nullptr) return after;
  const GpuSide& gpus = *channels_.gpus();
  GpuChannel& channel = gpus.channel(*gpu_hop);
  const GpuStream behind = stream(own >= 0 ? own : channel.device());
  auto flight = gpus.channel_on(behind.device, channel).event_behind(behind);
  if (!flight) return flight.error();
  if (*flight == nullptr) {
    return Error{ErrorCode::invalid_argument,
                 "the stream is being captured, and a graph holds only copies that a GPU carries "
                 "in one hop; this one goes " +
                     plan.path(channels_.profile()),
                 "copy from or to pinned memory, or outside of the capture"};
  }
  if (options_.in_order) {  // the caller waits for the copy in any case, and so no thread has to
    if (Status s = wait(Event(nullptr, std::move(*flight))); !s) return s.error();
  } else {
    after.push_back(driver.completion_of(*flight, channels_.number_of(*gpu_hop)));
  }
  return after;
}

Status Waits::wait(Time end, const std::function<Status(Time)>& wait) const {
  using Clock = std::chrono::steady_clock;
  while (true) {
    Status status = wait(std::min(end, Clock::now() + interruption_look));
    if (status || status.error().code != ErrorCode::timeout) return status;
    if (Status open = lifetime_.usable(); !open) return open;
    if (options_.interrupted != nullptr && options_.interrupted()) {
      return Error{ErrorCode::cancelled, "interrupted"};
    }
    if (Clock::now() >= end) return status;
  }
}

Status Waits::wait(const Event& event) const {
  bool ended = false;
  const Status status = wait(Time::max(), [&](Time until) -> Status {
    Status waited = event.wait(until - std::chrono::steady_clock::now());
    ended = waited || event.done();
    return ended ? Status{} : waited;  // how it ended comes below, whatever that is
  });
  return ended ? event.wait({}) : status;
}

}  // namespace tranship
