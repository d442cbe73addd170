// Collective calls in which each block has a type of its own.
#include <cstdint>
#include <optional>
#include <vector>

#include "mpi/exchange.hpp"
#include "mpi/report.hpp"

namespace tranship::mpi {
namespace {

/// The blocks of one side of a call, of which each has a type of its own.
template <typename Items, typename Count, typename Displacement>
struct TypedBlocks {
  Items items;
  const Count* counts;
  const Displacement* places;  ///< bytes from `items`
  const MPI_Datatype* types;

  std::optional<Blocks> packed{};
  std::vector<Count> own_counts{};
  std::vector<Displacement> own_places{};
  std::vector<MPI_Datatype> own_types{};

  /// Sets `packed` if the blocks are packed here.
  void choose(int blocks, const std::vector<bool>& absent, bool received) {
    packed = Blocks::of(blocks, absent, items, counts, places, types, received);
  }

  /// Replaces the arguments of the call by those of the packed blocks.
  void use_packed() {
    for (const std::int64_t bytes : packed->bytes()) {
      own_counts.push_back(static_cast<Count>(bytes));
    }
    for (const std::int64_t place : packed->places()) {
      own_places.push_back(static_cast<Displacement>(place));
    }
    own_types.assign(own_counts.size(), MPI_PACKED);
    items = packed->data();
    counts = own_counts.data();
    places = own_places.data();
    types = own_types.data();
  }
};

template <typename Count, typename Displacement>
using Sides = Exchange<TypedBlocks<const void*, Count, Displacement>,
                       TypedBlocks<void*, Count, Displacement>>;

/// Packs the blocks where that is faster. blocks_of: Returns how many blocks a communicator has.
auto among_all(MPI_Comm comm, BlockCounts (*blocks_of)(MPI_Comm)) {
  return [comm, blocks_of](auto& sides) {
    if (sides.sent.items == MPI_IN_PLACE) return report().left(Report::in_place, 0);
    if (comm == MPI_COMM_NULL) return;
    const BlockCounts blocks = blocks_of(comm);
    sides.pack(blocks, blocks);
  };
}

}  // namespace
}  // namespace tranship::mpi

using namespace tranship::mpi;

// NOLINTBEGIN(bugprone-macro-parentheses): of types
#define TRANSHIP_ALL_TO_ALL(name, blocks_of, Count, Displacement)                                \
  TRANSHIP_MPI_API int MPI_##name(                                                               \
      const void* sent, const Count* sent_counts, const Displacement* sent_places,               \
      const MPI_Datatype* sent_types, void* got, const Count* got_counts,                        \
      const Displacement* got_places, const MPI_Datatype* got_types, MPI_Comm comm) {            \
    return carry_out(Sides<Count, Displacement>{{sent, sent_counts, sent_places, sent_types},    \
                                                {got, got_counts, got_places, got_types}},       \
                     among_all(comm, &blocks_of), [comm](const auto& s) {                        \
                       return PMPI_##name(s.sent.items, s.sent.counts, s.sent.places,            \
                                          s.sent.types, s.got.items, s.got.counts, s.got.places, \
                                          s.got.types, comm);                                    \
                     });                                                                         \
  }
#define TRANSHIP_START_ALL_TO_ALL(name, blocks_of, Count, Displacement)                            \
  TRANSHIP_MPI_API int MPI_##name(const void* sent, const Count* sent_counts,                      \
                                  const Displacement* sent_places, const MPI_Datatype* sent_types, \
                                  void* got, const Count* got_counts,                              \
                                  const Displacement* got_places, const MPI_Datatype* got_types,   \
                                  MPI_Comm comm, MPI_Request* request) {                           \
    return start(Sides<Count, Displacement>{{sent, sent_counts, sent_places, sent_types},          \
                                            {got, got_counts, got_places, got_types}},             \
                 request, among_all(comm, &blocks_of), [comm](const auto& s, MPI_Request* made) {  \
                   return PMPI_##name(s.sent.items, s.sent.counts, s.sent.places, s.sent.types,    \
                                      s.got.items, s.got.counts, s.got.places, s.got.types, comm,  \
                                      made);                                                       \
                 });                                                                               \
  }
// NOLINTEND(bugprone-macro-parentheses)

TRANSHIP_ALL_TO_ALL(Alltoallw, blocks_of_all, int, int)
TRANSHIP_ALL_TO_ALL(Neighbor_alltoallw, blocks_of_neighbours, int, MPI_Aint)
TRANSHIP_START_ALL_TO_ALL(Ialltoallw, blocks_of_all, int, int)
TRANSHIP_START_ALL_TO_ALL(Ineighbor_alltoallw, blocks_of_neighbours, int, MPI_Aint)
#ifdef TRANSHIP_MPI_LARGE_COUNTS
TRANSHIP_ALL_TO_ALL(Alltoallw_c, blocks_of_all, MPI_Count, MPI_Aint)
TRANSHIP_ALL_TO_ALL(Neighbor_alltoallw_c, blocks_of_neighbours, MPI_Count, MPI_Aint)
TRANSHIP_START_ALL_TO_ALL(Ialltoallw_c, blocks_of_all, MPI_Count, MPI_Aint)
TRANSHIP_START_ALL_TO_ALL(Ineighbor_alltoallw_c, blocks_of_neighbours, MPI_Count, MPI_Aint)
#endif
