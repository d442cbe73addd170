#include "staging/client/offers.hpp"

#include <algorithm>
#include <utility>

#include "staging/model/residency.hpp"

namespace tranship::staging {
namespace {

/// Returns a name that no other export of this process has: several clients may share an engine.
std::string new_name() {
  static std::atomic<std::uint64_t> last{0};
  return "staging/offer/" + std::to_string(++last);
}

/// Returns whether a server that answers so knows the offer no more, and nobody finds it there.
bool is_lost(const Error& error) { return error.code == ErrorCode::peer_lost; }

}  // namespace

Result<OfferedMemory> Offers::share(Processes& processes, const Array& array) {
  if (processes.contact().empty()) {
    return Error{ErrorCode::invalid_argument,
                 "this client can offer nothing: no process may connect to its engine",
                 "open it with offers=True, or with an engine that has a contact"};
  }
  OfferedMemory memory{processes.contact(), new_name(), {}};
  Array shown = array;
  shown.writable = false;
  if (Status status = processes.export_array(memory.name, shown); !status) return status.error();
  return memory;
}

Error Offers::unshare(Processes& processes, const OfferedMemory& memory, const Error& why) {
  const Status ended = processes.withdraw(memory.name);
  if (ended || ended.error().code != ErrorCode::timeout) return why;
  // Its commit was carried out, although the answer has not come, and a get has found it.
  return {why.code, why.message + "; and the array is being read all the same",
          "do not change the array, which this process keeps until the engine has closed"};
}

OfferId Offers::add(const PreparedPut& put) {
  const std::lock_guard lock(mutex_);
  const OfferId id = ++last_;
  offers_[id] = {put.primary,
                 put.object,
                 put.offer->name,
                 {put.request.variable, put.request.version, {put.primary, put.object}},
                 put.indexed};
  return id;
}

std::optional<Offers::OpenOffer> Offers::open_offer(OfferId offer) const {
  const std::lock_guard lock(mutex_);
  const auto found = offers_.find(offer);
  return found == offers_.end() ? std::nullopt : std::optional(found->second);
}

std::map<int, std::vector<OfferId>> Offers::by_server() const {
  const std::lock_guard lock(mutex_);
  std::map<int, std::vector<OfferId>> all;
  for (const auto& [id, open] : offers_) all[open.primary].push_back(id);
  return all;
}

/// Asks the server whether an offer has ended; returns why not, or nothing.
Result<std::string> Offers::ask(OfferId offer, const OpenOffer& open, bool withdraw,
                                std::int64_t end_ns) {
  auto left = catalog_.end_offers(open.primary, {open.object}, withdraw, end_ns);
  if (!left && is_lost(left.error())) return std::string();
  if (!left) return left.error();
  if (withdraw && !open.withdrawn) {
    Status status = catalog_.withdraw_entries(open.entry, open.indexed, end_ns);
    if (!status) return status.error();
    const std::lock_guard lock(mutex_);
    const auto found = offers_.find(offer);
    if (found != offers_.end()) found->second.withdrawn = true;
  }
  if (left->objects.empty()) return std::string();
  return left->why.empty() ? "it is offered" : std::move(left->why);
}

Status Offers::end(Processes& processes, OfferId offer, bool withdraw, std::int64_t end_ns) {
  while (true) {
    const auto open = open_offer(offer);
    if (!open) return {};
    const std::uint64_t seen = catalog_.notices();
    const auto why = ask(offer, *open, withdraw, end_ns);
    if (!why) return why.error();
    if (why->empty()) return take_back(processes, offer, open->name, end_ns);
    if (Status status = catalog_.pause(seen, end_ns, *why); !status) return status;
  }
}

/// Ends the export of an offer that has ended at its server. A process whose connection to the
/// server was lost may still copy the array: the export ends with its copy, or with its process.
Status Offers::take_back(Processes& processes, OfferId offer, const std::string& name,
                         std::int64_t end_ns) {
  while (true) {
    Status status = processes.withdraw(name);
    if (status || status.error().code == ErrorCode::not_found) break;
    if (status.error().code != ErrorCode::timeout || catalog_.now_ns() >= end_ns) return status;
    Status more = catalog_.pause(catalog_.notices(), end_ns, status.error().message);
    if (!more) return more;
  }
  const std::lock_guard lock(mutex_);
  offers_.erase(offer);
  return {};
}

void Offers::sweep(Processes& processes, std::int64_t end_ns) {
  for (const auto& [server, ids] : by_server()) {
    std::map<std::uint64_t, std::pair<OfferId, std::string>> asked;
    std::vector<std::uint64_t> objects;
    for (const OfferId id : ids) {
      const auto open = open_offer(id);
      if (!open) continue;
      objects.push_back(open->object);
      asked.emplace(open->object, std::pair(id, open->name));
    }
    const auto left = catalog_.end_offers(server, objects, false, end_ns);
    if (!left && !is_lost(left.error())) continue;
    if (left) {
      for (const std::uint64_t object : left->objects) asked.erase(object);
    }
    for (const auto& [object, offer] : asked) {
      (void)take_back(processes, offer.first, offer.second, 0);
    }
  }
}

Status Offers::withdraw_all(std::int64_t end_ns) {
  Status status;
  for (const auto& [server, ids] : by_server()) {
    std::vector<std::uint64_t> objects;
    for (const OfferId id : ids) {
      const auto open = open_offer(id);
      if (!open) continue;
      objects.push_back(open->object);
      catalog_.withdraw_entries_later(open->entry, open->indexed);
    }
    const Status one = wait_until_unread(server, objects, end_ns);
    if (!one) status = one;
  }
  return status;
}

/// Withdraws offers at one server, and waits until nobody reads them.
Status Offers::wait_until_unread(int server, const std::vector<std::uint64_t>& objects,
                                 std::int64_t end_ns) {
  while (true) {
    const std::uint64_t seen = catalog_.notices();
    const auto left = catalog_.end_offers(server, objects, true, end_ns);
    if (!left) return is_lost(left.error()) ? Status{} : Status(left.error());
    if (left->objects.empty()) return {};
    if (Status status = catalog_.pause(seen, end_ns, left->why); !status) return status;
  }
}

Status Offers::take_back_all(Processes& processes, std::int64_t end_ns) {
  Status status;
  for (const auto& [server, ids] : by_server()) {
    for (const OfferId id : ids) {
      const auto open = open_offer(id);
      if (!open) continue;
      const bool late = catalog_.now_ns() >= end_ns;
      const Status one = late ? Status(Error{ErrorCode::timeout, "an array may still be read"})
                              : take_back(processes, id, open->name, 0);
      if (!one) status = one;
    }
  }
  return status;
}

}  // namespace tranship::staging
