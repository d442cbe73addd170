#include "engine_functions.hpp"

#include <nanobind/stl/shared_ptr.h>

#include <new>

#include "bindings.hpp"
#include "prepared_query.hpp"

namespace tranship::python {
namespace {

constexpr std::chrono::seconds wait_max{60};

static_assert(sizeof(Event) <= sizeof(EventMemory) && alignof(Event) <= alignof(EventMemory));

using OpenedEngine = std::shared_ptr<Engine>;
using OpenedPairs = std::vector<CopyPair>;

/// Last error of a function of the table on this thread.
thread_local Error last_error;

bool keep(const Status& status) {
  if (!status) last_error = status.error();
  return status.ok();
}

/// Runs `body`; returns null and leaves the exception set if a Python exception is raised.
template <typename Body>
void* opened(const Body& body) {
  try {
    return body();
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  }
  return nullptr;
}

void* open_engine(PyObject* engine) {
  return opened([&] { return new OpenedEngine(nb::cast<OpenedEngine>(nb::handle(engine))); });
}

void close_engine(void* engine) { delete static_cast<OpenedEngine*>(engine); }

Engine& engine_in(void* engine) { return **static_cast<OpenedEngine*>(engine); }

void* open_pairs(PyObject* pairs) {
  return opened([&] {
    auto opened_pairs = std::make_unique<OpenedPairs>();
    add_pairs(nb::borrow<Pairs>(pairs), Hold::object, Follows::nothing, *opened_pairs);
    return opened_pairs.release();
  });
}

void close_pairs(void* pairs) { delete static_cast<OpenedPairs*>(pairs); }

const OpenedPairs& pairs_in(const void* pairs) { return *static_cast<const OpenedPairs*>(pairs); }

const CopyPair& pair_in(const void* pairs, std::int64_t index) {
  return pairs_in(pairs)[static_cast<std::size_t>(index)];
}

std::int64_t count_pairs(const void* pairs) {
  return static_cast<std::int64_t>(pairs_in(pairs).size());
}

PairMemory memory_of(const void* pairs, std::int64_t index) {
  const auto& [source, target] = pair_in(pairs, index);
  return {source.place.address, target.place.address, source.view.bytes()};
}

void* query_of(PyObject* query) {
  return opened([&] { return nb::cast<PreparedQuery*>(nb::handle(query)); });
}

void raise_error() {
  try {
    raise(last_error);
  } catch (nb::python_error& error) {
    error.restore();
  }
}

bool copy(void* engine, const void* pairs, std::int64_t index) {
  const auto& [source, target] = pair_in(pairs, index);
  auto event = engine_in(engine).copy(source, target, {});
  return keep(event ? event->wait(wait_max) : Status(event.error()));
}

bool hand_over(Result<Event> made, EventMemory* event) {
  if (!made) return keep(Status(made.error()));
  new (event->bytes) Event(std::move(*made));
  return true;
}

bool start_copy(void* engine, const void* pairs, std::int64_t index, EventMemory* event) {
  const auto& [source, target] = pair_in(pairs, index);
  return hand_over(engine_in(engine).copy(source, target, {}), event);
}

bool start_all(void* engine, const void* pairs, EventMemory* event) {
  return hand_over(engine_in(engine).copy_all(pairs_in(pairs), {}), event);
}

bool wait(const EventMemory* event) {
  return keep(std::launder(reinterpret_cast<const Event*>(event->bytes))->wait(wait_max));
}

void end_event(EventMemory* event) {
  std::launder(reinterpret_cast<Event*>(event->bytes))->~Event();
}

bool plan(void* engine, const void* pairs, std::int64_t index) {
  const auto& [source, target] = pair_in(pairs, index);
  auto made = engine_in(engine).plan(source, target, {});
  return made ? true : keep(Status(made.error()));
}

bool plan_query(void* query) { return keep(static_cast<PreparedQuery*>(query)->plan()); }

bool find_query(void* query) {
  if (static_cast<PreparedQuery*>(query)->find()) return true;
  last_error = {ErrorCode::not_found, "the cache has no plan for the query"};
  return false;
}

/// A stream of a GPU and an event; both are released with the object.
class OpenedStream {
 public:
  explicit OpenedStream(std::shared_ptr<Gpus> gpus) : gpus_(std::move(gpus)) {}
  ~OpenedStream() {
    if (event_) gpus_->release(*event_);
    if (stream_) gpus_->release(*stream_);
  }
  OpenedStream(const OpenedStream&) = delete;
  OpenedStream& operator=(const OpenedStream&) = delete;

  Status open(int device) {
    auto stream = gpus_->make_stream(device, false);
    if (!stream) return stream.error();
    stream_ = *stream;
    auto event = gpus_->make_event(device);
    if (!event) return event.error();
    event_ = *event;
    return {};
  }
  Status copy(const std::byte* source, std::byte* target, std::int64_t bytes) {
    return gpus_->copy(*stream_, source, target, bytes);
  }
  Status record() { return gpus_->record(*event_, *stream_); }
  Result<bool> reached() { return gpus_->reached(*event_); }

 private:
  std::shared_ptr<Gpus> gpus_;
  std::optional<GpuStream> stream_;
  std::optional<GpuEvent> event_;
};

OpenedStream& stream_in(void* stream) { return *static_cast<OpenedStream*>(stream); }

void* open_stream(void* engine, int device) {
  const auto gpus = engine_in(engine).gpus();
  if (!gpus) {
    last_error = {ErrorCode::unsupported, "this engine has no GPU", "see: tranship topology"};
    return nullptr;
  }
  auto stream = std::make_unique<OpenedStream>(gpus);
  return keep(stream->open(device)) ? stream.release() : nullptr;
}

void close_stream(void* stream) { delete static_cast<OpenedStream*>(stream); }

bool stream_copy(void* stream, const std::byte* source, std::byte* target, std::int64_t bytes) {
  return keep(stream_in(stream).copy(source, target, bytes));
}

bool record(void* stream) { return keep(stream_in(stream).record()); }

WorkState state(void* stream) {
  const auto reached = stream_in(stream).reached();
  if (!reached) {
    last_error = reached.error();
    return WorkState::failed;
  }
  return *reached ? WorkState::ended : WorkState::running;
}

constexpr EngineFunctions functions{
    .version = engine_functions_version,
    .open_engine = open_engine,
    .close_engine = close_engine,
    .open_pairs = open_pairs,
    .close_pairs = close_pairs,
    .count_pairs = count_pairs,
    .memory_of = memory_of,
    .query_of = query_of,
    .raise_error = raise_error,
    .copy = copy,
    .start_copy = start_copy,
    .start_all = start_all,
    .wait = wait,
    .end_event = end_event,
    .plan = plan,
    .plan_query = plan_query,
    .find_query = find_query,
    .open_stream = open_stream,
    .close_stream = close_stream,
    .stream_copy = stream_copy,
    .record = record,
    .state = state,
};

}  // namespace

void bind_engine_functions(nb::module_& module) {
  module.def("engine_functions",
             []() -> nb::object { return nb::capsule(&functions, engine_functions_name); });
}

}  // namespace tranship::python
