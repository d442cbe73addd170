// Collective calls in which each block has a type of its own.
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "mpi/block_counts.hpp"
#include "mpi/blocks.hpp"
#include "mpi/requests.hpp"

namespace tranship::mpi {
namespace {

/// One side of a call as MPI gets it: the caller's, or packed blocks.
template <typename Items, typename Count, typename Place>
class Side {
 public:
  using Given = Blocks::Given<Count, Place>;

  Side(int blocks, const std::vector<bool>& absent, const Given& given)
      : items_(const_cast<Items>(given.items)),
        counts_(given.counts),
        places_(given.places),
        types_(given.types) {
    packed_ = Blocks::of(blocks, absent, given, !std::is_const_v<std::remove_pointer_t<Items>>);
  }

  /// Lets MPI have the packed blocks.
  void use_packed() {
    for (const std::int64_t bytes : packed_->bytes()) {
      own_counts_.push_back(static_cast<Count>(bytes));
      own_types_.push_back(MPI_PACKED);
    }
    for (const std::int64_t place : packed_->places()) {
      own_places_.push_back(static_cast<Place>(place));
    }
    items_ = packed_->data();
    counts_ = own_counts_.data();
    places_ = own_places_.data();
    types_ = own_types_.data();
  }

  std::optional<Blocks>& packed() { return packed_; }
  Items items() const { return items_; }
  const Count* counts() const { return counts_; }
  const Place* places() const { return places_; }
  const MPI_Datatype* types() const { return types_; }

 private:
  std::optional<Blocks> packed_;
  std::vector<Count> own_counts_;
  std::vector<Place> own_places_;
  std::vector<MPI_Datatype> own_types_;
  Items items_;
  const Count* counts_;
  const Place* places_;
  const MPI_Datatype* types_;
};

/// Both sides of a call. It stays where it is: MPI has the addresses of its parts.
template <typename Count, typename Place>
struct Exchange {
  Side<const void*, Count, Place> sent;
  Side<void*, Count, Place> got;

  /// Returns the sides of a call, packed where that is faster; null if all is left to MPI.
  static std::unique_ptr<Exchange> of(const BlockCounts& blocks,
                                      const Blocks::Given<Count, Place>& sent,
                                      const Blocks::Given<Count, Place>& got) {
    if (sent.items == MPI_IN_PLACE) {
      report().left(Report::in_place, 0);
      return nullptr;
    }
    auto made = std::unique_ptr<Exchange>(
        new Exchange{{blocks.sent, blocks.absent, sent}, {blocks.got, blocks.absent, got}});
    if (made->sent.packed() && !made->sent.packed()->pack()) made->sent.packed().reset();
    if (made->sent.packed()) made->sent.use_packed();
    if (made->got.packed()) made->got.use_packed();
    return made->sent.packed() || made->got.packed() ? std::move(made) : nullptr;
  }
};

template <typename Count, typename Place, typename... Request>
using AllToAll = int (*)(const void*, const Count*, const Place*, const MPI_Datatype*, void*,
                         const Count*, const Place*, const MPI_Datatype*, MPI_Comm, Request...);

template <typename Count, typename Place>
int exchange(AllToAll<Count, Place> real, const BlockCounts& blocks,
             const Blocks::Given<Count, Place>& sent, const Blocks::Given<Count, Place>& got,
             MPI_Comm comm) {
  const auto sides = Exchange<Count, Place>::of(blocks, sent, got);
  if (!sides) {
    return real(sent.items, sent.counts, sent.places, sent.types, const_cast<void*>(got.items),
                got.counts, got.places, got.types, comm);
  }
  const int code =
      real(sides->sent.items(), sides->sent.counts(), sides->sent.places(), sides->sent.types(),
           sides->got.items(), sides->got.counts(), sides->got.places(), sides->got.types(), comm);
  if (code == MPI_SUCCESS && sides->got.packed()) sides->got.packed()->unpack();
  return code;
}

template <typename Count, typename Place>
int start_exchange(AllToAll<Count, Place, MPI_Request*> real, const BlockCounts& blocks,
                   const Blocks::Given<Count, Place>& sent, const Blocks::Given<Count, Place>& got,
                   MPI_Comm comm, MPI_Request* request) {
  std::shared_ptr<Exchange<Count, Place>> sides = Exchange<Count, Place>::of(blocks, sent, got);
  if (!sides) {
    return real(sent.items, sent.counts, sent.places, sent.types, const_cast<void*>(got.items),
                got.counts, got.places, got.types, comm, request);
  }
  const int code = real(sides->sent.items(), sides->sent.counts(), sides->sent.places(),
                        sides->sent.types(), sides->got.items(), sides->got.counts(),
                        sides->got.places(), sides->got.types(), comm, request);
  if (code != MPI_SUCCESS) return code;
  // The sides stay until MPI has ended the request, whatever they are used for.
  follow(*request, [sides](const MPI_Status&) {
    if (sides->got.packed()) sides->got.packed()->unpack();
  });
  return code;
}

}  // namespace
}  // namespace tranship::mpi

using namespace tranship::mpi;

#define TRANSHIP_ALL_TO_ALL(name, blocks, Count, Place)                                        \
  TRANSHIP_MPI_API int MPI_##name(const void* sent, const Count* sent_counts,                  \
                                  const Place* sent_places, const MPI_Datatype* sent_types,    \
                                  void* got, const Count* got_counts, const Place* got_places, \
                                  const MPI_Datatype* got_types, MPI_Comm comm) {              \
    return exchange<Count, Place>(&PMPI_##name, blocks(comm),                                  \
                                  {sent, sent_counts, sent_places, sent_types},                \
                                  {got, got_counts, got_places, got_types}, comm);             \
  }
#define TRANSHIP_START_ALL_TO_ALL(name, blocks, Count, Place)                                      \
  TRANSHIP_MPI_API int MPI_##name(                                                                 \
      const void* sent, const Count* sent_counts, const Place* sent_places,                        \
      const MPI_Datatype* sent_types, void* got, const Count* got_counts, const Place* got_places, \
      const MPI_Datatype* got_types, MPI_Comm comm, MPI_Request* request) {                        \
    return start_exchange<Count, Place>(&PMPI_##name, blocks(comm),                                \
                                        {sent, sent_counts, sent_places, sent_types},              \
                                        {got, got_counts, got_places, got_types}, comm, request);  \
  }
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
