#include "staging/client/put_batch.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace tranship::staging {

Status PutBatch::begin(std::span<const PutRequest> requests) {
  Status status = declare(requests);
  if (status) status = find_room(requests);
  if (status) status = index();
  if (!status) give_back_all();
  return status;
}

/// Announces this client to the metadata servers of variables to which it has not put before.
Status PutBatch::declare(std::span<const PutRequest> requests) {
  variables_.resize(requests.size());
  BatchedRequests<protocol::Declare> declares(requester_, end_ns_);
  std::vector<std::size_t> asked;
  std::set<std::string_view> names;
  for (std::size_t k = 0; k < requests.size(); ++k) {
    const PutRequest& request = requests[k];
    if (!names.insert(request.variable).second) {
      left_.push_back(k);
      continue;
    }
    variables_[k] = known_.find_declared(request);
    if (variables_[k]) continue;
    asked.push_back(k);
    const int metadata_server = distribution_.metadata_server(request.variable);
    if (Status status = declares.add(metadata_server, {request, false}); !status) return status;
  }
  Status status;
  const Status sent =
      declares.take_replies([&](std::size_t number, Result<protocol::Declared>& answer) {
        const std::size_t k = asked[number];
        if (answer) {
          variables_[k] =
              known_.remember(requests[k].variable, {std::move(answer->metadata), true});
        } else {
          status = answer.error();
        }
        return status.ok();
      });
  return sent ? status : sent;
}

/// Asks the preferred servers for room. What they do not grant at once is put alone.
Status PutBatch::find_room(std::span<const PutRequest> requests) {
  BatchedRequests<protocol::Begin> begins(requester_, end_ns_);
  std::vector<Begun> asked;
  asked.reserve(requests.size());
  for (std::size_t k = 0; k < requests.size(); ++k) {
    if (!variables_[k]) continue;
    const VariableMetadata& metadata = variables_[k]->metadata;
    const PutRequest& request = requests[k];
    const auto candidates =
        distribution_.storage_servers(request.variable, metadata.cells, request.box);
    Begun& one = asked.emplace_back(Begun{k});
    one.put.request = request;
    one.put.request.incarnation = metadata.incarnation;
    one.put.end_ns = end_ns_;
    one.put.primary = candidates[0];
    const Effort effort = candidates.size() > 1 ? Effort::discard : Effort::all;
    Status status = begins.add(one.put.primary, {one.put.request, effort});
    if (!status) return status;
  }
  for (const Begun& one : asked) progress_.begin(one.put.request.variable, one.put.request.version);
  Status status;
  RequestSender::NamedOrphans orphans;
  std::vector<bool> granted(asked.size());
  const Status sent =
      begins.take_replies([&](std::size_t number, Result<protocol::Begin::Reply>& answer) {
        PreparedPut& put = asked[number].put;
        if (!answer) {
          status = answer.error();
          return false;
        }
        if (auto* room = std::get_if<protocol::RoomGranted>(&*answer)) {
          granted[number] = true;
          put.object = room->object;
          put.range = room->range;
          orphans.emplace_back(put.primary, std::move(room->orphans));
        } else if (std::holds_alternative<protocol::Stale>(*answer)) {
          known_.forget(put.request.variable);
        }
        return true;
      });
  requester_.report_orphans(orphans);
  begun_.reserve(asked.size());
  for (std::size_t k = 0; k < asked.size(); ++k) {
    const PutRequest& request = asked[k].put.request;
    if (granted[k]) {
      begun_.push_back(std::move(asked[k]));
    } else {
      progress_.give_up(request.variable, request.version);
      left_.push_back(asked[k].number);
    }
  }
  return sent ? status : sent;
}

/// Asks the other index servers of the boxes to index the objects, which they do while these are
/// copied.
Status PutBatch::index() {
  for (std::size_t k = 0; k < begun_.size(); ++k) {
    PreparedPut& put = begun_[k].put;
    const PutRequest& request = put.request;
    const Cells& cells = variables_[begun_[k].number]->metadata.cells;
    for (const int server : distribution_.index_servers(request.variable, cells, request.box)) {
      if (server == put.primary) continue;
      put.indexed.push_back(server);
      indexed_.emplace_back(k, server);
      Status status = indexes_.add(server, {request, {put.primary, put.object}, false});
      if (!status) return status;
    }
  }
  return indexes_.send();
}

Status PutBatch::finish_index() {
  Status status;
  RequestSender::NamedOrphans orphans;
  const Status sent =
      indexes_.take_replies([&](std::size_t number, Result<protocol::Index::Reply>& answer) {
        const auto [place, server] = indexed_[number];
        PreparedPut& put = begun_[place].put;
        if (!answer) {
          status = answer.error();
          return false;
        }
        if (auto* indexed = std::get_if<protocol::Ordered>(&*answer)) {
          put.order_before = std::max(put.order_before, indexed->order);
          orphans.emplace_back(server, std::move(indexed->orphans));
        } else {
          put.stale = true;
        }
        return true;
      });
  requester_.report_orphans(orphans);
  return sent ? status : sent;
}

Status PutBatch::commit() {
  Status status = finish_index();
  if (!status) {
    give_back_all();
    return status;
  }
  for (Begun& one : begun_) {
    if (!one.put.stale) continue;
    known_.forget(one.put.request.variable);
    left_.push_back(one.number);
    give_back(one);
  }
  std::erase_if(begun_, [](const Begun& one) { return one.put.stale; });
  std::sort(left_.begin(), left_.end());
  RequestSender::NamedOrphans orphans;
  status = commit_all(orphans);
  confirm_all(orphans);
  requester_.report_orphans(orphans);
  begun_.clear();
  return status;
}

/// Sends the commits, and keeps those of begun_ that were carried out.
Status PutBatch::commit_all(RequestSender::NamedOrphans& orphans) {
  BatchedRequests<protocol::Commit> commits(requester_, end_ns_);
  std::vector<bool> finishes;
  Status status;
  for (const Begun& one : begun_) {
    const PutRequest& request = one.put.request;
    finishes.push_back(progress_.finishes(request.variable, request.version));
    protocol::Commit commit;
    commit.object = one.put.object;
    commit.order_before = one.put.order_before;
    commit.variable = request.variable;
    commit.bytes = request.box.points() * request.element_bytes;
    commit.path = one.path;
    commit.checksum = one.checksum;
    commit.version = request.version;
    commit.finishes = finishes.back();
    if (status = commits.add(one.put.primary, std::move(commit)); !status) break;
  }
  std::vector<bool> visible(begun_.size());
  const Status sent =
      !status ? status
              : commits.take_replies([&](std::size_t number, Result<protocol::Ordered>& answer) {
                  // Others may be visible: their index servers learn it, whatever one has met.
                  PreparedPut& put = begun_[number].put;
                  if (!answer) {
                    if (status) status = answer.error();
                    return true;
                  }
                  visible[number] = true;
                  put.order_before = answer->order;
                  orphans.emplace_back(put.primary, std::move(answer->orphans));
                  return true;
                });
  std::vector<Begun> kept;
  std::vector<bool> finished;
  for (std::size_t k = 0; k < begun_.size(); ++k) {
    const PutRequest& request = begun_[k].put.request;
    if (!visible[k]) {
      progress_.give_up(request.variable, request.version);
      continue;
    }
    kept.push_back(std::move(begun_[k]));
    finished.push_back(finishes[k]);
  }
  begun_ = std::move(kept);
  tell_parts(finished);
  return sent ? status : sent;
}

/// Tells the metadata servers that were no primaries that this client has put, and all which
/// versions it has left by going on to others.
void PutBatch::tell_parts(const std::vector<bool>& finishes) {
  BatchedRequests<protocol::Finish> told(requester_);
  for (std::size_t k = 0; k < begun_.size(); ++k) {
    const PreparedPut& put = begun_[k].put;
    const PutRequest& request = put.request;
    const int metadata_server = distribution_.metadata_server(request.variable);
    if (put.primary != metadata_server) {
      (void)told.add(metadata_server, {request.variable, request.version, request.version,
                                       finishes[k], false, true});
    }
    for (const auto& [first, last] :
         progress_.commit(request.variable, request.version, finishes[k])) {
      (void)told.add(metadata_server, {request.variable, first, last});
    }
  }
  told.tell();
}

/// Tells the other index servers the orders of the objects, as Catalog::commit() does.
void PutBatch::confirm_all(RequestSender::NamedOrphans& orphans) {
  BatchedRequests<protocol::Confirm> confirms(requester_, end_ns_);
  std::vector<int> servers;
  for (const Begun& one : begun_) {
    const PreparedPut& put = one.put;
    for (const int server : put.indexed) {
      const protocol::IndexEntryId entry{
          put.request.variable, put.request.version, {put.primary, put.object}};
      if (confirms.add(server, {entry, put.order_before})) servers.push_back(server);
    }
  }
  (void)confirms.take_replies([&](std::size_t number, Result<protocol::Confirm::Reply>& answer) {
    if (answer) orphans.emplace_back(servers[number], std::move(answer->orphans));
    return answer || answer.error().code != ErrorCode::cancelled;
  });
}

void PutBatch::give_back(Begun& one) {
  const PutRequest& request = one.put.request;
  progress_.give_up(request.variable, request.version);
  requester_.send(one.put.primary, message_of(protocol::Abort{one.put.object}));
  const protocol::IndexEntryId entry{
      request.variable, request.version, {one.put.primary, one.put.object}};
  for (const int server : one.put.indexed) {
    requester_.send(server, message_of(protocol::Unindex{entry}));
  }
}

void PutBatch::give_back_all() {
  indexes_.drop();  // what follows on a link comes after them
  for (Begun& one : begun_) give_back(one);
  begun_.clear();
}

}  // namespace tranship::staging
