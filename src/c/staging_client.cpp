#include "c/staging_client.hpp"

#include <algorithm>

namespace tranship::c_api {

using staging::Client;
using staging::VariableInfo;

namespace {

/// Returns the words for a handle in messages.
const char* words_of(HandleKind kind) {
  switch (kind) {
    case HandleKind::staging: return "a tranship_staging, which tranship_open() makes";
    case HandleKind::step_writer:
      return "a tranship_step_writer, which tranship_step_begin() makes";
    case HandleKind::step: return "a tranship_step, which tranship_step_next() makes";
    case HandleKind::attributes: break;
  }
  return "tranship_attributes, which tranship_attributes_of() makes";
}

}  // namespace

bool is_handle(const void* handle, HandleKind kind) {
  if (handle == nullptr) return false;
  std::uint64_t found = 0;
  std::memcpy(&found, handle, sizeof found);
  return found == static_cast<std::uint64_t>(kind);
}

Status check_handle(const char* name, const void* handle, HandleKind kind) {
  if (Status given = check_given({{name, handle}}); !given) return given;
  if (is_handle(handle, kind)) return {};
  return Error{ErrorCode::invalid_argument,
               std::string("the argument `") + name + "` is a handle of another kind",
               std::string("pass ") + words_of(kind)};
}

Error closed_error() {
  return {ErrorCode::closed, "this staging client was closed", "open another one"};
}

Error forked_client_error() {
  return {ErrorCode::closed, "this process was forked after the staging client was opened",
          "open a staging client in this process"};
}

Result<std::shared_ptr<OpenStaging>> use(tranship_staging* staging, Arguments arguments) {
  Status given = check_handle("staging", staging, HandleKind::staging);
  if (given) given = check_given(arguments);
  if (!given) return given.error();
  // Checked before the lock, which a thread of the parent may have held at the fork.
  if (staging->generation != fork_generation()) return forked_client_error();
  const std::lock_guard lock(staging->mutex);
  if (!staging->open) return closed_error();
  return staging->open;
}

Result<Move> checked(const OpenStaging& open, const char* variable, const tranship_array* array,
                     double timeout) {
  auto made = array_of(*array, open.engine->gpus().get());
  if (!made) return made.error();
  const auto patience = duration(timeout);
  if (!patience) return patience.error();
  return Move{variable, std::move(*made), *box_of(*array), lower_of(*array), *patience};
}

Status put(Client& client, std::int64_t version, const Move& move) {
  return client.put(move.variable, version, move.array, move.lower,
                    {move.timeout, {}, false, move.step});
}

Status move_later(tranship_staging* staging, const char* variable, const tranship_array* array,
                  double timeout, const Later& later, Attempt attempt) {
  if (Status given = check_given({{"request", later.request}}); !given) return given;
  *later.request = nullptr;
  const auto open = use(staging, {{"variable", variable}, {"array", array}});
  if (!open) return open.error();
  auto move = checked(**open, variable, array, timeout);
  if (!move) return move.error();
  move->step = later.step;
  auto made = std::make_unique<tranship_request>();
  made->outcome = std::make_shared<Outcome>();
  Workers::Job job;
  job.ends = Workers::Clock::now() + move->timeout;
  job.attempt = [outcome = made->outcome, client = (*open)->client.get(), what = std::move(*move),
                 attempt = std::move(attempt)](std::chrono::milliseconds left, bool waits) {
    bool ended = true;
    Status status = caught([&]() -> Status {
      Move now = what;
      now.timeout = left;
      const auto done = attempt(*client, now, waits);
      if (done) ended = *done;
      return done ? Status{} : Status(done.error());
    });
    if (ended) outcome->end(std::move(status));
    return ended;
  };
  job.refuse = [outcome = made->outcome] { outcome->end(closed_error()); };
  job.lasting = later.lasting;
  if (!(*open)->workers->run(std::move(job))) return closed_error();
  *later.request = made.release();
  return {};
}

Result<bool> put_later(Client& client, std::int64_t version, const Move& move, bool waits) {
  if (!waits) {
    return client.put_at_once(move.variable, version, move.array, move.lower,
                              {move.timeout, {}, false, move.step});
  }
  const Status status = put(client, version, move);
  return status ? Result<bool>(true) : Result<bool>(status.error());
}

Status fill(tranship_variable& variable, const VariableInfo& info) {
  variable = {};
  if (info.type.size() >= sizeof variable.type) {
    return Error{ErrorCode::unsupported, "the variable \"" + info.name + "\" has elements of " +
                                             info.type + ", which C has no name for"};
  }
  std::copy(info.type.begin(), info.type.end(), variable.type);
  variable.rank = info.bounds.rank;
  variable.producers = info.producers;
  std::copy_n(info.bounds.lower.begin(), info.bounds.rank, variable.lower);
  std::copy_n(info.bounds.upper.begin(), info.bounds.rank, variable.upper);
  return {};
}

Status fill(tranship_variable& variable, const std::string& name,
            const staging::VersionExtent& extent) {
  VariableInfo info;
  info.name = name;
  info.type = extent.type;
  info.bounds = extent.box;
  Status status = fill(variable, info);
  for (int k = 0; status && k < extent.box.rank; ++k) {
    if ((extent.empty_dimensions >> k & 1U) != 0) variable.upper[k] = variable.lower[k];
  }
  return status;
}

}  // namespace tranship::c_api
