// What the files that bind clients of the staging service share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "staging/client/client.hpp"

namespace tranship::python {

using staging::Client;
using staging::GetRequest;
using staging::VersionChoice;

/// A client and the engine that it uses.
struct BoundClient {
  BoundClient(std::shared_ptr<void> used, std::unique_ptr<Client> opened)
      : engine(std::move(used)), client(std::move(opened)) {}

  std::shared_ptr<void> engine;
  std::unique_ptr<Client> client;
};

/// Returns the request for a box of a version: "exact", "next" or "latest".
GetRequest request_of(const std::string& variable, const std::string& which, std::int64_t version,
                      const std::vector<std::int64_t>& lower,
                      const std::vector<std::int64_t>& upper);

/// Binds what has servers reduce numbers.
void bind_reductions(nb::class_<BoundClient>& client);

}  // namespace tranship::python
