// Collective calls with packed blocks in the place of the caller's.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "mpi/block_counts.hpp"
#include "mpi/blocks.hpp"
#include "mpi/requests.hpp"
#include "mpi/statuses.hpp"

namespace tranship::mpi {

/// The arguments of both sides of a collective call, each of which may be packed. Not movable: MPI
/// keeps addresses of its parts. A side has `choose(blocks, absent, received)`, which sets `packed`
/// if the blocks are packed here, and `use_packed()`, which replaces the call's arguments by those
/// of the packed blocks.
template <typename Sent, typename Got>
struct Exchange {
  Sent sent;
  Got got;

  /// Packs the sides where that is faster.
  void pack(const BlockCounts& sent_blocks, const BlockCounts& got_blocks) {
    // Wrong arguments of the program: MPI reports them.
    const void* const places = got.items;
    if (sent.items == places || sent.items == MPI_IN_PLACE || places == MPI_IN_PLACE) return;
    sent.choose(sent_blocks.sent, sent_blocks.absent, false);
    got.choose(got_blocks.got, got_blocks.absent, true);
    if (sent.packed && !sent.packed->pack()) sent.packed.reset();
    if (sent.packed) sent.use_packed();
    if (got.packed) got.use_packed();
  }

  bool packed() const { return sent.packed || got.packed; }
  void unpack() {
    if (got.packed) got.packed->unpack();
  }
};

/// Packs the sides by `pack`, calls MPI by `call`, and unpacks.
template <typename Sides, typename Pack, typename Call>
int carry_out(Sides sides, const Pack& pack, const Call& call) {
  pack(sides);
  const int code = call(sides);
  if (code == MPI_SUCCESS) sides.unpack();
  return after(code);
}

/// Does as above for a call that ends later: the request unpacks.
template <typename Sides, typename Pack, typename Call>
int start(Sides given, MPI_Request* request, const Pack& pack, const Call& call) {
  const auto sides = std::make_shared<Sides>(std::move(given));
  pack(*sides);
  if (!sides->packed()) return call(*sides, request);
  OneRequest made(request);
  const int code = call(*sides, made.get());
  if (code == MPI_SUCCESS) {
    // The request owns the sides until MPI has ended it, since MPI keeps their addresses.
    follow(made.value(), {.kind = Pending::Kind::collective},
           [sides](const MPI_Status&) { sides->unpack(); });
  }
  return code;
}

}  // namespace tranship::mpi
