#include "staging/server/watches.hpp"

#include <utility>

namespace tranship::staging {

void Watches::add(const std::string& name, ClientConnection client) {
  if (!by_name_[name].insert(client).second) return;
  std::vector<std::string>& names = by_client_[client];
  names.push_back(name);
  if (names.size() <= names_max_) return;
  remove(names.front(), client);
  names.erase(names.begin());
}

std::set<ClientConnection> Watches::take(const std::string& name) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return {};
  std::set<ClientConnection> clients = std::move(found->second);
  by_name_.erase(found);
  for (const ClientConnection client : clients) std::erase(by_client_.at(client), name);
  return clients;
}

void Watches::drop(ClientConnection client) {
  const auto found = by_client_.find(client);
  if (found == by_client_.end()) return;
  for (const std::string& name : found->second) remove(name, client);
  by_client_.erase(found);
}

void Watches::remove(const std::string& name, ClientConnection client) {
  const auto found = by_name_.find(name);
  found->second.erase(client);
  if (found->second.empty()) by_name_.erase(found);
}

}  // namespace tranship::staging
