// Arrays that a client offers, and those that others offer to it.
#include "fabric/messages/contact.hpp"
#include "staging/client/client.hpp"

namespace tranship::staging {
namespace {

/// Times that an offer begins again because its variable was deleted meanwhile.
constexpr int offer_attempts_max = 8;
/// In lists, the path of an object that was not copied.
constexpr const char* offer_path = "offer";

}  // namespace

/// Lets clients of the servers connect over a network, with the key of the first one's contact
/// file.
void Client::accept_readers(const std::string& contact) {
  auto processes = engine_.processes();
  if (!processes || (*processes)->contact().empty()) return;
  const auto read = fabric::read_contact(contact);
  if (read && read->key) (*processes)->accept_key_if_free(*read->key);
}

Result<OfferId> Client::offer(const std::string& variable, std::int64_t version, const Array& array,
                              const std::vector<std::int64_t>& lower, const PutOptions& options) {
  OfferId offered = 0;
  const Status status =
      call([&] { return put_inside(variable, version, array, lower, options, &offered); });
  return status ? Result<OfferId>(offered) : Result<OfferId>(status.error());
}

Result<std::string> Client::offer_object(const Putting& put) {
  auto processes = engine_.processes();
  if (!processes) return processes.error();
  if (!offers_->empty()) offers_->sweep(**processes, put.end_ns);
  if (Status status = await(put.after, put.end_ns); !status) return status.error();
  for (int attempt = 1;; ++attempt) {
    const auto memory = offers_->share(**processes, put.array);
    if (!memory) return memory.error();
    bool stale = false;
    const auto offer = offer_once(put, *memory, stale);
    if (offer) {
      *put.offered = *offer;
      return std::string(offer_path);
    }
    const Error why = offers_->unshare(**processes, *memory, offer.error());
    if (!stale || attempt == offer_attempts_max) return why;
  }
}

/// Sets `stale` with the error if the variable was deleted meanwhile.
Result<OfferId> Client::offer_once(const Putting& put, const OfferedMemory& memory, bool& stale) {
  auto begun = catalog_.begin_offer(put.request, memory, put.end_ns);
  if (!begun) return begun.error();
  Checksum checksum;
  if (put.checksum) {
    const auto made = checksum_of(put.array);
    if (!made) {
      catalog_.abort(*begun);
      return made.error();
    }
    checksum = *made;
  }
  const Status status = catalog_.commit(*begun, offer_path, checksum);
  if (status) return offers_->add(*begun);
  stale = begun->stale;
  if (!stale) catalog_.withdraw_later(*begun);  // the commit may still be carried out
  return status.error();
}

Status Client::end_offer(OfferId offer, bool withdraw, std::chrono::milliseconds timeout) {
  return call([&]() -> Status {
    auto processes = engine_.processes();
    if (!processes) return processes.error();
    return offers_->end(**processes, offer, withdraw, end_ns(timeout));
  });
}

Result<bool> Client::offer_has_ended(OfferId offer) {
  const Status status = end_offer(offer, false, {});
  if (status) return true;
  return status.error().code == ErrorCode::timeout ? Result<bool>(false)
                                                   : Result<bool>(status.error());
}

Result<Array> Client::offered_array(const LeasedBox& held, const StoredObject& object,
                                    std::int64_t end) {
  auto processes = engine_.processes();
  if (!processes) return processes.error();
  const auto ending = ending_;
  const Patience patience{links_->wait_of(end), [ending] { return ending->now(); }};
  return offered_->find(*processes, {held, object, patience, end});
}

/// Returns why a box was not copied: see OfferedArrays::why_failed().
Status Client::why_uncopied(const LeasedBox& held, const Status& status, std::int64_t end) {
  auto processes = engine_.processes();
  return processes ? Status(offered_->why_failed(**processes, held, status.error(), end)) : status;
}

}  // namespace tranship::staging
