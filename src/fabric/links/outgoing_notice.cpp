#include "fabric/links/outgoing_notice.hpp"

#include <optional>

namespace tranship::fabric {

bool OutgoingNotice::send_here(std::chrono::nanoseconds at_most) {
  Link& link = array_->link();
  Requester& requester = *link.requester;
  const bool alone = link.notices_queued.load() == 0 && !requester.outstanding();
  if (!alone || array_->withdrawn() || requester.lost()) return false;
  const auto queue = std::make_shared<FinishedQueue>();
  const Requester::Transfer transfer{{}, array_->remote(), Operation::notice};
  auto status = requester.notice_here(transfer, body_, queue, at_most, link.bell());
  if (status && *status) return true;
  sent_ = queue;
  if (status) sent_->push({0, std::move(*status)});
  return false;
}

}  // namespace tranship::fabric
