#include "staging/client.hpp"

#include "channels/host/copy.hpp"
#include "data/lowering.hpp"
#include "engine/checks.hpp"

namespace tranship::staging {
namespace {

constexpr std::chrono::milliseconds lookup_wait_max{10'000};

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// A dense array of a box with the field of another array, the last dimension fastest.
Result<std::shared_ptr<const Mapping>> dense(const Box& box, const Mapping& like,
                                             std::int64_t offset) {
  const Placement& field = like.fields()[0];
  IndexSpace space;
  std::vector<std::int64_t> strides(at(box.rank));
  std::int64_t stride = field.field.bytes;
  for (int k = box.rank - 1; k >= 0; --k) {
    strides[at(k)] = stride;
    stride *= box.extent(k);
  }
  for (int k = 0; k < box.rank; ++k) space.push_back({like.space()[at(k)].name, box.extent(k)});
  return Mapping::make_strided(std::move(space), {{field.field, offset, strides}});
}

/// The same of the array's own box, moved to the origin.
Result<std::shared_ptr<const Mapping>> dense_of(const Array& array) {
  Box box;
  box.rank = array.view.mapping->rank();
  for (int k = 0; k < box.rank; ++k) box.upper[at(k)] = array.view.extents[at(k)];
  return dense(box, *array.view.mapping, 0);
}

Result<Box> box_of(const Array& array, const std::vector<std::int64_t>& lower) {
  const int rank = array.view.mapping->rank();
  if (lower.size() != at(rank)) {
    return Error{ErrorCode::invalid_argument,
                 "the lower corner has " + std::to_string(lower.size()) +
                     " indices, and the array has " + std::to_string(rank) + " dimensions"};
  }
  std::vector<std::int64_t> upper = lower;
  for (std::size_t k = 0; k < upper.size(); ++k) upper[k] += array.view.extents[k];
  return Box::make(lower, upper);
}

Status check_one_field(const Array& array) {
  if (array.view.mapping->fields().size() == 1) return {};
  return Error{ErrorCode::invalid_argument,
               "an array with several fields is put field by field, each as its own variable"};
}

Status check_type(const std::string& type, std::int64_t element_bytes, const Array& target) {
  const Field& field = target.view.mapping->fields()[0].field;
  if (type == field.type && element_bytes == field.bytes) return {};
  return Error{ErrorCode::invalid_argument,
               "the variable has elements of " + type + ", and the target of " + field.type};
}

/// Before anybody waits.
Status check_target(const Array& target, const Box& box) {
  if (Status status = check_one_field(target); !status) return status;
  if (!target.writable) {
    return Error{ErrorCode::permission, "the target is read-only: " + target.name};
  }
  bool same = target.view.mapping->rank() == box.rank;
  for (int k = 0; same && k < box.rank; ++k) same = target.view.extents[at(k)] == box.extent(k);
  if (!same) {
    return Error{ErrorCode::invalid_argument,
                 "the target's shape is not that of the box " + box.text()};
  }
  return check_places(target);
}

/// A copy behind what the array's own stream holds.
CopyOptions behind(const Array& array) {
  CopyOptions options;
  options.stream = array.stream;
  return options;
}

/// Between an array of this process and a dense buffer of its box.
Status copy_dense(const Array& array, std::byte* buffer, bool into_array) {
  auto mapping = dense_of(array);
  if (!mapping) return mapping.error();
  const Corner here{array.view.mapping.get(), array.view.lower};
  const Corner there{mapping->get(), {}};
  std::vector<LoopNest> nests;
  lower(into_array ? there : here, into_array ? here : there, array.view.extents, {}, nests);
  copy_nests(nests, into_array ? buffer : array.place.address,
             into_array ? array.place.address : buffer, false);
  return {};
}

}  // namespace

Result<std::unique_ptr<Client>> Client::open(Engine& engine, const std::string& contact,
                                             const std::string& name,
                                             std::chrono::milliseconds timeout) {
  auto links = Links::open(engine, contact, name, timeout);
  if (!links) return links.error();
  return std::unique_ptr<Client>(new Client(engine, std::move(*links)));
}

Client::~Client() { (void)close(); }

Status Client::put(const std::string& variable, std::int64_t version, const Array& array,
                   const std::vector<std::int64_t>& lower, std::chrono::milliseconds timeout) {
  const std::int64_t end = end_ns(timeout);
  if (Status status = check_one_field(array); !status) return status;
  auto box = box_of(array, lower);
  if (!box) return box.error();
  const Field& field = array.view.mapping->fields()[0].field;
  const PutRequest request{variable, version, *box, field.type, field.bytes};
  const std::int64_t bytes = array.view.bytes();
  if (bytes <= inline_bytes(links_->message_bytes()) && array.where == Where::host) {
    const auto fill = [&](std::byte* data) { return copy_dense(array, data, false); };
    const auto done = catalog_.put(request, static_cast<std::size_t>(bytes), fill, end);
    if (!done) return done.error();
    if (*done) return {};
  }
  return put_by_copy(request, array, end);
}

Status Client::put_by_copy(const PutRequest& request, const Array& array, std::int64_t end) {
  const auto room = catalog_.begin(request, end);
  if (!room) return room.error();
  auto target = object_array(room->home, room->range, request.box, array);
  Status status = target ? Status{} : Status(target.error());
  if (status) {
    auto event = engine_.copy(array, *target, behind(array));
    status = event ? finish({*event}, {}, end) : Status(event.error());
  }
  if (status) return catalog_.commit(*room);
  catalog_.abort(*room);
  return status;
}

Result<std::int64_t> Client::wait(const GetRequest& request, std::chrono::milliseconds timeout) {
  return catalog_.wait(request, end_ns(timeout));
}

Result<std::int64_t> Client::get(const GetRequest& request, const Array& target,
                                 std::chrono::milliseconds timeout) {
  const std::int64_t end = end_ns(timeout);
  if (Status status = check_target(target, request.box); !status) return status.error();
  ReplyBuffer reply;
  const auto held = catalog_.get(request, reply, end);
  if (!held) return held.error();
  Status status = check_type(held->type, held->element_bytes, target);
  if (status) {
    status =
        held->data.empty() ? take_parts(*held, request.box, target, end) : take_data(*held, target);
  }
  const Status released = catalog_.release(*held);
  if (!status) return status.error();
  if (!released) return released.error();
  return held->version;
}

Status Client::take_data(const Held& held, const Array& target) const {
  auto* data = const_cast<std::byte*>(held.data.data());
  if (target.where == Where::host) return copy_dense(target, data, true);
  auto mapping = dense_of(target);
  if (!mapping) return mapping.error();
  Array source;
  source.view = View::whole(*mapping);
  source.place.address = data;
  source.name = "a message";
  auto event = engine_.copy(source, target, behind(target));
  return event ? event->wait({}) : Status(event.error());
}

Status Client::take_parts(const Held& held, const Box& box, const Array& target, std::int64_t end) {
  std::vector<Event> events;
  Status status;
  CopyOptions options = behind(target);
  options.together_bytes = box.points() * held.element_bytes;
  for (const Part& part : held.parts) {
    const Seen& object = held.objects[part.object];
    auto source = object_array(object.home, object.range, object.box, target);
    if (!source) {
      status = source.error();
      break;
    }
    Array to = target;
    for (std::size_t k = 0; k < at(box.rank); ++k) {
      source->view.lower[k] = part.box.lower[k] - object.box.lower[k];
      to.view.lower[k] += part.box.lower[k] - box.lower[k];
      source->view.extents[k] = to.view.extents[k] = part.box.upper[k] - part.box.lower[k];
    }
    auto event = engine_.copy(*source, to, options);
    if (!event) {
      status = event.error();
      break;
    }
    events.push_back(std::move(*event));
  }
  return finish(events, status, end);
}

/// Waits for the copies; cancels them if something went wrong. Nobody touches the servers' memory
/// any more when it returns.
Status Client::finish(const std::vector<Event>& events, Status status, std::int64_t end) const {
  for (const Event& event : events) {
    const std::chrono::nanoseconds left(end - links_->now_ns());
    Status one = status ? event.wait(left) : Status{};
    if (!one || !status) {
      event.cancel();
      (void)event.wait({});
    }
    if (status && !one) status = one;
  }
  return status;
}

Result<Array> Client::segment(int server, int number) {
  std::lock_guard lock(mutex_);
  const auto known = segments_.find({server, number});
  if (known != segments_.end()) return known->second;
  const auto peer = links_->peer(server);
  if (!peer) return peer.error();
  auto processes = engine_.processes();
  if (!processes) return processes.error();
  auto found = (*processes)->lookup(*peer, segment_name + std::to_string(number), lookup_wait_max);
  if (found) segments_[{server, number}] = *found;
  return found;
}

Result<Array> Client::object_array(int server, const Range& range, const Box& box,
                                   const Array& like) {
  auto array = segment(server, range.segment);
  if (!array) return array.error();
  const bool mapped = array->place.attachment == nullptr;
  auto mapping = dense(box, *like.view.mapping, mapped ? 0 : range.offset);
  if (!mapping) return mapping.error();
  if (mapped) array->place.address += range.offset;
  array->view = View::whole(std::move(*mapping));
  array->named = like.named;
  return array;
}

}  // namespace tranship::staging
