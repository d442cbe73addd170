// Copies, events and plans, as C sees them.
#include <span>
#include <string>

#include "c/arrays.hpp"
#include "c/handles.hpp"
#include "plan/plan.hpp"

using namespace tranship;
using namespace tranship::c_api;

namespace {

/// The two arrays of a copy and its options, checked.
struct Prepared {
  std::shared_ptr<Engine> engine;
  CopyPair ends;
  CopyOptions options;
};

Result<CopyOptions> options_of(const tranship_copy_options& given) {
  CopyOptions options;
  options.priority = given.priority;
  if (given.planner != nullptr) {
    const auto planner = planner_kind_from(given.planner);
    if (!planner) return planner.error();
    options.planner = *planner;
  }
  options.buffer_bytes_max = given.buffer_bytes;
  if (given.has_stream != 0) options.stream = reinterpret_cast<std::uintptr_t>(given.stream);
  for (std::int64_t k = 0; k < given.after_count; ++k) {
    if (Status set = check_given({{"after", given.after}}); !set) return set.error();
    const tranship_event* event = given.after[k];
    if (Status set = check_given({{"after", event}}); !set) return set.error();
    if (Status here = check_here(*event); !here) return here.error();
    options.after.push_back(event->event);
  }
  return options;
}

/// @error invalid_argument for a null instance; closed for one of another process
Result<CopyPair> ends_of(const tranship_instance* source, const tranship_instance* target) {
  if (Status given = check_given({{"source", source}, {"target", target}}); !given) {
    return given.error();
  }
  if (Status here = check_here(*source); !here) return here.error();
  if (Status here = check_here(*target); !here) return here.error();
  return CopyPair{source->array, target->array};
}

/// Restricts both sides to the region. Dimensions of an array without names of its own match the
/// other side's by position, and so does the region.
Status apply(const Ranges& region, CopyPair& ends) {
  if (region.count == 0) return {};
  const View names = ends.source.named ? ends.source.view : ends.target.view;
  const View target_names = ends.target.named ? ends.target.view : names;
  if (Status status = restrict_to(ends.source, region, names); !status) return status;
  return restrict_to(ends.target, region, target_names);
}

Result<Prepared> prepared(tranship_engine* engine, const tranship_instance* source,
                          const tranship_instance* target, const tranship_copy_options* options) {
  auto used = use(engine, {{"source", source}, {"target", target}});
  if (!used) return used.error();
  const auto read = read_options(options);
  if (!read) return read.error();
  auto ends = ends_of(source, target);
  if (!ends) return ends.error();
  if (Status status = apply({read->region, read->region_count}, *ends); !status) {
    return status.error();
  }
  auto converted = options_of(*read);
  if (!converted) return converted.error();
  return Prepared{std::move(*used), std::move(*ends), std::move(*converted)};
}

/// Returns options that have no region, which is said of a copy of one pair only.
Result<CopyOptions> options_without_region(const tranship_copy_options* options) {
  const auto read = read_options(options);
  if (!read) return read.error();
  if (read->region_count == 0) return options_of(*read);
  return Error{ErrorCode::invalid_argument, "the options of this copy have a region",
               "pass instances of the parts, made by tranship_instance_part()"};
}

tranship_event* handle_of(std::shared_ptr<Engine> engine, Event event) {
  auto made = std::make_unique<tranship_event>();
  made->engine = std::move(engine);
  made->event = std::move(event);
  return made.release();
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

tranship_code tranship_copy(tranship_engine* engine, const tranship_instance* source,
                            const tranship_instance* target, const tranship_copy_options* options,
                            tranship_event** event) {
  return guarded([&]() -> Status {
    if (Status given = check_given({{"event", event}}); !given) return given;
    *event = nullptr;
    auto made = prepared(engine, source, target, options);
    if (!made) return made.error();
    auto started = made->engine->copy(made->ends.source, made->ends.target, made->options);
    if (!started) return started.error();
    *event = handle_of(std::move(made->engine), std::move(*started));
    return {};
  });
}

tranship_code tranship_copy_all(tranship_engine* engine, const tranship_pair* pairs,
                                int64_t pair_count, const tranship_copy_options* options,
                                tranship_event** event) {
  return guarded([&]() -> Status {
    auto used = use(engine, {{"pairs", pairs}, {"event", event}});
    if (!used) return used.error();
    *event = nullptr;
    const auto converted = options_without_region(options);
    if (!converted) return converted.error();
    std::vector<CopyPair> ends;
    for (std::int64_t k = 0; k < pair_count; ++k) {
      auto both = ends_of(pairs[k].source, pairs[k].target);
      if (!both) return both.error();
      ends.push_back(std::move(*both));
    }
    auto started = (*used)->copy_all(ends, *converted);
    if (!started) return started.error();
    *event = handle_of(std::move(*used), std::move(*started));
    return {};
  });
}

tranship_code tranship_copy_pages(tranship_engine* engine, const tranship_instance* source,
                                  const tranship_instance* target, const tranship_pages* pages,
                                  const tranship_copy_options* options, tranship_event** event) {
  return guarded([&]() -> Status {
    auto used = use(engine, {{"pages", pages}, {"event", event}});
    if (!used) return used.error();
    *event = nullptr;
    const auto converted = options_without_region(options);
    if (!converted) return converted.error();
    const auto ends = ends_of(source, target);
    if (!ends) return ends.error();
    if (pages->count < 0) {
      return Error{ErrorCode::invalid_argument,
                   "the number of pages is " + std::to_string(pages->count), "give 0 or more"};
    }
    if (pages->count > 0) {
      Status given =
          check_given({{"pages->source", pages->source}, {"pages->target", pages->target}});
      if (!given) return given;
    }
    const auto count = static_cast<std::size_t>(pages->count);
    auto started = (*used)->copy_pages(ends->source, ends->target, {pages->source, count},
                                       {pages->target, count}, *converted);
    if (!started) return started.error();
    *event = handle_of(std::move(*used), std::move(*started));
    return {};
  });
}

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
    event->event.cancel();
    return {};
  });
}

tranship_code tranship_event_plan(const tranship_event* event, tranship_plan** plan) {
  return guarded([&]() -> Status {
    if (Status status = check_event(event, {{"plan", plan}}); !status) return status;
    *plan = nullptr;
    if (!event->event.plan()) {
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
    const auto made = prepared(engine, source, target, options);
    if (!made) return made.error();
    const auto found = made->engine->plan(made->ends.source, made->ends.target, made->options);
    if (!found) return found.error();
    *plan = handle_of(**found, *made->engine);
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
