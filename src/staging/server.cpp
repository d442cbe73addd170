#include "staging/server.hpp"

#include <chrono>
#include <cstring>
#include <thread>

#include "channels/host/copy.hpp"

namespace tranship::staging {
namespace {

Error unreadable() { return {ErrorCode::invalid_argument, "a message that cannot be read"}; }

Result<std::size_t> written(const MessageWriter& out, std::span<std::byte> reply) {
  if (out.bytes().size() > reply.size()) {
    return Error{ErrorCode::out_of_range,
                 "the answer does not fit a message: ask for a smaller box, or raise slot_bytes"};
  }
  std::memcpy(reply.data(), out.bytes().data(), out.bytes().size());
  return out.bytes().size();
}

Result<std::size_t> done(std::span<std::byte> reply) {
  return written(MessageWriter().add(Said::done), reply);
}

}  // namespace

Server::Server(Options options)
    : options_(std::move(options)),
      store_({.memory_bytes = options_.memory_bytes,
              .versions_max = options_.versions_max,
              .full = options_.full,
              .make_segment = [this](std::int64_t bytes) { return make_segment(bytes); }}) {}

Result<std::unique_ptr<Server>> Server::open(Options options) {
  if (options.memory_bytes < (std::int64_t{1} << 20) || options.versions_max < 0) {
    return Error{ErrorCode::invalid_argument,
                 "a server has at least 1 MiB of memory, and keeps 0 (all) or more versions"};
  }
  std::unique_ptr<Server> server(new Server(std::move(options)));
  Server* raw = server.get();
  Engine::Options engine;
  engine.config = raw->options_.config;
  engine.profile = raw->options_.profile;
  engine.accept = true;
  engine.contact_file = raw->options_.contact_file;
  engine.answer = [raw](RequesterId from, std::span<const std::byte> question,
                        std::span<std::byte> reply) { return raw->answer(from, question, reply); };
  engine.on_requester_gone = [raw](RequesterId requester, bool cleanly) {
    raw->on_gone(requester, cleanly);
  };
  auto opened = Engine::open(std::move(engine));
  if (!opened) return opened.error();
  raw->engine_ = std::move(*opened);
  auto processes = raw->engine_->processes();
  if (!processes) return processes.error();
  raw->processes_ = *processes;
  raw->contact_ = raw->processes_->contact();
  raw->ready_.store(true, std::memory_order_release);
  return server;
}

Server::~Server() { close(); }

void Server::close() {
  if (engine_) engine_->close();
}

std::string Server::contact() const { return contact_; }

std::vector<VariableInfo> Server::list() const {
  std::lock_guard lock(mutex_);
  return store_.list();
}

std::int64_t Server::memory_bytes_used() const {
  std::lock_guard lock(mutex_);
  return store_.memory_bytes_used();
}

int Server::clients() const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(clients_.size());
}

Status Server::make_segment(std::int64_t bytes) {
  auto memory = engine_->allocate_shared(bytes);
  if (!memory) return memory.error();
  Array array;
  array.view = View::whole(
      Mapping::make({{"byte", bytes}}, {{"f0", "u1", 1}}, Layout::parse("F, byte").value())
          .value());
  array.place.address = (*memory)->data();
  array.owner = *memory;
  array.name = "a segment of a staging server";
  const std::string name = segment_name + std::to_string(segments_.size());
  if (Status status = processes_->export_array(name, array); !status) return status;
  segments_.push_back(std::move(*memory));
  return {};
}

std::byte* Server::address_of(const Range& range) const {
  return segments_[static_cast<std::size_t>(range.segment)]->data() + range.offset;
}

Result<std::size_t> Server::answer(RequesterId from, std::span<const std::byte> question,
                                   std::span<std::byte> reply) {
  if (!await_ready()) return Error{ErrorCode::closed, "the staging server did not start"};
  MessageReader in(question);
  const auto ask = in.get<Ask>();
  std::lock_guard lock(mutex_);
  if (ask != Ask::hello && !clients_.contains(from)) {
    return Error{ErrorCode::invalid_argument, "say hello first"};
  }
  auto length = carry_out(from, ask, in, reply);
  tell_waiting();
  return length;
}

Result<std::size_t> Server::carry_out(RequesterId from, Ask ask, MessageReader& in,
                                      std::span<std::byte> reply) {
  switch (ask) {
    case Ask::hello: return on_hello(from, in, reply);
    case Ask::put: return on_put(from, in, reply);
    case Ask::begin: return on_begin(from, in, reply);
    case Ask::get: return on_get(from, in, true, reply);
    case Ask::wait: return on_get(from, in, false, reply);
    case Ask::more: return on_more(from, in, reply);
    case Ask::release: return on_release(from, in, reply);
    case Ask::describe: return on_describe(from, in, reply);
    case Ask::list: return on_list(in, reply);
    case Ask::commit:
    case Ask::abort: {
      const auto number = in.get<std::uint64_t>();
      if (!in.ok()) return unreadable();
      const Status status =
          ask == Ask::commit ? store_.commit(from.value, number) : store_.abort(from.value, number);
      return status ? done(reply) : Result<std::size_t>(status.error());
    }
    case Ask::discard: {
      const std::string variable = in.text();
      const auto version = in.get<std::int64_t>();
      if (!in.ok()) return unreadable();
      const Status status = store_.discard(variable, version);
      return status ? done(reply) : Result<std::size_t>(status.error());
    }
  }
  return unreadable();
}

Result<std::size_t> Server::on_hello(RequesterId from, MessageReader& in,
                                     std::span<std::byte> reply) {
  const auto version = in.get<std::uint32_t>();
  const std::string name = in.text();
  if (!in.ok()) return unreadable();
  if (version != staging_version) {
    return Error{ErrorCode::unsupported,
                 "this server speaks version " + std::to_string(staging_version) +
                     " of the staging protocol, and the client version " + std::to_string(version) +
                     "; install the same tranship"};
  }
  clients_[from] = name;
  return written(MessageWriter().add(Said::done).add(options_.config.slot_bytes), reply);
}

Result<std::size_t> Server::on_put(RequesterId from, MessageReader& in,
                                   std::span<std::byte> reply) {
  PutRequest request;
  if (!read(in, request)) return unreadable();
  const auto data = in.data();
  if (!in.ok()) return unreadable();
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(request.box.points(), request.element_bytes, &bytes) ||
      bytes != static_cast<std::int64_t>(data.size())) {
    return unreadable();
  }
  auto begun = store_.begin(from.value, request);
  if (!begun) return begun.error();
  if (const auto* waiting = std::get_if<Waiting>(&*begun)) return wait(from, "", *waiting, reply);
  const Begun& object = std::get<Begun>(*begun);
  std::memcpy(address_of(object.range), data.data(), data.size());
  if (Status status = store_.commit(from.value, object.object); !status) return status.error();
  return done(reply);
}

Result<std::size_t> Server::on_begin(RequesterId from, MessageReader& in,
                                     std::span<std::byte> reply) {
  PutRequest request;
  if (!read(in, request)) return unreadable();
  auto begun = store_.begin(from.value, request);
  if (!begun) return begun.error();
  if (const auto* waiting = std::get_if<Waiting>(&*begun)) return wait(from, "", *waiting, reply);
  const Begun& object = std::get<Begun>(*begun);
  return written(MessageWriter()
                     .add(Said::done)
                     .add(object.object)
                     .add(object.range.segment)
                     .add(object.range.offset),
                 reply);
}

Result<std::size_t> Server::on_get(RequesterId from, MessageReader& in, bool wants_data,
                                   std::span<std::byte> reply) {
  GetRequest request;
  if (!read(in, request)) return unreadable();
  auto got = store_.get(from.value, request);
  if (!got) return got.error();
  if (const auto* waiting = std::get_if<Waiting>(&*got)) {
    return wait(from, request.variable, *waiting, reply);
  }
  const Found& found = std::get<Found>(*got);
  const std::int64_t bytes = request.box.points() * found.element_bytes;
  if (wants_data && bytes > inline_bytes(options_.config.slot_bytes)) {
    MessageWriter out;
    out.add(Said::parts);
    if (add(out, found, 0, reply.size()) > 0) long_answers_[{from, found.lease}] = found;
    return written(out, reply);
  }
  MessageWriter out;
  out.add(wants_data ? Said::data : Said::done).add(found.version);
  if (wants_data) out.text(found.type).add(found.element_bytes);
  auto length = written(out, reply);
  if (length && wants_data) *length += data_of(found, request.box, reply.subspan(*length));
  if (Status status = store_.release(from.value, found.lease); !status) return status.error();
  return length;
}

Result<std::size_t> Server::on_more(RequesterId from, MessageReader& in,
                                    std::span<std::byte> reply) {
  const auto lease = in.get<std::uint64_t>();
  const auto first = in.get<std::uint64_t>();
  const auto found = long_answers_.find({from, lease});
  if (!in.ok() || found == long_answers_.end() || first >= found->second.parts.size()) {
    return unreadable();
  }
  MessageWriter out;
  out.add(Said::parts);
  (void)add(out, found->second, first, reply.size());
  return written(out, reply);
}

Result<std::size_t> Server::on_release(RequesterId from, MessageReader& in,
                                       std::span<std::byte> reply) {
  const auto lease = in.get<std::uint64_t>();
  if (!in.ok()) return unreadable();
  long_answers_.erase({from, lease});
  const Status status = store_.release(from.value, lease);
  return status ? done(reply) : Result<std::size_t>(status.error());
}

/// The elements themselves, gathered from the objects.
std::size_t Server::data_of(const Found& found, const Box& box, std::span<std::byte> reply) const {
  for (const Part& part : found.parts) {
    const LoopNest nest = nest_of(part.box, part.object_box, box, found.element_bytes);
    copy_nests({&nest, 1}, address_of(part.range), reply.data(), false);
  }
  return static_cast<std::size_t>(box.points() * found.element_bytes);
}

Result<std::size_t> Server::on_describe(RequesterId from, MessageReader& in,
                                        std::span<std::byte> reply) {
  const std::string name = in.text();
  if (!in.ok()) return unreadable();
  const auto known = store_.describe(name);
  if (const auto* waiting = std::get_if<Waiting>(&known)) return wait(from, name, *waiting, reply);
  MessageWriter out;
  out.add(Said::done);
  add(out, std::get<VariableInfo>(known));
  return written(out, reply);
}

Result<std::size_t> Server::on_list(MessageReader& in, std::span<std::byte> reply) const {
  const std::string after = in.text();
  if (!in.ok()) return unreadable();
  MessageWriter out;
  out.add(Said::done);
  for (const VariableInfo& info : store_.list()) {
    if (!after.empty() && info.name <= after) continue;
    MessageWriter one;
    add(one, info);
    // What does not fit comes with the next question; what fits none is refused.
    const bool fits = out.bytes().size() + one.bytes().size() + 4 <= reply.size();
    if (!fits && out.bytes().size() > sizeof(Said)) break;
    out.add(one.bytes());
  }
  return written(out, reply);
}

Result<std::size_t> Server::wait(RequesterId from, const std::string& variable,
                                 const Waiting& waiting, std::span<std::byte> reply) {
  waiting_[variable].insert(from);
  return written(MessageWriter().add(Said::waiting).text(waiting.why), reply);
}

/// Who connects while the server opens waits for that.
bool Server::await_ready() const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!ready_.load(std::memory_order_acquire)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void Server::on_gone(RequesterId requester, bool cleanly) {
  if (!ready_.load(std::memory_order_acquire)) return;  // nobody has said hello
  std::lock_guard lock(mutex_);
  if (clients_.erase(requester) == 0) return;
  for (auto& [variable, requesters] : waiting_) requesters.erase(requester);
  std::erase_if(long_answers_, [&](const auto& one) { return one.first.first == requester; });
  store_.gone(requester.value, cleanly);
  tell_waiting();
}

/// Each client that waits for something that has changed is told once; it asks again then.
void Server::tell_waiting() {
  std::set<RequesterId> told;
  for (const std::string& variable : store_.take_changes()) {
    const auto found = waiting_.find(variable);
    if (found == waiting_.end()) continue;
    told.insert(found->second.begin(), found->second.end());
    waiting_.erase(found);
  }
  if (told.empty()) return;
  for (const RequesterId requester : told) (void)processes_->notify(requester, {});
}

}  // namespace tranship::staging
