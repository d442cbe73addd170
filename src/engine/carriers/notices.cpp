// Notices to the owners of arrays, behind the copies that they report.
#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "engine/carriers/carriers.hpp"
#include "fabric/links/outgoing_notice.hpp"

namespace tranship {
namespace {

using Notices = std::vector<std::shared_ptr<fabric::OutgoingNotice>>;

/// How long the caller of a copy that has ended waits for the end of its notice, before a channel's
/// thread does.
constexpr std::chrono::milliseconds notice_wait{2};

/// Returns the array of another process that an end of a copy is; null if it is this process's.
const fabric::RemoteArray* remote_of(const Array& array) {
  if (array.liveness) return &array.liveness->remote();
  const bool remote =
      array.memory_kind == MemoryKind::near_process || array.memory_kind == MemoryKind::far_process;
  return remote ? static_cast<const fabric::RemoteArray*>(array.place.attachment) : nullptr;
}

/// What a pair of arrays reports: to the owner of the target, or else to that of the source.
struct Reported {
  const Array* array = nullptr;
  const fabric::RemoteArray* remote = nullptr;  ///< null: both arrays are of this process
  bool written = true;
};

Reported reported(const CopyPair& pair) {
  const Reported target{&pair.target, remote_of(pair.target), true};
  return target.remote != nullptr ? target : Reported{&pair.source, remote_of(pair.source), false};
}

/// Returns one notice for each process of whose arrays some are written, and one for each of whose
/// arrays some are read.
Result<Notices> notices_of(std::span<const CopyPair> pairs, std::string_view name) {
  if (Status status = fabric::check_notice_name(name); !status) return status.error();
  Notices notices;
  std::vector<std::pair<const fabric::Link*, bool>> known;
  for (const CopyPair& pair : pairs) {
    const auto [array, remote, written] = reported(pair);
    if (remote == nullptr) continue;
    if (!remote->takes_notices()) {
      return invalid(remote->link().label + " takes no notices of copies to and from \"" +
                         remote->name() + "\"",
                     "let it export the array with the option notices, or leave out notify");
    }
    const std::pair<const fabric::Link*, bool> one{&remote->link(), written};
    if (std::find(known.begin(), known.end(), one) != known.end()) continue;
    known.push_back(one);
    // The array's owner keeps the remote array.
    std::shared_ptr<fabric::RemoteArray> kept(array->owner,
                                              const_cast<fabric::RemoteArray*>(remote));
    notices.push_back(std::make_shared<fabric::OutgoingNotice>(
        std::move(kept), fabric::encode_notice(name, written)));
  }
  if (!notices.empty()) return notices;
  return invalid("notify was given, and no array of the copy is another process's",
                 "leave out notify, or copy to or from an array of a peer");
}

}  // namespace

Result<Event> Carriers::start_and_notify(const Recipe& recipe, std::span<const CopyPair> pairs,
                                         const StartOptions& options,
                                         const std::shared_ptr<void>& owner) const {
  auto notices = notices_of(pairs, options.notify);
  if (!notices) return notices.error();
  if (is_captured(options, pairs[0])) {
    return invalid("the stream is being captured, and a graph holds no notices",
                   "leave out notify, or copy outside of the capture");
  }
  StartOptions unnoticed = options;
  unnoticed.notify = {};
  auto copied = start(recipe, pairs, unnoticed, owner);
  if (!copied) return copied;
  for (const Event& part : copied->parts()) {
    if (part.done() && !part.wait({})) return copied;  // it sends no notice
  }
  if (copied->ended_well()) {
    const auto entered = lifetime_.enter();
    while (entered && !notices->empty() && notices->back()->send_here(notice_wait)) {
      notices->pop_back();
    }
    if (notices->empty()) return copied;
  }
  StartOptions follows;
  follows.after = {*copied};
  const auto after = Waits(channels_, lifetime_, follows).completions({}, -1);
  if (!after) return after.error();
  const int priority = recipe.steps.empty() ? 0 : recipe.steps[0].priority;
  std::vector<Event> sent;
  for (auto& notice : *notices) {
    notice->queue();
    sent.push_back(start_notice(std::move(notice), priority, *after));
  }
  return copied->followed_by(std::move(sent));
}

}  // namespace tranship
