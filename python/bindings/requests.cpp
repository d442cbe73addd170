#include "requests.hpp"

namespace tranship::python {

Region region_of(nb::handle region) {
  if (region.is_none()) return {};
  try {
    Region ranges;
    for (nb::handle item : region.attr("items")()) {
      const nb::object range = item[1];
      if (nb::len(range) != 2) throw nb::value_error("two bounds");
      ranges.push_back({nb::cast<std::string>(item[0]), nb::cast<std::int64_t>(range[0]),
                        nb::cast<std::int64_t>(range[1])});
    }
    return ranges;
  } catch (const std::exception&) {  // nanobind's or Python's exceptions
    raise(Error{ErrorCode::invalid_argument,
                "a region gives two whole numbers for each name, as in {\"x\": (0, 64)}"});
  }
}

namespace {

/// Returns the type of one end; None stands for as many raw bytes as the other end has.
Datatype type_of(nb::handle given, nb::handle other) {
  if (!given.is_none()) return nb::cast<Datatype>(given);
  return unwrap(Datatype::raw(other.is_none() ? 0 : nb::cast<const Datatype&>(other).bytes()));
}

}  // namespace

void own(CopyPair& ends, nb::handle source, nb::handle target) {
  if (!ends.source.owner) ends.source.owner = keep(source);
  if (!ends.target.owner) ends.target.owner = keep(target);
}

Casting casting_of(nb::handle cast) {
  if (cast.is_none()) return Casting::none;
  std::string name;
  if (nb::try_cast(cast, name)) return unwrap(casting_from(name));
  raise({ErrorCode::invalid_argument, "cast=" + shown(cast) + " is not a text",
         "use \"safe\", \"same_kind\" or \"unsafe\", or None to keep the types"});
}

CopyOptions copy_options(int priority, nb::handle planner, std::int64_t buffer_bytes,
                         nb::handle cast) {
  CopyOptions options;
  options.priority = priority;
  options.casting = casting_of(cast);
  static PyObject* const automatic = PyUnicode_InternFromString("automatic");
  if (planner.ptr() != automatic) {
    options.planner = unwrap(planner_kind_from(nb::cast<std::string>(planner)));
  }
  options.buffer_bytes_max = buffer_bytes;
  return options;
}

void ReadRequest::read(nb::handle source, nb::handle target, const Region& region,
                       const Reading& reading) {
  const auto& [held, follows, objects] = reading;
  CopyPair& ends = pairs_->emplace_back(
      CopyPair{array_of(source, false, held, follows), array_of(target, true, held, follows)});
  unwrap(restrict_to(ends, region));
  if (held != Hold::nothing) own(ends, source, target);
  if (objects != nullptr) objects->emplace_back(nb::borrow(source), nb::borrow(target));
}

void ReadRequest::read_all(const Pairs& pairs, const Reading& reading) {
  const auto& [held, follows, objects] = reading;
  if (PyList_CheckExact(pairs.ptr()) || PyTuple_CheckExact(pairs.ptr())) {
    pairs_->reserve(nb::len(pairs));
  }
  for (nb::handle pair : pairs) {
    if (!nb::isinstance<nb::sequence>(pair) || nb::len(pair) != 2) {
      raise({ErrorCode::invalid_argument, "a copy of the list is not a pair",
             "give pairs (source, target)"});
    }
    const nb::object source(pair[0]);
    const nb::object target(pair[1]);
    if (objects != nullptr) objects->emplace_back(source, target);
    pairs_->push_back(
        {array_of(source, false, held, follows), array_of(target, true, held, follows)});
  }
}

void ReadRequest::read_pages(nb::handle source, nb::handle target, nb::handle source_pages,
                             nb::handle target_pages, const Reading& reading) {
  lists_.emplace({source_pages, target_pages}, "page_lists");
  parts_ = PageLists{(*lists_)[0], (*lists_)[1]};
  read(source, target, {}, reading);
}

void ReadRequest::read_pieces(nb::handle source, nb::handle target, nb::handle source_offsets,
                              nb::handle target_offsets, nb::handle lengths,
                              const Reading& reading) {
  lists_.emplace({source_offsets, target_offsets, lengths}, "piece_lists");
  parts_ = PieceLists{(*lists_)[0], (*lists_)[1], (*lists_)[2]};
  read(source, target, {}, reading);
}

void ReadRequest::read_types(const TypedPairs& pairs, const Reading& reading) {
  typed_ = true;
  for (nb::handle one : pairs) {
    const nb::object source_type(one[2]);
    const nb::object target_type(one[3]);
    read(nb::object(one[0]), nb::object(one[1]), {}, reading);
    types_.push_back({type_of(source_type, target_type), type_of(target_type, source_type)});
  }
}

}  // namespace tranship::python
