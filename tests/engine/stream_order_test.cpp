// Copies are ordered with the work in streams: on emulated GPUs, whose streams the tests hold.
#include "engine/stream_order.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "engine/gpu_matrices.hpp"
#include "gpu/gpus.hpp"
#include "support/test.hpp"

namespace tranship {
namespace {

using namespace std::chrono_literals;

/// A stream of a library on an emulated GPU, which holds its work until it is let go.
class Stream {
 public:
  explicit Stream(Engine& engine, int device = 0) : gpus_(engine.gpus()) {
    streams_ = dynamic_cast<EmulatedStreams*>(gpus_.get());
    stream_ = streams_->make_held_stream(device).value();
  }
  ~Stream() {
    streams_->let_go(stream_);
    gpus_->release(stream_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  CallerStream named() const {
    return {reinterpret_cast<std::uintptr_t>(stream_.handle), stream_.device};
  }
  void let_go() { streams_->let_go(stream_); }
  /// Puts a kernel into the stream that sets all bytes of a matrix.
  void fill(const GpuMatrix& matrix, int value) {
    EXPECT(streams_
               ->fill(stream_, matrix.array.place.address, matrix.array.view.bytes(),
                      static_cast<std::byte>(value))
               .ok());
  }

 private:
  std::shared_ptr<Gpus> gpus_;
  EmulatedStreams* streams_ = nullptr;
  GpuStream stream_;
};

std::int32_t number(int byte) { return 0x01010101 * byte; }

/// Copies in the order that is given, as the bindings do.
Result<Event> copy_in_order(Engine& engine, const Array& source, const Array& target,
                            const StreamOrder& order) {
  CopyOptions options;
  auto begun = engine.begin_order(order, 0);
  if (!begun) return begun.error();
  options.start.after = begun->after;
  if (begun->stream) {
    options.start.stream = begun->stream->handle;
    options.start.stream_device = begun->stream->device;
  }
  options.start.in_order = begun->in_order;
  auto event = engine.copy(source, target, options);
  if (!event) return event;
  if (Status kept = engine.end_order(*begun, *event, nullptr); !kept) return kept.error();
  return event;
}

TEST(one_stream_carries_the_copy_between_the_work_before_and_after_it) {
  const auto engine = open_gpu_engine();
  const GpuMatrix source(*engine, counted(30, 20));
  const GpuMatrix target(*engine, counted(30, 20));
  Stream stream(*engine);
  stream.fill(source, 3);
  stream.fill(target, 1);
  const auto event = copy_in_order(*engine, source.array, target.array, {{}, {}, {stream.named()}});
  REQUIRE(event.ok());
  stream.fill(source, 2);
  EXPECT(!event->done());
  EXPECT(target.values() == counted(30, 20).values);
  stream.let_go();
  EXPECT(event->wait(60s).ok());
  EXPECT(target.values() == std::vector<std::int32_t>(600, number(3)));
  EXPECT(source.values() == std::vector<std::int32_t>(600, number(2)));
}

TEST(several_streams_are_waited_for_and_wait) {
  const auto engine = open_gpu_engine();
  const GpuMatrix source(*engine, counted(30, 20), 0);
  const GpuMatrix target(*engine, counted(30, 20), 1);
  Stream first(*engine, 0);
  Stream second(*engine, 1);
  first.fill(source, 3);
  second.fill(target, 1);
  const auto event =
      copy_in_order(*engine, source.array, target.array, {{}, {}, {second.named(), first.named()}});
  REQUIRE(event.ok());
  first.fill(source, 2);
  second.let_go();
  EXPECT(!event->done());  // the source is not written yet
  EXPECT(target.values() == std::vector<std::int32_t>(600, number(1)));
  first.let_go();
  EXPECT(event->wait(60s).ok());
  EXPECT(target.values() == std::vector<std::int32_t>(600, number(3)));
  EXPECT(source.values() == std::vector<std::int32_t>(600, number(2)));
}

TEST(a_copy_of_several_hops_has_ended_on_return) {
  const auto engine = open_gpu_engine();
  for (const std::int64_t rows : {10, 3000}) {  // through a bounce buffer, and in tiles
    const GpuMatrix source(*engine, counted(rows, 200));
    Matrix target(rows, 200);
    Stream stream(*engine);
    stream.fill(source, 3);
    std::thread other([&] {
      std::this_thread::sleep_for(20ms);
      stream.let_go();
    });
    const auto event =
        copy_in_order(*engine, source.array, target.array, {{}, {}, {stream.named()}});
    REQUIRE(event.ok());
    stream.fill(source, 2);
    other.join();
    EXPECT(event->wait(60s).ok());
    EXPECT(target.values ==
           std::vector<std::int32_t>(static_cast<std::size_t>(rows) * 200, number(3)));
  }
}

TEST(a_stream_that_is_named_alone_does_not_hold_the_call) {
  const auto engine = open_gpu_engine();
  const GpuMatrix source(*engine, counted(3000, 200));
  Matrix target(3000, 200);
  Stream stream(*engine);
  stream.fill(source, 3);
  const auto event = copy_in_order(*engine, source.array, target.array, {stream.named(), {}, {}});
  REQUIRE(event.ok());
  EXPECT(!event->done());
  stream.let_go();
  EXPECT(event->wait(60s).ok());
  EXPECT(target.values == std::vector<std::int32_t>(600000, number(3)));
}

TEST(a_wait_for_streams_is_interrupted_and_ends) {
  const auto engine = open_gpu_engine();
  const GpuMatrix source(*engine, counted(30, 20));
  Stream stream(*engine);
  stream.fill(source, 3);
  const StreamOrder order{{}, {}, {stream.named()}};
  const Status interrupted = engine->wait_for_streams(order, 0, [] { return true; });
  REQUIRE(!interrupted.ok());
  EXPECT(interrupted.error().code == ErrorCode::cancelled);
  stream.let_go();
  EXPECT(engine->wait_for_streams(order, 0, nullptr).ok());
}

TEST(an_interrupted_copy_of_several_hops_is_cancelled) {
  const auto engine = open_gpu_engine();
  const GpuMatrix source(*engine, counted(3000, 200));
  Matrix target(3000, 200);
  Stream stream(*engine);
  stream.fill(source, 3);
  CopyOptions options;
  const auto begun = engine->begin_order({{}, {}, {stream.named()}}, 0);
  REQUIRE(begun.ok());
  options.start.stream = begun->stream->handle;
  options.start.stream_device = begun->stream->device;
  options.start.in_order = true;
  options.start.interrupted = [] { return true; };
  const auto event = engine->copy(source.array, target.array, options);
  REQUIRE(!event.ok());
  EXPECT(event.error().code == ErrorCode::cancelled);
}

TEST(streams_that_cannot_be_are_refused) {
  const auto engine = open_gpu_engine();
  for (const CallerStream& stream : {CallerStream{77, 0}, CallerStream{1, 5}}) {
    const auto begun = engine->begin_order({{}, {}, {stream}}, 0);
    REQUIRE(!begun.ok());
    EXPECT(begun.error().code == ErrorCode::invalid_argument);
  }
  const auto none = open_engine();
  EXPECT(!none->begin_order({CallerStream{1, 0}, {}, {}}, 0).ok());
  EXPECT(none->begin_order({{}, {}, {CallerStream{1, 0}}}, 0).ok());  // the copy itself is refused
  EXPECT(none->begin_order({}, 0).ok());
}

}  // namespace
}  // namespace tranship
