// Servers and clients of the staging service.
#include "staging.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <variant>

#include "base/refusals.hpp"
#include "staging/model/distribution.hpp"
#include "staging/server/server.hpp"

namespace tranship::python {

GetRequest request_of(const std::string& variable, const std::string& which, std::int64_t version,
                      const std::vector<std::int64_t>& lower,
                      const std::vector<std::int64_t>& upper) {
  const VersionChoice kind = which == "next"     ? VersionChoice::next
                             : which == "latest" ? VersionChoice::latest
                                                 : VersionChoice::exact;
  const std::int64_t number = kind == VersionChoice::latest ? INT64_MAX : version;
  return {variable, kind, number, unwrap(staging::Box::make(lower, upper))};
}

namespace {

using staging::Box;
using staging::ObjectView;
using staging::Server;
using staging::VariableInfo;

/// Calls a function of a server that does not wait for other processes, without the lock.
template <typename Call>
auto ask(const Server& server, const Call& call) {
  unwrap(server.usable());
  const Released released;
  return call();
}

std::shared_ptr<BoundClient> open_client(nb::handle given, const std::string& contact,
                                         const std::string& name, double timeout) {
  check_interpreter();
  const staging::Patience patience{milliseconds(timeout), interrupted};
  auto& engine = nb::cast<Engine&>(given);
  auto client = unwrap(run([&] {
    return refusals_as_errors([&] { return Client::open(engine, contact, name, patience); });
  }));
  return owned(std::make_unique<BoundClient>(keep(given), std::move(client)));
}

std::shared_ptr<Server> open_server(const std::string& profile,
                                    const std::map<std::string, std::string>& overrides,
                                    const std::string& contact_file, std::int64_t memory_bytes,
                                    std::optional<std::int64_t> preallocated_bytes,
                                    const std::string& memory_kind, int versions_max,
                                    const std::string& full, const std::string& spill_folder,
                                    std::optional<std::int64_t> spill_bytes_max, int rank,
                                    int servers, const std::string& first) {
  check_interpreter();
  Server::Options options;
  options.config = config_with(overrides);
  options.profile = unwrap(Profile::from_json(profile));
  options.contact_file = contact_file;
  options.memory_bytes = memory_bytes;
  options.preallocated_bytes = preallocated_bytes;
  options.memory_kind = memory_kind;
  options.versions_max = versions_max;
  options.full = full == "spill"            ? staging::Full::spill
                 : full == "discard-oldest" ? staging::Full::discard_oldest
                                            : staging::Full::block;
  options.spill_folder = spill_folder;
  if (spill_bytes_max) options.spill_bytes_max = *spill_bytes_max;
  options.rank = rank;
  options.servers = servers;
  options.first = first;
  options.join.interrupted = interrupted;
  return owned(unwrap(
      run([&] { return refusals_as_errors([&] { return Server::open(std::move(options)); }); })));
}

nb::tuple as_tuple(const std::vector<std::int64_t>& numbers) {
  return nb::tuple(nb::cast(numbers));
}

nb::dict described(const staging::TransferTotals& moved) {
  nb::dict all;
  all["count"] = moved.count;
  all["bytes"] = moved.bytes;
  all["paths"] = nb::cast(moved.paths);
  return all;
}

using Indices = std::vector<std::int64_t>;

/// Returns the lower and the upper corner of a box.
std::pair<Indices, Indices> corners_of(const Box& box) {
  return {{box.lower.begin(), box.lower.begin() + box.rank},
          {box.upper.begin(), box.upper.begin() + box.rank}};
}

nb::dict described(const VariableInfo& info) {
  const auto [lower, upper] = corners_of(info.bounds);
  nb::list versions;
  for (const staging::VersionInfo& version : info.versions) {
    nb::dict one;
    one["version"] = version.version;
    one["objects"] = version.objects;
    one["bytes"] = version.bytes;
    versions.append(one);
  }
  nb::dict all;
  all["name"] = info.name;
  all["type"] = info.type;
  all["lower"] = nb::cast(lower);
  all["upper"] = nb::cast(upper);
  all["producers"] = info.producers;
  all["versions"] = versions;
  all["puts"] = described(info.traffic.puts);
  all["gets"] = described(info.traffic.gets);
  return all;
}

nb::list described(const std::vector<VariableInfo>& all) {
  nb::list list;
  for (const VariableInfo& info : all) list.append(described(info));
  return list;
}

void bind_staging_server(nb::module_& module) {
  nb::class_<Server>(module, "StagingServerCore")
      .def_static(
          "open", &open_server, nb::arg("profile"), nb::arg("overrides"), nb::arg("contact_file"),
          nb::arg("memory_bytes"), nb::arg("preallocated_bytes").none(), nb::arg("memory_kind"),
          nb::arg("versions_max"), nb::arg("full"), nb::arg("spill_folder"),
          nb::arg("spill_bytes_max").none(), nb::arg("rank"), nb::arg("servers"), nb::arg("first"))
      .def_prop_ro("contact", &Server::contact)
      .def_prop_ro("clients",
                   [](const Server& self) { return ask(self, [&] { return self.clients(); }); })
      .def_prop_ro("complete",
                   [](const Server& self) { return ask(self, [&] { return self.complete(); }); })
      .def_prop_ro(
          "memory_bytes_used",
          [](const Server& self) { return ask(self, [&] { return self.memory_bytes_used(); }); })
      .def_prop_ro(
          "spilled_bytes",
          [](const Server& self) { return ask(self, [&] { return self.spilled_bytes(); }); })
      .def(
          "variables",
          [](const Server& self) { return described(ask(self, [&] { return self.list(); })); },
          nb::sig("def variables(self) -> list[dict[str, object]]"))
      .def(
          "close", [](nb::handle self) { unwrap(close_apart(self, nb::cast<Server&>(self))); },
          nb::sig("def close(self) -> None"));
}

/// Returns the array with elements of the type that the service calls `type`: NumPy has viewed
/// structures as bytes.
Array named(Array array, const std::string& type) {
  if (type.empty()) return array;
  const Mapping& mapping = *array.view.mapping;
  array.view.mapping = mapping_of_field(mapping, mapping.fields()[0], type);
  return array;
}

bool put(BoundClient& self, const std::string& variable, std::int64_t version, nb::handle array,
         const std::vector<std::int64_t>& lower, double timeout, nb::handle after, bool checksum,
         const std::string& type, bool waits, staging::StepId step) {
  const Array source = named(array_of(array, false), type);
  const std::vector<Event> events = events_of(after);
  const staging::PutOptions options{milliseconds(timeout), events, checksum, step};
  if (!waits) {
    return unwrap(
        run([&] { return self.client->put_at_once(variable, version, source, lower, options); }));
  }
  unwrap(run([&] { return self.client->put(variable, version, source, lower, options); }));
  return true;
}

/// A variable, an array, the box's lower corner, and the text of the elements if they are
/// structures.
using PutTuple = std::tuple<std::string, nb::object, Indices, std::string>;

void put_all(BoundClient& self, std::int64_t version, const std::vector<PutTuple>& puts,
             double timeout, nb::handle after, bool checksum, staging::StepId step) {
  std::vector<staging::PlacedArray> arrays;
  arrays.reserve(puts.size());
  for (const auto& [variable, array, lower, type] : puts) {
    arrays.push_back({variable, named(array_of(array, false), type), lower});
  }
  const std::vector<Event> events = events_of(after);
  const staging::PutOptions options{milliseconds(timeout), events, checksum, step};
  unwrap(run([&] { return self.client->put_all(version, arrays, options); }));
}

/// A variable, the corners of a box, the target, and the text of the elements as above.
using GetTuple = std::tuple<std::string, Indices, Indices, nb::object, std::string>;

std::vector<std::size_t> get_all(BoundClient& self, std::int64_t version,
                                 const std::vector<GetTuple>& gets, double timeout) {
  std::vector<staging::BoxTarget> boxes;
  boxes.reserve(gets.size());
  for (const auto& [variable, lower, upper, out, type] : gets) {
    boxes.push_back(
        {request_of(variable, "exact", version, lower, upper), named(array_of(out, true), type)});
  }
  return unwrap(run([&] { return self.client->get_all(boxes, milliseconds(timeout)); }));
}

/// Offers an array, and returns the number of the offer.
staging::OfferId offer(nb::handle given, BoundClient& self, const std::string& variable,
                       std::int64_t version, nb::handle array,
                       const std::vector<std::int64_t>& lower, double timeout, nb::handle after,
                       bool checksum, const std::string& type, staging::StepId step) {
  auto& engine = nb::cast<Engine&>(given);
  const Array source = named(array_of(array, false, Hold::memory), type);
  if (const auto stream = stream_of(engine, source)) {  // gets read what is written by now
    const StreamOrder order{{}, {}, {*stream}};
    unwrap(run([&] { return engine.wait_for_streams(order, stream->device, interrupted); }));
  }
  const std::vector<Event> events = events_of(after);
  const staging::PutOptions options{milliseconds(timeout), events, checksum, step};
  return unwrap(run([&] { return self.client->offer(variable, version, source, lower, options); }));
}

std::optional<std::int64_t> get(BoundClient& self, const std::string& variable,
                                const std::string& which, std::int64_t version,
                                const std::vector<std::int64_t>& lower,
                                const std::vector<std::int64_t>& upper, nb::handle out,
                                double timeout, const std::string& type, bool waits) {
  const Array target = named(array_of(out, true), type);
  const GetRequest request = request_of(variable, which, version, lower, upper);
  if (!waits) {
    return unwrap(
        run([&] { return self.client->get_at_once(request, target, milliseconds(timeout)); }));
  }
  return unwrap(run([&] { return self.client->get(request, target, milliseconds(timeout)); }));
}

/// Describes a view's memory as bytes that nobody may write. NumPy arrays of it refer to the
/// object.
int export_view(PyObject* self, Py_buffer* buffer, int flags) {
  const auto& view = *nb::inst_ptr<ObjectView>(nb::handle(self));
  return PyBuffer_FillInfo(buffer, self, const_cast<std::byte*>(view.address),
                           static_cast<Py_ssize_t>(view.span_bytes()), 1, flags);
}

PyType_Slot view_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&export_view)}, {0, nullptr}};

/// Returns a view of a box, or why there can be none; nothing if it would have to wait, and must
/// not.
std::optional<std::variant<ObjectView, std::pair<std::string, std::string>>> view(
    BoundClient& self, const std::string& variable, const std::string& which, std::int64_t version,
    const std::vector<std::int64_t>& lower, const std::vector<std::int64_t>& upper, double timeout,
    bool waits) {
  const GetRequest request = request_of(variable, which, version, lower, upper);
  const auto limit = milliseconds(timeout);
  std::optional<std::variant<ObjectView, staging::NoView>> found;
  if (waits) {
    found = unwrap(run([&] { return self.client->view(request, limit); }));
  } else {
    found = unwrap(run([&] { return self.client->view_at_once(request, limit); }));
  }
  if (!found) return std::nullopt;
  if (const auto* none = std::get_if<staging::NoView>(&*found)) {
    return std::pair(none->why.message, none->why.hint);
  }
  return std::get<ObjectView>(std::move(*found));
}

std::int64_t wait(BoundClient& self, const std::string& variable, const std::string& which,
                  std::int64_t version, const std::vector<std::int64_t>& lower,
                  const std::vector<std::int64_t>& upper, double timeout) {
  const GetRequest request = request_of(variable, which, version, lower, upper);
  return unwrap(run([&] { return self.client->wait(request, milliseconds(timeout)); }));
}

/// Versions that will never be whole, with the reasons.
using Skipped = std::vector<std::pair<std::int64_t, std::string>>;

Skipped skipped_of(const std::vector<staging::SkippedVersion>& skipped) {
  Skipped all;
  for (const auto& one : skipped) all.emplace_back(one.version, one.why);
  return all;
}

/// The corners of what lies in a version, and its element type.
std::tuple<Indices, Indices, std::string> described(const staging::VersionExtent& extent) {
  auto [lower, upper] = corners_of(extent.box);
  for (std::size_t k = 0; k < lower.size(); ++k) {
    if ((extent.empty_dimensions >> k & 1U) != 0) upper[k] = lower[k];
  }
  return {lower, upper, extent.type};
}

/// Returns whether an error says that a variable has no more versions.
bool is_end(const Error& error) {
  return error.code == ErrorCode::closed || error.code == ErrorCode::peer_lost;
}

/// Waits for the next version that covers the box. Returns the versions that were passed by, and no
/// version, if an error comes behind these.
std::tuple<std::optional<std::int64_t>, Skipped> follow(BoundClient& self,
                                                        const std::string& variable,
                                                        std::int64_t after, const Indices& lower,
                                                        const Indices& upper, double timeout) {
  const GetRequest request = request_of(variable, "next", after, lower, upper);
  std::vector<staging::SkippedVersion> skipped;
  const auto found =
      run([&] { return self.client->wait(request, milliseconds(timeout), &skipped); });
  if (!found && (skipped.empty() || !is_end(found.error()))) raise(found.error());
  return {found ? std::optional(*found) : std::nullopt, skipped_of(skipped)};
}

/// Waits for a version whose boxes fill its own bounds, and returns it as follow() does. waits:
/// False: it returns no version where it would have to wait.
std::tuple<std::optional<std::int64_t>, Indices, Indices, std::string, Skipped> find_version(
    BoundClient& self, const std::string& variable, const std::string& which, std::int64_t version,
    double timeout, bool waits) {
  const GetRequest request = request_of(variable, which, version, {}, {});
  if (!waits) {
    const auto now = unwrap(run([&] {
      return self.client->find_version_at_once({variable, request.choice, request.version},
                                               milliseconds(timeout));
    }));
    if (!now) return {std::nullopt, {}, {}, "", {}};
    auto [lower, upper, type] = described(*now);
    return {now->version, std::move(lower), std::move(upper), type, {}};
  }
  std::vector<staging::SkippedVersion> skipped;
  const auto found = run([&] {
    return self.client->find_version({variable, request.choice, request.version},
                                     milliseconds(timeout), &skipped);
  });
  if (!found && (skipped.empty() || !is_end(found.error()))) raise(found.error());
  if (!found) return {std::nullopt, {}, {}, "", skipped_of(skipped)};
  auto [lower, upper, type] = described(*found);
  return {found->version, std::move(lower), std::move(upper), type, skipped_of(skipped)};
}

std::tuple<Indices, Indices, std::string> version_extent(BoundClient& self,
                                                         const std::string& variable,
                                                         std::int64_t version, double timeout) {
  return described(unwrap(
      run([&] { return self.client->extent_of(variable, version, milliseconds(timeout)); })));
}

std::vector<std::pair<Indices, Indices>> version_boxes(BoundClient& self,
                                                       const std::string& variable,
                                                       std::int64_t version, double timeout) {
  std::vector<std::pair<Indices, Indices>> all;
  for (const Box& box : unwrap(
           run([&] { return self.client->boxes_of(variable, version, milliseconds(timeout)); }))) {
    all.push_back(corners_of(box));
  }
  return all;
}

void nothing(BoundClient& self, const std::string& variable, std::int64_t first,
             std::int64_t last) {
  unwrap(run([&] { return self.client->nothing(variable, first, last); }));
}

void define(BoundClient& self, const std::string& variable, const std::string& type,
            std::int64_t element_bytes, const std::vector<std::int64_t>& lower,
            const std::vector<std::int64_t>& upper, int writers) {
  const Field field{"f0", type, element_bytes};
  const Box domain = unwrap(Box::make(lower, upper));
  unwrap(run([&] { return self.client->define(variable, field, domain, writers); }));
}

nb::object describe(BoundClient& self, const std::string& variable, bool bounds, double timeout,
                    bool waits) {
  if (waits) {
    return described(unwrap(
        run([&] { return self.client->describe(variable, milliseconds(timeout), bounds); })));
  }
  const auto found = unwrap(
      run([&] { return self.client->describe_at_once(variable, milliseconds(timeout), bounds); }));
  return found ? nb::object(described(*found)) : nb::none();
}

nb::list variables(BoundClient& self) {
  return described(unwrap(run([&] { return self.client->list(); })));
}

nb::dict timed(const staging::TransferTotals& moved) {
  nb::dict all = described(moved);
  all["seconds"] = static_cast<double>(moved.nanoseconds) / 1e9;
  return all;
}

nb::dict statistics(const BoundClient& self) {
  nb::dict all;
  for (const auto& [name, traffic] : run([&] { return self.client->traffic(); })) {
    nb::dict one;
    one["puts"] = timed(traffic.puts);
    one["gets"] = timed(traffic.gets);
    all[nb::cast(name)] = one;
  }
  return all;
}

nb::list servers(BoundClient& self) {
  nb::list list;
  for (const staging::ServerInfo& info : unwrap(run([&] { return self.client->status(); }))) {
    nb::dict one;
    one["server"] = info.server;
    one["contact"] = info.contact;
    one["memory"] = info.memory_bytes;
    one["memory_used"] = info.memory_bytes_used;
    one["spilled"] = info.spilled_bytes;
    one["clients"] = info.clients;
    one["names"] = nb::cast(info.names);
    list.append(one);
  }
  return list;
}

void discard(BoundClient& self, const std::string& variable, std::int64_t version) {
  unwrap(run([&] { return self.client->discard(variable, version); }));
}

void remove(BoundClient& self, const std::string& variable) {
  unwrap(run([&] { return self.client->remove(variable); }));
}

/// Variable (empty: of the step, or of the run), key, and JSON text.
using AttributeTuple = std::tuple<std::string, std::string, std::string>;

std::vector<AttributeTuple> described(const std::vector<staging::Attribute>& attributes) {
  std::vector<AttributeTuple> all;
  for (const auto& one : attributes) all.emplace_back(one.variable, one.key, one.value);
  return all;
}

nb::dict described(const staging::StepVariable& variable) {
  nb::dict one;
  one["name"] = variable.name;
  one["type"] = variable.type;
  one["boxes"] = variable.boxes;
  one["bounds"] = variable.bounds ? nb::cast(corners_of(*variable.bounds)) : nb::none();
  return one;
}

/// A whole step: its id and number, variables and attributes, and the steps that were passed by.
using StepTuple = std::tuple<staging::StepId, std::optional<std::int64_t>, nb::list,
                             std::vector<AttributeTuple>, Skipped>;
StepTuple described(const std::optional<staging::FoundStep>& step,
                    const std::vector<staging::BrokenStep>& broken = {}) {
  Skipped passed;
  for (const staging::BrokenStep& one : broken) passed.emplace_back(one.number, one.why);
  nb::list variables;
  if (!step || step->id == 0) return {0, std::nullopt, variables, {}, passed};
  for (const auto& one : step->contents.variables) variables.append(described(one));
  return {step->id, step->number, variables, described(step->contents.attributes), passed};
}

/// waits: False: it returns no number where it would have to wait.
StepTuple find_step(BoundClient& self, const std::string& which, std::int64_t number,
                    double timeout, bool waits) {
  const GetRequest request = request_of("step", which, number, {}, {});
  const staging::StepQuery query{request.choice, request.version};
  if (!waits) {
    return described(
        unwrap(run([&] { return self.client->find_step_at_once(query, milliseconds(timeout)); })));
  }
  std::vector<staging::BrokenStep> broken;
  const auto found =
      unwrap(run([&] { return self.client->find_step(query, milliseconds(timeout), &broken); }));
  return described(found, broken);
}

nb::list list_steps(BoundClient& self, double timeout) {
  const auto steps = unwrap(run([&] { return self.client->list_steps(milliseconds(timeout)); }));
  nb::list list;
  for (const auto& step : steps) {
    nb::dict one;
    one["number"] = step.number;
    one["state"] = step.state == staging::StepState::open    ? "open"
                   : step.state == staging::StepState::whole ? "whole"
                                                             : "broken";
    one["why"] = step.why;
    one["variables"] = nb::tuple(nb::cast(step.variables));
    one["attributes"] = step.attributes;
    list.append(one);
  }
  return list;
}

StepTuple take_step(BoundClient& self, const std::string& group, double timeout) {
  std::vector<staging::BrokenStep> broken;
  const auto found =
      unwrap(run([&] { return self.client->take_step(group, milliseconds(timeout), &broken); }));
  return described(found, broken);
}

void define_queue(BoundClient& self, int steps, const std::string& full, int readers,
                  bool keep_first) {
  const auto policy = full == "drop-oldest"   ? staging::QueueFull::drop_oldest
                      : full == "drop-newest" ? staging::QueueFull::drop_newest
                      : full == "spill"       ? staging::QueueFull::spill
                                              : staging::QueueFull::block;
  unwrap(run([&] { return self.client->define_queue({steps, policy, readers, keep_first}); }));
}

void join_readers(BoundClient& self, const std::string& group, const std::string& share,
                  std::int64_t after) {
  const auto sharing =
      share == "round-robin" ? staging::Sharing::round_robin : staging::Sharing::demand;
  unwrap(run([&] { return self.client->join_readers(group, sharing, after); }));
}

void bind_written_steps(nb::class_<BoundClient>& client) {
  client
      .def(
          "begin_step",
          [](BoundClient& self, std::int64_t number, int writers, double timeout) {
            return unwrap(run(
                [&] { return self.client->begin_step(number, writers, milliseconds(timeout)); }));
          },
          nb::arg("number"), nb::arg("writers"), nb::arg("timeout"))
      .def(
          "set_step_attribute",
          [](BoundClient& self, staging::StepId step, const std::string& variable,
             const std::string& key, const std::string& value) {
            unwrap(
                run([&] { return self.client->set_step_attribute(step, {variable, key, value}); }));
          },
          nb::arg("step"), nb::arg("variable"), nb::arg("key"), nb::arg("value"))
      .def(
          "end_step",
          [](BoundClient& self, staging::StepId step, double timeout) {
            unwrap(run([&] { return self.client->end_step(step, milliseconds(timeout)); }));
          },
          nb::arg("step"), nb::arg("timeout"))
      .def(
          "give_up_step",
          [](BoundClient& self, staging::StepId step, const std::string& why) {
            unwrap(run([&] { return self.client->give_up_step(step, why); }));
          },
          nb::arg("step"), nb::arg("why"))
      .def(
          "is_dropped",
          [](const BoundClient& self, staging::StepId step) {
            return self.client->is_dropped(step);
          },
          nb::arg("step"));
}

void bind_offers(nb::class_<BoundClient>& client) {
  client
      .def(
          "offer",
          [](BoundClient& self, nb::handle engine, const std::string& variable,
             std::int64_t version, nb::handle array, const std::vector<std::int64_t>& lower,
             double timeout, nb::handle after, bool checksum, const std::string& type,
             staging::StepId step) {
            return offer(engine, self, variable, version, array, lower, timeout, after, checksum,
                         type, step);
          },
          nb::arg("engine"), nb::arg("variable"), nb::arg("version"), nb::arg("array"),
          nb::arg("lower"), nb::arg("timeout"), nb::arg("after").none(), nb::arg("checksum"),
          nb::arg("type"), nb::arg("step"),
          nb::sig("def offer(self, engine: EngineCore, variable: str, version: int, array: object, "
                  "lower: Sequence[int], timeout: float, after: object | None, checksum: bool, "
                  "type: str, step: int) -> int"))
      .def(
          "end_offer",
          [](BoundClient& self, staging::OfferId offer, bool withdraw, double timeout) {
            unwrap(run(
                [&] { return self.client->end_offer(offer, withdraw, milliseconds(timeout)); }));
          },
          nb::arg("offer"), nb::arg("withdraw"), nb::arg("timeout"))
      .def(
          "offer_has_ended",
          [](BoundClient& self, staging::OfferId offer) {
            return unwrap(run([&] { return self.client->offer_has_ended(offer); }));
          },
          nb::arg("offer"));
}

void bind_read_steps(nb::class_<BoundClient>& client) {
  client
      .def("find_step", &find_step, nb::arg("which"), nb::arg("number"), nb::arg("timeout"),
           nb::arg("waits") = true,
           nb::sig(
               "def find_step(self, which: str, number: int, timeout: float, waits: bool = True) "
               "-> tuple[int, int | None, list[dict[str, object]], "
               "list[tuple[str, str, str]], list[tuple[int, str]]]"))
      .def("get_all", &get_all, nb::arg("version"), nb::arg("gets"), nb::arg("timeout"))
      .def("list_steps", &list_steps, nb::arg("timeout"),
           nb::sig("def list_steps(self, timeout: float) -> list[dict[str, typing.Any]]"))
      .def("take_step", &take_step, nb::arg("group"), nb::arg("timeout"),
           nb::sig("def take_step(self, group: str, timeout: float) "
                   "-> tuple[int, int | None, list[dict[str, object]], "
                   "list[tuple[str, str, str]], list[tuple[int, str]]]"))
      .def(
          "release_step",
          [](BoundClient& self, const std::string& group, staging::StepId step) {
            unwrap(run([&] { return self.client->release_step(group, step); }));
          },
          nb::arg("group"), nb::arg("step"))
      .def("define_queue", &define_queue, nb::arg("steps"), nb::arg("full"), nb::arg("readers"),
           nb::arg("keep_first"))
      .def("join_readers", &join_readers, nb::arg("group"), nb::arg("share"), nb::arg("after"))
      .def(
          "leave_readers",
          [](BoundClient& self, const std::string& group) {
            unwrap(run([&] { return self.client->leave_readers(group); }));
          },
          nb::arg("group"))
      .def(
          "leave_readers_later",
          [](BoundClient& self, const std::string& group) {
            run([&] {
              self.client->leave_readers_later(group);
              return true;
            });
          },
          nb::arg("group"))
      .def(
          "discard_step",
          [](BoundClient& self, std::int64_t number, double timeout) {
            unwrap(run([&] { return self.client->discard_step(number, milliseconds(timeout)); }));
          },
          nb::arg("number"), nb::arg("timeout"))
      .def(
          "set_attributes",
          [](BoundClient& self, const std::vector<AttributeTuple>& attributes) {
            std::vector<staging::Attribute> all;
            for (const auto& [variable, key, value] : attributes) {
              all.push_back({variable, key, value});
            }
            unwrap(run([&] { return self.client->set_attributes(all); }));
          },
          nb::arg("attributes"))
      .def(
          "attributes_of",
          [](BoundClient& self, const std::string& variable) {
            return described(unwrap(run([&] { return self.client->attributes_of(variable); })));
          },
          nb::arg("variable"));
}

void bind_staging_view(nb::module_& module) {
  nb::class_<ObjectView>(module, "StagingView", nb::type_slots(view_slots),
                         "A box in a server's memory, which has the buffer protocol.")
      .def_prop_ro("type", [](const ObjectView& self) { return self.type; })
      .def_prop_ro(
          "shape", [](const ObjectView& self) { return as_tuple(self.shape); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "strides", [](const ObjectView& self) { return as_tuple(self.strides); },
          nb::sig("def strides(self) -> tuple[int, ...]"));
}

void bind_staging_client(nb::module_& module) {
  nb::class_<BoundClient> client(module, "StagingClientCore");
  bind_written_steps(client);
  bind_read_steps(client);
  bind_reductions(client);
  bind_offers(client);
  client
      .def_static("open", &open_client, nb::arg("engine"), nb::arg("contact"), nb::arg("name"),
                  nb::arg("timeout"),
                  nb::sig("def open(engine: EngineCore, contact: str, name: str, timeout: float) "
                          "-> StagingClientCore"))
      .def("put", &put, nb::arg("variable"), nb::arg("version"), nb::arg("array"), nb::arg("lower"),
           nb::arg("timeout"), nb::arg("after").none(), nb::arg("checksum") = false,
           nb::arg("type") = "", nb::arg("waits") = true, nb::arg("step") = 0)
      .def("put_all", &put_all, nb::arg("version"), nb::arg("puts"), nb::arg("timeout"),
           nb::arg("after").none(), nb::arg("checksum"), nb::arg("step"))
      .def("get", &get, nb::arg("variable"), nb::arg("which"), nb::arg("version"), nb::arg("lower"),
           nb::arg("upper"), nb::arg("out"), nb::arg("timeout"), nb::arg("type") = "",
           nb::arg("waits") = true)
      .def("view", &view, nb::arg("variable"), nb::arg("which"), nb::arg("version"),
           nb::arg("lower"), nb::arg("upper"), nb::arg("timeout"), nb::arg("waits") = true,
           nb::sig("def view(self, variable: str, which: str, version: int, "
                   "lower: Sequence[int], upper: Sequence[int], timeout: float, "
                   "waits: bool = True) -> StagingView | tuple[str, str] | None"))
      .def("wait", &wait, nb::arg("variable"), nb::arg("which"), nb::arg("version"),
           nb::arg("lower"), nb::arg("upper"), nb::arg("timeout"))
      .def("follow", &follow, nb::arg("variable"), nb::arg("after"), nb::arg("lower"),
           nb::arg("upper"), nb::arg("timeout"))
      .def("find_version", &find_version, nb::arg("variable"), nb::arg("which"), nb::arg("version"),
           nb::arg("timeout"), nb::arg("waits") = true)
      .def("version_extent", &version_extent, nb::arg("variable"), nb::arg("version"),
           nb::arg("timeout"))
      .def("version_boxes", &version_boxes, nb::arg("variable"), nb::arg("version"),
           nb::arg("timeout"))
      .def("nothing", &nothing, nb::arg("variable"), nb::arg("first"), nb::arg("last"))
      .def("let_versions_rise", [](const BoundClient& self) { self.client->let_versions_rise(); })
      .def("define", &define, nb::arg("variable"), nb::arg("type"), nb::arg("element_bytes"),
           nb::arg("lower"), nb::arg("upper"), nb::arg("writers"))
      .def("describe", &describe, nb::arg("variable"), nb::arg("bounds"), nb::arg("timeout"),
           nb::arg("waits") = true,
           nb::sig("def describe(self, variable: str, bounds: bool, timeout: float, "
                   "waits: bool = True) -> dict[str, object] | None"))
      .def("notices",
           [](const BoundClient& self) { return run([&] { return self.client->notices(); }); })
      .def(
          "wait_for_notice",
          [](BoundClient& self, std::uint64_t seen, double timeout) {
            run([&] {
              self.client->wait_for_notice(seen, milliseconds(timeout));
              return true;
            });
          },
          nb::arg("seen"), nb::arg("timeout"))
      .def(
          "clients",
          [](BoundClient& self, double timeout) {
            return unwrap(run([&] { return self.client->clients(milliseconds(timeout)); }));
          },
          nb::arg("timeout"))
      .def("variables", &variables, nb::sig("def variables(self) -> list[dict[str, object]]"))
      .def("servers", &servers, nb::sig("def servers(self) -> list[dict[str, object]]"))
      .def_prop_ro("contact", [](const BoundClient& self) { return self.client->contact(); })
      .def_prop_ro("closed", [](const BoundClient& self) { return self.client->closed(); })
      .def("statistics", &statistics,
           nb::sig("def statistics(self) -> dict[str, dict[str, dict[str, object]]]"))
      .def("discard", &discard, nb::arg("variable"), nb::arg("version"))
      .def("remove", &remove, nb::arg("variable"))
      .def(
          "close",
          [](nb::handle self) { unwrap(close_apart(self, *nb::cast<BoundClient&>(self).client)); },
          nb::sig("def close(self) -> None"));
}

using Corners = std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>;

/// Returns for each box its primary, then its other index servers, as clients compute them.
std::vector<std::vector<int>> places(const std::string& variable, int servers,
                                     std::int64_t element_bytes, const Corners& first,
                                     const std::vector<Corners>& boxes,
                                     const std::optional<Corners>& domain) {
  if (servers < 1) raise({ErrorCode::invalid_argument, "a group has at least one server"});
  const staging::Distribution distribution(servers);
  std::optional<Box> known;
  if (domain) known = unwrap(Box::make(domain->first, domain->second));
  const Box cell = unwrap(Box::make(first.first, first.second));
  if (known && known->rank != cell.rank) raise(staging::wrong_rank(variable, cell.rank, *known));
  auto cells = staging::Cells::around(cell, element_bytes, staging::Cells::bytes_least, known);
  cells.find_order();
  std::vector<std::vector<int>> found;
  for (const auto& [lower, upper] : boxes) {
    const Box box = unwrap(Box::make(lower, upper));
    const int primary = distribution.storage_servers(variable, cells, box).front();
    found.push_back({primary});
    for (const int index_server : distribution.index_servers(variable, cells, box)) {
      if (index_server != primary) found.back().push_back(index_server);
    }
  }
  return found;
}

}  // namespace

void bind_staging(nb::module_& module) {
  bind_staging_server(module);
  bind_staging_view(module);
  bind_staging_client(module);
  module.def("staging_places", &places, nb::arg("variable"), nb::arg("servers"),
             nb::arg("element_bytes"), nb::arg("first"), nb::arg("boxes"),
             nb::arg("domain") = nb::none());
}

}  // namespace tranship::python
