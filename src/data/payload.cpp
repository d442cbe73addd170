#include "data/payload.hpp"

#include <cstddef>

namespace tranship {
namespace {

void expand(const RunList& runs, std::vector<LoopNest>& nests) {
  for (std::size_t k = 0; k < runs.source.places.size(); ++k) {
    const std::int64_t bytes = runs.lengths.empty() ? runs.run_bytes() : runs.lengths[k];
    if (bytes > 0) nests.push_back({bytes, runs.source.begin(k), runs.target.begin(k), 0, {}});
  }
}

}  // namespace

Payload expanded(const Payload& payload, std::vector<LoopNest>& nests) {
  const auto plain = payload.nests();
  nests.assign(plain.begin(), plain.end());
  expand(payload.indexed(), nests);
  if (payload.runs() != nullptr) expand(*payload.runs(), nests);
  return nests;
}

}  // namespace tranship
