// Copies, events and plans, as C sees them.
#include <algorithm>
#include <span>
#include <variant>

#include "c/arrays.hpp"
#include "c/copies.hpp"
#include "c/handles.hpp"
#include "fabric/messages/copy_notice.hpp"
#include "plan/plan.hpp"

using namespace tranship;
using namespace tranship::c_api;

namespace {

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

/// Returns what an options struct says of one start. `Given` is that of a copy or of a start. The
/// result refers to the caller's text.
/// @error invalid_argument for events that are not given, and for a text that names no notice
template <typename Given>
Result<StartOptions> start_options_of(const Given& given) {
  StartOptions options;
  if (given.has_stream != 0) options.stream = reinterpret_cast<std::uintptr_t>(given.stream);
  auto events = events_of(given.after, given.after_count);
  if (!events) return events.error();
  options.after = std::move(*events);
  if (given.notify == nullptr) return options;
  options.notify = given.notify;
  if (Status named = fabric::check_notice_name(options.notify); !named) return named.error();
  return options;
}

Result<CopyOptions> options_of(const tranship_copy_options& given) {
  CopyOptions options;
  options.priority = given.priority;
  if (given.planner != nullptr) {
    const auto planner = planner_kind_from(given.planner);
    if (!planner) return planner.error();
    options.planner = *planner;
  }
  if (given.cast != nullptr) {
    const auto casting = casting_from(given.cast);
    if (!casting) return casting.error();
    options.casting = *casting;
  }
  options.buffer_bytes_max = given.buffer_bytes;
  auto start = start_options_of(given);
  if (!start) return start.error();
  options.start = std::move(*start);
  return options;
}

/// The two arrays of a copy: the caller's own, which stay during the call, or, if the options have
/// a region, parts of them.
struct Ends {
  const Array* source = nullptr;
  const Array* target = nullptr;
  CopyPair parts;  ///< the parts in the region, to which the pointers refer; unused without one
};

/// Calls `use` with the engine, the ends and the options of a copy of one whole array, checked.
template <typename Use>
Status with_call(tranship_engine* engine, const tranship_instance* source,
                 const tranship_instance* target, const tranship_copy_options* options,
                 const Use& use_call) {
  auto used = use(engine, {{"source", source}, {"target", target}});
  if (!used) return used.error();
  if (Status status = check_ends(source, target); !status) return status;
  const auto read = read_options(options);
  if (!read) return read.error();
  const auto converted = options_of(*read);
  if (!converted) return converted.error();
  Ends ends{&source->array, &target->array, {}};
  if (read->region_count != 0) {
    ends.parts = {source->array, target->array};
    ends.source = &ends.parts.source;
    ends.target = &ends.parts.target;
    const auto region = region_of(read->region, read->region_count);
    if (!region) return region.error();
    if (Status s = restrict_to(ends.parts, *region); !s) return s;
  }
  return use_call(std::move(*used), ends, *converted);
}

Status read_pair(const tranship_instance* source, const tranship_instance* target,
                 ReadRequest& request) {
  if (Status status = check_ends(source, target); !status) return status;
  request.pairs.push_back({source->array, target->array});
  return {};
}

Status read_pairs(const tranship_pair* pairs, std::int64_t count, ReadRequest& request) {
  if (Status s = check_list({"pair_count", count}, {{"pairs", pairs}}); !s) return s;
  for (std::int64_t k = 0; k < count; ++k) {
    if (Status s = read_pair(pairs[k].source, pairs[k].target, request); !s) return s;
  }
  return {};
}

Status read_pages(const tranship_instance* source, const tranship_instance* target,
                  const tranship_pages* pages, ReadRequest& request) {
  if (Status given = check_given({{"pages", pages}}); !given) return given;
  if (Status s = read_pair(source, target, request); !s) return s;
  Status lists = check_list({"pages->count", pages->count},
                            {{"pages->source", pages->source}, {"pages->target", pages->target}});
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(pages->count, 0));
  request.parts = PageLists{{pages->source, count}, {pages->target, count}};
  return lists;
}

Status read_pieces(const tranship_instance* source, const tranship_instance* target,
                   const tranship_pieces* pieces, ReadRequest& request) {
  if (Status given = check_given({{"pieces", pieces}}); !given) return given;
  if (Status s = read_pair(source, target, request); !s) return s;
  Status lists = check_list({"pieces->count", pieces->count},
                            {{"pieces->source_offsets", pieces->source_offsets},
                             {"pieces->target_offsets", pieces->target_offsets},
                             {"pieces->lengths", pieces->lengths}});
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(pieces->count, 0));
  request.parts = PieceLists{
      {pieces->source_offsets, count}, {pieces->target_offsets, count}, {pieces->lengths, count}};
  return lists;
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
  const StartOptions& start = converted->start;
  if (start.after.empty() && !start.stream && start.notify.empty()) return converted;
  return Error{ErrorCode::invalid_argument,
               "the options of this preparation have events, a stream or a notice",
               "pass them to tranship_start()"};
}

Result<CopyRequest> ReadRequest::with(const CopyOptions& options) const {
  const bool moves_bytes = !types.empty() || std::holds_alternative<PieceLists>(parts);
  if (moves_bytes && options.casting != Casting::none) {
    return Error{ErrorCode::invalid_argument,
                 "the options have a cast, and pieces and derived types move bytes",
                 "leave out the cast"};
  }
  if (types.empty()) return CopyRequest{pairs, parts, options};
  return CopyRequest{pairs, std::span<const TypePair>(types), options};
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
    return with_call(
        engine, source, target, options,
        [&](std::shared_ptr<Engine> used, const Ends& ends, const CopyOptions& given) -> Status {
          auto started = used->copy(*ends.source, *ends.target, given);
          if (!started) return started.error();
          *event = handle_of(std::move(used), std::move(*started));
          return {};
        });
  });
}

tranship_code tranship_copy_all(tranship_engine* engine, const tranship_pair* pairs,
                                int64_t pair_count, const tranship_copy_options* options,
                                tranship_event** event) {
  return started_by(engine, options, event,
                    [&](ReadRequest& request) { return read_pairs(pairs, pair_count, request); });
}

tranship_code tranship_copy_pages(tranship_engine* engine, const tranship_instance* source,
                                  const tranship_instance* target, const tranship_pages* pages,
                                  const tranship_copy_options* options, tranship_event** event) {
  return started_by(engine, options, event, [&](ReadRequest& request) {
    return read_pages(source, target, pages, request);
  });
}

tranship_code tranship_copy_pieces(tranship_engine* engine, const tranship_instance* source,
                                   const tranship_instance* target, const tranship_pieces* pieces,
                                   const tranship_copy_options* options, tranship_event** event) {
  return started_by(engine, options, event, [&](ReadRequest& request) {
    return read_pieces(source, target, pieces, request);
  });
}

tranship_code tranship_prepare(tranship_engine* engine, const tranship_instance* source,
                               const tranship_instance* target,
                               const tranship_copy_options* options, tranship_prepared** prepared) {
  return prepared_by(engine, options, prepared,
                     [&](ReadRequest& request) { return read_pair(source, target, request); });
}

tranship_code tranship_prepare_all(tranship_engine* engine, const tranship_pair* pairs,
                                   int64_t pair_count, const tranship_copy_options* options,
                                   tranship_prepared** prepared) {
  return prepared_by(engine, options, prepared,
                     [&](ReadRequest& request) { return read_pairs(pairs, pair_count, request); });
}

tranship_code tranship_prepare_pages(tranship_engine* engine, const tranship_instance* source,
                                     const tranship_instance* target, const tranship_pages* pages,
                                     const tranship_copy_options* options,
                                     tranship_prepared** prepared) {
  return prepared_by(engine, options, prepared, [&](ReadRequest& request) {
    return read_pages(source, target, pages, request);
  });
}

tranship_code tranship_prepare_pieces(tranship_engine* engine, const tranship_instance* source,
                                      const tranship_instance* target,
                                      const tranship_pieces* pieces,
                                      const tranship_copy_options* options,
                                      tranship_prepared** prepared) {
  return prepared_by(engine, options, prepared, [&](ReadRequest& request) {
    return read_pieces(source, target, pieces, request);
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
    const auto converted = start_options_of(*read);
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

tranship_code tranship_event_progress(const tranship_event* event, tranship_progress* progress) {
  return guarded([&]() -> Status {
    if (Status status = check_event(event, {{"progress", progress}}); !status) return status;
    const Progress found = event->event.progress();
    *progress = {found.bytes_done, found.bytes_total, found.seconds_left.value_or(-1)};
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
    return with_call(engine, source, target, options,
                     [&](const std::shared_ptr<Engine>& used, const Ends& ends,
                         const CopyOptions& converted) -> Status {
                       const auto found = used->plan(*ends.source, *ends.target, converted);
                       if (!found) return found.error();
                       *plan = handle_of(**found, *used);
                       return {};
                     });
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
