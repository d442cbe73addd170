// Prepared copies in Python.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include <algorithm>

#include "engine/prepared_copy.hpp"
#include "known_copies.hpp"
#include "plans.hpp"
#include "requests.hpp"

namespace tranship::python {
namespace {

/// A prepared copy, its engine, and what a start needs beside the arrays.
struct BoundPrepared {
  std::shared_ptr<Engine> engine;
  PreparedCopy copy;
  Region region{};
  /// Streams that starts without a stream of their own are ordered with.
  std::vector<StreamSource> sources{};
  bool small = false;  ///< small_bytes at most
  bool typed = false;  ///< between types, which count bytes from the arrays' begins

  /// Returns another array in the form in which the prepared ones were read.
  nb::object block(nb::handle array) const {
    if (!typed) return nb::borrow(array);
    return nb::module_::import_("tranship.typed_ends").attr("block")(array);
  }
};

/// Notes what gives the streams of the arrays at each start. Waits for the work in streams that an
/// array names only when it is read, since no later start finds them.
void note_streams(BoundPrepared& made, const CopyPair& pair, const ObjectPair& objects) {
  for (const auto& [array, object] :
       {std::pair(&pair.target, &objects.second), {&pair.source, &objects.first}}) {
    const auto named = stream_of(*made.engine, *array);
    if (!named) continue;
    StreamSource source(*object, *named);
    auto& all = made.sources;
    if (std::find(all.begin(), all.end(), source) != all.end()) continue;
    if (source.fixed()) {
      const StreamOrder order{{}, {}, {*named}};
      unwrap(run([&] { return made.engine->wait_for_streams(order, named->device, interrupted); }));
    }
    all.push_back(std::move(source));
  }
}

/// Prepares what `read` puts into a request.
template <typename Read>
BoundPrepared prepared(const std::shared_ptr<Engine>& engine, const CopyOptions& options,
                       const Read& read) {
  ReadRequest request;
  std::vector<ObjectPair> objects;
  read(request, Reading{Hold::memory, Follows::current, &objects});
  BoundPrepared made{engine, unwrap(run([&] { return engine->prepare(request.with(options)); }))};
  made.small = made.copy.bytes() <= small_bytes;
  for (std::size_t k = 0; k < objects.size(); ++k) {
    note_streams(made, request.pairs()[k], objects[k]);
  }
  return made;
}

template <typename Read>
BoundPrepared prepared(const std::shared_ptr<Engine>& engine, int priority, const Read& read,
                       nb::handle cast = nb::none()) {
  CopyOptions options;
  options.priority = priority;
  options.casting = casting_of(cast);
  return prepared(engine, options, read);
}

BoundPrepared prepare(const std::shared_ptr<Engine>& engine, nb::handle source, nb::handle target,
                      nb::handle region, int priority, nb::handle planner,
                      std::int64_t buffer_bytes, nb::handle cast) {
  const Region ranges = region_of(region);
  const CopyOptions options = copy_options(priority, planner, buffer_bytes, cast);
  auto made = prepared(engine, options, [&](ReadRequest& request, const Reading& reading) {
    request.read(source, target, ranges, reading);
  });
  made.region = ranges;
  return made;
}

BoundPrepared prepare_all(const std::shared_ptr<Engine>& engine, const Pairs& pairs, int priority,
                          nb::handle cast) {
  const auto read = [&](ReadRequest& request, const Reading& reading) {
    request.read_all(pairs, reading);
  };
  return prepared(engine, priority, read, cast);
}

BoundPrepared prepare_pages(const std::shared_ptr<Engine>& engine, nb::handle source,
                            nb::handle target, nb::handle source_pages, nb::handle target_pages,
                            int priority, nb::handle cast) {
  const auto read = [&](ReadRequest& request, const Reading& reading) {
    request.read_pages(source, target, source_pages, target_pages, reading);
  };
  return prepared(engine, priority, read, cast);
}

BoundPrepared prepare_pieces(const std::shared_ptr<Engine>& engine, nb::handle source,
                             nb::handle target, nb::handle source_offsets,
                             nb::handle target_offsets, nb::handle lengths, int priority) {
  return prepared(engine, priority, [&](ReadRequest& request, const Reading& reading) {
    request.read_pieces(source, target, source_offsets, target_offsets, lengths, reading);
  });
}

BoundPrepared prepare_types(const std::shared_ptr<Engine>& engine, const TypedPairs& pairs,
                            int priority) {
  auto made = prepared(engine, priority, [&](ReadRequest& request, const Reading& reading) {
    request.read_types(pairs, reading);
  });
  made.typed = true;
  return made;
}

BoundEvent start_between(const BoundPrepared& self, nb::handle source, nb::handle target,
                         Before& before, StartOptions& options) {
  const CopyPair* own_ends = self.copy.ends();
  CopyPair given = own_ends != nullptr ? *own_ends : CopyPair{};
  if (!source.is_none()) {
    given.source = array_of(self.block(source), false, Hold::object, before.follows());
    before.add(given.source);
  }
  if (!target.is_none()) {
    given.target = array_of(self.block(target), true, Hold::object, before.follows());
    before.add(given.target);
  }
  unwrap(restrict_to(given, self.region, {!source.is_none(), !target.is_none()}));
  return start_in_order(self.engine, before, options,
                        [&] { return self.engine->start(self.copy, given, options); });
}

BoundEvent start(const BoundPrepared& self, nb::handle source, nb::handle target, nb::handle after,
                 nb::handle stream, nb::handle notify) {
  drop_kept();
  Before before(*self.engine, after, stream);
  if (before.follows() == Follows::current) {
    for (const StreamSource& one : self.sources) before.add_current(one.now());
  }
  const std::string notice = notice_name(notify);
  StartOptions options;
  options.notify = notice;
  if (!source.is_none() || !target.is_none()) {
    return start_between(self, source, target, before, options);
  }
  if (self.small && before.no_streams()) {
    options.after = before.events();
    if (auto event = self.engine->start_now(self.copy, options)) {
      return {std::move(*event), self.engine};
    }
  }
  return start_in_order(self.engine, before, options,
                        [&] { return self.engine->start(self.copy, options); });
}

std::string text(const BoundPrepared& self) {
  const auto plan = self.copy.plan();
  const std::string path = plan ? plan->path(self.engine->profile()) : "";
  return "<PreparedCopy" + (path.empty() ? "" : " " + path) + ": " +
         std::to_string(self.copy.bytes()) + " bytes>";
}

}  // namespace

void bind_prepared(nb::module_& module) {
  nb::class_<BoundPrepared>(module, "PreparedCopy",
                            "A copy that was checked and planned once, to be started again and "
                            "again. It keeps its arrays.")
      .def("start", &start, nb::kw_only(), nb::arg("source").none() = nb::none(),
           nb::arg("target").none() = nb::none(), nb::arg("after").none() = nb::none(),
           nb::arg("stream").none() = nb::none(), nb::arg("notify").none() = nb::none(),
           nb::sig("def start(self, *, source: typing.Any = None, target: typing.Any = None, "
                   "after: typing.Any = None, stream: typing.Any = None, "
                   "notify: str | None = None) -> Event"),
           R"(Starts the copy.

        Any thread may start it, and starts may overlap: give `after` where one has to wait for
        another. A small copy in memory has ended on return.

        Args:
            source: None: the array that the copy was prepared for. Or another one of the same
                shape, strides and type, in the same memory or on the same GPU; of the whole array
                if the copy has a region. It is read as for `Engine.copy`, and kept until the copy
                has ended.
            target: The same; it must be writable and must not overlap the source.
            after: As for `Engine.copy`.
            stream: As for `Engine.copy`. None: the start is ordered with the streams in which the
                arrays' libraries work now, in this thread.
            notify: As for `Engine.copy`.

        Returns:
            The event of the copy's end. It raises errors that occur after the start.

        Raises:
            InvalidArgument: An array that differs from the prepared one (the error says in what),
                overlaps the other or cannot be written; other arrays for a list of copies; pinned
                memory that is not pinned any more.
            NotFound: A peer has withdrawn its array.
            PeerLost: The process of an array has exited.
            Closed: The engine is closed, or this process is a fork of the one that opened it.)")
      .def("__repr__", &text)
      .def(
          "__reduce__",
          [](const BoundPrepared&) -> nb::object {
            throw nb::type_error(
                "a PreparedCopy cannot be pickled: it belongs to an engine of this process; "
                "prepare the copy there");
          },
          nb::sig("def __reduce__(self) -> typing.NoReturn"))
      .def_prop_ro(
          "nbytes", [](const BoundPrepared& self) { return self.copy.bytes(); },
          "Bytes that one start moves.")
      .def_prop_ro(
          "plan",
          [](const BoundPrepared& self) { return bound_plan(self.copy.plan(), self.engine); },
          "The plan of the copy; of a list, that of its first copy, unless one launch carries "
          "all.");
  module.def("prepare", &prepare, nb::arg("engine"), nb::arg("source").none(),
             nb::arg("target").none(), nb::arg("region").none(), nb::arg("priority"),
             nb::arg("planner").none(), nb::arg("buffer_bytes"), nb::arg("cast") = nb::none());
  module.def("prepare_all", &prepare_all, nb::arg("engine"), nb::arg("pairs"), nb::arg("priority"),
             nb::arg("cast") = nb::none());
  module.def("prepare_types", &prepare_types, nb::arg("engine"), nb::arg("pairs"),
             nb::arg("priority"));
  module.def("prepare_pages", &prepare_pages, nb::arg("engine"), nb::arg("source").none(),
             nb::arg("target").none(), nb::arg("source_pages").none(),
             nb::arg("target_pages").none(), nb::arg("priority"), nb::arg("cast") = nb::none());
  module.def("prepare_pieces", &prepare_pieces, nb::arg("engine"), nb::arg("source").none(),
             nb::arg("target").none(), nb::arg("source_offsets").none(),
             nb::arg("target_offsets").none(), nb::arg("lengths").none(), nb::arg("priority"));
}

}  // namespace tranship::python
