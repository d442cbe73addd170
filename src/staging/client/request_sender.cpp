#include "staging/client/request_sender.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace tranship::staging {
namespace {

Error late(const std::string& why) {
  return {ErrorCode::timeout, "timed out: " + why, "wait longer, or look with: tranship ls"};
}

/// A search tries so many other versions before the time of its call counts.
constexpr int versions_free = 1024;

/// What the calling thread's NoWaits has met; null: it has none.
thread_local bool* waits_met = nullptr;

}  // namespace

NoWaits::NoWaits() { waits_met = &met_; }

NoWaits::~NoWaits() { waits_met = nullptr; }

NoWaits::Lifted::Lifted() : met_(std::exchange(waits_met, nullptr)) {}

NoWaits::Lifted::~Lifted() { waits_met = met_; }

bool NoWaits::met_now() { return waits_met != nullptr && *waits_met; }

bool NoWaits::forbid() {
  if (waits_met == nullptr) return false;
  *waits_met = true;
  return true;
}

Status RequestSender::pause(std::uint64_t seen, std::int64_t end_ns, const std::string& why) {
  const std::int64_t now = servers_.now_ns();
  if (NoWaits::forbid() || now >= end_ns) return late(why);
  if (interrupted_ && interrupted_()) return Error{ErrorCode::cancelled, "interrupted"};
  servers_.wait(seen, std::min(end_ns, now + look_again_ns));
  return {};
}

Status RequestSender::continue_search(int rounds, std::int64_t end_ns,
                                      const std::string& why) const {
  if (rounds < versions_free) return {};
  if (servers_.now_ns() >= end_ns) return late(why);
  if (interrupted_ && interrupted_()) return Error{ErrorCode::cancelled, "interrupted"};
  return {};
}

void RequestSender::report_orphans(const NamedOrphans& named) {
  SentRequests<protocol::DropOrphans> sent;
  for (const auto& [server, orphans] : named) {
    std::map<int, std::vector<Orphan>> by_primary;
    for (const Orphan& orphan : orphans) by_primary[orphan.primary].push_back(orphan);
    for (auto& [primary, its] : by_primary) {
      if (primary >= servers_.count()) continue;
      (void)send(primary, protocol::DropOrphans{server, std::move(its)}, sent);
    }
  }
  sent.take_replies([](int, const auto&) { return true; });
}

}  // namespace tranship::staging
