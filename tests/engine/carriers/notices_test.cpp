// Copies with notices in streams of GPUs: a graph holds none.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/gpu_matrices.hpp"
#include "engine/prepared_copy.hpp"
#include "engine/processes.hpp"
#include "gpu/gpus.hpp"
#include "support/test.hpp"

namespace tranship {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t matrix_rows = 30;
constexpr std::int64_t matrix_columns = 20;

/// An engine that exports a matrix on a GPU, and one that has connected to it and has a stream.
struct NoticedCopies {
  NoticedCopies() : owner(open_gpu_engine(true)), sender(open_gpu_engine()) {
    auto links = owner->processes();
    REQUIRE(links.ok());
    REQUIRE((*links)->export_array("inbox", inbox.array, true).ok());
    auto own_links = sender->processes();
    REQUIRE(own_links.ok());
    const auto peer = (*own_links)->connect((*links)->contact(), 60s);
    REQUIRE(peer.ok());
    auto found = (*own_links)->lookup(*peer, "inbox", 60s);
    REQUIRE(found.ok());
    remote = std::move(*found);
    streams = dynamic_cast<EmulatedStreams*>(sender->gpus().get());
    stream = sender->gpus()->make_stream(0, false).value();
  }
  NoticedCopies(const NoticedCopies&) = delete;
  NoticedCopies& operator=(const NoticedCopies&) = delete;
  ~NoticedCopies() { sender->gpus()->release(stream); }

  /// Options of a start in the stream, with a notice of this name.
  StartOptions notifying(const char* name) const {
    StartOptions options;
    options.stream = reinterpret_cast<std::uintptr_t>(stream.handle);
    options.stream_device = stream.device;
    options.notify = name;
    return options;
  }
  std::vector<std::string> notices() const {
    std::vector<std::string> names;
    const auto taken = owner->processes().value()->take_notices({}, 0ms);
    REQUIRE(taken.ok());
    for (const fabric::CopyNotice& notice : *taken) names.push_back(notice.name);
    return names;
  }

  const Matrix first = counted(matrix_rows, matrix_columns);
  const Matrix zeros{matrix_rows, matrix_columns};
  std::unique_ptr<Engine> owner;
  std::unique_ptr<Engine> sender;
  const GpuMatrix inbox{*owner, zeros};
  const GpuMatrix source{*sender, first};
  Array remote;
  EmulatedStreams* streams = nullptr;
  GpuStream stream;
};

bool is_captured_error(const Result<Event>& event) {
  return !event && event.error().code == ErrorCode::invalid_argument &&
         event.error().text() ==
             "the stream is being captured, and a graph holds no notices; "
             "leave out notify, or copy outside of the capture";
}

}  // namespace

TEST(a_captured_stream_sends_no_notices) {
  const NoticedCopies sides;
  Engine& engine = *sides.sender;
  const Array& source = sides.source.array;
  const CopyPair pair{source, sides.remote};
  const auto prepared = engine.prepare(CopyRequest{{&pair, 1}, {}, {}});
  REQUIRE(prepared.ok());
  Matrix host(matrix_rows, matrix_columns);
  CopyOptions options;
  options.start = sides.notifying("captured");
  sides.streams->begin_capture(sides.stream);
  EXPECT(is_captured_error(engine.copy(source, sides.remote, options)));
  EXPECT(is_captured_error(engine.copy(sides.remote, host.array, options)));
  EXPECT(is_captured_error(engine.copy(sides.first.array, sides.remote, options)));
  const std::vector<CopyPair> pairs{{sides.remote, host.array}, {sides.remote, source}};
  EXPECT(is_captured_error(engine.copy(CopyRequest{pairs, {}, options})));
  EXPECT(is_captured_error(engine.start(*prepared, options.start)));
  EXPECT(is_captured_error(engine.start(*prepared, pair, options.start)));
  EXPECT(!engine.start_now(*prepared, options.start).has_value());
  sides.streams->end_capture(sides.stream)();
  EXPECT(sides.inbox.values() == sides.zeros.values);
  EXPECT(host.values == sides.zeros.values);
  EXPECT(sides.notices().empty());
}

TEST(a_graph_holds_the_copy_that_has_no_notice) {
  const NoticedCopies sides;
  Engine& engine = *sides.sender;
  CopyOptions options;
  options.start = sides.notifying("");
  sides.streams->begin_capture(sides.stream);
  const auto captured = engine.copy(sides.source.array, sides.remote, options);
  const auto graph = sides.streams->end_capture(sides.stream);
  REQUIRE(captured.ok());
  EXPECT(sides.inbox.values() == sides.zeros.values);
  graph();
  EXPECT(sides.inbox.values() == sides.first.values);
  EXPECT(sides.notices().empty());

  options.start = sides.notifying("after the capture");
  const auto sent = engine.copy(sides.source.array, sides.remote, options);
  REQUIRE(sent.ok());
  EXPECT(sent->wait(60s).ok());
  EXPECT(sides.notices() == std::vector<std::string>{"after the capture"});
}

}  // namespace tranship
