#include "calibration/measure_gpus.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/at.hpp"
#include "base/clock.hpp"
#include "engine/gpu_side.hpp"

namespace tranship {
namespace {

constexpr std::array<std::int64_t, 6> requests{64 * KiB, 256 * KiB, 1 * MiB,
                                               4 * MiB,  16 * MiB,  64 * MiB};
constexpr std::array<std::int64_t, 6> runs{1, 4, 16, 64, 256, 4 * KiB};
/// Bytes of transposed samples: a usual tile, and in GPU memory all that one launch carries.
constexpr std::int64_t turned_tile = 4 * MiB;
constexpr std::int64_t turned_whole = 128 * MiB;
/// Least bytes of samples in GPU memory: a sample of the usual size would end in microseconds.
constexpr std::int64_t bytes_in_memory = 256 * MiB;
constexpr std::int64_t emulated_bytes = 1 * MiB;
constexpr std::int64_t gpu_latency_bytes = 1 * MiB;
constexpr std::int64_t requests_most = 256;
constexpr int gpu_repeats = 3;

/// Returns the transpose of a nearly square matrix of elements of `run` bytes, `bytes` in all.
LoopNest transposed(std::int64_t bytes, std::int64_t run) {
  const std::int64_t side = square_side(bytes / run);
  const std::int64_t other = bytes / run / side;
  LoopNest nest;
  nest.element_bytes = run;
  nest.rank = 2;
  nest.loops[0] = {other, side * run, run};
  nest.loops[1] = {side, run, other * run};
  return nest;
}

LoopNest contiguous(std::int64_t bytes) {
  LoopNest nest;
  nest.element_bytes = bytes;
  return nest;
}

/// Samples of one channel, between two buffers.
class Samples {
 public:
  Samples(GpuChannel& channel, std::byte* source, std::byte* target)
      : channel_(channel), source_(source), target_(target) {}

  /// Returns the median seconds from the start of `count` requests, side by side in the buffers, to
  /// the end of the last one.
  Result<double> seconds(const LoopNest& nest, std::int64_t count) {
    std::vector<double> all;
    for (int k = 0; k < gpu_repeats; ++k) {
      auto one = once(nest, count);
      if (!one) return one.error();
      all.push_back(*one);
    }
    std::sort(all.begin(), all.end());
    return all[all.size() / 2];
  }

 private:
  Result<double> once(const LoopNest& nest, std::int64_t count) {
    std::vector<std::shared_ptr<GpuFlight>> flights;
    const std::int64_t begin = clock_.now_ns();
    for (std::int64_t k = 0; k < count; ++k) {
      Request request;
      request.payload = std::span(&nest, 1);
      request.bytes = nest.bytes();
      request.source.address = source_ + k * nest.bytes();
      request.target.address = target_ + k * nest.bytes();
      auto flight = channel_.start(request, nullptr, {});
      if (!flight) return flight.error();
      flights.push_back(std::move(*flight));
    }
    for (const auto& flight : flights) {
      while (!flight->done()) std::this_thread::yield();
      if (Status status = flight->status(); !status) return status.error();
    }
    return static_cast<double>(clock_.now_ns() - begin) * 1e-9;
  }

  SteadyClock clock_;
  GpuChannel& channel_;
  std::byte* source_;
  std::byte* target_;
};

Result<std::shared_ptr<void>> buffer_of(Engine& engine, const Memory& memory, std::int64_t bytes) {
  const bool pinned = memory.kind == MemoryKind::pinned;
  return engine.allocate(pinned ? MemoryKind::pinned : MemoryKind::device,
                         GpuSide::device_of(memory), bytes);
}

Status measure(Engine& engine, const Profile& profile, ChannelSpec& spec, std::int64_t bytes) {
  const bool over_link = traits_of(spec.kind).crosses_bus;
  auto source = buffer_of(engine, profile.memories[at(spec.source)], bytes);
  if (!source) return source.error();
  auto target = buffer_of(engine, profile.memories[at(spec.target)], bytes);
  if (!target) return target.error();
  Samples samples(engine.gpu_side()->channel(spec), static_cast<std::byte*>(source->get()),
                  static_cast<std::byte*>(target->get()));
  // A GPU's first access to a buffer costs more than any later one.
  if (auto warm = samples.seconds(contiguous(bytes), 1); !warm) return warm.error();
  std::vector<Sample> rates;
  const auto add = [&](const LoopNest& nest, std::int64_t request, std::int64_t run) -> Status {
    const std::int64_t count = std::clamp<std::int64_t>(bytes / nest.bytes(), 1, requests_most);
    auto seconds = samples.seconds(nest, count);
    if (!seconds) return seconds.error();
    rates.push_back({request, run, static_cast<double>(nest.bytes() * count) / *seconds});
    return {};
  };
  for (const std::int64_t request : requests) {
    if (request > bytes) continue;
    if (Status s = add(contiguous(request), request, request); !s) return s;
  }
  for (const std::int64_t turned : {turned_tile, over_link ? turned_tile : turned_whole}) {
    const std::int64_t request = std::min(turned, bytes);
    for (const std::int64_t run : runs) {
      if (Status s = add(transposed(request, run), request, run); !s) return s;
    }
    if (over_link || request == bytes) break;
  }
  spec.throughput = Throughput(std::move(rates));
  const std::int64_t short_bytes = std::min(gpu_latency_bytes, bytes);
  auto seconds = samples.seconds(contiguous(short_bytes), 1);
  if (!seconds) return seconds.error();
  const double moving_s =
      static_cast<double>(short_bytes) / spec.throughput.at(short_bytes, short_bytes);
  spec.latency_s = std::max(0.0, *seconds - moving_s);
  return {};
}

}  // namespace

std::int64_t square_side(std::int64_t elements) {
  std::int64_t side = 1;
  while (4 * side * side <= elements) side *= 2;
  return side;
}

Status measure_gpus(Engine& engine, Profile& profile, std::int64_t sample_bytes,
                    const std::function<void(const std::string&)>& report) {
  for (ChannelSpec& spec : profile.channels) {
    if (!traits_of(spec.kind).gpu) continue;
    report(spec.name);
    const bool in_memory = spec.kind == ChannelKind::gpu_copy || spec.kind == ChannelKind::gpu_peer;
    std::int64_t bytes = in_memory ? std::max(sample_bytes, bytes_in_memory) : sample_bytes;
    // Emulated GPUs are slow, and their rates have no meaning.
    if (engine.gpus()->emulated()) bytes = std::min(sample_bytes, emulated_bytes);
    if (Status status = measure(engine, profile, spec, bytes); !status) return status;
  }
  return {};
}

void add_gpu_links(Profile& profile) {
  const auto resource = [&](const std::string& name, double rate) {
    auto& all = profile.resources;
    auto found =
        std::find_if(all.begin(), all.end(), [&](const Resource& one) { return one.name == name; });
    if (found == all.end()) found = all.insert(all.end(), {name, 0});
    found->bytes_per_second = std::max(found->bytes_per_second, rate);
    return static_cast<int>(found - all.begin());
  };
  for (ChannelSpec& spec : profile.channels) {
    if (!traits_of(spec.kind).gpu) continue;
    const double rate = spec.throughput.peak();
    const auto device = [&](int memory) {
      return "device" + std::to_string(GpuSide::device_of(profile.memories[at(memory)]));
    };
    switch (spec.kind) {
      case ChannelKind::gpu_write:
        spec.resources = {resource("pcie to " + device(spec.target), rate)};
        break;
      case ChannelKind::gpu_read:
        spec.resources = {resource("pcie from " + device(spec.source), rate)};
        break;
      case ChannelKind::gpu_peer:
        spec.resources = {resource("peers from " + device(spec.source), rate),
                          resource("peers to " + device(spec.target), rate)};
        break;
      default: spec.resources = {resource(device(spec.source), rate)};
    }
  }
}

}  // namespace tranship
