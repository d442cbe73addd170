#include "engine/prepared_copy.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/at.hpp"
#include "base/check.hpp"
#include "engine/checks.hpp"
#include "engine/copy_all.hpp"
#include "engine/copy_order.hpp"
#include "engine/copy_pages.hpp"
#include "engine/copy_pieces.hpp"

namespace tranship {
namespace {

/// One of the copies that a start begins.
struct Part {
  std::shared_ptr<const Plan> plan;
  std::vector<CopyPair> pairs;                   ///< several, if one launch carries them
  std::shared_ptr<const IndexedCopy> indexed;    ///< null: the plan's nests are carried
  std::shared_ptr<const GpuWork> work;           ///< null: no GPU carries it in one hop
  std::shared_ptr<const HostProgram> program{};  ///< null: the caller's thread carries no lists
  std::vector<CopyPair> sides{};                 ///< all pairs of a list that has one pair of ends

  /// Returns what the caller's thread or a GPU carries between two addresses.
  Cargo cargo(const Array& source, const Array& target) const {
    Cargo cargo;
    if (!indexed) cargo.nests = plan->nests;
    cargo.kept = indexed;
    cargo.program = program.get();
    if (work && work->fits(source.place.address, target.place.address)) cargo.prepared = work;
    return cargo;
  }
};

std::string types_of(const Array& array) {
  std::string text;
  for (const Placement& placement : array.view.mapping->fields()) {
    text += (text.empty() ? "" : ", ") + placement.field.name + ": " + placement.field.type;
  }
  return text;
}

std::string strides_of(const Array& array) {
  const Mapping& mapping = *array.view.mapping;
  if (!mapping.strided()) return mapping.layout().to_string();
  std::string text = "strides of";
  for (int k = 0; k < mapping.rank(); ++k) {
    text += " " + std::to_string(mapping.fields()[0].dimension[at(k)].level[0].stride);
  }
  return text + " bytes";
}

std::string memory_of(const Array& array) {
  std::string text = to_string(array.memory_kind);
  if (array.memory_kind == MemoryKind::device) text += std::to_string(array.device);
  return array.liveness ? text + " of another process" : text;
}

bool same_types(const Mapping& a, const Mapping& b) {
  return std::equal(
      a.fields().begin(), a.fields().end(), b.fields().begin(), b.fields().end(),
      [](const Placement& one, const Placement& other) { return one.field == other.field; });
}

/// The extents of a whole array, such as "4 x 5".
std::string extents_of(const Array& array) {
  std::string text;
  for (const Dimension& dimension : array.view.mapping->space()) {
    text += (text.empty() ? "" : " x ") + std::to_string(dimension.extent);
  }
  return text;
}

/// Whether all points of two views of the same extents lie at the same offsets. The stride of a
/// dimension of which only the first index is used may be any: NumPy leaves it undefined.
bool same_places(const View& a, const View& b) {
  if (a.mapping->key() == b.mapping->key()) return true;
  const bool nothing = a.points() == 0;
  const IndexSpace& space = a.mapping->space();
  const bool same_space = std::equal(space.begin(), space.end(), b.mapping->space().begin(),
                                     [](const Dimension& one, const Dimension& other) {
                                       return one.name == other.name && one.extent == other.extent;
                                     });
  if (!same_space || !a.mapping->strided() || !b.mapping->strided()) return false;
  const auto& fields = a.mapping->fields();
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const Placement& one = fields[f];
    const Placement& other = b.mapping->fields()[f];
    if (one.offset != other.offset) return false;
    for (std::size_t k = 0; k < at(a.mapping->rank()); ++k) {
      const bool used = !nothing && (a.extents[k] > 1 || a.lower[k] != 0 || b.lower[k] != 0);
      if (used && one.dimension[k] != other.dimension[k]) return false;
    }
  }
  return true;
}

/// Checks that an array may stand for the one that a copy was prepared for.
/// @error invalid_argument, with what differs
Status check_like(const Array& given, const Array& prepared, const char* side) {
  const auto differs = [&](const char* what, const std::string& is, const std::string& was) {
    return invalid(std::string("the ") + side + " differs in " + what +
                       " from the one that the copy was prepared for: " + is + " instead of " + was,
                   "prepare a copy for these arrays");
  };
  const View& a = given.view;
  const View& b = prepared.view;
  if (given.memory_kind != prepared.memory_kind || given.device != prepared.device ||
      given.opened_for != prepared.opened_for ||
      (given.liveness == nullptr) != (prepared.liveness == nullptr)) {
    return differs("memory", memory_of(given), memory_of(prepared));
  }
  if (a.mapping->rank() != b.mapping->rank() || a.extents != b.extents) {
    return differs("shape", box_text(given), box_text(prepared));
  }
  if (a.mapping == b.mapping && a.lower == b.lower) return {};
  if (!same_types(*a.mapping, *b.mapping))
    return differs("type", types_of(given), types_of(prepared));
  if (extents_of(given) != extents_of(prepared)) {
    return differs("shape", extents_of(given), extents_of(prepared));
  }
  if (!same_places(a, b) || a.lower != b.lower || given.named != prepared.named) {
    return differs("layout", strides_of(given), strides_of(prepared));
  }
  return {};
}

/// Returns the part of `given` that `prepared` is of the array which `given` stands for.
Array part_like(const Array& given, const Array& prepared) {
  Array part = given;
  part.view = prepared.view;
  return part;
}

std::vector<std::int64_t> kept(std::span<const std::int64_t> list) {
  return {list.begin(), list.end()};
}

bool is_of_a_peer(const CopyPair& pair) { return pair.source.liveness || pair.target.liveness; }

Result<Part> part_of(CopyRunner& runner, CopyPair ends, const CopyOptions& options) {
  auto query = runner.planner().query_of(ends.source, ends.target, options);
  if (!query) return query.error();
  if (Status s = check_overlap(ends.source, ends.target, query->target); !s) return s.error();
  auto plan = runner.planner().plan_of(*query);
  if (!plan) return plan.error();
  auto work = runner.prepare_work(**plan, ends, options, {.nests = (*plan)->nests});
  if (!work) return work.error();
  return Part{std::move(*plan), {std::move(ends)}, nullptr, std::move(*work), nullptr};
}

/// Returns the part of an indexed copy between the ends of the first pair.
Result<Part> part_of(CopyRunner& runner, std::shared_ptr<const Plan> plan,
                     std::vector<CopyPair> pairs, IndexedCopy indexed, const CopyOptions& options) {
  auto lists = std::make_shared<const IndexedCopy>(std::move(indexed));
  auto work = runner.prepare_work(*plan, pairs[0], options, {.kept = lists});
  if (!work) return work.error();
  auto program = CopyRunner::prepare_program(*plan, pairs[0], *lists);
  return Part{std::move(plan), std::move(pairs), std::move(lists), std::move(*work),
              std::move(program)};
}

Result<std::vector<Part>> parts_of(CopyRunner& runner, std::vector<CopyPair> pairs,
                                   const CopyOptions& options) {
  std::vector<Part> parts;
  parts.reserve(pairs.size());
  for (CopyPair& pair : pairs) {
    auto part = part_of(runner, std::move(pair), options);
    if (!part) return part.error();
    parts.push_back(std::move(*part));
  }
  return parts;
}

}  // namespace

struct PreparedCopy::State {
  CopyRunner& runner;
  CopyOptions options;  ///< of every start
  std::vector<Part> parts{};
  std::vector<std::size_t> order{};  ///< in which the parts are started; empty: as they come
  /// The arrays that others may stand for; null if there are several pairs.
  std::optional<CopyPair> ends{};
  /// What other arrays must fulfil that are like them; empty: that they do not overlap.
  std::function<Status(const CopyPair&)> check_lists{};
  bool of_peers = false;  ///< another process owns one of the arrays

  CopyOptions options_of(const StartOptions& given) const {
    CopyOptions all = options;
    all.after = given.after;
    all.stream = given.stream;
    all.stream_device = given.stream_device;
    all.in_order = given.in_order;
    all.interrupted = given.interrupted;
    all.among_others = parts.size() > 1;
    return all;
  }

  Result<Event> start(const Part& part, const CopyPair& pair, const CopyOptions& given) const {
    const auto& [source, target] = pair;
    const bool here = !part.indexed || part.program;
    if (here) {
      auto ended = runner.carry_now(part.plan, source, target, given, part.cargo(source, target));
      if (ended) return std::move(*ended);
    }
    if (Status status = runner.check_pinned(pair); !status) return status.error();
    for (const CopyPair& side : part.sides) {
      if (Status status = runner.check_pinned(side); !status) return status.error();
    }
    if (part.plan->bytes > 0) {
      return runner.carry(part.plan, source, target, given, part.cargo(source, target));
    }
    if (Status status = check_liveness(source.liveness, target.liveness); !status) {
      return status.error();
    }
    return runner.carry_nothing(part.plan, source, target, given);
  }

  Status check(const CopyPair& given) const;
};

/// Starts pairs that one launch carries. Arrays of this process are kept by `state`, in one
/// reference.
Result<Event> PreparedCopy::start_joined(const std::shared_ptr<const State>& state,
                                         const CopyOptions& options) {
  CopyRunner& runner = state->runner;
  const Part& part = state->parts[0];
  for (const CopyPair& pair : part.pairs) {
    if (Status status = runner.check_pinned(pair); !status) return status.error();
  }
  if (CopyRunner::must_be_queued(options)) return copy_each(runner, part.pairs, options);
  const auto& [source, target] = part.pairs[0];
  const Cargo cargo = part.cargo(source, target);
  if (state->of_peers) {
    return tranship::start_joined(runner, part.plan, part.pairs, options, cargo);
  }
  auto event = runner.start_on_gpu(part.plan, source, target, options, {}, cargo);
  if (event && event->flight()) {
    event->flight()->hold({std::const_pointer_cast<State>(state)});
  }
  return event;
}

/// @error as Engine::start()
Status PreparedCopy::State::check(const CopyPair& given) const {
  const auto& [source, target] = given;
  if (!ends) {
    return invalid("a prepared list of copies is started on its own arrays alone",
                   "leave out source and target, or prepare the copies one by one");
  }
  if (Status s = check_like(source, ends->source, "source"); !s) return s;
  if (Status s = check_like(target, ends->target, "target"); !s) return s;
  if (!target.writable) {
    return invalid("the target is read-only: " + target.name,
                   "copy to an array that can be written");
  }
  if (check_lists) return check_lists(given);
  auto view = matched_target(source, target);
  return view ? check_overlap(source, target, *view) : Status(view.error());
}

Result<PreparedCopy> PreparedCopy::of_pair(CopyRunner& runner, CopyPair ends,
                                           const CopyOptions& options) {
  auto part = part_of(runner, ends, options);
  if (!part) return part.error();
  State state{runner, options};
  state.ends = std::move(ends);
  state.parts.push_back(std::move(*part));
  return PreparedCopy(std::make_shared<const State>(std::move(state)));
}

Result<PreparedCopy> PreparedCopy::of_pairs(CopyRunner& runner, std::vector<CopyPair> pairs,
                                            const CopyOptions& options) {
  State state{runner, options};
  state.of_peers = std::any_of(pairs.begin(), pairs.end(), is_of_a_peer);
  IndexedCopy joined;
  auto plan = join(runner, pairs, options, joined);
  if (!plan) return plan.error();
  if (*plan) {
    auto part = part_of(runner, std::move(*plan), std::move(pairs), std::move(joined), options);
    if (!part) return part.error();
    state.parts.push_back(std::move(*part));
  } else {
    state.order = starting_order(pairs);
    auto parts = parts_of(runner, std::move(pairs), options);
    if (!parts) return parts.error();
    state.parts = std::move(*parts);
  }
  return PreparedCopy(std::make_shared<const State>(std::move(state)));
}

Result<PreparedCopy> PreparedCopy::of_list(CopyRunner& runner, CopyPair ends, ListPlan planned,
                                           IndexedCopy indexed, const CopyOptions& options,
                                           std::function<Status(const CopyPair&)> check) {
  CHECK(!planned.run_list, "a prepared copy keeps its list, and refers to none of the caller's");
  State state{runner, options};
  state.ends = std::move(ends);
  state.check_lists = std::move(check);
  if (planned.plan) {
    auto part = part_of(runner, std::move(planned.plan), {std::move(planned.ends)},
                        std::move(indexed), options);
    if (!part) return part.error();
    state.parts.push_back(std::move(*part));
  } else {
    auto parts = parts_of(runner, std::move(planned.runs), options);
    if (!parts) return parts.error();
    state.parts = std::move(*parts);
  }
  return PreparedCopy(std::make_shared<const State>(std::move(state)));
}

Result<PreparedCopy> PreparedCopy::of_pages(CopyRunner& runner, CopyPair ends,
                                            const PageLists& pages, const CopyOptions& options) {
  IndexedCopy indexed;
  auto planned = plan_pages(runner, ends.source, ends.target, pages, options, indexed);
  if (!planned) return planned.error();
  auto check = [from = kept(pages.source), to = kept(pages.target)](const CopyPair& given) {
    return check_pages(given.source, given.target, from, to);
  };
  return of_list(runner, std::move(ends), std::move(*planned), std::move(indexed), options,
                 std::move(check));
}

Result<PreparedCopy> PreparedCopy::of_pieces(CopyRunner& runner, CopyPair ends,
                                             const PieceLists& pieces, const CopyOptions& options) {
  IndexedCopy indexed;
  auto planned = plan_pieces(runner, ends.source, ends.target, pieces, options, indexed);
  if (!planned) return planned.error();
  auto check = [from = kept(pieces.source_offsets), to = kept(pieces.target_offsets),
                lengths = kept(pieces.lengths)](const CopyPair& given) {
    return check_pieces(given.source, given.target, {from, to, lengths});
  };
  return of_list(runner, std::move(ends), std::move(*planned), std::move(indexed), options,
                 std::move(check));
}

Result<PreparedCopy> PreparedCopy::of_types(CopyRunner& runner, std::vector<TypedPair> pairs,
                                            const CopyOptions& options) {
  State state{runner, options};
  for (const auto group : groups_of(pairs)) {
    IndexedCopy indexed;
    auto planned = plan_types(runner, group, options, indexed);
    if (!planned) return planned.error();
    auto part = part_of(runner, std::move(planned->plan), {std::move(planned->ends)},
                        std::move(indexed), options);
    if (!part) return part.error();
    if (group.size() > 1) {
      for (const TypedPair& pair : group) part->sides.push_back(pair.ends);
    }
    state.parts.push_back(std::move(*part));
  }
  if (pairs.size() == 1) {
    state.ends = pairs[0].ends;
    state.check_lists = [pair = pairs[0]](const CopyPair& given) {
      return check_types({given, pair.source, pair.target});
    };
  }
  return PreparedCopy(std::make_shared<const State>(std::move(state)));
}

Result<Event> PreparedCopy::start(const StartOptions& given) const {
  const CopyOptions options = state_->options_of(given);
  const std::vector<Part>& parts = state_->parts;
  if (parts.size() != 1) {
    const auto start = [&](std::size_t k) {
      return state_->start(parts[k], parts[k].pairs[0], options);
    };
    return start_each(state_->runner, options, parts.size(), start, state_->order);
  }
  auto event = parts[0].pairs.size() > 1 ? start_joined(state_, options)
                                         : state_->start(parts[0], parts[0].pairs[0], options);
  if (event && event->flight()) event->flight()->ask_late();
  return event;
}

Result<Event> PreparedCopy::start(const CopyPair& ends, const StartOptions& given) const {
  if (Status status = state_->check(ends); !status) return status.error();
  const CopyOptions options = state_->options_of(given);
  const std::vector<Part>& parts = state_->parts;
  const auto start = [&](std::size_t k) {
    const CopyPair& prepared = parts[k].pairs[0];
    const CopyPair own{part_like(ends.source, prepared.source),
                       part_like(ends.target, prepared.target)};
    return state_->start(parts[k], own, options);
  };
  return start_each(state_->runner, options, parts.size(), start);
}

std::optional<Event> PreparedCopy::start_now(const StartOptions& given) const {
  if (state_->parts.size() != 1) return {};
  const Part& part = state_->parts[0];
  if (part.indexed && !part.program) return {};
  const auto& [source, target] = part.pairs[0];
  return state_->runner.carry_now(part.plan, source, target, state_->options_of(given),
                                  part.cargo(source, target));
}

const CopyPair* PreparedCopy::ends() const {
  if (state_->ends) return &*state_->ends;
  return state_->parts.empty() ? nullptr : state_->parts[0].pairs.data();
}

std::shared_ptr<const Plan> PreparedCopy::plan() const {
  return state_->parts.empty() ? nullptr : state_->parts[0].plan;
}

std::int64_t PreparedCopy::bytes() const {
  std::int64_t bytes = 0;
  for (const Part& part : state_->parts) bytes += part.plan->bytes;
  return bytes;
}

}  // namespace tranship
