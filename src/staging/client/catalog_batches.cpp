// Gets of many boxes whose requests leave together.
#include <utility>

#include "staging/client/catalog.hpp"

namespace tranship::staging {

/// Returns the index servers of boxes; nothing for variables that do not exist, or have another
/// number of dimensions.
Result<std::vector<std::optional<Catalog::IndexServers>>> Catalog::index_servers_of_all(
    std::span<const GetRequest> requests, std::int64_t end_ns) {
  std::vector<std::optional<IndexServers>> all(requests.size());
  if (distribution_.servers() == 1) {
    all.assign(requests.size(), IndexServers{{0}, {}});
    return all;
  }
  const auto place = [&](std::size_t k, const VariableMetadata& metadata) {
    const GetRequest& request = requests[k];
    if (metadata.cells.rank != request.box.rank) return;
    all[k] = {distribution_.index_servers(request.variable, metadata.cells, request.box),
              metadata.incarnation};
  };
  BatchedRequests<protocol::Describe> describes(requester_, end_ns);
  std::vector<std::size_t> asked;
  for (std::size_t k = 0; k < requests.size(); ++k) {
    const std::string& variable = requests[k].variable;
    if (const auto known = known_.find(variable)) {
      place(k, known->metadata);
      continue;
    }
    asked.push_back(k);
    Status status = describes.add(distribution_.metadata_server(variable), {variable, false});
    if (!status) return status.error();
  }
  Status status;
  const Status sent = describes.take_replies([&](std::size_t number,
                                                 Result<protocol::Describe::Reply>& answer) {
    if (!answer) {
      status = answer.error();
      return false;
    }
    const std::size_t k = asked[number];
    if (auto* described = std::get_if<protocol::Described>(&*answer)) {
      place(
          k,
          known_.remember(requests[k].variable, {std::move(described->metadata), false}).metadata);
    }
    return true;
  });
  if (!sent || !status) return sent ? status.error() : sent.error();
  return all;
}

Result<std::vector<std::size_t>> Catalog::get_all(
    std::span<const GetRequest> requests, std::int64_t end_ns,
    const std::function<Status(std::size_t, LeasedBox)>& take) {
  const auto places = index_servers_of_all(requests, end_ns);
  if (!places) return places.error();
  BatchedRequests<protocol::Get> gets(requester_, end_ns);
  std::vector<bool> taken(requests.size());
  std::vector<std::size_t> asked;
  for (std::size_t k = 0; k < requests.size(); ++k) {
    const auto& place = (*places)[k];
    if (!place || place->servers.size() > 1) continue;
    GetRequest request = requests[k];
    request.incarnation = place->incarnation;
    asked.push_back(k);
    if (Status status = gets.add(place->servers[0], {request}); !status) return status.error();
  }
  Status status;
  const Status sent =
      gets.take_replies([&](std::size_t number, Result<protocol::Get::Reply>& answer) {
        const std::size_t k = asked[number];
        const int server = (*places)[k]->servers[0];
        const auto* objects = answer ? std::get_if<protocol::Objects>(&*answer) : nullptr;
        if (objects != nullptr && objects->left > 0) {
          // Further messages would have room for more objects than a part of a batch has.
          requester_.send(server, message_of(protocol::Release{objects->found.lease}));
          return true;
        }
        auto found = search_.read_got(requests[k], server, answer, end_ns);
        auto* held = found ? std::get_if<LeasedBox>(&*found) : nullptr;
        // What is being shown of a step that has ended may change the box.
        const bool certain = held != nullptr && held->step == 0;
        if (!found) status = found.error();
        if (held != nullptr && !certain) release(*held);
        if (certain) {
          held->variable = requests[k].variable;
          taken[k] = true;
          status = take(k, std::move(*held));
        }
        return status.ok();
      });
  if (!sent || !status) return sent ? status.error() : sent.error();
  std::vector<std::size_t> left;
  for (std::size_t k = 0; k < requests.size(); ++k) {
    if (!taken[k]) left.push_back(k);
  }
  return left;
}

}  // namespace tranship::staging
