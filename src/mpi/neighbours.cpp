// Collective calls among neighbours in which all blocks of a side have one type.
#include <optional>
#include <vector>

#include "mpi/exchange.hpp"

namespace tranship::mpi {
namespace {

/// The blocks of one side of a call, which all have one type.
template <typename Items, typename Count, typename Displacement>
struct UniformBlocks {
  Items items;
  MPI_Datatype type;
  Count count = 0;                ///< Items of each block, if `counts` is null.
  const Count* counts = nullptr;  ///< Items of each block, if they differ.
  const Displacement* places = nullptr;

  std::optional<Blocks> packed{};
  std::vector<Count> own_counts{};
  std::vector<Displacement> own_places{};

  /// Sets `packed` if the blocks are packed here.
  void choose(int blocks, const std::vector<bool>& absent, bool received) {
    packed = Blocks::of(blocks, absent, items, type, count, counts, places, received);
  }

  /// Replaces the arguments of the call by those of the packed blocks.
  void use_packed() {
    for (const std::int64_t bytes : packed->bytes()) {
      own_counts.push_back(static_cast<Count>(bytes));
    }
    for (const std::int64_t place : packed->places()) {
      own_places.push_back(static_cast<Displacement>(place));
    }
    items = packed->data();
    type = MPI_PACKED;
    if (counts != nullptr) {
      counts = own_counts.data();
      places = own_places.data();
    } else {
      count = own_counts.front();
    }
  }
};

/// Packs the blocks that are sent to neighbours and received from them, where that is faster.
/// gathers: Whether one block is sent to all of them.
auto among_neighbours(MPI_Comm comm, bool gathers) {
  return [comm, gathers](auto& sides) {
    if (comm == MPI_COMM_NULL) return;
    if (!is_kept(sides.sent.type) && !is_kept(sides.got.type)) return;
    const BlockCounts blocks = blocks_of_neighbours(comm);
    sides.pack(gathers ? BlockCounts{1, 0} : blocks, blocks);
  };
}

template <typename Count, typename Displacement>
using Sides = Exchange<UniformBlocks<const void*, Count, Displacement>,
                       UniformBlocks<void*, Count, Displacement>>;

}  // namespace
}  // namespace tranship::mpi

using namespace tranship::mpi;

// NOLINTBEGIN(bugprone-macro-parentheses): of types
#define TRANSHIP_NEIGHBOURS(suffix, Count, Displacement)                                       \
  TRANSHIP_MPI_API int MPI_Neighbor_alltoall##suffix(                                          \
      const void* sent, Count sent_count, MPI_Datatype sent_type, void* got, Count got_count,  \
      MPI_Datatype got_type, MPI_Comm comm) {                                                  \
    return carry_out(                                                                          \
        Sides<Count, Displacement>{{sent, sent_type, sent_count}, {got, got_type, got_count}}, \
        among_neighbours(comm, false), [comm](const auto& s) {                                 \
          return PMPI_Neighbor_alltoall##suffix(s.sent.items, s.sent.count, s.sent.type,       \
                                                s.got.items, s.got.count, s.got.type, comm);   \
        });                                                                                    \
  }                                                                                            \
  TRANSHIP_MPI_API int MPI_Ineighbor_alltoall##suffix(                                         \
      const void* sent, Count sent_count, MPI_Datatype sent_type, void* got, Count got_count,  \
      MPI_Datatype got_type, MPI_Comm comm, MPI_Request* request) {                            \
    return start(                                                                              \
        Sides<Count, Displacement>{{sent, sent_type, sent_count}, {got, got_type, got_count}}, \
        request, among_neighbours(comm, false), [comm](const auto& s, MPI_Request* made) {     \
          return PMPI_Ineighbor_alltoall##suffix(s.sent.items, s.sent.count, s.sent.type,      \
                                                 s.got.items, s.got.count, s.got.type, comm,   \
                                                 made);                                        \
        });                                                                                    \
  }                                                                                            \
  TRANSHIP_MPI_API int MPI_Neighbor_allgather##suffix(                                         \
      const void* sent, Count sent_count, MPI_Datatype sent_type, void* got, Count got_count,  \
      MPI_Datatype got_type, MPI_Comm comm) {                                                  \
    return carry_out(                                                                          \
        Sides<Count, Displacement>{{sent, sent_type, sent_count}, {got, got_type, got_count}}, \
        among_neighbours(comm, true), [comm](const auto& s) {                                  \
          return PMPI_Neighbor_allgather##suffix(s.sent.items, s.sent.count, s.sent.type,      \
                                                 s.got.items, s.got.count, s.got.type, comm);  \
        });                                                                                    \
  }                                                                                            \
  TRANSHIP_MPI_API int MPI_Ineighbor_allgather##suffix(                                        \
      const void* sent, Count sent_count, MPI_Datatype sent_type, void* got, Count got_count,  \
      MPI_Datatype got_type, MPI_Comm comm, MPI_Request* request) {                            \
    return start(                                                                              \
        Sides<Count, Displacement>{{sent, sent_type, sent_count}, {got, got_type, got_count}}, \
        request, among_neighbours(comm, true), [comm](const auto& s, MPI_Request* made) {      \
          return PMPI_Ineighbor_allgather##suffix(s.sent.items, s.sent.count, s.sent.type,     \
                                                  s.got.items, s.got.count, s.got.type, comm,  \
                                                  made);                                       \
        });                                                                                    \
  }

// In the following calls each block has a count and a displacement of its own.
#define TRANSHIP_NEIGHBOURS_V(suffix, Count, Displacement)                                         \
  TRANSHIP_MPI_API int MPI_Neighbor_alltoallv##suffix(                                             \
      const void* sent, const Count* sent_counts, const Displacement* sent_places,                 \
      MPI_Datatype sent_type, void* got, const Count* got_counts, const Displacement* got_places,  \
      MPI_Datatype got_type, MPI_Comm comm) {                                                      \
    return carry_out(Sides<Count, Displacement>{{sent, sent_type, 0, sent_counts, sent_places},    \
                                                {got, got_type, 0, got_counts, got_places}},       \
                     among_neighbours(comm, false), [comm](const auto& s) {                        \
                       return PMPI_Neighbor_alltoallv##suffix(                                     \
                           s.sent.items, s.sent.counts, s.sent.places, s.sent.type, s.got.items,   \
                           s.got.counts, s.got.places, s.got.type, comm);                          \
                     });                                                                           \
  }                                                                                                \
  TRANSHIP_MPI_API int MPI_Ineighbor_alltoallv##suffix(                                            \
      const void* sent, const Count* sent_counts, const Displacement* sent_places,                 \
      MPI_Datatype sent_type, void* got, const Count* got_counts, const Displacement* got_places,  \
      MPI_Datatype got_type, MPI_Comm comm, MPI_Request* request) {                                \
    return start(Sides<Count, Displacement>{{sent, sent_type, 0, sent_counts, sent_places},        \
                                            {got, got_type, 0, got_counts, got_places}},           \
                 request, among_neighbours(comm, false),                                           \
                 [comm](const auto& s, MPI_Request* made) {                                        \
                   return PMPI_Ineighbor_alltoallv##suffix(                                        \
                       s.sent.items, s.sent.counts, s.sent.places, s.sent.type, s.got.items,       \
                       s.got.counts, s.got.places, s.got.type, comm, made);                        \
                 });                                                                               \
  }                                                                                                \
  TRANSHIP_MPI_API int MPI_Neighbor_allgatherv##suffix(                                            \
      const void* sent, Count sent_count, MPI_Datatype sent_type, void* got,                       \
      const Count* got_counts, const Displacement* got_places, MPI_Datatype got_type,              \
      MPI_Comm comm) {                                                                             \
    return carry_out(Sides<Count, Displacement>{{sent, sent_type, sent_count},                     \
                                                {got, got_type, 0, got_counts, got_places}},       \
                     among_neighbours(comm, true), [comm](const auto& s) {                         \
                       return PMPI_Neighbor_allgatherv##suffix(                                    \
                           s.sent.items, s.sent.count, s.sent.type, s.got.items, s.got.counts,     \
                           s.got.places, s.got.type, comm);                                        \
                     });                                                                           \
  }                                                                                                \
  TRANSHIP_MPI_API int MPI_Ineighbor_allgatherv##suffix(                                           \
      const void* sent, Count sent_count, MPI_Datatype sent_type, void* got,                       \
      const Count* got_counts, const Displacement* got_places, MPI_Datatype got_type,              \
      MPI_Comm comm, MPI_Request* request) {                                                       \
    return start(Sides<Count, Displacement>{{sent, sent_type, sent_count},                         \
                                            {got, got_type, 0, got_counts, got_places}},           \
                 request, among_neighbours(comm, true), [comm](const auto& s, MPI_Request* made) { \
                   return PMPI_Ineighbor_allgatherv##suffix(                                       \
                       s.sent.items, s.sent.count, s.sent.type, s.got.items, s.got.counts,         \
                       s.got.places, s.got.type, comm, made);                                      \
                 });                                                                               \
  }
// NOLINTEND(bugprone-macro-parentheses)

TRANSHIP_NEIGHBOURS(, int, int)
TRANSHIP_NEIGHBOURS_V(, int, int)
#ifdef TRANSHIP_MPI_LARGE_COUNTS
TRANSHIP_NEIGHBOURS(_c, MPI_Count, MPI_Aint)
TRANSHIP_NEIGHBOURS_V(_c, MPI_Count, MPI_Aint)
#endif
