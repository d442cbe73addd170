#include "order.hpp"

#include "fabric/messages/copy_notice.hpp"

namespace tranship::python {

std::string notice_name(nb::handle notify) {
  std::string name;
  if (notify.is_none()) return name;
  if (!nb::try_cast(notify, name)) {
    raise({ErrorCode::invalid_argument, "notify=" + shown(notify) + " is not a text",
           "give the name of the notice, as in notify=\"step 7\""});
  }
  unwrap(fabric::check_notice_name(name));
  return name;
}

namespace {

/// Calls `add` for `after`, or for each of several in it; none for None. `add` returns false for
/// what it does not take. what, hint: For the message about what nobody takes.
template <typename Add>
void add_each(nb::handle after, const char* what, const char* hint, const Add& add) {
  if (after.is_none() || add(after)) return;
  try {
    for (nb::handle one : after) {
      if (!add(one)) throw nb::type_error("something else");
    }
  } catch (const std::exception&) {
    raise(Error{ErrorCode::invalid_argument, "after=" + shown(after) + " is not " + what, hint});
  }
}

}  // namespace

bool Before::add_one(nb::handle object) {
  if (nb::isinstance<BoundEvent>(object)) {
    events_.push_back(nb::cast<const BoundEvent&>(object).event);
    return true;
  }
  if (PyLong_Check(object.ptr())) return false;
  const auto stream = stream_in(object);
  if (stream) StreamOrder::add(order_.before, *stream);
  return stream.has_value();
}

void Before::add(const Array& array) {
  if (array.memory_kind == MemoryKind::device) note_device(array.device);
  const auto stream = stream_of(engine_, array);
  if (!stream) return;
  StreamOrder::add(choice_.own ? order_.before : order_.around, *stream);
}

void Before::add(const std::vector<CopyPair>& pairs) {
  for (const auto& [source, target] : pairs) {
    add(target);  // its stream comes first
    add(source);
  }
}

Before::Before(const Engine& engine, nb::handle after, nb::handle stream)
    : engine_(engine), choice_(stream_choice(stream)) {
  order_.own = choice_.own;
  add_each(
      after, "an event or a stream",
      "give an event that copy() returned, a stream object of a GPU library, or several of them",
      [&](nb::handle one) { return add_one(one); });
}

Result<OrderedStart> Before::begin(StartOptions& options) const {
  options.interrupted = interrupted;
  options.after = events_;
  if (order_.empty()) return OrderedStart{};
  auto start = engine_.begin_order(order_, device_);
  if (!start) return start;
  options.after.insert(options.after.end(), start->after.begin(), start->after.end());
  if (start->stream) {
    options.stream = start->stream->handle;
    options.stream_device = start->stream->device;
  }
  options.in_order = start->in_order;
  return start;
}

std::vector<Event> events_of(nb::handle after) {
  std::vector<Event> events;
  add_each(after, "an event", "give an event that Engine.copy() returned, or several of them",
           [&](nb::handle one) {
             if (!nb::isinstance<BoundEvent>(one)) return false;
             events.push_back(nb::cast<const BoundEvent&>(one).event);
             return true;
           });
  return events;
}

}  // namespace tranship::python
