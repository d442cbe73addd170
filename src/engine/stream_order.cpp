#include "engine/stream_order.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/carriers/carriers.hpp"
#include "engine/gpu_side.hpp"

namespace tranship {
namespace {

GpuStream stream_of(const CallerStream& stream) {
  return {stream.device, reinterpret_cast<void*>(stream.handle)};
}

/// Returns a stream with its GPU, which is `device` if it does not say.
Result<CallerStream> checked(const Gpus& gpus, CallerStream stream, int device) {
  if (stream.device < 0) stream.device = std::max(device, 0);
  const std::size_t count = gpus.list().size();
  if (stream.device >= static_cast<int>(count)) {
    return Error{ErrorCode::invalid_argument,
                 "a stream of GPU " + std::to_string(stream.device) +
                     " was given, and this engine has " + std::to_string(count),
                 "see which with: tranship topology"};
  }
  if (gpus.emulated() && !gpus.has_stream(stream_of(stream))) {
    return Error{ErrorCode::invalid_argument, "emulated GPUs have no streams but the default ones",
                 "give stream=1 or none"};
  }
  return stream;
}

/// Returns an event behind the work in a stream.
Result<Event> event_behind(const GpuSide& gpus, const CallerStream& stream) {
  auto flight = gpus.event_behind(stream_of(stream));
  if (!flight) return flight.error();
  if (*flight == nullptr) {
    return Error{ErrorCode::invalid_argument,
                 "a stream is being captured, and the copy is ordered with other streams as well",
                 "make the arrays' libraries use the captured stream, or name it by stream="};
  }
  return Event(nullptr, std::move(*flight));
}

/// Returns several streams with their GPUs, each once.
Result<std::vector<CallerStream>> checked(const Gpus& gpus, std::span<const CallerStream> given,
                                          int device) {
  std::vector<CallerStream> streams;
  for (const CallerStream& one : given) {
    const auto stream = checked(gpus, one, device);
    if (!stream) return stream.error();
    StreamOrder::add(streams, *stream);
  }
  return streams;
}

}  // namespace

void StreamOrder::add(std::vector<CallerStream>& list, const CallerStream& stream) {
  if (std::find(list.begin(), list.end(), stream) == list.end()) list.push_back(stream);
}

Result<OrderedStart> begin_order(const GpuSide* gpus, const StreamOrder& order, int device) {
  OrderedStart start;
  if (order.empty()) return start;
  const bool named = order.own || !order.before.empty();
  if (gpus == nullptr) {
    if (!named) return start;  // the copy says that the arrays lie on a GPU
    return Error{ErrorCode::invalid_argument,
                 "a stream was given, and this engine has no GPU; `tranship topology` says why"};
  }
  start.in_order = !order.own && !order.around.empty();
  if (!named && order.around.size() == 1) {  // as mostly: no list is needed
    const auto stream = checked(*gpus->gpus(), order.around[0], device);
    if (!stream) return stream.error();
    start.stream = *stream;
    return start;
  }
  std::vector<CallerStream> all;
  if (order.own) all.push_back(*order.own);
  all.insert(all.end(), order.around.begin(), order.around.end());
  all.insert(all.end(), order.before.begin(), order.before.end());
  const auto streams = checked(*gpus->gpus(), all, device);
  if (!streams) return streams.error();
  const bool in_stream = order.own || streams->size() == 1;
  if (in_stream) {
    start.stream = streams->front();
  } else {  // a copy that is given a stream runs in it, or the stream waits for it by itself
    auto followers = checked(*gpus->gpus(), order.around, device);
    if (!followers) return followers.error();
    start.followers = std::move(*followers);
  }
  // The GPU of a stream that is given by its number alone is the one on which the copy runs.
  if (order.own) start.stream->device = order.own->device;
  for (std::size_t k = in_stream ? 1 : 0; k < streams->size(); ++k) {
    auto event = event_behind(*gpus, (*streams)[k]);
    if (!event) return event.error();
    start.after.push_back(std::move(*event));
  }
  return start;
}

Status end_order(const Carriers& carriers, const GpuSide* gpus, const OrderedStart& started,
                 const Event& event, bool (*interrupted)()) {
  if (!started.in_order) return {};
  if (event.flight() != nullptr && started.followers.empty()) return {};  // it runs in the stream
  const std::vector<Event> parts = event.parts();
  Status first;
  for (const Event& part : parts) {
    if (part.flight() == nullptr) continue;
    for (const CallerStream& stream : started.followers) {
      Status status = gpus->gpus()->wait(stream_of(stream), part.flight()->event());
      if (first) first = std::move(status);
    }
  }
  for (const Event& part : parts) {
    const bool waits = part.flight() == nullptr || !first;
    if (!waits || part.is_notice() || part.ended_well()) continue;
    Status status = carriers.wait_for_end(part, interrupted);
    if (first) first = std::move(status);
  }
  return first;
}

Status wait_for_streams(const Carriers& carriers, const GpuSide* gpus, const StreamOrder& order,
                        int device, bool (*interrupted)()) {
  if (gpus == nullptr || order.around.empty()) return {};
  const auto streams = checked(*gpus->gpus(), order.around, device);
  if (!streams) return streams.error();
  for (const CallerStream& stream : *streams) {
    const auto event = event_behind(*gpus, stream);
    if (!event) return event.error();
    if (Status status = carriers.wait_for_end(*event, interrupted); !status) return status;
  }
  return {};
}

}  // namespace tranship
