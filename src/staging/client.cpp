#include "staging/client.hpp"

#include <algorithm>
#include <condition_variable>

#include "channels/host/copy.hpp"
#include "data/lowering.hpp"
#include "engine/checks.hpp"

namespace tranship::staging {
namespace {

constexpr std::chrono::milliseconds control_wait_max{10'000};
/// A client that hears nothing looks for itself now and then.
constexpr std::chrono::milliseconds look_again{250};

std::size_t at(int index) { return static_cast<std::size_t>(index); }

Error not_a_server() {
  return {ErrorCode::unsupported,
          "what answers there is no staging server; start one with: tranship serve"};
}

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

Error late(const std::string& why) {
  return {ErrorCode::timeout, "the wait for the staging server has ended: " + why +
                                  "; wait longer, or look with: tranship ls"};
}

}  // namespace

/// Wakes the threads that wait for the server.
class Client::Listener : public PeerListener {
 public:
  void on_notice(std::span<const std::byte>) override { wake(); }
  void on_lost(const Error&) override { wake(); }
  std::uint64_t notices() {
    std::lock_guard lock(mutex_);
    return notices_;
  }
  void wait(std::uint64_t seen, Clock::time_point until) {
    std::unique_lock lock(mutex_);
    condition_.wait_until(lock, until, [&] { return notices_ != seen; });
  }

 private:
  void wake() {
    std::lock_guard lock(mutex_);
    ++notices_;
    condition_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable condition_;
  std::uint64_t notices_ = 0;
};

Result<std::unique_ptr<Client>> Client::open(Engine& engine, const std::string& contact,
                                             const std::string& name,
                                             std::chrono::milliseconds timeout) {
  auto processes = engine.processes();
  if (!processes) return processes.error();
  auto peer = (*processes)->connect(contact, timeout);
  if (!peer) return peer.error();
  std::unique_ptr<Client> client(new Client(engine));
  client->processes_ = *processes;
  client->peer_ = *peer;
  client->listener_ = std::make_shared<Listener>();
  (*processes)->listen(*peer, client->listener_);
  Buffer reply;
  const auto hello =
      client->ask(MessageWriter().add(Ask::hello).add(staging_version).text(name), reply);
  if (!hello) {
    return hello.error().code == ErrorCode::unsupported ? not_a_server() : hello.error();
  }
  MessageReader in(*hello);
  (void)in.get<Said>();
  client->message_bytes_max_ = in.get<std::int64_t>();
  if (!in.ok() || client->message_bytes_max_ < message_bytes_least) return not_a_server();
  return client;
}

Client::~Client() { (void)close(); }

Status Client::close() {
  if (processes_ == nullptr || engine_.closed()) return {};
  processes_->listen(peer_, nullptr);
  if (!processes_->connected(peer_)) return {};
  return processes_->disconnect(peer_);
}

Result<std::span<const std::byte>> Client::ask(const MessageWriter& question, Buffer& reply) const {
  const auto room = static_cast<std::size_t>(message_bytes_max_);
  if (!reply) reply = std::make_unique_for_overwrite<std::byte[]>(room);
  auto length = processes_->ask(peer_, question.bytes(), {reply.get(), room}, control_wait_max);
  if (!length) return length.error();
  return std::span<const std::byte>(reply.get(), *length);
}

Result<std::span<const std::byte>> Client::ask_until_done(const MessageWriter& question,
                                                          Buffer& reply,
                                                          Clock::time_point end) const {
  while (true) {
    const std::uint64_t seen = listener_->notices();
    auto answer = ask(question, reply);
    if (!answer) return answer.error();
    MessageReader in(*answer);
    if (in.get<Said>() != Said::waiting) return *answer;
    const std::string why = in.text();
    const auto now = Clock::now();
    if (now >= end) return late(why);
    if (interrupted_ && interrupted_()) return Error{ErrorCode::cancelled, "interrupted"};
    listener_->wait(seen, std::min(end, now + look_again));
  }
}

Status Client::put(const std::string& variable, std::int64_t version, const Array& array,
                   const std::vector<std::int64_t>& lower, std::chrono::milliseconds timeout) {
  const auto end = Clock::now() + timeout;
  if (Status status = check_one_field(array); !status) return status;
  auto box = box_of(array, lower);
  if (!box) return box.error();
  const Field& field = array.view.mapping->fields()[0].field;
  const PutRequest request{variable, version, *box, field.type, field.bytes};
  const bool small = box->points() * field.bytes <= inline_bytes(message_bytes_max_);
  if (small && array.where == Where::host) return put_inline(request, array, end);
  return put_by_copy(request, array, end);
}

Status Client::put_inline(const PutRequest& request, const Array& array,
                          Clock::time_point end) const {
  MessageWriter question;
  question.add(Ask::put);
  add(question, request);
  std::byte* data = question.room(static_cast<std::size_t>(array.view.bytes())).data();
  if (Status status = copy_dense(array, data, false); !status) return status;
  Buffer reply;
  const auto answer = ask_until_done(question, reply, end);
  return answer ? Status{} : Status(answer.error());
}

Status Client::put_by_copy(const PutRequest& request, const Array& array, Clock::time_point end) {
  MessageWriter question;
  question.add(Ask::begin);
  add(question, request);
  Buffer reply;
  const auto answer = ask_until_done(question, reply, end);
  if (!answer) return answer.error();
  MessageReader in(*answer);
  (void)in.get<Said>();
  const auto object = in.get<std::uint64_t>();
  Range range;
  range.segment = in.get<int>();
  range.offset = in.get<std::int64_t>();
  if (!in.ok()) return not_a_server();
  auto target = object_array(range, request.box, array);
  Status status = target ? Status{} : Status(target.error());
  if (status) {
    auto event = engine_.copy(array, *target, behind(array));
    status = event ? event->wait(end - Clock::now()) : Status(event.error());
    if (event && !status) event->cancel();
    if (event && !status) (void)event->wait({});  // nobody may write there after the abort
  }
  const auto ended = ask(MessageWriter().add(status ? Ask::commit : Ask::abort).add(object), reply);
  if (!status) return status;
  return ended ? Status{} : Status(ended.error());
}

Result<std::int64_t> Client::wait(const GetRequest& request, std::chrono::milliseconds timeout) {
  MessageWriter question;
  question.add(Ask::wait);
  add(question, request);
  Buffer reply;
  const auto answer = ask_until_done(question, reply, Clock::now() + timeout);
  if (!answer) return answer.error();
  MessageReader in(*answer);
  (void)in.get<Said>();
  const auto version = in.get<std::int64_t>();
  return in.ok() ? Result<std::int64_t>(version) : not_a_server();
}

Result<std::int64_t> Client::get(const GetRequest& request, const Array& target,
                                 std::chrono::milliseconds timeout) {
  const auto end = Clock::now() + timeout;
  if (Status status = check_target(target, request.box); !status) return status.error();
  MessageWriter question;
  question.add(Ask::get);
  add(question, request);
  Buffer reply;
  const auto answer = ask_until_done(question, reply, end);
  if (!answer) return answer.error();
  MessageReader in(*answer);
  const auto said = in.get<Said>();
  std::int64_t version = 0;
  if (said == Said::data) {
    const std::size_t data_bytes = static_cast<std::size_t>(target.view.bytes());
    if (answer->size() < data_bytes) return not_a_server();
    Status status = take_data(in, answer->subspan(answer->size() - data_bytes), target, version);
    if (!status) return status.error();
    return version;
  }
  Found found;
  std::size_t left = 0;
  if (said != Said::parts || !read(in, found, left)) return not_a_server();
  Status status = left > 0 ? read_more(found, left, reply) : Status{};
  if (status) status = take_parts(found, request.box, target, end);
  const auto released = ask(MessageWriter().add(Ask::release).add(found.lease), reply);
  if (!status) return status.error();
  if (!released) return released.error();
  return found.version;
}

/// The parts that the first answer had no room for.
Status Client::read_more(Found& found, std::size_t left, Buffer& reply) const {
  while (left > 0) {
    const std::size_t before = found.parts.size();
    const auto answer =
        ask(MessageWriter().add(Ask::more).add(found.lease).add(static_cast<std::uint64_t>(before)),
            reply);
    if (!answer) return answer.error();
    MessageReader in(*answer);
    const auto said = in.get<Said>();
    if (said != Said::parts || !read(in, found, left)) return not_a_server();
    if (found.parts.size() == before) return not_a_server();
  }
  return {};
}

Status Client::take_data(MessageReader& in, std::span<const std::byte> rest, const Array& target,
                         std::int64_t& version) const {
  version = in.get<std::int64_t>();
  const std::string type = in.text();
  const auto element_bytes = in.get<std::int64_t>();
  if (!in.ok()) return not_a_server();
  if (Status status = check_type(type, element_bytes, target); !status) return status;
  if (target.where == Where::host) {
    return copy_dense(target, const_cast<std::byte*>(rest.data()), true);
  }
  auto mapping = dense_of(target);
  if (!mapping) return mapping.error();
  Array source;
  source.view = View::whole(*mapping);
  source.place.address = const_cast<std::byte*>(rest.data());
  source.name = "a message";
  auto event = engine_.copy(source, target, behind(target));
  return event ? event->wait({}) : Status(event.error());
}

Status Client::take_parts(const Found& found, const Box& box, const Array& target,
                          Clock::time_point end) {
  if (Status status = check_type(found.type, found.element_bytes, target); !status) return status;
  std::vector<Event> events;
  Status status;
  CopyOptions options = behind(target);
  options.together_bytes = box.points() * found.element_bytes;
  for (const Part& part : found.parts) {
    auto source = object_array(part.range, part.object_box, target);
    if (!source) {
      status = source.error();
      break;
    }
    Array to = target;
    for (std::size_t k = 0; k < at(box.rank); ++k) {
      source->view.lower[k] = part.box.lower[k] - part.object_box.lower[k];
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
  for (const Event& event : events) {
    Status one = status ? event.wait(end - Clock::now()) : Status{};
    if (!one || !status) {
      event.cancel();
      (void)event.wait({});  // the lease ends when nobody reads any more
    }
    if (status && !one) status = one;
  }
  return status;
}

Result<Array> Client::segment(int number) {
  std::lock_guard lock(mutex_);
  const auto known = segments_.find(number);
  if (known != segments_.end()) return known->second;
  auto found = processes_->lookup(peer_, segment_name + std::to_string(number), control_wait_max);
  if (found) segments_[number] = *found;
  return found;
}

Result<Array> Client::object_array(const Range& range, const Box& box, const Array& like) {
  auto array = segment(range.segment);
  if (!array) return array.error();
  const bool mapped = array->place.attachment == nullptr;
  auto mapping = dense(box, *like.view.mapping, mapped ? 0 : range.offset);
  if (!mapping) return mapping.error();
  if (mapped) array->place.address += range.offset;
  array->view = View::whole(std::move(*mapping));
  array->named = like.named;
  return array;
}

Result<std::vector<VariableInfo>> Client::list() {
  std::vector<VariableInfo> all;
  Buffer reply;
  while (true) {
    const std::string after = all.empty() ? std::string() : all.back().name;
    const auto answer = ask(MessageWriter().add(Ask::list).text(after), reply);
    if (!answer) return answer.error();
    MessageReader in(*answer);
    (void)in.get<Said>();
    const std::size_t before = all.size();
    for (auto one = in.data(); in.ok(); one = in.data()) {
      VariableInfo info;
      MessageReader inner(one);
      if (!read(inner, info)) return not_a_server();
      all.push_back(std::move(info));
    }
    if (all.size() == before) return all;
  }
}

Result<VariableInfo> Client::describe(const std::string& variable,
                                      std::chrono::milliseconds timeout) {
  Buffer reply;
  const auto answer = ask_until_done(MessageWriter().add(Ask::describe).text(variable), reply,
                                     Clock::now() + timeout);
  if (!answer) return answer.error();
  MessageReader in(*answer);
  (void)in.get<Said>();
  VariableInfo info;
  if (!read(in, info)) return not_a_server();
  return info;
}

Status Client::discard(const std::string& variable, std::int64_t version) {
  Buffer reply;
  const auto answer = ask(MessageWriter().add(Ask::discard).text(variable).add(version), reply);
  return answer ? Status{} : Status(answer.error());
}

}  // namespace tranship::staging
