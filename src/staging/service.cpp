#include "staging/service.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <tuple>

#include "base/crc32c.hpp"
#include "base/text.hpp"
#include "channels/host/copy.hpp"

namespace tranship::staging {
namespace {

Error unreadable() { return {ErrorCode::invalid_argument, "a message that cannot be read"}; }

Result<std::size_t> written(const MessageWriter& out, std::span<std::byte> reply) {
  if (out.bytes().size() > reply.size()) {
    return Error{ErrorCode::out_of_range, "the answer does not fit a message: raise slot_bytes"};
  }
  std::memcpy(reply.data(), out.bytes().data(), out.bytes().size());
  return out.bytes().size();
}

Result<std::size_t> done(std::span<std::byte> reply) {
  return written(MessageWriter().add(Said::done), reply);
}

Result<std::size_t> stale(std::span<std::byte> reply) {
  return written(MessageWriter().add(Said::stale), reply);
}

/// No group commits so often.
constexpr std::uint64_t order_max = std::uint64_t{1} << 62;

/// Names that one client waits for; who is not told looks again by itself.
constexpr std::size_t watches_max = 256;
/// Bytes of what a client calls itself, and of a server's contact.
constexpr std::size_t label_bytes_max = 256;
/// No keeper makes or deletes so many variables.
constexpr std::uint64_t number_max = std::uint64_t{1} << 62;

/// What a client calls itself, made fit to be shown.
std::string label_of(const std::string& text) {
  const bool fits = text.size() <= label_bytes_max && is_plain_text(text);
  return fits ? text : quoted(text, label_bytes_max / 4);
}

/// A path as clients name it. What is no name counts among the others.
std::string_view path_of(const std::string& text) {
  return is_plain_text(text) ? std::string_view(text) : std::string_view("others");
}

Error closing() { return {ErrorCode::closed, "the staging server is closing"}; }

Status check_version(std::uint32_t version) {
  if (version == staging_version) return {};
  return Error{ErrorCode::unsupported,
               "this server speaks version " + std::to_string(staging_version) +
                   " of the staging protocol, and the other process version " +
                   std::to_string(version) + "; install the same tranship"};
}

}  // namespace

Service::Service(Options options)
    : options_(std::move(options)),
      store_(options_.store),
      registry_(options_.cell_bytes, options_.store.limits),
      distribution_(options_.servers),
      contacts_(static_cast<std::size_t>(options_.servers)),
      waiting_(watches_max) {
  contacts_[static_cast<std::size_t>(options_.store.server)] = options_.contact;
}

Result<std::size_t> Service::answer(Owner from, std::span<const std::byte> question,
                                    std::span<std::byte> reply) {
  MessageReader in(question);
  const auto ask = in.get<Ask>();
  if (ask != Ask::hello && ask != Ask::join && !clients_.contains(from)) {
    return Error{ErrorCode::invalid_argument, "say hello first"};
  }
  auto length = carry_out(from, ask, in, reply);
  conclude();
  return length;
}

Result<std::size_t> Service::carry_out(Owner from, Ask ask, MessageReader& in, Reply reply) {
  switch (ask) {
    case Ask::hello: return on_hello(from, in, reply);
    case Ask::join: return on_join(in, reply);
    case Ask::define: return on_define(in, reply);
    case Ask::declare: return on_declare(from, in, reply);
    case Ask::describe: return on_describe(from, in, reply);
    case Ask::bounds: return on_bounds(in, reply);
    case Ask::put: return on_put(from, in, reply);
    case Ask::begin: return on_begin(from, in, reply);
    case Ask::commit: return on_commit(from, in, reply);
    case Ask::abort: return on_abort(from, in, reply);
    case Ask::enter: return on_enter(from, in, reply);
    case Ask::leave: return on_leave(from, in, reply);
    case Ask::settle: return on_settle(from, in, reply);
    case Ask::get: return on_get(from, in, true, reply);
    case Ask::wait: return on_get(from, in, false, reply);
    case Ask::find: return on_find(from, in, reply);
    case Ask::lease: return on_lease(from, in, reply);
    case Ask::more: return on_more(from, in, reply);
    case Ask::recall: return on_recall(from, in, reply);
    case Ask::release: return on_release(from, in, reply);
    case Ask::undo: return on_undo(from, in, reply);
    case Ask::forget: return on_forget(in, reply);
    case Ask::discard: return on_discard(in, reply);
    case Ask::remove: return on_remove(in, reply);
    case Ask::list: return on_list(in, reply);
    case Ask::status: return on_status(reply);
  }
  return unreadable();
}

bool Service::complete() const {
  return std::none_of(contacts_.begin(), contacts_.end(),
                      [](const std::string& contact) { return contact.empty(); });
}

Result<std::size_t> Service::on_hello(Owner from, MessageReader& in, Reply reply) {
  const auto version = in.get<std::uint32_t>();
  if (Status status = check_version(version); !status) return status.error();
  const std::string name = in.text();
  auto id = in.get<ClientId>();
  if (!in.ok()) return unreadable();
  if (draining_) return closing();
  if (lost_.contains(from)) return Error{ErrorCode::closed, "this connection was lost"};
  // Without an identity a client is its connection: no random number has a zero half.
  if (id.high == 0 || id.low == 0) id = {0, from};
  if (const auto known = clients_.find(from); known != clients_.end()) id = known->second.id;
  const int rank = options_.store.server;
  if (rank == 0 && !complete()) {
    waiting_for_servers_.insert(from);
    const auto missing = std::count(contacts_.begin(), contacts_.end(), std::string());
    return written(MessageWriter()
                       .add(Said::waiting)
                       .text(std::to_string(missing) + " of " + std::to_string(options_.servers) +
                             " servers have not started yet"),
                   reply);
  }
  const std::int64_t limit = options_.store.limits.clients;
  if (!clients_.contains(from) && std::ssize(clients_) >= limit) {
    return limit_reached("the clients of the server are", limit, "staging_clients");
  }
  clients_[from] = {label_of(name), id};
  registry_.came_back(id);
  MessageWriter out;
  out.add(Said::done).add(options_.message_bytes).add(data_bytes());
  out.add(rank).add(options_.servers);
  for (const std::string& contact : contacts_) {
    if (rank == 0) out.text(contact);
  }
  return written(out, reply);
}

Result<std::size_t> Service::on_join(MessageReader& in, Reply reply) {
  const auto version = in.get<std::uint32_t>();
  const auto rank = in.get<int>();
  const auto servers = in.get<int>();
  const std::string contact = in.text();
  const bool plain = contact.size() <= label_bytes_max && is_plain_text(contact);
  if (!in.ok() || contact.empty() || !plain) return unreadable();
  if (Status status = check_version(version); !status) return status.error();
  if (options_.store.server != 0 || servers != options_.servers || rank < 1 || rank >= servers) {
    return Error{ErrorCode::invalid_argument,
                 "server " + std::to_string(rank) + " of " + std::to_string(servers) +
                     " cannot join: this is server " + std::to_string(options_.store.server) +
                     " of " + std::to_string(options_.servers) +
                     "; start all with the same --servers, and the contact of the first"};
  }
  std::string& known = contacts_[static_cast<std::size_t>(rank)];
  if (!known.empty()) {
    return Error{
        ErrorCode::invalid_argument,
        "server " + std::to_string(rank) + " has joined before; give each a rank of its own"};
  }
  known = contact;
  if (complete()) {
    for (const Owner client : std::exchange(waiting_for_servers_, {})) options_.notify(client);
  }
  return done(reply);
}

Result<std::size_t> Service::on_define(MessageReader& in, Reply reply) {
  PutRequest domain;
  if (!read(in, domain)) return unreadable();
  const auto writers = in.get<int>();
  if (!in.ok()) return unreadable();
  const Status status = registry_.define(domain, writers);
  changes_.insert(domain.variable);
  return status ? done(reply) : Answer(status.error());
}

Result<std::size_t> Service::on_declare(Owner from, MessageReader& in, Reply reply) {
  PutRequest request;
  if (!read(in, request)) return unreadable();
  if (draining_) return closing();
  const auto facts = registry_.declare(clients_.at(from).id, request);
  if (!facts) return facts.error();
  changes_.insert(request.variable);
  MessageWriter out;
  out.add(Said::done);
  add(out, *facts);
  return written(out, reply);
}

Result<std::size_t> Service::on_describe(Owner from, MessageReader& in, Reply reply) {
  const std::string name = in.text();
  const bool watch = in.get<std::uint32_t>() != 0;
  if (!in.ok()) return unreadable();
  if (Status s = check_name(name, name_bytes_most); !s) return s.error();
  const auto facts = registry_.facts(name);
  if (!facts) {
    return wait(from, name, {"nothing has been put to " + quoted(name) + " yet"}, reply);
  }
  if (watch) waiting_.add(name, from);
  MessageWriter out;
  out.add(Said::done);
  add(out, *facts);
  add(out, bounds_of(name));
  return written(out, reply);
}

Result<std::size_t> Service::on_bounds(MessageReader& in, Reply reply) const {
  const std::string name = in.text();
  if (!in.ok()) return unreadable();
  MessageWriter out;
  out.add(Said::done);
  add(out, bounds_of(name));
  return written(out, reply);
}

/// Whether the variable was deleted since the client has asked its keeper for it.
bool Service::is_stale(const std::string& variable, const Life& life) const {
  if (life.stamp == 0) return false;
  const bool keeper =
      distribution_.servers() == 1 || distribution_.keeper(variable) == options_.store.server;
  if (!keeper) return store_.stale(variable, life);
  const auto facts = registry_.all().find(variable);
  return facts == registry_.all().end() || facts->second.life.life != life.life;
}

/// Around what was put to the variable here.
std::optional<Box> Service::bounds_of(const std::string& variable) const {
  const auto info = store_.describe(variable);
  return info ? std::optional(info->bounds) : std::nullopt;
}

Result<std::size_t> Service::on_put(Owner from, MessageReader& in, Reply reply) {
  PutRequest request;
  if (!read(in, request)) return unreadable();
  const auto data = in.data();
  const auto checksum = in.get<Checksum>();
  if (!in.ok()) return unreadable();
  if (draining_) return closing();
  if (Status status = check_element(request); !status) return status.error();
  const auto bytes = static_cast<std::int64_t>(data.size());
  if (request.box.points() * request.element_bytes != bytes || bytes > data_bytes()) {
    return unreadable();
  }
  if (is_stale(request.variable, request.life)) return stale(reply);
  if (checksum.known != 0 && checksum.crc != crc32c(data)) {
    return Error{ErrorCode::io, "an object arrived with other bytes than those that were put"};
  }
  auto begun = store_.begin(from, request, {options_.servers > 1 ? Effort::home : Effort::all});
  if (!begun) return begun.error();
  if (const auto* waiting = std::get_if<Waiting>(&*begun)) return wait(from, "", *waiting, reply);
  const Begun& object = std::get<Begun>(*begun);
  std::memcpy(options_.address_of(object.range), data.data(), data.size());
  const auto order = store_.commit(from, object.object, 0, checksum);
  if (!order) return order.error();
  traffic_[request.variable].puts.add(1, static_cast<std::int64_t>(data.size()), message_path);
  return put_answer(MessageWriter().add(Said::done), reply);
}

Result<std::size_t> Service::on_begin(Owner from, MessageReader& in, Reply reply) {
  PutRequest request;
  if (!read(in, request)) return unreadable();
  Asking asking;
  asking.effort = in.get<Effort>();
  const auto owners = in.get<std::uint32_t>();
  if (owners > static_cast<std::uint32_t>(options_.servers)) return unreadable();
  for (std::uint32_t k = 0; k < owners && in.ok(); ++k) asking.owners.push_back(in.get<int>());
  asking.ticket = in.get<Ticket>();
  if (!in.ok() || asking.effort < Effort::guest || asking.effort > Effort::all) return unreadable();
  if (draining_) return closing();
  if (is_stale(request.variable, request.life)) return stale(reply);
  auto begun = store_.begin(from, request, asking);
  if (!begun) return begun.error();
  if (const auto* waiting = std::get_if<Waiting>(&*begun)) return wait(from, "", *waiting, reply);
  const Begun& object = std::get<Begun>(*begun);
  traffic_.try_emplace(request.variable);
  MessageWriter out;
  out.add(Said::done).add(object.object);
  add(out, object.range);
  return put_answer(std::move(out), reply);
}

/// What a put may have made this server discard is told to whoever puts.
Result<std::size_t> Service::put_answer(MessageWriter out, Reply reply) {
  add(out, store_.take_strays(strays_max));
  return written(out, reply);
}

Result<std::size_t> Service::on_commit(Owner from, MessageReader& in, Reply reply) {
  const auto object = in.get<std::uint64_t>();
  const auto order_before = in.get<std::uint64_t>();
  const std::string variable = in.text();
  const auto bytes = in.get<std::int64_t>();
  const std::string path = in.text();
  const auto checksum = in.get<Checksum>();
  if (!in.ok() || order_before > order_max || bytes < 0) return unreadable();
  const auto order = store_.commit(from, object, order_before, checksum);
  if (!order) return order.error();
  if (const auto known = traffic_.find(variable); known != traffic_.end()) {
    known->second.puts.add(1, bytes, path_of(path));
  }
  return put_answer(MessageWriter().add(Said::done).add(*order), reply);
}

Result<std::size_t> Service::on_abort(Owner from, MessageReader& in, Reply reply) {
  const auto object = in.get<std::uint64_t>();
  if (!in.ok()) return unreadable();
  const Status status = store_.abort(from, object);
  return status ? done(reply) : Answer(status.error());
}

Result<std::size_t> Service::on_enter(Owner from, MessageReader& in, Reply reply) {
  PutRequest request;
  if (!read(in, request)) return unreadable();
  const auto home = in.get<int>();
  const auto object = in.get<std::uint64_t>();
  const bool guest = in.get<std::uint32_t>() != 0;
  if (!in.ok() || home < 0 || home >= options_.servers || home == options_.store.server) {
    return unreadable();
  }
  if (is_stale(request.variable, request.life)) return stale(reply);
  const auto order = store_.enter(from, request, {{home, object}, guest});
  if (!order) return order.error();
  traffic_.try_emplace(request.variable);
  return put_answer(MessageWriter().add(Said::done).add(*order), reply);
}

Result<std::size_t> Service::on_leave(Owner from, MessageReader& in, Reply reply) {
  const std::string variable = in.text();
  const auto version = in.get<std::int64_t>();
  const auto home = in.get<int>();
  const auto object = in.get<std::uint64_t>();
  if (!in.ok()) return unreadable();
  store_.leave(from, variable, version, {home, object});
  return done(reply);
}

Result<std::size_t> Service::on_settle(Owner from, MessageReader& in, Reply reply) {
  const std::string variable = in.text();
  const auto version = in.get<std::int64_t>();
  const auto home = in.get<int>();
  const auto object = in.get<std::uint64_t>();
  const auto order = in.get<std::uint64_t>();
  if (!in.ok() || order > order_max) return unreadable();
  store_.settle(from, variable, version, {home, object}, order);
  return put_answer(MessageWriter().add(Said::done), reply);
}

Result<std::size_t> Service::on_get(Owner from, MessageReader& in, bool wants_data, Reply reply) {
  GetRequest request;
  if (!read(in, request)) return unreadable();
  const auto ticket = in.get<Ticket>();
  if (!in.ok()) return unreadable();
  if (Status s = check_name(request.variable, name_bytes_most); !s) return s.error();
  if (is_stale(request.variable, request.life)) return stale(reply);
  auto got = store_.get(from, request, ticket);
  if (!got) return got.error();
  if (std::holds_alternative<Spread>(*got))
    return written(MessageWriter().add(Said::spread), reply);
  if (const auto* waiting = std::get_if<Waiting>(&*got)) {
    // What is not there may still come, if somebody is there who could bring it.
    const auto facts = registry_.facts(request.variable);
    if (facts && facts->ended()) return never(*facts, waiting->why);
    return wait(from, request.variable, *waiting, reply);
  }
  const Found& found = std::get<Found>(*got);
  const std::int64_t bytes = request.box.points() * found.element_bytes;
  // Whoever asked checks the bytes of an object that has a checksum: in its own memory.
  const bool plain = std::all_of(found.objects.begin(), found.objects.end(), [](const Seen& one) {
    return one.range.segment >= 0 && one.checksum.known == 0;
  });
  if (wants_data && (bytes > data_bytes() || !plain)) {
    return objects_of(from, found, reply);
  }
  if (wants_data) {
    traffic_[request.variable].gets.add(1, bytes, message_path);
    return data_of(from, found, request.box, reply);
  }
  auto length = written(MessageWriter().add(Said::done).add(found.version), reply);
  if (Status status = store_.release(from, found.lease); !status) return status.error();
  return length;
}

Result<std::size_t> Service::on_find(Owner from, MessageReader& in, Reply reply) {
  GetRequest request;
  if (!read(in, request)) return unreadable();
  const bool watch = in.get<std::uint32_t>() != 0;
  const auto ticket = in.get<Ticket>();
  if (!in.ok()) return unreadable();
  if (Status s = check_name(request.variable, name_bytes_most); !s) return s.error();
  if (is_stale(request.variable, request.life)) return stale(reply);
  if (watch) waiting_.add(request.variable, from);
  auto got = store_.find(from, request, ticket);
  if (!got) return got.error();
  if (const auto* waiting = std::get_if<Waiting>(&*got)) {
    return written(MessageWriter().add(Said::waiting).text(waiting->why), reply);
  }
  return objects_of(from, std::get<Found>(*got), reply);
}

Result<std::size_t> Service::on_lease(Owner from, MessageReader& in, Reply reply) {
  const std::string variable = in.text();
  const auto version = in.get<std::int64_t>();
  const bool watch = in.get<std::uint32_t>() != 0;
  const auto count = in.get<std::uint32_t>();
  std::vector<std::uint64_t> objects;
  for (std::uint32_t k = 0; k < count && in.ok(); ++k) objects.push_back(in.get<std::uint64_t>());
  const auto ticket = in.get<Ticket>();
  if (!in.ok()) return unreadable();
  if (Status s = check_name(variable, name_bytes_most); !s) return s.error();
  if (watch) waiting_.add(variable, from);
  std::uint64_t lease = 0;
  const auto answers = store_.lease(from, variable, version, objects, lease, ticket);
  if (!answers) return answers.error();
  MessageWriter out;
  out.add(Said::done).add(lease);
  for (const Leased& one : *answers) add(out, one);
  return written(out, reply);
}

Result<std::size_t> Service::objects_of(Owner from, const Found& found, Reply reply) {
  MessageWriter out;
  out.add(Said::objects);
  if (add(out, found, 0, reply.size()) > 0) long_answers_[{from, found.lease}] = found;
  auto length = written(out, reply);
  if (!length) {
    long_answers_.erase({from, found.lease});
    (void)store_.release(from, found.lease);
  }
  return length;
}

/// The elements themselves, gathered from the objects.
Result<std::size_t> Service::data_of(Owner from, const Found& found, const Box& box, Reply reply) {
  MessageWriter out;
  out.add(Said::data).add(found.version).text(found.type).add(found.element_bytes);
  auto length = written(out, reply);
  const auto bytes = static_cast<std::size_t>(box.points() * found.element_bytes);
  if (length && *length + bytes <= reply.size()) {
    std::vector<Part> parts;
    Box missing;
    (void)cut(box, found.objects, parts, missing);
    for (const Part& part : parts) {
      const Seen& object = found.objects[part.object];
      const LoopNest nest = nest_of(part.box, object.box, box, found.element_bytes);
      copy_nests({&nest, 1}, options_.address_of(object.range), reply.data() + *length, false);
    }
    *length += bytes;
  }
  if (Status status = store_.release(from, found.lease); !status) return status.error();
  return length;
}

Result<std::size_t> Service::on_more(Owner from, MessageReader& in, Reply reply) {
  const auto lease = in.get<std::uint64_t>();
  const auto first = in.get<std::uint64_t>();
  const auto found = long_answers_.find({from, lease});
  if (!in.ok() || found == long_answers_.end() || first >= found->second.objects.size()) {
    return unreadable();
  }
  MessageWriter out;
  out.add(Said::objects);
  (void)add(out, found->second, first, reply.size());
  return written(out, reply);
}

Result<std::size_t> Service::on_recall(Owner from, MessageReader& in, Reply reply) {
  const auto lease = in.get<std::uint64_t>();
  const auto object = in.get<std::uint64_t>();
  if (!in.ok()) return unreadable();
  const auto here = store_.recall(from, lease, object);
  if (!here) return here.error();
  if (const auto* waiting = std::get_if<Waiting>(&*here)) return wait(from, "", *waiting, reply);
  MessageWriter out;
  out.add(Said::done);
  add(out, std::get<Range>(*here));
  return written(out, reply);
}

Result<std::size_t> Service::on_release(Owner from, MessageReader& in, Reply reply) {
  const auto lease = in.get<std::uint64_t>();
  const std::string variable = in.text();
  const auto gets = in.get<std::uint32_t>();
  const auto bytes = in.get<std::int64_t>();
  const std::string path = in.text();
  if (!in.ok() || gets > 1 || bytes < 0) return unreadable();
  long_answers_.erase({from, lease});
  if (Status status = store_.release(from, lease); !status) return status.error();
  if (const auto known = traffic_.find(variable); known != traffic_.end()) {
    known->second.gets.add(gets, bytes, path_of(path));
  }
  return done(reply);
}

Result<std::size_t> Service::on_undo(Owner from, MessageReader& in, Reply reply) {
  const auto ticket = in.get<Ticket>();
  if (!in.ok()) return unreadable();
  for (const std::uint64_t lease : store_.undo(from, ticket)) long_answers_.erase({from, lease});
  return done(reply);
}

Result<std::size_t> Service::on_forget(MessageReader& in, Reply reply) {
  const auto owner = in.get<int>();
  std::vector<Stray> strays;
  if (!read(in, strays)) return unreadable();
  for (const Stray& stray : strays) {
    if (stray.home == options_.store.server) store_.forget(stray.object, owner);
  }
  return done(reply);
}

Result<std::size_t> Service::on_discard(MessageReader& in, Reply reply) {
  const std::string variable = in.text();
  const auto version = in.get<std::int64_t>();
  if (!in.ok()) return unreadable();
  const Status status = store_.discard(variable, version);
  return status ? put_answer(MessageWriter().add(Said::done), reply) : Answer(status.error());
}

/// The keeper of a variable is asked without a number, and answers with that of the deletion.
Result<std::size_t> Service::on_remove(MessageReader& in, Reply reply) {
  const std::string variable = in.text();
  auto number = in.get<std::uint64_t>();
  if (!in.ok() || number > number_max) return unreadable();
  if (Status s = check_name(variable, name_bytes_most); !s) return s.error();
  bool any = false;
  if (number == 0) std::tie(number, any) = registry_.remove(variable);
  any = store_.remove(variable, number) || any;
  traffic_.erase(variable);
  changes_.insert(variable);
  MessageWriter out;
  out.add(Said::done).add(number).add(static_cast<std::uint32_t>(any ? 1 : 0));
  return put_answer(std::move(out), reply);
}

/// Adds what others than the store know.
void Service::complete_info(VariableInfo& info) const {
  const auto facts = registry_.all().find(info.name);
  if (facts != registry_.all().end()) info.producers = facts->second.producers;
  const auto traffic = traffic_.find(info.name);
  if (traffic != traffic_.end()) info.traffic = traffic->second;
}

std::vector<VariableInfo> Service::list_from(const std::string& after, std::int64_t after_version,
                                             std::size_t rows_max) const {
  std::vector<std::string> names = store_.names_from(after, rows_max);
  std::size_t count = 0;
  for (auto one = registry_.all().lower_bound(after);
       one != registry_.all().end() && count < rows_max; ++one, ++count) {
    names.push_back(one->first);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (names.size() > rows_max) names.resize(rows_max);  // behind that some may be left out
  std::vector<VariableInfo> listed;
  std::size_t rows = 0;
  for (const std::string& name : names) {
    if (rows >= rows_max) break;
    const bool first = name == after;
    auto info =
        store_.info(name, first ? std::optional(after_version) : std::nullopt, rows_max - rows);
    if (first && (!info || info->versions.empty())) continue;  // it was told before
    if (!info) {
      const Facts& facts = registry_.all().at(name);
      info = VariableInfo{name, facts.type, facts.element_bytes, facts.first, {}, 0};
    }
    complete_info(*info);
    if (first) info->traffic = {};  // the page before has told it
    rows += 1 + info->versions.size();
    listed.push_back(std::move(*info));
  }
  return listed;
}

std::vector<VariableInfo> Service::list() const { return list_from({}, INT64_MIN, SIZE_MAX); }

/// What comes after a version of a variable, as much as there is room for.
Result<std::size_t> Service::on_list(MessageReader& in, Reply reply) const {
  const std::string after = in.text();
  const auto after_version = in.get<std::int64_t>();
  if (!in.ok()) return unreadable();
  MessageWriter out;
  out.add(Said::done);
  // No row takes less.
  for (VariableInfo& info : list_from(after, after_version, reply.size() / sizeof(VersionInfo))) {
    const std::vector<VersionInfo> versions = std::exchange(info.versions, {});
    MessageWriter without;
    add(without, info);
    const std::size_t taken = out.bytes().size() + without.bytes().size() + sizeof(std::uint32_t);
    const std::size_t room =
        taken < reply.size() ? (reply.size() - taken) / sizeof(VersionInfo) : 0;
    if (room == 0) break;
    const std::size_t count = std::min(room, versions.size());
    info.versions.assign(versions.begin(), versions.begin() + static_cast<std::ptrdiff_t>(count));
    MessageWriter one;
    add(one, info);
    out.add(one.bytes());
    if (count < versions.size()) break;
  }
  return written(out, reply);
}

/// Names as far as there is room for them.
Result<std::size_t> Service::on_status(Reply reply) const {
  ServerInfo info{options_.store.server,
                  options_.contact,
                  options_.store.memory_bytes,
                  store_.memory_bytes_used(),
                  store_.spilled_bytes(),
                  clients(),
                  {}};
  std::size_t room = reply.size() / 2;
  for (const auto& [client, known] : clients_) {
    const std::string& name = known.name;
    if (name.size() + sizeof(std::uint32_t) > room) break;
    room -= name.size() + sizeof(std::uint32_t);
    info.names.push_back(name);
  }
  MessageWriter out;
  out.add(Said::done);
  add(out, info);
  return written(out, reply);
}

Result<std::size_t> Service::wait(Owner from, const std::string& variable, const Waiting& waiting,
                                  Reply reply) {
  waiting_.add(variable, from);
  return written(MessageWriter().add(Said::waiting).text(waiting.why), reply);
}

bool Service::is_connected(const ClientId& id) const {
  return std::any_of(clients_.begin(), clients_.end(),
                     [&](const auto& one) { return one.second.id == id; });
}

void Service::lost(Owner from) {
  waiting_for_servers_.erase(from);
  const auto client = clients_.find(from);
  if (client == clients_.end()) return;
  const ClientId id = client->second.id;
  clients_.erase(client);
  lost_[from] = id;
  waiting_.drop(from);
  std::erase_if(long_answers_, [&](const auto& one) { return one.first.first == from; });
  store_.lost(from);
  if (!is_connected(id)) changes_.merge(registry_.lost(id));
  conclude();
}

void Service::gone(Owner from, bool cleanly) {
  lost(from);
  const auto client = lost_.find(from);
  if (client == lost_.end()) return;
  const ClientId id = client->second;
  lost_.erase(client);
  store_.gone(from);
  if (!is_connected(id)) changes_.merge(registry_.gone(id, cleanly));
  conclude();
}

void Service::ended(const Move& move, const Status& status) {
  store_.ended(move, status);
  conclude();
}

/// What is to be moved is handed over. Each client that waits for something that has changed is
/// told once; it asks again then.
void Service::conclude() {
  for (const Move& move : store_.take_moves()) options_.move(move);
  changes_.merge(store_.take_changes());
  std::set<Owner> told;
  for (const std::string& variable : changes_) {
    told.merge(waiting_.take(variable));
  }
  changes_.clear();
  for (const Owner client : told) options_.notify(client);
}

}  // namespace tranship::staging
