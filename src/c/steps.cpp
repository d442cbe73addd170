// Steps, as C writes and reads them.
#include "tranship/steps.h"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "c/attributes.hpp"
#include "c/errors.hpp"
#include "c/json_values.hpp"
#include "c/staging_client.hpp"
#include "os/fork.hpp"

using namespace tranship;
using namespace tranship::c_api;
using staging::Client;
using staging::StepVariable;
using staging::VersionChoice;

struct tranship_step_writer {
  const HandleKind kind = HandleKind::step_writer;
  tranship_staging* staging = nullptr;
  std::int64_t number = 0;
  staging::StepId id = 0;
  std::uint64_t generation = fork_generation();
  std::mutex mutex;  ///< Guards what follows.
  std::condition_variable changed;
  bool ended = false;
  int running = 0;                                ///< Calls that put or set.
  std::vector<std::shared_ptr<Outcome>> begun{};  ///< Asynchronous puts.
};

struct tranship_step {
  const HandleKind kind = HandleKind::step;
  tranship_staging* staging = nullptr;
  staging::FoundStep found{};
  std::map<std::string, tranship_attributes> attributes{};  ///< Of each variable; "": of the step.
};

namespace {

/// Most time of calls without a timeout.
constexpr std::chrono::milliseconds patience_without_timeout{30'000};

/// Longest explanation that is sent.
constexpr std::size_t why_bytes_max = 1000;

Error ended_error(const tranship_step_writer& step) {
  return {ErrorCode::invalid_argument, staging::step_of(step.number) + " has ended",
          "put and set what belongs to it before its end"};
}

/// Checks a writer, also whether its process was forked. Its lock may be held for ever in a fork.
Status check_writer(const tranship_step_writer* step) {
  if (Status given = check_handle("step", step, HandleKind::step_writer); !given) return given;
  return step->generation == fork_generation() ? Status{} : Status(forked_client_error());
}

/// Keeps a part of a step from ending while a call puts or sets.
class InPart {
 public:
  static Result<InPart> enter(tranship_step_writer* step) {
    if (Status status = check_writer(step); !status) return status.error();
    const std::lock_guard lock(step->mutex);
    if (step->ended) return ended_error(*step);
    ++step->running;
    return InPart(step);
  }
  InPart(InPart&& other) noexcept : step_(std::exchange(other.step_, nullptr)) {}
  InPart& operator=(InPart&&) = delete;
  ~InPart() {
    if (step_ == nullptr) return;
    const std::lock_guard lock(step_->mutex);
    if (--step_->running == 0) step_->changed.notify_all();
  }

 private:
  explicit InPart(tranship_step_writer* step) : step_(step) {}
  tranship_step_writer* step_;
};

/// Sets what `json` returns.
template <typename Make>
tranship_code set(tranship_step_writer* step, const char* variable, const char* key,
                  const Make& json) {
  return guarded([&]() -> Status {
    const auto part = InPart::enter(step);
    if (!part) return part.error();
    const auto made = attribute_of(variable, key, json());
    if (!made) return made.error();
    const auto open = use(step->staging, {});
    return open ? (*open)->client->set_step_attribute(step->id, *made) : Status(open.error());
  });
}

/// Lets no more calls into the part and, if `waits`, waits for those that are in it.
Status leave(tranship_step_writer& step, bool waits) {
  std::unique_lock lock(step.mutex);
  if (step.ended) return ended_error(step);
  step.ended = true;
  while (waits && step.running > 0) step.changed.wait_for(lock, std::chrono::seconds(1));
  return {};
}

Status end(tranship_step_writer& step, double timeout) {
  const auto patience = duration(timeout);
  if (!patience) return patience.error();
  if (Status left = leave(step, true); !left) return left;
  Status put;
  for (const auto& one : step.begun) {  // no call is in the part that could change them
    Status ended = one ? one->wait() : Status{};
    if (put) put = std::move(ended);
  }
  const auto open = use(step.staging, {});
  if (!open) return open.error();
  if (put) return (*open)->client->end_step(step.id, *patience);
  (void)(*open)->client->give_up_step(step.id, put.error().message);
  return put;
}

Status give_up(tranship_step_writer& step, const std::string& why) {
  if (Status left = leave(step, false); !left) return left;
  const auto open = use(step.staging, {});
  return open ? (*open)->client->give_up_step(step.id, why.substr(0, why_bytes_max))
              : Status(open.error());
}

tranship_code find(tranship_staging* staging, staging::StepQuery query, double timeout,
                   tranship_step** step) {
  return with_client(staging, {{"step", step}}, timeout, [&](Client& client, auto patience) {
    *step = nullptr;
    auto found = client.find_step(query, patience);
    if (!found) return Status(found.error());
    auto made = std::make_unique<tranship_step>();
    made->staging = staging;
    const auto& [variables, attributes] = found->contents;
    const std::string words = staging::step_of(found->number);
    made->attributes.emplace("", attributes_of(words, attributes, ""));
    for (const StepVariable& one : variables) {
      const std::string whose = in_quotes(one.name) + " in " + words;
      made->attributes.emplace(one.name, attributes_of(whose, attributes, one.name));
    }
    made->found = std::move(*found);
    *step = made.release();
    return Status{};
  });
}

Error missing(const tranship_step& step, const std::string& name) {
  std::vector<std::string> names;
  for (const StepVariable& one : step.found.contents.variables) names.push_back(one.name);
  return {ErrorCode::not_found,
          staging::step_of(step.found.number) + " has no variable " + in_quotes(name),
          "it has " + listed(names)};
}

/// Returns a variable of a step. @error invalid_argument; not_found
Result<const StepVariable*> variable_of(const tranship_step* step, const char* name) {
  if (Status given = check_handle("step", step, HandleKind::step); !given) return given.error();
  const auto& all = step->found.contents.variables;
  const auto one =
      std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.name == name; });
  if (one == all.end()) return missing(*step, name);
  return &*one;
}

Status describe(const tranship_step& step, const StepVariable& one, tranship_variable& variable) {
  if (!one.bounds) {  // what was put has no elements
    const auto open = use(step.staging, {});
    if (!open) return open.error();
    const auto extent =
        (*open)->client->extent_of(one.name, step.found.number, patience_without_timeout);
    return extent ? fill(variable, one.name, *extent) : Status(extent.error());
  }
  staging::VariableInfo info;
  info.name = one.name;
  info.type = one.type;
  info.bounds = *one.bounds;
  return fill(variable, info);
}

Status get(const tranship_step& step, Client& client, const Move& move) {
  const std::int64_t number = step.found.number;
  const auto found = client.get_at_once({move.variable, VersionChoice::exact, number, move.box},
                                        move.array, move.timeout);
  if (!found) return found.error();
  if (*found) return {};
  return Error{
      ErrorCode::not_found,
      staging::step_of(number) + " does not have all of this box of " + in_quotes(move.variable),
      "look at the bounds that it has of the variable"};
}

}  // namespace

tranship_code tranship_step_begin(tranship_staging* staging, int64_t number, int writers,
                                  double timeout, tranship_step_writer** step) {
  return with_client(staging, {{"step", step}}, timeout,
                     [&](Client& client, auto patience) -> Status {
                       *step = nullptr;
                       auto made = std::make_unique<tranship_step_writer>();
                       const auto begun = client.begin_step(number, writers, patience);
                       if (!begun) return begun.error();
                       made->staging = staging;
                       made->number = number;
                       made->id = *begun;
                       *step = made.release();
                       return {};
                     });
}

tranship_code tranship_step_put(tranship_step_writer* step, const char* variable,
                                const tranship_array* array, double timeout) {
  return guarded([&]() -> Status {
    const auto part = InPart::enter(step);
    if (!part) return part.error();
    return move_now(step->staging, variable, array, timeout, [&](Client& client, Move& move) {
      move.step = step->id;
      return put(client, step->number, move);
    });
  });
}

tranship_code tranship_step_put_async(tranship_step_writer* step, const char* variable,
                                      const tranship_array* array, double timeout,
                                      tranship_request** request) {
  return guarded([&]() -> Status {
    if (Status given = check_given({{"request", request}}); !given) return given;
    *request = nullptr;
    const auto part = InPart::enter(step);
    if (!part) return part.error();
    std::size_t place = 0;
    {
      const std::lock_guard lock(step->mutex);
      place = step->begun.size();
      step->begun.emplace_back();  // before the put begins: memory may run out
    }
    const Later later{request, true, step->id};
    Status status =
        move_later(step->staging, variable, array, timeout, later,
                   [number = step->number](Client& client, const Move& move, bool waits) {
                     return put_later(client, number, move, waits);
                   });
    if (!status) return status;
    const std::lock_guard lock(step->mutex);
    step->begun[place] = (*request)->outcome;
    return {};
  });
}

tranship_code tranship_step_set_double(tranship_step_writer* step, const char* variable,
                                       const char* key, double value) {
  return set(step, variable, key, [&] { return json_of(value); });
}

tranship_code tranship_step_set_int64(tranship_step_writer* step, const char* variable,
                                      const char* key, int64_t value) {
  return set(step, variable, key, [&] { return json_of(value); });
}

tranship_code tranship_step_set_text(tranship_step_writer* step, const char* variable,
                                     const char* key, const char* value) {
  return set(step, variable, key, [&] { return given_text(value); });
}

tranship_code tranship_step_set_json(tranship_step_writer* step, const char* variable,
                                     const char* key, const char* json) {
  return set(step, variable, key, [&] { return given_json(json); });
}

tranship_code tranship_step_end(tranship_step_writer* step, double timeout) {
  return guarded([&] {
    Status status = check_writer(step);
    return status ? end(*step, timeout) : status;
  });
}

tranship_code tranship_step_give_up(tranship_step_writer* step, const char* why) {
  return guarded([&] {
    Status status = check_writer(step);
    return status ? give_up(*step, why == nullptr ? "no reason was given" : why) : status;
  });
}

void tranship_step_writer_free(tranship_step_writer* step) {
  (void)caught([&]() -> Status {
    if (Status status = check_writer(step); !status) return status;  // in a fork it leaks
    const std::unique_ptr<tranship_step_writer> freed(step);
    return give_up(*freed, "its writer was freed before its end");
  });
}

tranship_code tranship_step_next(tranship_staging* staging, int64_t after, double timeout,
                                 tranship_step** step) {
  return find(staging, {VersionChoice::next, after}, timeout, step);
}

tranship_code tranship_step_latest(tranship_staging* staging, double timeout,
                                   tranship_step** step) {
  return find(staging, {VersionChoice::latest, INT64_MAX}, timeout, step);
}

tranship_code tranship_step_find(tranship_staging* staging, int64_t number, double timeout,
                                 tranship_step** step) {
  return find(staging, {VersionChoice::exact, number}, timeout, step);
}

int64_t tranship_step_number(const tranship_step* step) {
  return is_handle(step, HandleKind::step) ? step->found.number : 0;
}

int64_t tranship_step_size(const tranship_step* step) {
  return is_handle(step, HandleKind::step) ? std::ssize(step->found.contents.variables) : 0;
}

tranship_code tranship_step_name(const tranship_step* step, int64_t index, const char** name) {
  return guarded([&]() -> Status {
    if (Status given = check_given({{"name", name}}); !given) return given;
    if (Status given = check_handle("step", step, HandleKind::step); !given) return given;
    Status there = check_index(index, tranship_step_size(step), "variables");
    if (!there) return there;
    *name = step->found.contents.variables[static_cast<std::size_t>(index)].name.c_str();
    return {};
  });
}

tranship_code tranship_step_describe(const tranship_step* step, const char* name,
                                     tranship_variable* variable) {
  return guarded([&]() -> Status {
    Status given = check_given({{"name", name}, {"variable", variable}});
    if (!given) return given;
    const auto one = variable_of(step, name);
    return one ? describe(*step, **one, *variable) : Status(one.error());
  });
}

tranship_code tranship_step_get(const tranship_step* step, const char* variable,
                                const tranship_array* array, double timeout) {
  return guarded([&]() -> Status {
    Status given = check_given({{"variable", variable}, {"array", array}});
    if (!given) return given;
    const auto one = variable_of(step, variable);
    if (!one) return one.error();
    return move_now(step->staging, variable, array, timeout,
                    [&](Client& client, const Move& move) { return get(*step, client, move); });
  });
}

tranship_code tranship_step_attributes(const tranship_step* step, const char* variable,
                                       const tranship_attributes** attributes) {
  return guarded([&]() -> Status {
    if (Status given = check_given({{"attributes", attributes}}); !given) return given;
    if (Status given = check_handle("step", step, HandleKind::step); !given) return given;
    const std::string name = variable == nullptr ? "" : variable;
    const auto found = step->attributes.find(name);
    if (found == step->attributes.end()) return missing(*step, name);
    *attributes = &found->second;
    return {};
  });
}

tranship_code tranship_step_discard(tranship_staging* staging, int64_t number) {
  return with_client(staging, {}, [&](Client& client) {
    return client.discard_step(number, patience_without_timeout);
  });
}

void tranship_step_free(tranship_step* step) {
  if (is_handle(step, HandleKind::step)) delete step;
}
