#include "staging/client/room_finder.hpp"

#include <algorithm>

namespace tranship::staging {

Result<bool> RoomFinder::ask(int server, Effort effort, const std::vector<int>& index_servers,
                             PreparedPut& put, std::string& why) {
  put.overflow =
      std::find(index_servers.begin(), index_servers.end(), server) == index_servers.end();
  ReplyBuffer reply(put.end_ns);
  protocol::Begin begin{put.request, effort, put.ready};
  if (put.overflow) begin.index_servers = index_servers;
  const auto answer = requester_.ask_undoable(server, std::move(begin), reply);
  if (!answer) return answer.error();
  if (const auto* wait = std::get_if<protocol::Wait>(&*answer)) {
    why = wait->why;
    return false;
  }
  put.stale = std::holds_alternative<protocol::Stale>(*answer);
  if (put.stale) return true;  // the caller begins again
  const auto& here = std::get<protocol::RoomGranted>(*answer);
  put.primary = server;
  put.object = here.object;
  put.range = here.range;
  requester_.report_orphans(server, here.orphans);
  return true;
}

Status RoomFinder::find(const std::vector<int>& candidates, const std::vector<int>& index_servers,
                        PreparedPut& put, std::int64_t end_ns,
                        const std::function<Status()>& look) {
  while (true) {
    const std::uint64_t seen = requester_.notices();
    std::string why;
    if (candidates.size() > 1) {
      const auto placed = ask(candidates[0], Effort::discard, index_servers, put, why);
      if (!placed) return placed.error();
      if (*placed) return {};
    }
    for (std::size_t k = 1; k < candidates.size() && requester_.now_ns() < end_ns; ++k) {
      const auto placed = ask(candidates[k], Effort::free_memory, index_servers, put, why);
      if (placed && *placed) return {};
    }
    const auto placed = ask(candidates[0], Effort::all, index_servers, put, why);
    if (!placed) return placed.error();
    if (*placed) return {};
    if (Status status = look(); !status) return status;
    if (Status status = requester_.pause(seen, end_ns, why); !status) return status;
  }
}

Status RoomFinder::begin_offer(int preferred, PreparedPut& put) {
  ReplyBuffer reply(put.end_ns);
  const auto answer =
      requester_.ask_undoable(preferred, protocol::Offer{put.request, *put.offer}, reply);
  if (!answer) return answer.error();
  put.stale = std::holds_alternative<protocol::Stale>(*answer);
  if (put.stale) return {};
  const auto& begun = std::get<protocol::OfferBegun>(*answer);
  put.primary = preferred;
  put.object = begun.object;
  requester_.report_orphans(preferred, begun.orphans);
  return {};
}

Status RoomFinder::index(const std::vector<int>& index_servers, PreparedPut& put) {
  const protocol::Index index{put.request, {put.primary, put.object}, put.overflow};
  put.index_requests = SentRequests<protocol::Index>(put.end_ns);
  for (const int index_server : index_servers) {
    if (index_server == put.primary) continue;
    put.indexed.push_back(index_server);  // even if no reply comes: the server may have indexed it
    if (Status status = requester_.send(index_server, index, put.index_requests); !status) {
      return status;
    }
  }
  return {};
}

Status RoomFinder::finish_index(PreparedPut& put) {
  Status status;
  put.index_requests.take_replies([&](int server, const Result<protocol::Index::Reply>& answer) {
    if (!answer) {
      status = answer.error();
      return false;
    }
    const auto* indexed = std::get_if<protocol::Ordered>(&*answer);
    put.stale = indexed == nullptr;
    if (put.stale) return false;
    put.order_before = std::max(put.order_before, indexed->order);
    requester_.report_orphans(server, indexed->orphans);
    return true;
  });
  return status;
}

}  // namespace tranship::staging
