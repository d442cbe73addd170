// Copies, events and plans, as C sees them.
#include <span>
#include <string>

#include "c/arrays.hpp"
#include "c/copies.hpp"
#include "c/handles.hpp"
#include "plan/plan.hpp"

using namespace tranship;
using namespace tranship::c_api;

namespace {

/// The two arrays of a copy and its options, checked. Whole instances are not copied: the caller's
/// stay during the call.
struct CopyCall {
  std::shared_ptr<Engine> engine;
  CopyOptions options;
  const Array* source = nullptr;
  const Array* target = nullptr;
  CopyPair parts;  ///< what the pointers lead to, if there is a region
};

Result<std::vector<Event>> events_of(tranship_event* const* after, std::int64_t count) {
  if (Status s = check_list({"after_count", count}, {{"after", after}}); !s) return s.error();
  std::vector<Event> events;
  for (std::int64_t k = 0; k < count; ++k) {
    const tranship_event* event = after[k];
    if (Status set = check_given({{"after", event}}); !set) return set.error();
    if (Status here = check_here(*event); !here) return here.error();
    events.push_back(event->event);
  }
  return events;
}

Result<CopyOptions> options_of(const tranship_copy_options& given) {
  CopyOptions options;
  options.priority = given.priority;
  if (given.planner != nullptr) {
    const auto planner = planner_kind_from(given.planner);
    if (!planner) return planner.error();
    options.planner = *planner;
  }
  options.buffer_bytes_max = given.buffer_bytes;
  if (given.buffer_bytes < 0) {
    return Error{ErrorCode::invalid_argument,
                 "buffer_bytes=" + std::to_string(given.buffer_bytes) + " is negative",
                 "give a number of bytes, or 0 for no limit of this copy's own"};
  }
  if (given.has_stream != 0) options.stream = reinterpret_cast<std::uintptr_t>(given.stream);
  auto after = events_of(given.after, given.after_count);
  if (!after) return after.error();
  options.after = std::move(*after);
  return options;
}

Result<StartOptions> options_of(const tranship_start_options& given) {
  StartOptions options;
  if (given.has_stream != 0) options.stream = reinterpret_cast<std::uintptr_t>(given.stream);
  auto after = events_of(given.after, given.after_count);
  if (!after) return after.error();
  options.after = std::move(*after);
  return options;
}

/// Restricts both sides to the region. Dimensions of an array without names of its own match the
/// other side's by position, and so does the region.
Status apply(const Ranges& region, CopyPair& ends) {
  const View names = ends.source.named ? ends.source.view : ends.target.view;
  const View target_names = ends.target.named ? ends.target.view : names;
  if (Status status = restrict_to(ends.source, region, names); !status) return status;
  return restrict_to(ends.target, region, target_names);
}

/// Writes to `made`, whose pointers may lead into it.
Status read_call(CopyCall& made, tranship_engine* engine, const tranship_instance* source,
                 const tranship_instance* target, const tranship_copy_options* options) {
  auto used = use(engine, {{"source", source}, {"target", target}});
  if (!used) return used.error();
  if (Status status = check_ends(source, target); !status) return status;
  const auto read = read_options(options);
  if (!read) return read.error();
  auto converted = options_of(*read);
  if (!converted) return converted.error();
  made.engine = std::move(*used);
  made.options = std::move(*converted);
  made.source = &source->array;
  made.target = &target->array;
  if (read->region_count == 0) return {};
  made.parts = {source->array, target->array};
  made.source = &made.parts.source;
  made.target = &made.parts.target;
  return apply({read->region, read->region_count}, made.parts);
}

/// Copies up to this size run on the caller's thread at once, where that needs no other thread and
/// no planning: what they move takes less time than what copy() prepares.
constexpr std::int64_t small_bytes = 64 << 10;

Result<Event> start(Engine& engine, const Array& source, const Array& target,
                    const CopyOptions& options) {
  if (!options.stream && source.view.bytes() <= small_bytes) {
    if (auto ended = engine.copy_now(source, target, options)) return std::move(*ended);
  }
  return engine.copy(source, target, options);
}

Result<std::vector<CopyPair>> pairs_of(const tranship_pair* pairs, std::int64_t count) {
  if (Status s = check_list({"pair_count", count}, {{"pairs", pairs}}); !s) return s.error();
  std::vector<CopyPair> ends;
  for (std::int64_t k = 0; k < count; ++k) {
    const tranship_pair& pair = pairs[k];
    if (Status status = check_ends(pair.source, pair.target); !status) return status.error();
    ends.push_back({pair.source->array, pair.target->array});
  }
  return ends;
}

Status check_pages(const tranship_pages& pages) {
  return check_list({"pages->count", pages.count},
                    {{"pages->source", pages.source}, {"pages->target", pages.target}});
}

Status check_pieces(const tranship_pieces& pieces) {
  return check_list({"pieces->count", pieces.count},
                    {{"pieces->source_offsets", pieces.source_offsets},
                     {"pieces->target_offsets", pieces.target_offsets},
                     {"pieces->lengths", pieces.lengths}});
}

PieceLists lists_of(const tranship_pieces& pieces) {
  const auto count = static_cast<std::size_t>(pieces.count);
  return {{pieces.source_offsets, count}, {pieces.target_offsets, count}, {pieces.lengths, count}};
}

/// Starts a copy between other instances, where they are given.
Result<Event> start(const tranship_prepared& prepared, const tranship_start_options& given,
                    const StartOptions& options) {
  Engine& engine = *prepared.engine;
  if (given.source == nullptr && given.target == nullptr) {
    if (auto ended = engine.start_now(prepared.copy, options)) return std::move(*ended);
    return engine.start(prepared.copy, options);
  }
  const CopyPair* own = prepared.copy.ends();
  CopyPair ends = own != nullptr ? *own : CopyPair{};
  for (const auto& [instance, end] :
       {std::pair{given.source, &ends.source}, std::pair{given.target, &ends.target}}) {
    if (instance == nullptr) continue;
    if (Status here = check_here(*instance); !here) return here.error();
    *end = instance->array;
  }
  return engine.start(prepared.copy, ends, options);
}

tranship_plan* handle_of(const Plan& plan, const Engine& engine) {
  auto made = std::make_unique<tranship_plan>();
  made->text = explain(plan, engine.profile());
  made->json = explain_json(plan, engine.profile());
  made->seconds = plan.seconds;
  return made.release();
}

/// @error invalid_argument for null; closed in a fork
Status check_event(const tranship_event* event,
                   std::initializer_list<std::pair<const char*, const void*>> others) {
  Status status = check_given({{"event", event}});
  if (status) status = check_given(others);
  return status ? check_here(*event) : status;
}

}  // namespace

namespace tranship::c_api {

Status check_ends(const tranship_instance* source, const tranship_instance* target) {
  Status status = check_given({{"source", source}, {"target", target}});
  if (status) status = check_here(*source);
  return status ? check_here(*target) : status;
}

Result<CopyOptions> options_without_region(const tranship_copy_options* options) {
  const auto read = read_options(options);
  if (!read) return read.error();
  if (Status s = check_list({"region_count", read->region_count}, {}); !s) return s.error();
  if (read->region_count == 0) return options_of(*read);
  return Error{ErrorCode::invalid_argument, "the options of this copy have a region",
               "pass instances of the parts, made by tranship_instance_part()"};
}

Result<CopyOptions> options_of_all_starts(const tranship_copy_options* options) {
  auto converted = options_without_region(options);
  if (!converted) return converted;
  if (converted->after.empty() && !converted->stream) return converted;
  return Error{ErrorCode::invalid_argument,
               "the options of this preparation have events or a stream",
               "pass them to tranship_start()"};
}

tranship_event* handle_of(std::shared_ptr<Engine> engine, Event event) {
  auto made = std::make_unique<tranship_event>();
  made->engine = std::move(engine);
  made->event = std::move(event);
  return made.release();
}

}  // namespace tranship::c_api

tranship_code tranship_copy(tranship_engine* engine, const tranship_instance* source,
                            const tranship_instance* target, const tranship_copy_options* options,
                            tranship_event** event) {
  return guarded([&]() -> Status {
    if (Status given = check_given({{"event", event}}); !given) return given;
    *event = nullptr;
    CopyCall made;
    if (Status status = read_call(made, engine, source, target, options); !status) return status;
    auto started = start(*made.engine, *made.source, *made.target, made.options);
    if (!started) return started.error();
    *event = handle_of(std::move(made.engine), std::move(*started));
    return {};
  });
}

tranship_code tranship_copy_all(tranship_engine* engine, const tranship_pair* pairs,
                                int64_t pair_count, const tranship_copy_options* options,
                                tranship_event** event) {
  return started_by(engine, {"pairs", pairs}, options, event,
                    [&](Engine& used, const CopyOptions& given) -> Result<Event> {
                      const auto ends = pairs_of(pairs, pair_count);
                      if (!ends) return ends.error();
                      return used.copy_all(*ends, given);
                    });
}

tranship_code tranship_copy_pages(tranship_engine* engine, const tranship_instance* source,
                                  const tranship_instance* target, const tranship_pages* pages,
                                  const tranship_copy_options* options, tranship_event** event) {
  return started_by(engine, {"pages", pages}, options, event,
                    [&](Engine& used, const CopyOptions& given) -> Result<Event> {
                      if (Status s = check_ends(source, target); !s) return s.error();
                      if (Status s = check_pages(*pages); !s) return s.error();
                      const auto count = static_cast<std::size_t>(pages->count);
                      return used.copy_pages(source->array, target->array, {pages->source, count},
                                             {pages->target, count}, given);
                    });
}

tranship_code tranship_copy_pieces(tranship_engine* engine, const tranship_instance* source,
                                   const tranship_instance* target, const tranship_pieces* pieces,
                                   const tranship_copy_options* options, tranship_event** event) {
  return started_by(engine, {"pieces", pieces}, options, event,
                    [&](Engine& used, const CopyOptions& given) -> Result<Event> {
                      if (Status s = check_ends(source, target); !s) return s.error();
                      if (Status s = check_pieces(*pieces); !s) return s.error();
                      return used.copy_pieces(source->array, target->array, lists_of(*pieces),
                                              given);
                    });
}

tranship_code tranship_prepare(tranship_engine* engine, const tranship_instance* source,
                               const tranship_instance* target,
                               const tranship_copy_options* options, tranship_prepared** prepared) {
  return prepared_by(engine, options, prepared,
                     [&](Engine& used, const CopyOptions& given) -> Result<PreparedCopy> {
                       if (Status s = check_ends(source, target); !s) return s.error();
                       return used.prepare(source->array, target->array, given);
                     });
}

tranship_code tranship_prepare_all(tranship_engine* engine, const tranship_pair* pairs,
                                   int64_t pair_count, const tranship_copy_options* options,
                                   tranship_prepared** prepared) {
  return prepared_by(engine, options, prepared,
                     [&](Engine& used, const CopyOptions& given) -> Result<PreparedCopy> {
                       if (Status s = check_given({{"pairs", pairs}}); !s) return s.error();
                       const auto ends = pairs_of(pairs, pair_count);
                       if (!ends) return ends.error();
                       return used.prepare_all(*ends, given);
                     });
}

tranship_code tranship_prepare_pages(tranship_engine* engine, const tranship_instance* source,
                                     const tranship_instance* target, const tranship_pages* pages,
                                     const tranship_copy_options* options,
                                     tranship_prepared** prepared) {
  return prepared_by(engine, options, prepared,
                     [&](Engine& used, const CopyOptions& given) -> Result<PreparedCopy> {
                       if (Status s = check_given({{"pages", pages}}); !s) return s.error();
                       if (Status s = check_ends(source, target); !s) return s.error();
                       if (Status s = check_pages(*pages); !s) return s.error();
                       const auto count = static_cast<std::size_t>(pages->count);
                       return used.prepare_pages(source->array, target->array,
                                                 {pages->source, count}, {pages->target, count},
                                                 given);
                     });
}

tranship_code tranship_prepare_pieces(tranship_engine* engine, const tranship_instance* source,
                                      const tranship_instance* target,
                                      const tranship_pieces* pieces,
                                      const tranship_copy_options* options,
                                      tranship_prepared** prepared) {
  return prepared_by(engine, options, prepared,
                     [&](Engine& used, const CopyOptions& given) -> Result<PreparedCopy> {
                       if (Status s = check_given({{"pieces", pieces}}); !s) return s.error();
                       if (Status s = check_ends(source, target); !s) return s.error();
                       if (Status s = check_pieces(*pieces); !s) return s.error();
                       return used.prepare_pieces(source->array, target->array, lists_of(*pieces),
                                                  given);
                     });
}

tranship_code tranship_start(const tranship_prepared* prepared,
                             const tranship_start_options* options, tranship_event** event) {
  return guarded([&]() -> Status {
    if (Status set = check_given({{"prepared", prepared}, {"event", event}}); !set) return set;
    *event = nullptr;
    if (Status here = check_here(*prepared); !here) return here;
    const auto read = read_options(options);
    if (!read) return read.error();
    const auto converted = options_of(*read);
    if (!converted) return converted.error();
    auto started = start(*prepared, *read, *converted);
    if (!started) return started.error();
    *event = handle_of(prepared->engine, std::move(*started));
    return {};
  });
}

void tranship_prepared_free(tranship_prepared* prepared) { free_handle(prepared); }

tranship_code tranship_event_wait(const tranship_event* event, double timeout) {
  return guarded([&]() -> Status {
    if (Status status = check_event(event, {}); !status) return status;
    const auto patience = duration(timeout);
    return patience ? event->event.wait(*patience) : Status(patience.error());
  });
}

tranship_code tranship_event_test(const tranship_event* event, int* ended) {
  return guarded([&]() -> Status {
    if (Status status = check_event(event, {{"ended", ended}}); !status) return status;
    *ended = event->event.done() ? 1 : 0;
    return {};
  });
}

tranship_code tranship_event_cancel(const tranship_event* event) {
  return guarded([&]() -> Status {
    if (Status status = check_event(event, {}); !status) return status;
    (void)event->event.cancel();
    return {};
  });
}

tranship_code tranship_event_plan(const tranship_event* event, tranship_plan** plan) {
  return guarded([&]() -> Status {
    if (Status status = check_event(event, {{"plan", plan}}); !status) return status;
    *plan = nullptr;
    if (!event->event.plan() || event->event.plan()->hops.empty()) {
      return Error{ErrorCode::not_found, "the copy has no elements, and needed no plan"};
    }
    *plan = handle_of(*event->event.plan(), *event->engine);
    return {};
  });
}

void tranship_event_free(tranship_event* event) { free_handle(event); }

tranship_code tranship_plan_copy(tranship_engine* engine, const tranship_instance* source,
                                 const tranship_instance* target,
                                 const tranship_copy_options* options, tranship_plan** plan) {
  return guarded([&]() -> Status {
    if (Status given = check_given({{"plan", plan}}); !given) return given;
    *plan = nullptr;
    CopyCall made;
    if (Status status = read_call(made, engine, source, target, options); !status) return status;
    const auto found = made.engine->plan(*made.source, *made.target, made.options);
    if (!found) return found.error();
    *plan = handle_of(**found, *made.engine);
    return {};
  });
}

const char* tranship_plan_text(const tranship_plan* plan) {
  return plan != nullptr ? plan->text.c_str() : "";
}

const char* tranship_plan_json(const tranship_plan* plan) {
  return plan != nullptr ? plan->json.c_str() : "";
}

double tranship_plan_seconds(const tranship_plan* plan) {
  return plan != nullptr ? plan->seconds : 0;
}

void tranship_plan_free(tranship_plan* plan) { const std::unique_ptr<tranship_plan> freed(plan); }
