// A store of objects of one server, and puts to it.
#pragma once

#include <cstdint>

#include "staging/server/object_store.hpp"

namespace tranship::staging {

constexpr ClientConnection writer = 1;
constexpr ClientConnection reader = 2;

inline ObjectStore::Options options_of(std::int64_t memory_bytes) {
  ObjectStore::Options options;
  options.memory_bytes = memory_bytes;
  options.segment_bytes = 4096;
  options.make_segment = [](std::int64_t) { return Status{}; };
  return options;
}

inline PutRequest put_of(std::int64_t version, std::int64_t lower = 0, std::int64_t upper = 256) {
  return {"energy", version, *Box::make({lower}, {upper}), "f8", 8, {}};
}

}  // namespace tranship::staging
