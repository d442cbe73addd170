// Puts and gets of many boxes together, and the copies out of the servers' memory.
#include <algorithm>
#include <memory>
#include <utility>

#include "base/text.hpp"
#include "staging/client/client.hpp"
#include "staging/protocol/spans.hpp"

namespace tranship::staging {
namespace {

/// Returns an error with the variable that it is about.
Error about(const std::string& variable, const Error& error) {
  return {error.code, in_quotes(variable) + ": " + error.message, error.hint};
}

/// Returns the stream of the program's array: a server's has none.
std::optional<std::uintptr_t> stream_of(const CopyPair& pair) {
  return pair.source.stream ? pair.source.stream : pair.target.stream;
}

}  // namespace

/// Adds the copies of a box's parts. `held` stays where it is until they have ended.
Status Client::add_parts(const LeasedBox& held, const Box& box, const Array& target,
                         std::int64_t end, Taking& taking) {
  LeasedBox others;  // whose checksums are taken afterwards
  for (const Part& part : held.parts) {
    const StoredObject& object = held.objects[part.object];
    auto source = object.is_offered() ? offered_array(held, object, end)
                                      : object_array(object.primary, object.range, object.box,
                                                     target, end, taking.mappings);
    if (!source) return source.error();
    CopyPair pair{std::move(*source), target};
    View& from = pair.source.view;
    View& to = pair.target.view;
    for (std::size_t k = 0; k < static_cast<std::size_t>(box.rank); ++k) {
      from.lower[k] += part.box.lower[k] - object.box.lower[k];
      to.lower[k] += part.box.lower[k] - box.lower[k];
      from.extents[k] = to.extents[k] = part.box.upper[k] - part.box.lower[k];
    }
    const bool compares = object.checksum.known != 0 && part.box == object.box;
    if (compares && can_be_checked(pair.source) && can_be_checked(pair.target)) {
      taking.whole.emplace_back(&held, &object);
      taking.checked.push_back({std::move(pair), CheckedCopy::Side::target});
    } else {
      if (compares) others.parts.push_back(part);
      taking.pairs.push_back(std::move(pair));
    }
  }
  taking.bytes += box.points() * held.element_bytes;
  if (others.parts.empty()) return {};
  others.version = held.version;
  others.variable = held.variable;
  others.objects = held.objects;
  taking.later.push_back({std::move(others), box, target});
  return {};
}

/// Carries out copies, and compares checksums.
Status Client::carry_out(Taking& taking, std::int64_t end) {
  const Timed part_of_call(engine_.trace(), *links_,
                           [&] { return part_span("copy", taking.bytes); });
  const auto copying = copying_.enter();
  if (!copying) return closed_error();
  if (!taking.checked.empty()) {
    const auto planned = path_of(taking.checked.front().pair);
    if (!planned) return planned.error();
    taking.path = *planned;
    if (Status status = copy_here(taking.checked, taking.bytes, end); !status) return status;
  }
  for (std::size_t k = 0; k < taking.checked.size(); ++k) {
    const auto& [held, object] = taking.whole[k];
    if (taking.checked[k].crc != object->checksum.crc) return other_checksum(*held, *object);
  }
  if (taking.pairs.empty()) return {};
  auto path = copy_pairs(taking.pairs, taking.bytes, end);
  if (!path) return path.error();
  taking.path = std::move(*path);
  for (const Taking::Later& one : taking.later) {
    if (Status status = check_whole(one.held, one.box, one.target); !status) return status;
  }
  return {};
}

/// Copies pairs, of which those that follow each other and belong to one stream go together.
/// Returns the path of the first copy.
Result<std::string> Client::copy_pairs(std::span<CopyPair> pairs, std::int64_t bytes,
                                       std::int64_t end) {
  std::string path;
  for (auto first = pairs.begin(); first != pairs.end();) {
    CopyOptions options;
    options.start.stream = stream_of(*first);
    options.together_bytes = bytes;
    const auto last = std::find_if(first, pairs.end(), [&](const CopyPair& pair) {
      return stream_of(pair) != stream_of(*first);
    });
    auto event = engine_.copy_all({first, last}, options);
    if (!event) return event.error();
    if (Status status = finish(*event, end); !status) return status.error();
    if (path.empty()) path = path_of(*event);
    first = last;
  }
  return path;
}

Status Client::take_parts(const LeasedBox& held, const Box& box, const Array& target,
                          std::int64_t end, std::string& path) {
  Taking taking;
  if (Status status = add_parts(held, box, target, end, taking); !status) return status;
  const Status status = carry_out(taking, end);
  path = std::move(taking.path);
  return status ? status : why_uncopied(held, status, end);
}

Result<std::string> Client::path_of(const CopyPair& pair) {
  const auto plan = engine_.plan(pair.source, pair.target, {});
  return plan ? Result<std::string>((*plan)->path(engine_.profile()))
              : Result<std::string>(plan.error());
}

std::string Client::path_of(const Event& event) const {
  return event.plan() ? event.plan()->path(engine_.profile()) : "copy";
}

Status Client::put_all(std::int64_t version, std::span<const PlacedArray> arrays,
                       const PutOptions& options) {
  return call([&] { return put_all_inside(version, arrays, options); });
}

Status Client::put_all_inside(std::int64_t version, std::span<const PlacedArray> arrays,
                              const PutOptions& options) {
  const std::int64_t begin = links_->now_ns();
  const std::int64_t end = begin + std::chrono::nanoseconds(options.timeout).count();
  PlacedArrays placed;
  for (const PlacedArray& one : arrays) {
    std::uint32_t empty_dimensions = 0;
    Status status = check_one_field(one.array);
    auto box = status ? box_of(one.array, one.lower, &empty_dimensions) : status.error();
    if (!box) return about(one.variable, box.error());
    const Field& field = one.array.view.mapping->fields()[0].field;
    PutRequest request{one.variable, version, *box, field.type, field.bytes};
    request.step = options.step;
    if (empty_dimensions != 0) {
      placed.empty.emplace_back(std::move(request), empty_dimensions);
    } else {
      placed.requests.push_back(std::move(request));
      placed.arrays.push_back(one.array);
      placed.bytes += one.array.view.bytes();
    }
  }
  StepClient& steps = catalog_.steps();
  if (Status status = steps.begin_put(options.step); !status) return status;
  const Ended ended{[&] { steps.end_put(options.step); }};
  if (steps.is_dropped(options.step)) return {};
  const std::string name = "put " + std::to_string(arrays.size()) + " variables";
  const Timed span(engine_.trace(), *links_, [&] { return part_span(name, placed.bytes); });
  Status status = await(options.after, end);
  for (const auto& [request, dimensions] : placed.empty) {
    if (status) status = catalog_.put_empty(request, dimensions, end);
    if (status)
      steps.add(options.step, {request.variable, request.type, request.element_bytes, {}, 0});
  }
  auto paths = status ? put_together(placed, options.checksum, end)
                      : Result<std::vector<std::string>>(status.error());
  if (!paths) return paths.error();
  const std::int64_t each_ns =
      (links_->now_ns() - begin) / std::max<std::int64_t>(std::ssize(arrays), 1);
  const std::lock_guard lock(mutex_);
  for (std::size_t k = 0; k < placed.requests.size(); ++k) {
    const PutRequest& request = placed.requests[k];
    steps.add(options.step,
              {request.variable, request.type, request.element_bytes, request.box, 1});
    traffic_of(request.variable).puts.add(1, placed.arrays[k].view.bytes(), (*paths)[k], each_ns);
  }
  return {};
}

/// Puts arrays, and returns the paths of their data.
Result<std::vector<std::string>> Client::put_together(const PlacedArrays& placed, bool checksum,
                                                      std::int64_t end) {
  std::vector<std::string> paths(placed.requests.size());
  PutBatch batch = catalog_.put_batch(end);
  Status status = batch.begin(placed.requests);
  if (status) status = copy_into_all(placed.arrays, batch.begun(), placed.bytes, checksum, end);
  if (!status) return status.error();
  for (const PutBatch::Begun& one : batch.begun()) paths[one.number] = one.path;
  if (status = batch.commit(); !status) return status.error();
  for (const std::size_t k : batch.left()) {
    auto path = put_object({placed.requests[k], placed.arrays[k], end, {}, checksum});
    if (!path) return path.error();
    paths[k] = std::move(*path);
  }
  return paths;
}

/// Copies arrays into the room of their objects, and sets the checksums if they are wanted.
Status Client::copy_into_all(std::span<const Array> arrays, std::span<PutBatch::Begun> begun,
                             std::int64_t bytes, bool checksum, std::int64_t end) {
  std::vector<CopyPair> pairs;
  pairs.reserve(begun.size());
  DenseMappings mappings;
  std::vector<CheckedCopy> checked;
  std::vector<PutBatch::Begun*> of_checked;
  for (PutBatch::Begun& one : begun) {
    const Array& array = arrays[one.number];
    const PreparedPut& put = one.put;
    auto target = object_array(put.primary, put.range, put.request.box, array, end, mappings);
    if (!target) return target.error();
    if (checksum && can_be_checked(array) && can_be_checked(*target)) {
      checked.push_back({{array, std::move(*target)}, CheckedCopy::Side::source});
      of_checked.push_back(&one);
      continue;
    }
    if (checksum) {
      const auto made = checksum_of(array);
      if (!made) return made.error();
      one.checksum = *made;
    }
    pairs.push_back({array, std::move(*target)});
  }
  const Timed part(engine_.trace(), *links_, [&] { return part_span("copy", bytes); });
  const auto copying = copying_.enter();
  if (!copying) return closed_error();
  Result<std::string> path = std::string();
  if (!checked.empty()) {
    path = path_of(checked.front().pair);
    if (!path) return path.error();
    if (Status status = copy_here(checked, bytes, end); !status) return status;
  }
  for (std::size_t k = 0; k < checked.size(); ++k) of_checked[k]->checksum = {1, checked[k].crc};
  if (!pairs.empty()) path = copy_pairs(pairs, bytes, end);
  if (!path) return path.error();
  for (PutBatch::Begun& one : begun) one.path = *path;
  return {};
}

Result<std::vector<std::size_t>> Client::get_all(std::span<const BoxTarget> gets,
                                                 std::chrono::milliseconds timeout) {
  return call([&] { return get_all_inside(gets, end_ns(timeout)); });
}

Result<std::vector<std::size_t>> Client::get_all_inside(std::span<const BoxTarget> gets,
                                                        std::int64_t end) {
  const std::int64_t begin = links_->now_ns();
  std::vector<GetRequest> requests;
  std::int64_t bytes = 0;
  for (const auto& [request, target] : gets) {
    Status status = check_target(target, request.box);
    if (!status) return about(request.variable, status.error());
    requests.push_back(request);
    bytes += target.view.bytes();
  }
  const std::string name = "get " + std::to_string(gets.size()) + " variables";
  const Timed span(engine_.trace(), *links_, [&] { return part_span(name, bytes); });
  std::vector<std::string> paths(gets.size());
  FoundBoxes found;
  auto left = catalog_.get_all(requests, end, [&](std::size_t k, LeasedBox held) {
    if (!held.data.empty()) paths[k] = message_path;
    return take_found(gets[k].target, k, std::move(held), found);
  });
  Status status = left ? Status{} : Status(left.error());
  if (status) status = copy_found(gets, found, *left, end);
  catalog_.release_all(found.held, status ? std::string_view(found.taking.path) : "");
  if (!status) return status.error();
  for (const std::size_t k : found.numbers) paths[k] = found.taking.path;
  for (const std::size_t k : *left) paths[k].clear();
  const std::int64_t each_ns =
      (links_->now_ns() - begin) / std::max<std::int64_t>(std::ssize(gets), 1);
  const std::lock_guard lock(mutex_);
  for (std::size_t k = 0; k < gets.size(); ++k) {
    if (paths[k].empty()) continue;
    VariableTraffic& traffic = traffic_of(requests[k].variable);
    traffic.gets.add(1, gets[k].target.view.bytes(), paths[k], each_ns);
  }
  return left;
}

/// Takes elements that came in a message, and keeps all else for copy_found().
Status Client::take_found(const Array& target, std::size_t number, LeasedBox held,
                          FoundBoxes& found) {
  Status status = check_type(held.type, held.element_bytes, target);
  if (!status) status = about(held.variable, status.error());
  if (held.data.empty() || !status) {
    found.held.push_back(std::move(held));
    found.numbers.push_back(number);
    return status;
  }
  if (target.memory_kind == MemoryKind::host) return take_data(held, target);
  // Copies to a GPU go together.
  auto& kept = found.data.emplace_back(std::make_unique<std::byte[]>(held.data.size()));
  std::copy(held.data.begin(), held.data.end(), kept.get());
  auto pair = pair_of_data(kept.get(), target);
  if (!pair) return pair.error();
  found.taking.pairs.push_back(std::move(*pair));
  return {};
}

/// Copies what lies in the servers' memory. Adds the numbers of the others to `left`: what lies on
/// disk, or where a producer offers it.
Status Client::copy_found(std::span<const BoxTarget> gets, FoundBoxes& found,
                          std::vector<std::size_t>& left, std::int64_t end) {
  for (std::size_t i = 0; i < found.held.size(); ++i) {
    LeasedBox& held = found.held[i];
    const auto elsewhere = [&](const Part& part) {
      return held.objects[part.object].range.segment < 0;
    };
    if (std::any_of(held.parts.begin(), held.parts.end(), elsewhere)) {
      // It waits for memory, and holds none meanwhile; or another process has to be asked.
      left.push_back(found.numbers[i]);
      held.parts.clear();
      continue;
    }
    const auto& [request, target] = gets[found.numbers[i]];
    Status status = add_parts(held, request.box, target, end, found.taking);
    if (!status) return status;
  }
  std::sort(left.begin(), left.end());
  const Taking& taking = found.taking;
  const bool any = !taking.pairs.empty() || !taking.checked.empty();
  return any ? carry_out(found.taking, end) : Status{};
}

}  // namespace tranship::staging
