// Prepared copies in C++: starts in host memory and on emulated GPUs, other arrays, threads, ends.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "engine/gpu_matrices.hpp"
#include "engine/prepared_copy.hpp"
#include "support/test.hpp"

namespace tranship {
namespace {

using namespace std::chrono_literals;

Status started(Engine& engine, const PreparedCopy& copy, const StartOptions& options = {}) {
  auto event = engine.start(copy, options);
  return event ? event->wait(60s) : Status(event.error());
}

std::string refusal(Engine& engine, const PreparedCopy& copy, const CopyPair& ends) {
  const auto event = engine.start(copy, ends, {});
  REQUIRE(!event.ok());
  EXPECT(event.error().code == ErrorCode::invalid_argument);
  EXPECT(!event.error().hint.empty());
  return event.error().message;
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

TEST(a_prepared_copy_moves_what_the_source_holds_at_each_start) {
  const auto engine = open_engine();
  for (const std::int64_t rows : {3, 2000}) {  // carried on the caller's thread, and by workers
    Matrix source = counted(rows, 300);
    Matrix target(rows, 300);
    const auto copy = engine->prepare(source.array, target.array, {});
    REQUIRE(copy.ok());
    EXPECT_EQ(copy->bytes(), rows * 1200);
    for (int turn = 0; turn < 3; ++turn) {
      for (std::int32_t& value : source.values) ++value;
      EXPECT(started(*engine, *copy).ok());
      EXPECT(target.values == source.values);
    }
    EXPECT_EQ(engine->start_now(*copy, {}).has_value(), rows == 3);
  }
}

TEST(a_prepared_copy_serves_other_arrays_that_are_alike) {
  const auto engine = open_engine();
  Matrix first = counted(40, 30);
  Matrix target(40, 30, "F, x, y");
  const auto copy = engine->prepare(first.array, target.array, {});
  REQUIRE(copy.ok());
  Matrix other = counted(40, 30);
  std::reverse(other.values.begin(), other.values.end());
  Matrix landing(40, 30, "F, x, y");
  auto event = engine->start(*copy, {other.array, landing.array}, {});
  REQUIRE(event.ok());
  EXPECT(event->wait(60s).ok());
  EXPECT_EQ(landing.values[0 + 40 * 7], other.values[7]);
  EXPECT(target.values == Matrix(40, 30).values);
}

TEST(other_arrays_that_differ_are_refused_with_what_differs) {
  const auto engine = open_gpu_engine();
  const Matrix source = counted(6, 4);
  Matrix target(6, 4);
  const auto copy = engine->prepare(source.array, target.array, {});
  REQUIRE(copy.ok());
  EXPECT(contains(refusal(*engine, *copy, {Matrix(6, 5).array, target.array}),
                  "source differs in shape"));
  EXPECT(contains(refusal(*engine, *copy, {source.array, Matrix(6, 4, "F, x, y").array}),
                  "target differs in layout"));
  EXPECT(contains(refusal(*engine, *copy, {GpuMatrix(*engine, source).array, target.array}),
                  "source differs in memory"));
  EXPECT(contains(refusal(*engine, *copy, {target.array, target.array}), "overlap"));
  Array fixed = target.array;
  fixed.writable = false;
  EXPECT(contains(refusal(*engine, *copy, {source.array, fixed}), "read-only"));
  EXPECT(target.values == Matrix(6, 4).values);
}

TEST(a_prepared_copy_on_a_gpu_runs_again_in_streams_and_after_events) {
  const auto engine = open_gpu_engine();
  const Matrix first = counted(64, 48);
  Matrix second = first;
  std::reverse(second.values.begin(), second.values.end());
  GpuMatrix source(*engine, first);
  GpuMatrix middle(*engine, Matrix(64, 48), 1);
  GpuMatrix target(*engine, Matrix(64, 48));
  const auto there = engine->prepare(source.array, middle.array, {});
  const auto back = engine->prepare(middle.array, target.array, {});
  REQUIRE(there.ok() && back.ok());
  EXPECT(!engine->start_now(*there, {}).has_value());
  for (const Matrix& values : {first, second}) {
    source.fill(values);
    auto event = engine->start(*there, {});
    REQUIRE(event.ok());
    EXPECT(event->flight() != nullptr);
    StartOptions options;
    options.after = {*event};
    options.stream = 1;
    EXPECT(started(*engine, *back, options).ok());
    EXPECT(target.values() == values.values);
  }
}

TEST(copies_in_a_stream_are_one_hop_however_slow_a_gpu_seems) {
  Engine::Options options;
  options.profile = host_profile();
  options.config.emulated_gpus = 2;
  auto gpus = GpuSide::open(options.config);
  REQUIRE(gpus.ok());
  (*gpus)->extend(options.profile, 1 << 24);
  for (ChannelSpec& channel : options.profile.channels) {
    const bool slow = traits_of(channel.kind).gpu && channel.name.ends_with("device0");
    channel.latency_s = slow ? 1.0 : 0.0;
  }
  const auto engine = *Engine::open(std::move(options));
  const Matrix values = counted(64, 48);
  const GpuMatrix source(*engine, values);
  const GpuMatrix target(*engine, Matrix(64, 48));
  const GpuMatrix other(*engine, Matrix(64, 48), 1);
  CopyOptions in_stream;
  in_stream.start.stream = 1;
  for (const Array& end : {target.array, other.array}) {
    const auto event = engine->copy(source.array, end, in_stream);
    REQUIRE(event.ok());
    EXPECT(event->plan()->hops.size() == 1u);
    EXPECT(event->flight() != nullptr);
    const auto prepared = engine->prepare(end, source.array, {});
    REQUIRE(prepared.ok());
    EXPECT(prepared->plan()->hops.size() == 1u);
  }
  EXPECT(target.values() == values.values && other.values() == values.values);
  EXPECT(engine->plan(source.array, target.array, {}).value()->hops.size() == 1u);
}

TEST(pairs_that_one_launch_carries_are_kept_until_the_launch_has_ended) {
  const auto engine = open_gpu_engine();
  const Matrix values = counted(8, 100);
  std::vector<GpuMatrix> targets;
  Result<Event> event = Error{};
  {
    std::vector<CopyPair> pairs;
    for (int k = 0; k < 5; ++k) {
      targets.emplace_back(*engine, Matrix(8, 100), 1);
      pairs.push_back({GpuMatrix(*engine, values).array, targets.back().array});
    }
    const auto copy = engine->prepare(CopyRequest{pairs});
    REQUIRE(copy.ok());
    EXPECT_EQ(copy->bytes(), 5 * 3200);
    EXPECT(started(*engine, *copy).ok());
    event = engine->start(*copy, {});
    REQUIRE(event.ok());
    EXPECT(contains(refusal(*engine, *copy, pairs[0]), "its own arrays alone"));
  }
  EXPECT(event->wait(60s).ok());
  for (const GpuMatrix& target : targets) EXPECT(target.values() == values.values);
}

TEST(threads_start_one_prepared_copy_at_the_same_time) {
  const auto engine = open_gpu_engine();
  const std::vector<std::int64_t> from{4, 1, 7, 0, 12, 9};
  const std::vector<std::int64_t> to{0, 3, 1, 2, 15, 8};
  const GpuMatrix source(*engine, counted(16, 24));
  const GpuMatrix target(*engine, Matrix(16, 24), 1);
  const CopyPair ends{source.array, target.array};
  const auto copy = engine->prepare({{&ends, 1}, PageLists{from, to}});
  REQUIRE(copy.ok());
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      const GpuMatrix own(*engine, counted(16, 24));
      const GpuMatrix landing(*engine, Matrix(16, 24), 1);
      for (int turn = 0; turn < 100; ++turn) {
        auto other = engine->start(*copy, {own.array, landing.array}, {});
        REQUIRE(other.ok());
        if (thread == 0) {  // two copies at once into one target would race
          auto shared = engine->start(*copy, {});
          REQUIRE(shared.ok());
          EXPECT(shared->wait(60s).ok());
        }
        EXPECT(other->wait(60s).ok());
      }
      EXPECT(landing.values()[0] == 4 * 24 + 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t k = 0; k < from.size(); ++k) {
    EXPECT_EQ(target.values()[static_cast<std::size_t>(to[k] * 24 + 5)], from[k] * 24 + 6);
  }
}

TEST(a_closed_engine_starts_nothing) {
  const auto engine = open_gpu_engine();
  const Matrix source = counted(4, 4);
  Matrix target(4, 4);
  const GpuMatrix on_gpu(*engine, source);
  const GpuMatrix on_other(*engine, source, 1);
  const auto here = engine->prepare(source.array, target.array, {});
  const auto there = engine->prepare(on_gpu.array, on_other.array, {});
  REQUIRE(here.ok() && there.ok());
  EXPECT(engine->close().ok());
  for (const auto& copy : {*here, *there}) {
    const auto event = engine->start(copy, {});
    REQUIRE(!event.ok());
    EXPECT(event.error().code == ErrorCode::closed);
    EXPECT(!engine->start_now(copy, {}).has_value());
  }
  EXPECT(target.values == Matrix(4, 4).values);
}

TEST(a_copy_in_host_memory_goes_behind_the_work_in_a_stream) {
  const auto engine = open_gpu_engine();
  const Matrix source = counted(4, 4);
  Matrix target(4, 4);
  CopyOptions options;
  options.start.stream = 1;
  auto event = engine->copy(source.array, target.array, options);
  REQUIRE(event.ok());
  EXPECT(event->completion() != nullptr);  // it was queued behind an event of the stream
  EXPECT(event->wait(60s).ok());
  EXPECT(target.values == source.values);
}

}  // namespace
}  // namespace tranship
