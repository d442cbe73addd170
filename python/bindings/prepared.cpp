// Prepared copies in Python.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>

#include "copies.hpp"
#include "engine/prepared_copy.hpp"
#include "integer_lists.hpp"

namespace tranship::python {
namespace {

/// A prepared copy, its engine, and what a start needs to know of its arrays.
struct BoundPrepared {
  std::shared_ptr<Engine> engine;
  PreparedCopy copy;
  Region region;
  /// Streams that arrays after the first pair named; starts without a stream of their own follow
  /// them and those of the first pair.
  std::vector<CallerStream> streams;
  std::optional<CallerStream> usual;  ///< the stream of all arrays, if they named one alone
  int device = -1;                    ///< the GPU whose streams can carry it
  bool small = false;                 ///< small_bytes at most
};

void note_streams(BoundPrepared& made, std::span<const CopyPair> pairs) {
  std::vector<CallerStream> all;
  for (const CopyPair& pair : pairs) {
    for (const Array* array : {&pair.source, &pair.target}) {
      if (made.device < 0 && array->memory_kind == MemoryKind::device) made.device = array->device;
      if (!array->stream) continue;
      all.push_back({*array->stream, array->device});
      if (&pair != pairs.data()) made.streams.push_back(all.back());
    }
  }
  const bool one = std::all_of(all.begin(), all.end(), [&](const CallerStream& stream) {
    return stream.handle == all[0].handle && stream.device == all[0].device;
  });
  if (one && !all.empty()) made.usual = all[0];
}

template <typename Prepare>
BoundPrepared prepared(const std::shared_ptr<Engine>& engine, std::span<const CopyPair> pairs,
                       Region region, const Prepare& prepare) {
  BoundPrepared made{engine, unwrap(run([&] { return prepare(); })), std::move(region), {}, {}};
  made.small = made.copy.bytes() <= small_bytes;
  note_streams(made, pairs);
  return made;
}

CopyPair lasting_ends_of(nb::handle source, nb::handle target, const Region& region) {
  CopyPair ends{array_of(source, false, Hold::memory), array_of(target, true, Hold::memory)};
  apply_region(ends, region);
  return ends;
}

BoundPrepared prepare(const std::shared_ptr<Engine>& engine, nb::handle source, nb::handle target,
                      nb::handle region, int priority, const std::string& planner,
                      std::int64_t buffer_bytes) {
  Region ranges = region_of(region);
  const CopyPair ends = lasting_ends_of(source, target, ranges);
  const CopyOptions options = copy_options(priority, planner, buffer_bytes);
  return prepared(engine, {&ends, 1}, std::move(ranges),
                  [&] { return engine->prepare(ends.source, ends.target, options); });
}

BoundPrepared prepare_all(const std::shared_ptr<Engine>& engine, const Pairs& given, int priority) {
  std::vector<CopyPair> pairs;
  add_pairs(given, Hold::memory, pairs);
  CopyOptions options;
  options.priority = priority;
  return prepared(engine, pairs, {}, [&] { return engine->prepare_all(pairs, options); });
}

BoundPrepared prepare_pages(const std::shared_ptr<Engine>& engine, nb::handle source,
                            nb::handle target, nb::handle source_pages, nb::handle target_pages,
                            int priority) {
  const IntegerLists pages({source_pages, target_pages}, "page_lists");
  const CopyPair ends = lasting_ends_of(source, target, {});
  CopyOptions options;
  options.priority = priority;
  return prepared(engine, {&ends, 1}, {}, [&] {
    return engine->prepare_pages(ends.source, ends.target, pages[0], pages[1], options);
  });
}

BoundPrepared prepare_pieces(const std::shared_ptr<Engine>& engine, nb::handle source,
                             nb::handle target, nb::handle source_offsets,
                             nb::handle target_offsets, nb::handle lengths, int priority) {
  const IntegerLists lists({source_offsets, target_offsets, lengths}, "piece_lists");
  const CopyPair ends = lasting_ends_of(source, target, {});
  CopyOptions options;
  options.priority = priority;
  const PieceLists pieces{lists[0], lists[1], lists[2]};
  return prepared(engine, {&ends, 1}, {}, [&] {
    return engine->prepare_pieces(ends.source, ends.target, pieces, options);
  });
}

BoundPrepared prepare_types(const std::shared_ptr<Engine>& engine, const TypedPairs& given,
                            int priority) {
  const std::vector<TypedPair> typed = typed_pairs_of(given, Hold::memory);
  std::vector<CopyPair> pairs;
  for (const TypedPair& pair : typed) pairs.push_back(pair.ends);
  CopyOptions options;
  options.priority = priority;
  return prepared(engine, pairs, {}, [&] { return engine->prepare_types(typed, options); });
}

/// Returns the one stream behind and in which a start runs, if no other stream has to be joined.
std::optional<CallerStream> only_stream(const BoundPrepared& self, const Streams& given) {
  const auto stream = given.own ? given.own : self.usual;
  const std::shared_ptr<Gpus> gpus = self.engine->gpus();
  if (!stream || !given.others.empty() || !gpus || gpus->emulated()) return {};
  const bool here = stream->device < 0 || stream->device == self.device;
  return here ? stream : std::nullopt;
}

/// Joins the streams that the caller and the arrays name. A stream of the caller's takes the place
/// of those that the arrays name.
Status join_streams(const BoundPrepared& self, Streams streams, CopyPair& ends,
                    StartOptions& options) {
  if (streams.own) {
    ends.source.stream = ends.target.stream = std::nullopt;
  } else {
    streams.others.insert(streams.others.end(), self.streams.begin(), self.streams.end());
  }
  auto stream = joined(*self.engine, streams, ends.source, ends.target);
  if (!stream) return stream.error();
  take_stream(*stream, options);
  return {};
}

BoundEvent start_between(const BoundPrepared& self, nb::handle source, nb::handle target,
                         const Streams& streams, StartOptions& options) {
  const CopyPair* own_ends = self.copy.ends();
  CopyPair ends = own_ends != nullptr ? *own_ends : CopyPair{};
  CopyPair given{source.is_none() ? ends.source : array_of(source, false),
                 target.is_none() ? ends.target : array_of(target, true)};
  apply_region(given, self.region);
  return start_unlocked(self.engine, [&]() -> Result<Event> {
    if (Status status = join_streams(self, streams, given, options); !status) {
      return status.error();
    }
    return self.engine->start(self.copy, given, options);
  });
}

BoundEvent start(const BoundPrepared& self, nb::handle source, nb::handle target, nb::handle after,
                 nb::handle stream) {
  drop_kept();
  Before before = before_of(after, stream);
  StartOptions options;
  options.after = std::move(before.events);
  options.interrupted = interrupted;
  if (!source.is_none() || !target.is_none()) {
    return start_between(self, source, target, before.streams, options);
  }
  const bool any_stream =
      before.streams.own || !before.streams.others.empty() || self.usual || !self.streams.empty();
  if (self.small && !any_stream) {
    if (auto event = self.engine->start_now(self.copy, options)) {
      return {std::move(*event), self.engine};
    }
  }
  return start_unlocked(self.engine, [&]() -> Result<Event> {
    take_stream(only_stream(self, before.streams), options);
    CopyPair ends;  // owns a stream that is made for this start
    if (!options.stream && self.copy.ends() != nullptr) {
      ends = *self.copy.ends();
      if (Status s = join_streams(self, before.streams, ends, options); !s) return s.error();
    }
    return self.engine->start(self.copy, options);
  });
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
           nb::arg("stream").none() = nb::none(),
           nb::sig("def start(self, *, source: typing.Any = None, target: typing.Any = None, "
                   "after: typing.Any = None, stream: typing.Any = None) -> Event"),
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
            stream: As for `Engine.copy`, and in place of the streams that the arrays name. None:
                the copy starts after the streams that the arrays named when it was prepared, which
                must still exist; other arrays' streams are those that they name now.

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
          [](const BoundPrepared& self) { return BoundPlan{self.copy.plan(), self.engine}; },
          "The plan of the copy; of a list, that of its first copy, unless one launch carries "
          "all.");
  module.def("prepare", &prepare, nb::arg("engine"), nb::arg("source").none(),
             nb::arg("target").none(), nb::arg("region").none(), nb::arg("priority"),
             nb::arg("planner"), nb::arg("buffer_bytes"));
  module.def("prepare_all", &prepare_all, nb::arg("engine"), nb::arg("pairs"), nb::arg("priority"));
  module.def("prepare_types", &prepare_types, nb::arg("engine"), nb::arg("pairs"),
             nb::arg("priority"));
  module.def("prepare_pages", &prepare_pages, nb::arg("engine"), nb::arg("source").none(),
             nb::arg("target").none(), nb::arg("source_pages").none(),
             nb::arg("target_pages").none(), nb::arg("priority"));
  module.def("prepare_pieces", &prepare_pieces, nb::arg("engine"), nb::arg("source").none(),
             nb::arg("target").none(), nb::arg("source_offsets").none(),
             nb::arg("target_offsets").none(), nb::arg("lengths").none(), nb::arg("priority"));
}

}  // namespace tranship::python
