// Requests about variables as a whole: their metadata, lists, discarding and deleting.
#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "staging/client/catalog.hpp"

namespace tranship::staging {
namespace {

/// Bound of the variables and versions that a client lists of one server. No server has so many.
constexpr std::size_t listed_max = std::size_t{1} << 26;

/// Adds the entry of a variable in one page of one server's list.
void merge(std::map<std::string, VariableInfo>& all, VariableInfo info) {
  const auto [found, is_new] = all.emplace(info.name, info);
  if (is_new) return;
  VariableInfo& known = found->second;
  if (known.bounds.rank == info.bounds.rank) known.bounds = around(known.bounds, info.bounds);
  known.producers = std::max(known.producers, info.producers);
  known.traffic.puts.add(info.traffic.puts);
  known.traffic.gets.add(info.traffic.gets);
  std::map<std::int64_t, VersionInfo> versions;
  for (const VersionInfo& one : known.versions) versions[one.version] = one;
  for (const VersionInfo& one : info.versions) {
    VersionInfo& version = versions[one.version];
    version.version = one.version;
    version.objects += one.objects;
    version.bytes += one.bytes;
  }
  known.versions.clear();
  for (const auto& [number, version] : versions) known.versions.push_back(version);
}

/// Returns whether a variable, or more of it, may follow what was listed before.
bool comes_after(const protocol::List& list, const VariableInfo& info) {
  if (info.name != list.after) return info.name > list.after;
  return !info.versions.empty() && info.versions.front().version > list.after_version;
}

}  // namespace

Result<VariableInfo> Catalog::describe(const std::string& variable, bool bounds,
                                       std::int64_t end_ns) {
  const auto described = ask_metadata_server({variable, false}, end_ns);
  if (!described) return described.error();
  const VariableMetadata& metadata = described->metadata;
  VariableInfo info{variable, metadata.type,     metadata.element_bytes, metadata.first,
                    {},       metadata.producers};
  if (metadata.domain) {
    info.bounds = *metadata.domain;
    return info;
  }
  if (!bounds) return info;
  const auto all = bounds_of_all(variable, *described, end_ns);
  if (!all) return all.error();
  if (*all) info.bounds = **all;
  return info;
}

/// Returns the box around all that was ever put to a variable; nothing if there is none.
Result<std::optional<Box>> Catalog::bounds_of_all(const std::string& variable,
                                                  const protocol::Described& described,
                                                  std::int64_t end_ns) {
  std::optional<Box> all = described.bounds;
  ReplyBuffer reply(end_ns);
  for (int server = 0; server < distribution_.servers(); ++server) {
    if (server == distribution_.metadata_server(variable)) continue;
    const auto answer = requester_.ask(server, protocol::Bounds{variable}, reply);
    if (!answer) return answer.error();
    const auto& box = answer->bounds;
    if (box && box->rank != described.metadata.first.rank) return not_a_server();
    if (box) all = all ? around(*all, *box) : *box;
  }
  return all;
}

Status Catalog::discard(const std::string& variable, std::int64_t version) {
  std::vector<int> without;
  Status missing;
  bool any = false;
  ReplyBuffer reply;
  const auto discard_at = [&](int server) -> Status {
    const auto answer = requester_.ask(server, protocol::Discard{variable, version}, reply);
    if (!answer) return answer.error();
    requester_.report_orphans(server, answer->orphans);
    return {};
  };
  for (int server = 0; server < distribution_.servers(); ++server) {
    const Status status = discard_at(server);
    any = any || status;
    if (status) continue;
    if (status.error().code != ErrorCode::not_found) return status;
    missing = status;
    without.push_back(server);
  }
  if (!any) return missing;
  return without.empty() ? Status{} : discard_too(without, variable, version);
}

/// Has servers that had nothing of a version discard it as well. They may have begun puts of it
/// meanwhile, and a later put of a box that only such servers index would bring it back.
Status Catalog::discard_too(const std::vector<int>& servers, const std::string& variable,
                            std::int64_t version) {
  ReplyBuffer reply;
  const auto described = requester_.ask(distribution_.metadata_server(variable),
                                        protocol::Describe{variable, false}, reply);
  if (!described) return described.error();
  const auto* known = std::get_if<protocol::Described>(&*described);
  if (known == nullptr) return {};  // the variable was deleted meanwhile
  const VariableMetadata& metadata = known->metadata;
  const protocol::DiscardToo discard{{variable, version, metadata.first, metadata.type,
                                      metadata.element_bytes, metadata.incarnation}};
  for (const int server : servers) {
    const auto answer = requester_.ask(server, discard, reply);
    // A later variable of that name has no such version.
    if (!answer && answer.error().code == ErrorCode::not_found) continue;
    if (!answer) return answer.error();
    const auto* done = std::get_if<protocol::DoneWithOrphans>(&*answer);
    if (done != nullptr) requester_.report_orphans(server, done->orphans);
  }
  return {};
}

/// The metadata server first: whoever begins anew from then on begins another variable of that
/// name.
Status Catalog::remove(const std::string& variable) {
  ReplyBuffer reply;
  std::uint64_t number = 0;
  bool any = false;
  const auto remove_at = [&](int server) -> Status {
    const auto answer = requester_.ask(server, protocol::Remove{variable, number}, reply);
    if (!answer) return answer.error();
    number = answer->number;
    any = answer->any || any;
    requester_.report_orphans(server, answer->orphans);
    return {};
  };
  const int metadata_server = distribution_.metadata_server(variable);
  Status status = remove_at(metadata_server);
  for (int server = 0; status && server < distribution_.servers(); ++server) {
    if (server != metadata_server) status = remove_at(server);
  }
  known_.forget(variable);
  progress_.forget(variable);
  if (!status || any) return status;
  return Error{ErrorCode::not_found, "there is no variable " + in_quotes(variable)};
}

Result<int> Catalog::clients(std::int64_t end_ns) {
  ReplyBuffer reply(end_ns);
  const auto answer = requester_.ask(0, protocol::QueryStatus{}, reply);
  return answer ? Result<int>(answer->info.clients) : Result<int>(answer.error());
}

Result<std::vector<ServerInfo>> Catalog::status() {
  std::vector<ServerInfo> all;
  ReplyBuffer reply;
  for (int server = 0; server < distribution_.servers(); ++server) {
    auto answer = requester_.ask(server, protocol::QueryStatus{}, reply);
    if (!answer) return answer.error();
    all.push_back(std::move(answer->info));
  }
  return all;
}

Result<std::vector<VariableInfo>> Catalog::list() {
  std::map<std::string, VariableInfo> all;
  ReplyBuffer reply;
  for (int server = 0; server < distribution_.servers(); ++server) {
    protocol::List list;
    std::size_t listed = 0;
    for (bool more = true; more;) {
      auto answer = requester_.ask(server, list, reply);
      if (!answer) return answer.error();
      more = !answer->variables.empty();
      for (VariableInfo& info : answer->variables) {
        // Each page begins where the one before ended, so the list has an end.
        listed += 1 + info.versions.size();
        if (!comes_after(list, info) || listed > listed_max) return not_a_server();
        list.after = info.name;
        list.after_version = info.versions.empty() ? INT64_MAX : info.versions.back().version;
        merge(all, std::move(info));
      }
    }
  }
  std::vector<VariableInfo> listed;
  for (auto& [name, info] : all) listed.push_back(std::move(info));
  return listed;
}

}  // namespace tranship::staging
