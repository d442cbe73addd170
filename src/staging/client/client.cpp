#include "staging/client/client.hpp"

#include <algorithm>
#include <new>

#include "base/at.hpp"
#include "base/crc32c.hpp"
#include "base/unless_interrupted.hpp"
#include "channels/host/copy.hpp"
#include "data/lowering.hpp"
#include "engine/checks.hpp"
#include "staging/model/residency.hpp"
#include "staging/protocol/spans.hpp"

namespace tranship::staging {
namespace {

/// close() waits so long for the client's cancelled copies, and then leaves while they run: a
/// server that is stopped must not keep the client.
constexpr std::chrono::seconds copies_end_max{10};
/// Then close() waits so long for calls that wait for a reply; disconnecting ends the others.
constexpr std::chrono::milliseconds answers_max{500};
constexpr std::chrono::seconds calls_end_max{2};
/// close() waits so long for gets of what this client offers, and for copies that go on then.
constexpr std::chrono::seconds offers_end_max{2};

/// Pages of smaller objects are mapped as they are copied.
constexpr std::int64_t mapped_bytes_min = std::int64_t{1} << 20;
/// How many segments of a server are mapped ahead, that with the last object included.
constexpr int segments_mapped = 3;
/// The threads that map a server's memory wait so long for an answer.
constexpr std::chrono::seconds mapping_wait{5};

/// Times that a put begins again because its variable was deleted meanwhile.
constexpr int put_attempts_max = 8;
/// Variables that a client counts apart; further ones are counted together.
constexpr std::size_t counted_max = 4096;
constexpr const char* other_variables = "(others)";

/// Notes the version of a call, or its error.
void note_end(Timed& call, const Result<std::int64_t>& version) {
  if (version) {
    call.note("version", *version);
  } else {
    call.note(NoWaits::met_now() ? "put off" : "failed", version.error().text());
  }
}

}  // namespace

Error Client::closed_error() {
  return {ErrorCode::closed, "this client of the staging service was closed", "open another one"};
}

Result<std::unique_ptr<Client>> Client::open(Engine& engine, const std::string& contact,
                                             const std::string& name, const Patience& patience) {
  auto ending = std::make_shared<Ending>();
  ending->interrupted = patience.interrupted;
  const auto ends = [ending] { return ending->now(); };
  auto links = Links::open(engine, contact, name, {patience.timeout, ends});
  if (!links) return links.error();
  if (engine.trace() != nullptr) engine.trace()->call_process(name);
  std::unique_ptr<Client> client(new Client(engine, std::move(*links), std::move(ending)));
  client->catalog_.give_up_when(ends);
  client->accept_readers(contact);
  client->map_ahead(0, 0);
  return client;
}

Client::~Client() {
  (void)close();
  // A fork does not release arrays of the servers: their connections live in the parent.
  if (!forked()) return;
  (void)pages_.release();  // its thread lives in the parent
  (void)offered_.release();
  try {
    (void)new std::map<std::pair<int, int>, Array>(std::move(segments_));
  } catch (const std::bad_alloc&) {
    return;  // a child without memory has nothing better left
  }
}

Status Client::close() {
  if (forked()) return {};  // the parent goes on
  const std::lock_guard closing(closing_);
  if (gate_.closed()) return {};
  Status withdrawn = withdraw_offers();
  (void)gate_.close();
  copying_.close();
  ending_->closing = true;
  links_->wake();
  (void)copying_.wait_empty(copies_end_max);
  (void)gate_.wait_empty(answers_max);
  const Status status = links_->close();
  pages_->stop();
  (void)gate_.wait_empty(calls_end_max);
  if (auto processes = engine_.processes()) {
    offered_->close(**processes);
    // Whatever the servers said: gets that have not ended fail from here on.
    withdrawn = offers_->take_back_all(**processes, end_ns(offers_end_max));
  }
  std::map<std::pair<int, int>, Array> segments;
  const std::lock_guard lock(mutex_);
  segments.swap(segments_);
  return status ? withdrawn : status;
}

Status Client::withdraw_offers() {
  return offers_->empty() ? Status{} : offers_->withdraw_all(end_ns(offers_end_max));
}

Result<Gate::Pass> Client::enter() const {
  if (forked()) {
    return Error{ErrorCode::closed,
                 "this process was forked after the client of the staging service was opened",
                 "open "
                 "one of its own here (or start processes with spawn)"};
  }
  auto pass = gate_.enter();
  if (!pass) return closed_error();
  return pass;
}

/// Returns the error of a failed call; `closed` if the client was closed meanwhile.
Error Client::why_ended(const Error& error) const {
  return ending_->closing.load() ? closed_error() : error;
}

Status Client::put(const std::string& variable, std::int64_t version, const Array& array,
                   const std::vector<std::int64_t>& lower, const PutOptions& options) {
  return call([&] { return put_inside(variable, version, array, lower, options); });
}

Result<std::int64_t> Client::get(const GetRequest& request, const Array& target,
                                 std::chrono::milliseconds timeout) {
  return call([&] { return get_inside(request, target, timeout); });
}

Status Client::put_inside(const std::string& variable, std::int64_t version, const Array& array,
                          const std::vector<std::int64_t>& lower, const PutOptions& options,
                          OfferId* offered) {
  const std::int64_t begin = links_->now_ns();
  if (Status status = check_one_field(array); !status) return status;
  std::uint32_t empty_dimensions = 0;
  auto box = box_of(array, lower, &empty_dimensions);
  if (!box) return box.error();
  const Field& field = array.view.mapping->fields()[0].field;
  PutRequest request{variable, version, *box, field.type, field.bytes};
  request.step = options.step;
  StepClient& steps = catalog_.steps();
  if (Status status = steps.begin_put(options.step); !status) return status;
  const Ended ended{[&] { steps.end_put(options.step); }};
  if (steps.is_dropped(options.step)) return {};
  const std::int64_t end = begin + std::chrono::nanoseconds(options.timeout).count();
  if (empty_dimensions != 0 && offered != nullptr) {
    return Error{ErrorCode::invalid_argument, "an array without elements cannot be offered",
                 "put it"};
  }
  if (empty_dimensions != 0) {
    Status done = await(options.after, end);
    if (done) done = catalog_.put_empty(request, empty_dimensions, end);
    if (done) steps.add(options.step, {variable, field.type, field.bytes, {}, 0});
    return done;
  }
  Timed call(engine_.trace(), *links_,
             [&] { return call_span("put", variable, *box, array.view.bytes()); });
  call.note("version", version);
  const auto path = put_object({request, array, end, options.after, options.checksum, offered});
  if (!path) {
    call.note(NoWaits::met_now() ? "put off" : "failed", path.error().text());
    return path.error();
  }
  steps.add(options.step, {variable, field.type, field.bytes, *box, 1});
  const std::lock_guard lock(mutex_);
  traffic_of(variable).puts.add(1, array.view.bytes(), *path, links_->now_ns() - begin);
  return {};
}

Result<std::string> Client::put_object(const Putting& put) {
  if (put.offered != nullptr) return offer_object(put);
  const Array& array = put.array;
  const std::int64_t bytes = array.view.bytes();
  if (bytes <= links_->data_bytes() && array.memory_kind == MemoryKind::host) {
    if (Status status = await(put.after, put.end_ns); !status) return status.error();
    const std::function<Status(std::byte*)> fill = [&](std::byte* data) {
      return copy_dense(array, data, false);
    };
    const Catalog::Data data{static_cast<std::size_t>(bytes), fill, put.checksum};
    const auto done = catalog_.put(put.request, data, put.end_ns);
    if (!done) return done.error();
    if (*done) return std::string(message_path);
  }
  return put_by_copy(put);
}

Result<std::string> Client::put_by_copy(const Putting& put) {
  for (int attempt = 1;; ++attempt) {
    bool stale = false;
    auto path = put_by_copy_once(put, stale);
    if (path || !stale || attempt == put_attempts_max) return path;
  }
}

/// Sets `stale` with the error if the variable was deleted while the object was copied.
Result<std::string> Client::put_by_copy_once(const Putting& put, bool& stale) {
  const Array& array = put.array;
  // While other copies still write the array, the server grants room without taking pages.
  const bool ready = std::all_of(put.after.begin(), put.after.end(),
                                 [](const Event& event) { return event.done(); });
  auto room = catalog_.begin(put.request, put.end_ns, ready);
  if (!room) return room.error();
  DenseMappings mappings;
  auto target =
      object_array(room->primary, room->range, put.request.box, array, put.end_ns, mappings);
  Status status = target ? await(put.after, put.end_ns) : Status(target.error());
  if (status) status = catalog_.take_pages(*room);
  Checksum checksum;
  auto path = status ? copy_into(put, *target, checksum) : Result<std::string>(status.error());
  if (!path) {
    catalog_.abort(*room);
    return path.error();
  }
  status = catalog_.commit(*room, *path, checksum);
  stale = room->stale;
  if (!status) return status.error();
  return path;
}

/// Returns the checksum of an array's elements in dense order, computed a few MiB at a time.
Result<Checksum> Client::checksum_of(const Array& array) {
  constexpr std::int64_t slab_bytes_max = std::int64_t{4} << 20;
  const View& view = array.view;
  const int rank = view.mapping->rank();
  // The slab: all of the fastest dimensions, some of dimension `cut`, one index of those before.
  std::int64_t inner = view.mapping->fields()[0].field.bytes;
  int cut = rank - 1;
  while (cut > 0 && inner * view.extents[at(cut)] <= slab_bytes_max) {
    inner *= view.extents[at(cut--)];
  }
  Point first = view.lower;
  Point last = view.lower;
  Point shape = view.extents;
  for (int k = 0; k < cut; ++k) shape[at(k)] = 1;
  for (int k = 0; k < rank; ++k) last[at(k)] += view.extents[at(k)];
  if (rank > 0) {
    const std::int64_t rows = std::max<std::int64_t>(slab_bytes_max / inner, 1);
    shape[at(cut)] = std::min(view.extents[at(cut)], rows);
  }
  std::int64_t slab_bytes = view.mapping->fields()[0].field.bytes;
  for (int k = 0; k < rank; ++k) slab_bytes *= shape[at(k)];
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(at(static_cast<int>(slab_bytes)));
  Checksum checksum{1, 0};
  Array part = array;
  for (Point lower = first;;) {
    part.view.lower = lower;
    part.view.extents = shape;
    if (rank > 0) {
      part.view.extents[at(cut)] = std::min(shape[at(cut)], last[at(cut)] - lower[at(cut)]);
    }
    if (Status status = copy_out(part, buffer.get()); !status) return status.error();
    checksum.crc =
        crc32c({buffer.get(), static_cast<std::size_t>(part.view.bytes())}, checksum.crc);
    int k = cut;
    for (; k >= 0 && rank > 0; --k) {
      lower[at(k)] += shape[at(k)];
      if (lower[at(k)] < last[at(k)]) break;
      lower[at(k)] = first[at(k)];
    }
    if (k < 0 || rank == 0) return checksum;
  }
}

/// Copies an array, from any memory, into a dense buffer of this process.
Status Client::copy_out(const Array& array, std::byte* buffer) {
  if (array.memory_kind == MemoryKind::host && array.place.attachment == nullptr) {
    return copy_dense(array, buffer, false);
  }
  auto mapping = dense_of(array);
  if (!mapping) return mapping.error();
  Array target;
  target.view = View::whole(*mapping);
  target.place.address = buffer;
  target.name = "a buffer for a checksum";
  auto event = engine_.copy(array, target, behind(array));
  return event ? event->wait({}) : Status(event.error());
}

/// Compares the checksums of objects that were got whole, those of the parts.
Status Client::check_whole(const LeasedBox& held, const Box& box, const Array& target) {
  for (const Part& part : held.parts) {
    Array got = target;
    for (std::size_t k = 0; k < at(box.rank); ++k) {
      got.view.lower[k] += part.box.lower[k] - box.lower[k];
      got.view.extents[k] = part.box.upper[k] - part.box.lower[k];
    }
    const auto checksum = checksum_of(got);
    if (!checksum) return checksum.error();
    const StoredObject& object = held.objects[part.object];
    if (*checksum != object.checksum) return other_checksum(held, object);
  }
  return {};
}

/// Sets the checksum, if the put wants one.
Result<std::string> Client::copy_into(const Putting& put, const Array& target, Checksum& checksum) {
  const Array& array = put.array;
  const Timed part(engine_.trace(), *links_, [&] { return part_span("copy", array.view.bytes()); });
  if (put.checksum && can_be_checked(array) && can_be_checked(target)) {
    const auto copying = copying_.enter();
    if (!copying) return closed_error();
    CheckedCopy copy{{array, target}, CheckedCopy::Side::source};
    if (Status status = copy_here({&copy, 1}, array.view.bytes(), put.end_ns); !status)
      return status.error();
    checksum = {1, copy.crc};
    return path_of(copy.pair);
  }
  if (put.checksum) {
    const auto made = checksum_of(array);
    if (!made) return made.error();
    checksum = *made;
  }
  const auto copying = copying_.enter();
  if (!copying) return closed_error();
  auto event = engine_.copy(array, target, behind(array));
  if (!event) return event.error();
  if (Status status = finish(*event, put.end_ns); !status) return status.error();
  return path_of(*event);
}

/// Carries out copies that take checksums, as long as finish() waits for others.
Status Client::copy_here(std::span<CheckedCopy> copies, std::int64_t bytes, std::int64_t end) {
  constexpr std::int64_t look_ns = std::chrono::nanoseconds(interruption_look).count();
  const std::chrono::nanoseconds patience = links_->wait_of(end);
  const std::int64_t begin = links_->now_ns();
  std::int64_t looked = begin;
  const bool cold = 2 * bytes > engine_.profile().cache_bytes;
  return copy_checked(copies, engine_.threads(), cold, [&]() -> Status {
    const std::int64_t now = links_->now_ns();
    if (now - begin > patience.count()) {
      return Error{ErrorCode::timeout, "the copy takes longer than the call may"};
    }
    const bool looks = now - looked > look_ns;  // a look may have to wait for other threads
    if (looks) looked = now;
    const bool ends = looks ? ending_->now() : ending_->closing.load();
    return ends ? Status(Error{ErrorCode::cancelled, "interrupted"}) : Status{};
  });
}

Result<std::int64_t> Client::wait(const GetRequest& request, std::chrono::milliseconds timeout,
                                  std::vector<SkippedVersion>* skipped) {
  return call([&] {
    Timed span(engine_.trace(), *links_,
               [&] { return call_span("wait", request.variable, request.box, 0); });
    auto version = catalog_.wait(request, end_ns(timeout), skipped);
    note_end(span, version);
    return version;
  });
}

Result<std::int64_t> Client::get_inside(const GetRequest& request, const Array& target,
                                        std::chrono::milliseconds timeout) {
  const std::int64_t begin = links_->now_ns();
  if (Status status = check_target(target, request.box); !status) return status.error();
  Timed call(engine_.trace(), *links_,
             [&] { return call_span("get", request.variable, request.box, target.view.bytes()); });
  const auto got = get_objects(request, target, begin + std::chrono::nanoseconds(timeout).count());
  note_end(call, got ? Result(got->version) : Result<std::int64_t>(got.error()));
  if (!got) return got.error();
  const std::lock_guard lock(mutex_);
  traffic_of(request.variable)
      .gets.add(1, target.view.bytes(), got->path, links_->now_ns() - begin);
  return got->version;
}

Result<Client::Got> Client::get_objects(const GetRequest& request, const Array& target,
                                        std::int64_t end) {
  ReplyBuffer reply;
  const auto held = catalog_.get(request, reply, end);
  if (!held) return held.error();
  Status status = check_type(held->type, held->element_bytes, target);
  Got got{held->version, std::string(message_path)};
  if (status) {
    status = catalog_.take(*held, end, [&](const LeasedBox& here) {
      return here.data.empty() ? take_parts(here, request.box, target, end, got.path)
                               : take_data(here, target);
    });
  }
  catalog_.release(*held, status ? got.path : std::string());
  if (!status) return status.error();
  return got;
}

Status Client::take_data(const LeasedBox& held, const Array& target) const {
  auto* data = const_cast<std::byte*>(held.data.data());
  if (target.memory_kind == MemoryKind::host) return copy_dense(target, data, true);
  const auto pair = pair_of_data(data, target);
  if (!pair) return pair.error();
  auto event = engine_.copy(pair->source, target, behind(target));
  return event ? event->wait({}) : Status(event.error());
}

/// Returns the copy of the elements of a message to an array.
Result<CopyPair> Client::pair_of_data(std::byte* data, const Array& target) {
  auto mapping = dense_of(target);
  if (!mapping) return mapping.error();
  CopyPair pair{{}, target};
  pair.source.view = View::whole(*mapping);
  pair.source.place.address = data;
  pair.source.name = "a message";
  return pair;
}

Result<std::variant<ObjectView, NoView>> Client::view(const GetRequest& request,
                                                      std::chrono::milliseconds timeout) {
  return call([&] { return view_inside(request, timeout); });
}

Result<std::variant<ObjectView, NoView>> Client::view_inside(const GetRequest& request,
                                                             std::chrono::milliseconds timeout) {
  using Answer = std::variant<ObjectView, NoView>;
  const std::int64_t begin = links_->now_ns();
  const std::int64_t end = begin + std::chrono::nanoseconds(timeout).count();
  Timed call(engine_.trace(), *links_,
             [&] { return call_span("get", request.variable, request.box, 0); });
  ReplyBuffer reply;
  const auto found = catalog_.lease_object(request, reply, end);
  const auto* held = found ? std::get_if<LeasedBox>(&*found) : nullptr;
  note_end(call, held != nullptr ? Result(held->version)
                 : found         ? Result<std::int64_t>(std::get<NoView>(*found).why)
                                 : Result<std::int64_t>(found.error()));
  if (!found) return found.error();
  if (held == nullptr) return Answer(std::get<NoView>(*found));
  auto view = view_of(*held, request.box, end);
  if (!view || std::holds_alternative<NoView>(*view)) {
    (void)catalog_.release(*held);
    return view;
  }
  const std::int64_t bytes = request.box.points() * held->element_bytes;
  const std::lock_guard lock(mutex_);
  traffic_of(request.variable).gets.add(1, bytes, view_path, links_->now_ns() - begin);
  return view;
}

/// Returns the view of a box that lies in one object, and takes over its lease. After an error the
/// lease is still the caller's.
Result<std::variant<ObjectView, NoView>> Client::view_of(const LeasedBox& held, const Box& box,
                                                         std::int64_t end) {
  const StoredObject& object = held.objects[held.parts[0].object];
  const auto memory = segment(object.primary, object.range.segment, end);
  if (!memory) return memory.error();
  auto processes = engine_.processes();
  if (!processes) return processes.error();
  const auto peer = links_->peer(object.primary, end);
  if (!peer) return peer.error();
  if (object.range.bytes >= mapped_bytes_min) map_ahead(object.primary, object.range.segment);
  return make_view({held, box, *memory, *processes, *peer});
}

Result<bool> Client::put_at_once(const std::string& variable, std::int64_t version,
                                 const Array& array, const std::vector<std::int64_t>& lower,
                                 const PutOptions& options) {
  const NoWaits none;
  // An event that goes on would make the put give back room that it has found.
  Status status = await(options.after, 0);
  if (!none.met()) status = put(variable, version, array, lower, options);
  if (status) return true;
  return none.met() && !closed() ? Result<bool>(false) : Result<bool>(status.error());
}

Result<std::optional<std::int64_t>> Client::get_at_once(const GetRequest& request,
                                                        const Array& target,
                                                        std::chrono::milliseconds timeout) {
  const NoWaits none;
  const auto version = get(request, target, timeout);
  if (version) return std::optional(*version);
  if (none.met() && !closed()) return std::optional<std::int64_t>();
  return version.error();
}

Result<std::optional<std::variant<ObjectView, NoView>>> Client::view_at_once(
    const GetRequest& request, std::chrono::milliseconds timeout) {
  const NoWaits none;
  auto found = view(request, timeout);
  if (found) return std::optional(std::move(*found));
  if (none.met() && !closed()) return std::optional<std::variant<ObjectView, NoView>>();
  return found.error();
}

void Client::wait_for_notice(std::uint64_t seen, std::chrono::milliseconds timeout) {
  if (const auto inside = enter()) links_->wait(seen, end_ns(timeout));
}

/// The caller holds the mutex.
VariableTraffic& Client::traffic_of(const std::string& variable) {
  const auto found = traffic_.find(variable);
  if (found != traffic_.end()) return found->second;
  return traffic_[traffic_.size() < counted_max ? variable : other_variables];
}

Status Client::remove(const std::string& variable) {
  const Status status = call([&] { return catalog_.remove(variable); });
  const std::lock_guard lock(mutex_);
  traffic_.erase(variable);
  return status;
}

std::map<std::string, VariableTraffic> Client::traffic() const {
  const std::lock_guard lock(mutex_);
  return traffic_;
}

/// Waits for copies as long as for a reply; cancels them after that, or when the client is closed
/// or interrupted. The copies access the servers' memory no more when it returns.
Status Client::finish(const Event& event, std::int64_t end) const {
  const std::chrono::nanoseconds patience = links_->wait_of(end);
  Status status = wait_for(event, links_->now_ns() + patience.count());
  if (status) return status;
  event.cancel();
  (void)event.wait({});
  return status;
}

/// Waits for events of other copies, which a failing put does not cancel.
Status Client::await(std::span<const Event> after, std::int64_t end) const {
  for (const Event& event : after) {
    if (!event.done() && NoWaits::forbid()) return Error{ErrorCode::timeout, "an event goes on"};
    if (Status status = wait_for(event, end); !status) return status;
  }
  return {};
}

/// Waits in slices, so that closing and Ctrl-C end it.
Status Client::wait_for(const Event& event, std::int64_t end) const {
  constexpr std::int64_t look_ns = std::chrono::nanoseconds(interruption_look).count();
  while (true) {
    const std::int64_t left = std::max<std::int64_t>(end - links_->now_ns(), 0);
    Status status = event.wait(std::chrono::nanoseconds(std::min(left, look_ns)));
    if (status) return status;
    if (event.done()) return event.wait({});
    if (status.error().code != ErrorCode::timeout || left <= look_ns) return status;
    if (ending_->now()) return Error{ErrorCode::cancelled, "interrupted"};
  }
}

Result<Array> Client::segment(int server, int number, std::int64_t end) {
  const auto known = [&]() -> std::optional<Array> {
    const std::lock_guard lock(mutex_);
    const auto found = segments_.find({server, number});
    return found != segments_.end() ? std::optional(found->second) : std::nullopt;
  };
  if (auto array = known()) return std::move(*array);
  const auto peer = links_->peer(server, end);
  if (!peer) return peer.error();
  auto processes = engine_.processes();
  if (!processes) return processes.error();
  auto found =
      (*processes)->lookup(*peer, segment_name + std::to_string(number), links_->wait_of(end));
  if (!found) return found;
  if (found->shared != nullptr) {
    // A segment that is preallocated is pinned before a GPU uses it; others afterwards.
    const bool ahead = number < links_->segments_ahead(server);
    const std::int64_t used = found->view.bytes() / object_alignment * object_alignment;
    engine_.pin_in_background(found->shared, used, ahead);
  }
  const std::lock_guard lock(mutex_);
  return segments_.emplace(std::pair(server, number), std::move(*found)).first->second;
}

/// Maps a segment that its server preallocates, and the next ones, in the background: objects that
/// follow each other lie there. To map all of a server's memory would cost each client 1/512 of
/// it.
void Client::map_ahead(int server, int number) {
  const int ahead = links_->segments_ahead(server);
  for (int k = number; k < ahead && k - number < segments_mapped; ++k) {
    {
      const std::lock_guard lock(mutex_);
      if (mapped_ahead_.contains({server, k})) continue;
    }
    const bool follows =
        pages_->follow([this, server, k]() -> Result<std::shared_ptr<SharedMemory>> {
          auto inside = enter();
          if (!inside) return inside.error();
          auto found = segment(server, k, end_ns(mapping_wait));
          if (!found) return found.error();
          return found->place.attachment == nullptr ? found->shared : nullptr;
        });
    if (!follows) return;  // and try again with the next object
    const std::lock_guard lock(mutex_);
    mapped_ahead_.insert({server, k});
  }
}

Result<Array> Client::object_array(int server, const Range& range, const Box& box,
                                   const Array& like, std::int64_t end, DenseMappings& mappings) {
  auto array = segment(server, range.segment, end);
  if (!array) return array.error();
  const bool mapped = array->place.attachment == nullptr;
  auto mapping = mappings.of(box, like.view.mapping, mapped ? 0 : range.offset);
  if (!mapping) return mapping.error();
  // The server's range is checked: it must lie in the memory that is mapped here.
  const std::int64_t bytes = View::whole(*mapping).bytes();
  if (!lies_inside(range, bytes, array->view.bytes())) return not_a_server();
  if (mapped) array->place.address += range.offset;
  if (mapped && array->shared != nullptr && bytes >= mapped_bytes_min) {
    map_ahead(server, range.segment);
    pages_->map(array->shared, range.offset, bytes);
  }
  array->view = View::whole(std::move(*mapping));
  array->named = like.named;
  return array;
}

}  // namespace tranship::staging
