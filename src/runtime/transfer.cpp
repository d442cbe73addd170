#include "runtime/transfer.hpp"

#include <algorithm>
#include <cmath>

#include "base/at.hpp"
#include "base/check.hpp"
#include "data/lowering.hpp"

namespace tranship {
namespace {

Point plus(const Point& a, const Point& b) {
  Point sum = a;
  for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += b[k];
  return sum;
}

Place slot_of(const Transfer& transfer, int ring, std::int64_t sequence) {
  const Ring& one = transfer.rings[at(ring)];
  return {one.buffer + sequence % transfer.plan->slots * one.slot_bytes, nullptr};
}

}  // namespace

bool Transfer::tiles_left(const Descriptor& descriptor) const {
  if (tiles_begun < plan->tiles) return true;
  if (descriptor.input < 0) return false;
  for (std::size_t hop = 1; hop < descriptors.size(); ++hop) {
    if (&descriptors[hop] == &descriptor) return descriptor.issued < descriptors[hop - 1].issued;
  }
  return false;
}

bool Transfer::wants_tile(int lane) const {
  const auto tile_bytes = static_cast<double>(plan->tile_bytes);
  double others_bytes = tile_bytes * static_cast<double>(plan->tiles - tiles_begun);
  double others_rate = 0;
  double others_least = INFINITY;  // when the first of the others would end one more tile
  double own = 0;
  bool idle = false;
  for (std::size_t k = 0; k < plan->lanes.size(); ++k) {
    const Lane& one = plan->lanes[k];
    if (one.bytes_per_second <= 0) return true;  // nothing is known
    const Descriptor& first = descriptors[at(one.first_hop)];
    const Descriptor& last = descriptors[at(one.first_hop + one.hop_count - 1)];
    std::int64_t passed = last.ended;  // the lane's slowest hop
    double slowest_s = plan->hops[at(one.first_hop + one.hop_count - 1)].tile_s;
    for (int hop = one.first_hop; hop + 1 < one.first_hop + one.hop_count; ++hop) {
      if (plan->hops[at(hop)].tile_s <= slowest_s) continue;
      slowest_s = plan->hops[at(hop)].tile_s;
      passed = descriptors[at(hop)].ended;
    }
    const double begun = tile_bytes * static_cast<double>(first.issued - passed);
    const double ends = one.fill_s + (begun + tile_bytes) / one.bytes_per_second;
    if (k == at(lane)) {
      own = ends;
      idle = first.issued == last.ended;
      continue;
    }
    others_bytes += begun + one.fill_s * one.bytes_per_second;
    others_rate += one.bytes_per_second;
    others_least = std::min(others_least, ends);
  }
  if (own <= others_bytes / others_rate || own < others_least) return true;
  // Of equal lanes the first that has nothing to do takes it: it will not end later than another.
  return idle && own <= others_least;
}

Request outline(const Job& job) {
  const Hop& hop = job.transfer->plan->hops[at(job.hop)];
  Request request;
  request.bytes = job.bytes;
  request.run_bytes = hop.run_bytes;
  if (hop.converts) request.converts_bytes_per_second = hop.bytes_per_second;
  return request;
}

Request prepare(const Job& job, const Capabilities& channel, RequestNests& nests) {
  const Transfer& transfer = *job.transfer;
  const Descriptor& descriptor = transfer.descriptors[at(job.hop)];
  const bool from_source = descriptor.input < 0;
  const bool to_target = descriptor.output < 0;
  Request request = outline(job);
  request.source =
      from_source ? transfer.source : slot_of(transfer, descriptor.input, job.sequence);
  request.target = to_target ? transfer.target : slot_of(transfer, descriptor.output, job.sequence);
  request.cold = to_target ? transfer.cold : descriptor.streams;
  request.priority = transfer.priority;
  if (transfer.indexed && !from_source && !to_target) {
    nests.plain.assign(1, {job.bytes, 0, 0, 0, {}});
    request.payload = nests.plain;
    return request;
  }
  if (transfer.indexed) {
    transfer.indexed->tile(job.tile, nests.indexed);
    if (!to_target) make_dense(nests.indexed, ListSide::target, nests.entries);
    if (!from_source) make_dense(nests.indexed, ListSide::source, nests.entries);
    request.payload = nests.indexed;
    if (!carries(channel, request.payload)) {
      request.payload = expanded(request.payload, nests.plain);
    }
    return request;
  }
  if (!transfer.fixed_nests.empty() || !transfer.plan->hops[at(job.hop)].target) {
    request.payload = transfer.fixed_nests;
    return request;
  }
  const Plan& plan = *transfer.plan;
  const Hop& hop = plan.hops[at(job.hop)];
  CHECK(!hop.casts || channel.casts, "numbers are converted by channels that can");
  const TileBox box = tile_at(plan.extents, plan.tile, hop.target->rank(), job.tile);
  const Corner source{hop.source.get(),
                      from_source ? plus(plan.corner_source, box.lower) : Point{}};
  const Corner target{hop.target.get(), to_target ? plus(plan.corner_target, box.lower) : Point{}};
  nests.plain.clear();
  lower(source, target, box.extents, hop.fields, nests.plain, hop.numbers());
  request.payload = nests.plain;
  return request;
}

}  // namespace tranship
