// Copies that one GPU carries by one hop, in a stream of the caller's or of the engine's.
#include <algorithm>
#include <utility>

#include "engine/carriers/carriers.hpp"

namespace tranship {
namespace {

/// Size in bytes up to which a copy on a GPU takes no longer than the call that starts it.
constexpr std::int64_t short_bytes = std::int64_t{1} << 20;

/// Returns the work that was planned ahead, if it may be launched between these addresses; else
/// null.
std::shared_ptr<const GpuWork> usable_work(const RecipeStep& step, const StepEnds& ends) {
  if (!step.work) return nullptr;
  if (step.ready && !(step.ready->done() && step.ready->status())) return nullptr;
  const bool fits = step.work->fits(ends.source().place.address, ends.target().place.address);
  return fits ? step.work : nullptr;
}

}  // namespace

Status Carriers::check_pinned(const CopyPair& ends) const {
  for (const Array* array : {&ends.source, &ends.target}) {
    if (array->memory_kind != MemoryKind::pinned || array->view.mapping->end_bytes() == 0) continue;
    const std::byte* first = first_byte(*array);
    const std::byte* last = first + array->view.mapping->span_bytes() - 1;
    const Pinning& pinning = channels_.gpus()->pinning();
    if (pinning.reaches(first) && pinning.reaches(last)) continue;
    return invalid(array->name + " was pinned when the copy was prepared, and is not any more",
                   "keep it pinned, or prepare the copy again");
  }
  return {};
}

bool Carriers::is_captured(const StartOptions& options, const CopyPair& ends) const {
  if (!options.stream || channels_.gpus() == nullptr) return false;
  const int device = std::max(own_gpu({ends, {}}, 0), 0);
  return channels_.gpus()->gpus()->capturing(Waits(channels_, lifetime_, options).stream(device));
}

Result<Event> Carriers::start_on_gpu(const RecipeStep& step, const StepEnds& ends,
                                     const Waits& waits, const StartOptions& options,
                                     Guards guards) const {
  mark_link(step, ends);
  const GpuSide& gpus = *channels_.gpus();
  const Array& source = ends.source();
  const Array& target = ends.target();
  const ChannelSpec& spec = channels_.spec_of(step.plan->hops[0]);
  GpuChannel& channel = gpus.channel(spec, carrier_of(source, target));
  // The caller's stream is one of the GPU on which its own array lies, unless the options name
  // another GPU.
  GpuChannel& usual = gpus.channel(spec, is_opened(source) ? target.device : source.device);
  auto before = waits.gpu_events();
  if (!before) return before.error();
  std::vector<GpuEvent>& after = *before;
  const GpuStream stream = waits.stream(usual.device());
  const bool in_stream = options.stream && &channel == &usual && stream.device == usual.device();
  std::shared_ptr<GpuFlight> in_callers;
  if (options.stream && !in_stream) {
    auto behind = gpus.channel_on(stream.device, usual).event_behind(stream);
    if (!behind) return behind.error();
    in_callers = std::move(*behind);
    if (in_callers) after.push_back(in_callers->event());
  }
  const GpuStream* own = in_stream ? &stream : nullptr;
  const Request request = EngineChannels::request_of(step, source, target);
  const auto work = usable_work(step, ends);
  auto flight =
      work ? channel.start(work, request, own, after) : channel.start(request, own, after);
  if (!flight) return flight.error();
  if (*flight) {
    if (work || step.plan->bytes < short_bytes) (*flight)->ask_late();
    guards.give_to(**flight);
  }
  if (options.stream && !in_stream) {
    if (Status s = gpus.gpus()->wait(stream, (*flight)->event()); !s) return s.error();
  }
  return *flight ? Event(step.plan, std::move(*flight)) : Event(step.plan);
}

}  // namespace tranship
