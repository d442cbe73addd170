// A client's requests about offers: objects that stay in their producers' memory.
#include "staging/client/catalog.hpp"

namespace tranship::staging {

Result<protocol::OffersLeft> Catalog::end_offers(int server,
                                                 const std::vector<std::uint64_t>& objects,
                                                 bool withdraw, std::int64_t end_ns) {
  protocol::OffersLeft all;
  ReplyBuffer reply(end_ns);
  for (std::size_t first = 0; first < objects.size(); first += offers_max) {
    const std::size_t count = std::min<std::size_t>(objects.size() - first, offers_max);
    const auto begin = objects.begin() + static_cast<std::ptrdiff_t>(first);
    const protocol::EndOffers end{{begin, begin + static_cast<std::ptrdiff_t>(count)}, withdraw};
    auto left = requester_.ask(server, end, reply);
    if (!left) return left.error();
    if (all.objects.empty()) all.why = std::move(left->why);
    all.objects.insert(all.objects.end(), left->objects.begin(), left->objects.end());
  }
  return all;
}

void Catalog::withdraw_later(const PreparedPut& put) {
  requester_.send(put.primary, message_of(protocol::EndOffers{{put.object}, true}));
  const PutRequest& request = put.request;
  const protocol::IndexEntryId entry{request.variable, request.version, {put.primary, put.object}};
  withdraw_entries_later(entry, put.indexed);
}

void Catalog::withdraw_entries_later(const protocol::IndexEntryId& entry,
                                     const std::vector<int>& servers) {
  for (const int server : servers) {
    requester_.send(server, message_of(protocol::WithdrawEntry{entry}));
  }
}

Status Catalog::withdraw_entries(const protocol::IndexEntryId& entry,
                                 const std::vector<int>& servers, std::int64_t end_ns) {
  SentRequests<protocol::WithdrawEntry> sent(end_ns);
  for (const int server : servers) {
    (void)requester_.send(server, protocol::WithdrawEntry{entry}, sent);
  }
  Status status;
  sent.take_replies([&](int, const Result<protocol::Done>& done) {
    const bool lost = !done && done.error().code == ErrorCode::peer_lost;  // and its index with it
    if (!done && !lost) status = done.error();
    return status || status.error().code != ErrorCode::cancelled;
  });
  return status;
}

Result<OfferedMemory> Catalog::find_offer(const StoredObject& object, std::int64_t end_ns) {
  ReplyBuffer reply(end_ns);
  auto found =
      requester_.ask(object.primary, protocol::QueryOffer{object.lease, object.object}, reply);
  if (!found) return found.error();
  return std::move(found->memory);
}

}  // namespace tranship::staging
