// The Python class of the engine.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>

#include "engine/processes.hpp"
#include "known_copies.hpp"
#include "plans.hpp"
#include "requests.hpp"

namespace tranship::python {
namespace {

const char* read_environment(const char* name) { return std::getenv(name); }

/// Reads what a call asks to copy by `read`, and starts it in the order that is asked for.
template <typename Read>
BoundEvent start(const std::shared_ptr<Engine>& engine, CopyOptions& options, Before& before,
                 const Read& read) {
  ReadRequest request;
  read(request, Reading{Hold::object, before.follows()});
  before.add(request.pairs());
  return start_in_order(engine, before, options.start,
                        [&] { return engine->copy(request.with(options)); });
}

template <typename Read>
BoundEvent start(const std::shared_ptr<Engine>& engine, int priority, nb::handle after,
                 nb::handle stream, nb::handle notify, const Read& read,
                 nb::handle cast = nb::none()) {
  drop_kept();
  Before before(*engine, after, stream);
  const std::string notice = notice_name(notify);
  CopyOptions options;
  options.priority = priority;
  options.casting = casting_of(cast);
  options.start.notify = notice;
  return start(engine, options, before, read);
}

BoundEvent copy(const std::shared_ptr<Engine>& engine, nb::handle source, nb::handle target,
                nb::handle region, int priority, nb::handle after, nb::handle planner,
                std::int64_t buffer_bytes, nb::handle stream, nb::handle cast, nb::handle notify) {
  drop_kept();
  CopyOptions options = copy_options(priority, planner, buffer_bytes, cast);
  const std::string notice = notice_name(notify);
  options.start.notify = notice;
  Before before(*engine, after, stream);
  if (region.is_none() && notice.empty()) {
    if (auto event = start_known(engine, source, target, options, before)) return std::move(*event);
  }
  const Region ranges = region_of(region);
  CopyPair ends{array_of(source, false, Hold::nothing, before.follows()),
                array_of(target, true, Hold::nothing, before.follows())};
  unwrap(restrict_to(ends, ranges));
  before.add(ends.target);  // its stream comes first
  before.add(ends.source);
  if (before.empty() && ends.source.view.bytes() <= small_bytes) {
    if (auto event = engine->copy_now(ends.source, ends.target, options)) {
      return {std::move(*event), engine};
    }
  }
  own(ends, source, target);
  return start_in_order(engine, before, options.start,
                        [&] { return engine->copy(CopyRequest{{&ends, 1}, {}, options}); });
}

BoundEvent copy_all(const std::shared_ptr<Engine>& engine, const Pairs& given, int priority,
                    nb::handle after, nb::handle stream, nb::handle cast, nb::handle notify) {
  drop_kept();
  // What asks a tensor may run any code, which may change a list.
  const nb::tuple pairs = nb::steal<nb::tuple>(PySequence_Tuple(given.ptr()));
  if (!pairs.is_valid()) throw nb::python_error();
  const std::string notice = notice_name(notify);
  CopyOptions options;
  options.priority = priority;
  options.casting = casting_of(cast);
  options.start.notify = notice;
  Before before(*engine, after, stream);
  if (before.events().empty() && notice.empty() && options.casting == Casting::none) {
    if (auto event = start_known_list(engine, pairs, options, before)) return std::move(*event);
  }
  return start(engine, options, before, [&](ReadRequest& request, const Reading& reading) {
    request.read_all(nb::borrow<Pairs>(pairs), reading);
  });
}

BoundEvent copy_pages(const std::shared_ptr<Engine>& engine, nb::handle source, nb::handle target,
                      nb::handle source_pages, nb::handle target_pages, int priority,
                      nb::handle after, nb::handle stream, nb::handle cast, nb::handle notify) {
  const auto read = [&](ReadRequest& request, const Reading& reading) {
    request.read_pages(source, target, source_pages, target_pages, reading);
  };
  return start(engine, priority, after, stream, notify, read, cast);
}

BoundEvent copy_pieces(const std::shared_ptr<Engine>& engine, nb::handle source, nb::handle target,
                       nb::handle source_offsets, nb::handle target_offsets, nb::handle lengths,
                       int priority, nb::handle after, nb::handle stream, nb::handle notify) {
  return start(
      engine, priority, after, stream, notify, [&](ReadRequest& request, const Reading& reading) {
        request.read_pieces(source, target, source_offsets, target_offsets, lengths, reading);
      });
}

BoundEvent copy_types(const std::shared_ptr<Engine>& engine, const TypedPairs& pairs, int priority,
                      nb::handle after, nb::handle stream, nb::handle notify) {
  return start(
      engine, priority, after, stream, notify,
      [&](ReadRequest& request, const Reading& reading) { request.read_types(pairs, reading); });
}

BoundPlan plan(const std::shared_ptr<Engine>& engine, nb::handle source, nb::handle target,
               nb::handle region, int priority, nb::handle planner, std::int64_t buffer_bytes,
               nb::handle cast) {
  ReadRequest request;
  request.read(source, target, region_of(region), {Hold::object, Follows::nothing});
  const CopyPair& ends = request.pairs()[0];
  const CopyOptions options = copy_options(priority, planner, buffer_bytes, cast);
  return {unwrap(released([&] { return engine->plan(ends.source, ends.target, options); })),
          engine};
}

std::shared_ptr<Engine> open(const std::string& profile,
                             const std::map<std::string, std::string>& overrides,
                             const std::string& trace_file, const std::string& program, bool accept,
                             const std::string& contact_file) {
  check_interpreter();
  Engine::Options options;
  options.config = config_with(overrides);
  options.profile = unwrap(Profile::from_json(profile));
  options.trace_file = trace_file;
  options.program = program;
  options.accept = accept;
  options.contact_file = contact_file;
  return owned(unwrap(released([&] { return Engine::open(std::move(options)); })));
}

/// Adds to the trace what the caller did from `begin_ns` until now.
void add_span(const Engine& engine, const std::string& name, std::int64_t begin_ns,
              std::int64_t bytes) {
  if (engine.trace() == nullptr) return;
  Span span{name, "program", begin_ns, SteadyClock().now_ns(), bytes};
  span.thread = own_row();
  const Released released;
  engine.trace()->add(std::move(span));
}

}  // namespace

Config config_with(const std::map<std::string, std::string>& overrides) {
  return unwrap(config_from_environment([&](const char* name) -> const char* {
    const auto found = overrides.find(name);
    return found != overrides.end() ? found->second.c_str() : read_environment(name);
  }));
}

void bind_engine(nb::module_& module) {
  bind_plans(module);
  bind_events(module);
  nb::class_<Engine>(module, "EngineCore", nb::is_weak_referenceable())
      .def_static("open", &open, nb::arg("profile"), nb::arg("overrides"), nb::arg("trace_file"),
                  nb::arg("program"), nb::arg("accept"), nb::arg("contact_file"))
      .def("copy", &copy, nb::arg("source").none(), nb::arg("target").none(),
           nb::arg("region").none(), nb::arg("priority"), nb::arg("after").none(),
           nb::arg("planner").none(), nb::arg("buffer_bytes"), nb::arg("stream").none(),
           nb::arg("cast") = nb::none(), nb::arg("notify") = nb::none())
      .def("copy_all", &copy_all, nb::arg("pairs"), nb::arg("priority"), nb::arg("after").none(),
           nb::arg("stream").none(), nb::arg("cast") = nb::none(), nb::arg("notify") = nb::none())
      .def("copy_pages", &copy_pages, nb::arg("source").none(), nb::arg("target").none(),
           nb::arg("source_pages").none(), nb::arg("target_pages").none(), nb::arg("priority"),
           nb::arg("after").none(), nb::arg("stream").none(), nb::arg("cast") = nb::none(),
           nb::arg("notify") = nb::none())
      .def("copy_pieces", &copy_pieces, nb::arg("source").none(), nb::arg("target").none(),
           nb::arg("source_offsets").none(), nb::arg("target_offsets").none(),
           nb::arg("lengths").none(), nb::arg("priority"), nb::arg("after").none(),
           nb::arg("stream").none(), nb::arg("notify") = nb::none())
      .def("copy_types", &copy_types, nb::arg("pairs"), nb::arg("priority"),
           nb::arg("after").none(), nb::arg("stream").none(), nb::arg("notify") = nb::none())
      .def("plan", &plan, nb::arg("source").none(), nb::arg("target").none(),
           nb::arg("region").none(), nb::arg("priority"), nb::arg("planner").none(),
           nb::arg("buffer_bytes"), nb::arg("cast") = nb::none())
      .def(
          "close", [](nb::handle self) { unwrap(close_apart(self, nb::cast<Engine&>(self))); },
          nb::sig("def close(self) -> None"))
      .def_prop_ro("closed", &Engine::closed)
      .def_prop_ro("threads", &Engine::threads)
      .def_prop_ro("buffer_bytes_in_use",
                   [](const Engine& engine) {
                     const Released released;
                     return engine.buffer_bytes_in_use();
                   })
      .def_prop_ro("profile", [](const Engine& engine) { return engine.profile().to_json(); })
      .def("add_span", &add_span, nb::arg("name"), nb::arg("begin_ns"), nb::arg("bytes"));
  module.def(
      "describe_config",
      [](const std::map<std::string, std::string>& overrides) {
        nb::list entries;
        for (const ConfigEntry& entry : describe(config_with(overrides), read_environment)) {
          entries.append(nb::make_tuple(entry.name, entry.value, entry.source, entry.help));
        }
        return entries;
      },
      nb::arg("overrides"),
      nb::sig("def describe_config(overrides: dict[str, str]) -> "
              "list[tuple[str, str, str, str]]"));
  module.def(
      "parse_bytes", [](const std::string& text) { return unwrap(parse_bytes(text)); },
      nb::arg("text"));
}

}  // namespace tranship::python
