#include "runtime/transfer.hpp"

#include "data/lowering.hpp"

namespace tranship {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

Point plus(const Point& a, const Point& b) {
  Point sum = a;
  for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += b[k];
  return sum;
}

Place slot_of(const Ring& ring, std::int64_t tile) {
  return {ring.buffer + tile % ring.slots * ring.slot_bytes, nullptr};
}

}  // namespace

Request prepare(const Job& job, std::vector<LoopNest>& nests) {
  const Transfer& transfer = *job.transfer;
  if (!transfer.fixed_nests.empty()) {
    return {transfer.fixed_nests, transfer.source, transfer.target, job.bytes, 0, transfer.cold};
  }
  const Plan& plan = *transfer.plan;
  const Hop& hop = plan.hops[at(job.hop)];
  const bool first = job.hop == 0;
  const bool last = at(job.hop) + 1 == plan.hops.size();
  const TileBox box = tile_at(plan.extents, plan.tile, hop.target->rank(), job.tile);
  const Corner source{hop.source.get(), first ? plus(plan.corner_source, box.lower) : Point{}};
  const Corner target{hop.target.get(), last ? plus(plan.corner_target, box.lower) : Point{}};
  nests.clear();
  lower(source, target, box.extents, hop.fields, nests);
  Request request;
  request.nests = nests;
  request.source = first ? transfer.source : slot_of(transfer.rings[at(job.hop - 1)], job.tile);
  request.target = last ? transfer.target : slot_of(transfer.rings[at(job.hop)], job.tile);
  request.bytes = job.bytes;
  request.cold = transfer.cold && last;
  return request;
}

}  // namespace tranship
