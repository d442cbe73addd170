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
  SentRequests<protocol::Bounds> sent(end_ns);
  for (int server = 0; server < distribution_.servers(); ++server) {
    if (server == distribution_.metadata_server(variable)) continue;
    Status status = requester_.send(server, protocol::Bounds{variable}, sent);
    if (!status) return status.error();
  }
  Status status;
  sent.take_replies([&](int, const Result<protocol::BoundsReply>& answer) {
    if (!answer) {
      status = answer.error();
    } else if (const auto& box = answer->bounds) {
      if (box->rank != described.metadata.first.rank) status = not_a_server();
      if (status) all = all ? around(*all, *box) : *box;
    }
    return status.ok();
  });
  if (!status) return status.error();
  return all;
}

/// Asks for the variable at the same time: servers that had nothing of the version are told more of
/// it.
Status Catalog::discard(const std::string& variable, std::int64_t version) {
  SentRequests<protocol::Discard> sent;
  SentRequests<protocol::Describe> described;
  const protocol::Discard discard{variable, version};
  for (int server = 0; server < distribution_.servers(); ++server) {
    if (Status status = requester_.send(server, discard, sent); !status) return status;
  }
  if (distribution_.servers() > 1) {
    const int metadata_server = distribution_.metadata_server(variable);
    const protocol::Describe describe{variable, false};
    if (Status status = requester_.send(metadata_server, describe, described); !status)
      return status;
  }
  Result<protocol::Describe::Reply> known(protocol::Describe::Reply(protocol::Wait{}));
  described.take_replies([&](int, Result<protocol::Describe::Reply>& answer) {
    known = std::move(answer);
    return true;
  });
  std::vector<int> without;
  Status missing;
  Status failed;
  bool any = false;
  RequestSender::NamedOrphans orphans;
  sent.take_replies([&](int server, const Result<protocol::DoneWithOrphans>& answer) {
    if (answer) {
      any = true;
      orphans.emplace_back(server, answer->orphans);
    } else if (answer.error().code == ErrorCode::not_found) {
      missing = answer.error();
      without.push_back(server);
    } else {
      failed = answer.error();
    }
    return answer || answer.error().code != ErrorCode::cancelled;
  });
  requester_.report_orphans(orphans);
  if (!failed) return failed;
  if (!any) return missing;
  if (without.empty()) return {};
  if (known && std::holds_alternative<protocol::Wait>(*known)) {  // its first put was on its way
    ReplyBuffer reply;
    known = requester_.ask(distribution_.metadata_server(variable),
                           protocol::Describe{variable, false}, reply);
  }
  if (!known) return known.error();
  const auto* there = std::get_if<protocol::Described>(&*known);
  if (there == nullptr) return {};  // the variable was deleted meanwhile
  return discard_too(without, variable, version, there->metadata);
}

/// Has servers that had nothing of a version discard it as well. They may have begun puts of it
/// meanwhile, and a later put of a box that only such servers index would bring it back.
Status Catalog::discard_too(const std::vector<int>& servers, const std::string& variable,
                            std::int64_t version, const VariableMetadata& metadata) {
  const protocol::DiscardToo discard{{variable, version, metadata.first, metadata.type,
                                      metadata.element_bytes, metadata.incarnation}};
  SentRequests<protocol::DiscardToo> sent;
  for (const int server : servers) {
    if (Status status = requester_.send(server, discard, sent); !status) return status;
  }
  Status failed;
  RequestSender::NamedOrphans orphans;
  sent.take_replies([&](int server, const Result<protocol::DiscardToo::Reply>& answer) {
    if (answer) {
      const auto* done = std::get_if<protocol::DoneWithOrphans>(&*answer);
      if (done != nullptr) orphans.emplace_back(server, done->orphans);
    } else if (answer.error().code != ErrorCode::not_found) {
      failed = answer.error();  // a later variable of that name has no such version
    }
    return answer || answer.error().code != ErrorCode::cancelled;
  });
  requester_.report_orphans(orphans);
  return failed;
}

/// The metadata server first: whoever begins anew from then on begins another variable of that
/// name.
Status Catalog::remove(const std::string& variable) {
  const int metadata_server = distribution_.metadata_server(variable);
  std::uint64_t number = 0;
  bool any = false;
  Status status;
  RequestSender::NamedOrphans orphans;
  const auto remove_on = [&](const std::vector<int>& servers) {
    SentRequests<protocol::Remove> sent;
    for (const int server : servers) {
      if (status) status = requester_.send(server, protocol::Remove{variable, number}, sent);
    }
    sent.take_replies([&](int server, const Result<protocol::Removed>& answer) {
      if (!answer) {
        status = answer.error();
        return status.error().code != ErrorCode::cancelled;
      }
      number = answer->number;
      any = answer->any || any;
      orphans.emplace_back(server, answer->orphans);
      return true;
    });
  };
  remove_on({metadata_server});
  std::vector<int> others;
  for (int server = 0; server < distribution_.servers(); ++server) {
    if (server != metadata_server) others.push_back(server);
  }
  if (status) remove_on(others);
  requester_.report_orphans(orphans);
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
  std::vector<ServerInfo> all(static_cast<std::size_t>(distribution_.servers()));
  SentRequests<protocol::QueryStatus> sent;
  for (int server = 0; server < distribution_.servers(); ++server) {
    Status status = requester_.send(server, protocol::QueryStatus{}, sent);
    if (!status) return status.error();
  }
  Status status;
  sent.take_replies([&](int server, Result<protocol::ServerStatus>& answer) {
    if (answer) {
      all[static_cast<std::size_t>(server)] = std::move(answer->info);
    } else {
      status = answer.error();
    }
    return status.ok();
  });
  if (!status) return status.error();
  return all;
}

/// Asks all servers for their next pages at once.
Result<std::vector<VariableInfo>> Catalog::list() {
  std::map<std::string, VariableInfo> all;
  std::map<int, protocol::List> open;  // by server: where its next page begins
  std::map<int, std::size_t> listed;
  for (int server = 0; server < distribution_.servers(); ++server) open[server] = {};
  while (!open.empty()) {
    SentRequests<protocol::List> sent;
    for (const auto& [server, list] : open) {
      if (Status status = requester_.send(server, list, sent); !status) return status.error();
    }
    Status status;
    sent.take_replies([&](int server, Result<protocol::Listed>& answer) {
      if (!answer) {
        status = answer.error();
        return false;
      }
      protocol::List& list = open[server];
      for (VariableInfo& info : answer->variables) {
        // Each page begins where the one before ended, so the list has an end.
        listed[server] += 1 + info.versions.size();
        if (!comes_after(list, info) || listed[server] > listed_max) status = not_a_server();
        if (!status) return false;
        list.after = info.name;
        list.after_version = info.versions.empty() ? INT64_MAX : info.versions.back().version;
        merge(all, std::move(info));
      }
      if (answer->variables.empty()) open.erase(server);
      return true;
    });
    if (!status) return status.error();
  }
  std::vector<VariableInfo> variables;
  for (auto& [name, info] : all) variables.push_back(std::move(info));
  return variables;
}

}  // namespace tranship::staging
