// Parts of a box that servers reduce.
#include <algorithm>
#include <utility>

#include "staging/client/catalog.hpp"

namespace tranship::staging {
namespace {

/// Bytes of a piece, so that each is soon over: a server answers a client's requests in turn.
constexpr std::int64_t piece_bytes = std::int64_t{32} << 20;
/// Pieces that are under way together.
constexpr std::size_t pieces_together = 8;

/// A piece of a part of an object.
struct Piece {
  const StoredObject* object = nullptr;
  Box box{};
};

/// Cuts a box into pieces of at most so many numbers, and blocks.
void cut(const StoredObject& object, const Box& box, const Reduction& reduction,
         std::int64_t points_max, std::int64_t blocks_max, std::vector<Piece>& pieces) {
  std::vector<Box> open{box};
  while (!open.empty()) {
    const Box one = open.back();
    open.pop_back();
    const bool blocks = reduction.kind == ReductionKind::block_sums;
    const bool fits =
        one.points() <= points_max && (!blocks || blocks_of(one, reduction).points() <= blocks_max);
    int outer = 0;
    while (outer + 1 < one.rank && one.extent(outer) == 1) ++outer;
    if (fits || one.rank == 0 || one.extent(outer) == 1) {
      pieces.push_back({&object, one});
      continue;
    }
    const auto k = static_cast<std::size_t>(outer);
    const std::int64_t middle = one.lower[k] + one.extent(outer) / 2;
    Box second = one;
    second.lower[k] = middle;
    open.push_back(second);
    Box first = one;
    first.upper[k] = middle;
    open.push_back(first);
  }
}

/// Returns whether a server's result can be that of a piece.
bool is_possible(const Reduced& result, const Box& piece, const Reduction& reduction) {
  if (result.count != piece.points()) return false;
  switch (reduction.kind) {
    case ReductionKind::summary: return true;
    case ReductionKind::histogram:
      return result.counts.size() + 1 == reduction.edges.size() &&
             std::all_of(result.counts.begin(), result.counts.end(),
                         [&](std::int64_t one) { return one >= 0 && one <= result.count; });
    case ReductionKind::block_sums: break;
  }
  return std::ssize(result.sums) == blocks_of(piece, reduction).points();
}

}  // namespace

Status Catalog::reduce(const LeasedBox& here, const NumberType& type, const Reduction& reduction,
                       const Box& box, std::int64_t end_ns, Reduced& into) {
  const std::int64_t points_max = piece_bytes / bytes_of(type.kind);
  const auto room = static_cast<std::int64_t>(requester_.message_bytes() -
                                              static_cast<std::int64_t>(encoded_bytes(Reduced{})));
  const std::int64_t blocks_max =
      std::max<std::int64_t>(room / static_cast<std::int64_t>(sizeof(double)) - 8, 1);
  std::vector<Piece> pieces;
  for (const Part& part : here.parts) {
    cut(here.objects[part.object], part.box, reduction, points_max, blocks_max, pieces);
  }
  // Those of several servers are under way together.
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.box.lower < b.box.lower; });
  const NumberClass numbers = class_of(type.kind);
  for (std::size_t first = 0; first < pieces.size(); first += pieces_together) {
    const std::size_t last = std::min(first + pieces_together, pieces.size());
    SentRequests<protocol::Reduce> sent(end_ns);
    for (std::size_t k = first; k < last; ++k) {
      const StoredObject& object = *pieces[k].object;
      const protocol::Reduce request{object.lease, object.object, pieces[k].box, here.type,
                                     reduction};
      if (Status status = requester_.send(object.primary, request, sent); !status) return status;
    }
    Status status;
    std::size_t k = last;
    sent.take_replies([&](int, const Result<protocol::ReducedPart>& answer) {
      const Box& piece = pieces[--k].box;
      if (!answer) {
        status = answer.error();
      } else if (!is_possible(answer->result, piece, reduction)) {
        status = not_a_server();
      } else {
        merge(reduction, numbers, piece, answer->result, box, into);
      }
      return status.ok();
    });
    if (!status) return status;
  }
  return {};
}

}  // namespace tranship::staging
