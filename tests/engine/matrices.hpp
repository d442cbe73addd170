// An engine on a machine of host memory alone, and matrices for it to copy.
#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/engine.hpp"
#include "support/test.hpp"

namespace tranship {

/// Returns a machine of host memory alone. Its rate and hand-off time decide which copies are
/// queued: here those of more than some kilobytes.
inline Profile host_profile() {
  Profile profile;
  profile.memories = {{"node0/host0", MemoryKind::host, 1 << 24}};
  ChannelSpec spec;
  spec.name = "memcpy node0";
  spec.throughput = Throughput({{1, 1, 1e9}});
  spec.width = 2;
  profile.channels = {spec};
  profile.handoff_s = 5e-6;
  return profile;
}

inline std::unique_ptr<Engine> open_engine() {
  Engine::Options options;
  options.profile = host_profile();
  options.config.threads = 2;
  options.config.buffer_bytes = 1 << 24;
  auto engine = Engine::open(std::move(options));
  REQUIRE(engine.ok());
  return std::move(*engine);
}

/// A matrix of 32-bit integers in host memory.
struct Matrix {
  Matrix(std::int64_t rows, std::int64_t columns, const char* layout = "F, y, x")
      : values(static_cast<std::size_t>(rows * columns)) {
    array.view = View::whole(Mapping::make({{"x", rows}, {"y", columns}}, {{"value", "i4", 4}},
                                           Layout::parse(layout).value())
                                 .value());
    array.place.address = reinterpret_cast<std::byte*>(values.data());
    array.name = "a matrix";
  }
  std::vector<std::int32_t> values;
  Array array;
};

inline Matrix counted(std::int64_t rows, std::int64_t columns) {
  Matrix matrix(rows, columns);
  std::iota(matrix.values.begin(), matrix.values.end(), 1);
  return matrix;
}

}  // namespace tranship
