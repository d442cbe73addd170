// MPI_Pack and MPI_Unpack in memory: the packed bytes are those that MPI would write.
#include "mpi/message.hpp"

namespace tranship::mpi {
namespace {

template <typename Count>
int pack(int (*real)(const void*, Count, MPI_Datatype, void*, Count, Count*, MPI_Comm),
         const void* items, Count count, MPI_Datatype type, void* packed, Count packed_bytes,
         Count* position, MPI_Comm comm) {
  auto message = Message::to_pack(Task::pack, items, count, type, most_of<Count>());
  // MPI checks the other arguments: it packs nothing.
  if (message) {
    const int code = real(items, 0, type, packed, packed_bytes, position, comm);
    if (code != MPI_SUCCESS) return code;
  }
  const bool fits = message && *position >= 0 && message->bytes() <= packed_bytes - *position;
  if (!fits || !message->pack_to(static_cast<std::byte*>(packed) + *position, Report::packed)) {
    return real(items, count, type, packed, packed_bytes, position, comm);
  }
  *position = static_cast<Count>(*position + message->bytes());
  return MPI_SUCCESS;
}

template <typename Count>
int unpack(int (*real)(const void*, Count, Count*, void*, Count, MPI_Datatype, MPI_Comm),
           const void* packed, Count packed_bytes, Count* position, void* items, Count count,
           MPI_Datatype type, MPI_Comm comm) {
  auto message = Message::to_unpack(Task::unpack, items, count, type, most_of<Count>());
  if (message) {
    const int code = real(packed, packed_bytes, position, items, 0, type, comm);
    if (code != MPI_SUCCESS) return code;
  }
  const bool fits = message && *position >= 0 && message->bytes() <= packed_bytes - *position;
  if (!fits) return real(packed, packed_bytes, position, items, count, type, comm);
  message->unpack_from(static_cast<const std::byte*>(packed) + *position, message->bytes(),
                       Report::unpacked);
  *position = static_cast<Count>(*position + message->bytes());
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace tranship::mpi

using namespace tranship::mpi;

// NOLINTBEGIN(bugprone-macro-parentheses): of a type
#define TRANSHIP_PACK(suffix, Count)                                                        \
  TRANSHIP_MPI_API int MPI_Pack##suffix(const void* items, Count count, MPI_Datatype type,  \
                                        void* packed, Count bytes, Count* position,         \
                                        MPI_Comm comm) {                                    \
    return pack(&PMPI_Pack##suffix, items, count, type, packed, bytes, position, comm);     \
  }                                                                                         \
  TRANSHIP_MPI_API int MPI_Unpack##suffix(const void* packed, Count bytes, Count* position, \
                                          void* items, Count count, MPI_Datatype type,      \
                                          MPI_Comm comm) {                                  \
    return unpack(&PMPI_Unpack##suffix, packed, bytes, position, items, count, type, comm); \
  }
// NOLINTEND(bugprone-macro-parentheses)
TRANSHIP_PACK(, int)
#ifdef TRANSHIP_MPI_LARGE_COUNTS
TRANSHIP_PACK(_c, MPI_Count)
#endif
