// An engine with emulated GPUs, and matrices on them.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/matrices.hpp"

namespace tranship {

/// Opens an engine with two emulated GPUs, whose channels take no time. accept: Whether other
/// processes may connect to it.
inline std::unique_ptr<Engine> open_gpu_engine(bool accept = false) {
  Engine::Options options;
  options.accept = accept;
  options.profile = host_profile();
  options.config.threads = 2;
  options.config.emulated_gpus = 2;
  auto gpus = GpuSide::open(options.config);
  REQUIRE(gpus.ok());
  (*gpus)->extend(options.profile, 1 << 24);
  for (ChannelSpec& channel : options.profile.channels) {
    if (traits_of(channel.kind).gpu) channel.throughput = Throughput({{1, 1, 1e10}});
  }
  const int pinned = options.profile.find_memory("node0/pinned0");
  for (const auto& [source, target] : {std::pair(0, pinned), std::pair(pinned, 0)}) {
    ChannelSpec between = options.profile.channels[0];
    between.name = "memcpy " + std::to_string(source) + " " + std::to_string(target);
    between.source = source;
    between.target = target;
    options.profile.channels.push_back(std::move(between));
  }
  auto engine = Engine::open(std::move(options));
  REQUIRE(engine.ok());
  return std::move(*engine);
}

/// A matrix of 32-bit integers on a GPU. An emulated one keeps it in the host's memory.
struct GpuMatrix {
  GpuMatrix(Engine& engine, const Matrix& like, int device = 0) : array(like.array) {
    auto memory = engine.allocate(MemoryKind::device, device, bytes(like));
    REQUIRE(memory.ok());
    array.owner = *memory;
    array.memory_kind = MemoryKind::device;
    array.device = device;
    array.place.address = static_cast<std::byte*>(memory->get());
    fill(like);
  }
  static std::int64_t bytes(const Matrix& matrix) {
    return static_cast<std::int64_t>(matrix.values.size() * sizeof(std::int32_t));
  }
  void fill(const Matrix& from) {
    std::memcpy(array.place.address, from.values.data(), from.values.size() * 4);
  }
  std::vector<std::int32_t> values() const {
    std::vector<std::int32_t> found(static_cast<std::size_t>(array.view.points()));
    std::memcpy(found.data(), array.place.address, found.size() * 4);
    return found;
  }
  Array array;
};

}  // namespace tranship
