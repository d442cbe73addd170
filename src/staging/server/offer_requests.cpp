// Requests about offers: objects that stay in their producers' memory.
#include <utility>

#include "staging/server/service.hpp"

namespace tranship::staging {

Result<std::size_t> Service::on(ClientConnection from, const protocol::Offer& request,
                                ReplyTo<protocol::Offer> reply) {
  const PutRequest& put = request.object;
  if (draining_) return closing();
  if (Status status = check_step(from, put.step); !status) return status.error();
  if (is_stale(put.variable, put.incarnation)) return reply(protocol::Stale{});
  OfferedMemory memory = request.memory;
  memory.producer = clients_.at(from).name;
  const auto begun = store_.begin_offer(from, put, std::move(memory), request.request_id);
  if (!begun) return begun.error();
  traffic_.try_emplace(put.variable);
  return reply(protocol::OfferBegun{*begun, store_.take_orphans(orphans_max)});
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::EndOffers& request,
                                ReplyTo<protocol::EndOffers> reply) {
  const auto name_of = [this](ClientConnection client) {
    const auto known = clients_.find(client);
    return known == clients_.end() ? std::string("a client that was lost") : known->second.name;
  };
  protocol::OffersLeft left;
  for (const std::uint64_t object : request.objects) {
    if (request.withdraw) store_.withdraw_offer(from, object);
    if (!store_.has_offer(from, object)) continue;
    if (left.objects.empty()) left.why = store_.why_offered(object, name_of);
    left.objects.push_back(object);
    waiting_.add(ObjectStore::offer_watch(object), from);
  }
  return reply(left);
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::WithdrawEntry& request,
                                ReplyTo<protocol::WithdrawEntry> reply) {
  const protocol::IndexEntryId& entry = request.entry;
  store_.withdraw_entry(from, entry.variable, entry.version, entry.id);
  return reply(protocol::Done{});
}

Result<std::size_t> Service::on(ClientConnection from, const protocol::QueryOffer& request,
                                ReplyTo<protocol::QueryOffer> reply) {
  auto memory = store_.find_offer(from, request.lease, request.object);
  if (!memory) return memory.error();
  return reply(protocol::OfferFound{std::move(*memory)});
}

}  // namespace tranship::staging
