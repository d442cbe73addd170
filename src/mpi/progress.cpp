// Calls that carry no message packed here, but whose end can imply that of a receive: what has
// arrived for receives that the program has freed is unpacked before they return.
#include "mpi/requests.hpp"

using namespace tranship::mpi;

// NOLINTBEGIN(bugprone-macro-parentheses): of parameters and types
#define TRANSHIP_PASS(name, parameters, arguments) \
  TRANSHIP_MPI_API int MPI_##name parameters { return after(PMPI_##name arguments); }

#define TRANSHIP_COLLECTIVES(suffix, Count, Displacement)                                        \
  TRANSHIP_PASS(Bcast##suffix, (void* a, Count n, MPI_Datatype t, int root, MPI_Comm comm),      \
                (a, n, t, root, comm))                                                           \
  TRANSHIP_PASS(                                                                                 \
      Reduce##suffix,                                                                            \
      (const void* a, void* b, Count n, MPI_Datatype t, MPI_Op op, int root, MPI_Comm comm),     \
      (a, b, n, t, op, root, comm))                                                              \
  TRANSHIP_PASS(Allreduce##suffix,                                                               \
                (const void* a, void* b, Count n, MPI_Datatype t, MPI_Op op, MPI_Comm comm),     \
                (a, b, n, t, op, comm))                                                          \
  TRANSHIP_PASS(Scan##suffix,                                                                    \
                (const void* a, void* b, Count n, MPI_Datatype t, MPI_Op op, MPI_Comm comm),     \
                (a, b, n, t, op, comm))                                                          \
  TRANSHIP_PASS(Exscan##suffix,                                                                  \
                (const void* a, void* b, Count n, MPI_Datatype t, MPI_Op op, MPI_Comm comm),     \
                (a, b, n, t, op, comm))                                                          \
  TRANSHIP_PASS(                                                                                 \
      Reduce_scatter##suffix,                                                                    \
      (const void* a, void* b, const Count* n, MPI_Datatype t, MPI_Op op, MPI_Comm comm),        \
      (a, b, n, t, op, comm))                                                                    \
  TRANSHIP_PASS(Reduce_scatter_block##suffix,                                                    \
                (const void* a, void* b, Count n, MPI_Datatype t, MPI_Op op, MPI_Comm comm),     \
                (a, b, n, t, op, comm))                                                          \
  TRANSHIP_PASS(Gather##suffix,                                                                  \
                (const void* a, Count n, MPI_Datatype t, void* b, Count m, MPI_Datatype u,       \
                 int root, MPI_Comm comm),                                                       \
                (a, n, t, b, m, u, root, comm))                                                  \
  TRANSHIP_PASS(Gatherv##suffix,                                                                 \
                (const void* a, Count n, MPI_Datatype t, void* b, const Count* m,                \
                 const Displacement* p, MPI_Datatype u, int root, MPI_Comm comm),                \
                (a, n, t, b, m, p, u, root, comm))                                               \
  TRANSHIP_PASS(Scatter##suffix,                                                                 \
                (const void* a, Count n, MPI_Datatype t, void* b, Count m, MPI_Datatype u,       \
                 int root, MPI_Comm comm),                                                       \
                (a, n, t, b, m, u, root, comm))                                                  \
  TRANSHIP_PASS(Scatterv##suffix,                                                                \
                (const void* a, const Count* n, const Displacement* p, MPI_Datatype t, void* b,  \
                 Count m, MPI_Datatype u, int root, MPI_Comm comm),                              \
                (a, n, p, t, b, m, u, root, comm))                                               \
  TRANSHIP_PASS(                                                                                 \
      Allgather##suffix,                                                                         \
      (const void* a, Count n, MPI_Datatype t, void* b, Count m, MPI_Datatype u, MPI_Comm comm), \
      (a, n, t, b, m, u, comm))                                                                  \
  TRANSHIP_PASS(Allgatherv##suffix,                                                              \
                (const void* a, Count n, MPI_Datatype t, void* b, const Count* m,                \
                 const Displacement* p, MPI_Datatype u, MPI_Comm comm),                          \
                (a, n, t, b, m, p, u, comm))                                                     \
  TRANSHIP_PASS(                                                                                 \
      Alltoall##suffix,                                                                          \
      (const void* a, Count n, MPI_Datatype t, void* b, Count m, MPI_Datatype u, MPI_Comm comm), \
      (a, n, t, b, m, u, comm))                                                                  \
  TRANSHIP_PASS(Alltoallv##suffix,                                                               \
                (const void* a, const Count* n, const Displacement* p, MPI_Datatype t, void* b,  \
                 const Count* m, const Displacement* q, MPI_Datatype u, MPI_Comm comm),          \
                (a, n, p, t, b, m, q, u, comm))

#define TRANSHIP_FILES(suffix, Count)                                                             \
  TRANSHIP_PASS(File_read##suffix,                                                                \
                (MPI_File file, void* a, Count n, MPI_Datatype t, MPI_Status* status),            \
                (file, a, n, t, status))                                                          \
  TRANSHIP_PASS(File_read_all##suffix,                                                            \
                (MPI_File file, void* a, Count n, MPI_Datatype t, MPI_Status* status),            \
                (file, a, n, t, status))                                                          \
  TRANSHIP_PASS(                                                                                  \
      File_read_at##suffix,                                                                       \
      (MPI_File file, MPI_Offset at, void* a, Count n, MPI_Datatype t, MPI_Status* status),       \
      (file, at, a, n, t, status))                                                                \
  TRANSHIP_PASS(                                                                                  \
      File_read_at_all##suffix,                                                                   \
      (MPI_File file, MPI_Offset at, void* a, Count n, MPI_Datatype t, MPI_Status* status),       \
      (file, at, a, n, t, status))                                                                \
  TRANSHIP_PASS(File_read_shared##suffix,                                                         \
                (MPI_File file, void* a, Count n, MPI_Datatype t, MPI_Status* status),            \
                (file, a, n, t, status))                                                          \
  TRANSHIP_PASS(File_read_ordered##suffix,                                                        \
                (MPI_File file, void* a, Count n, MPI_Datatype t, MPI_Status* status),            \
                (file, a, n, t, status))                                                          \
  TRANSHIP_PASS(File_write_all##suffix,                                                           \
                (MPI_File file, const void* a, Count n, MPI_Datatype t, MPI_Status* status),      \
                (file, a, n, t, status))                                                          \
  TRANSHIP_PASS(                                                                                  \
      File_write_at_all##suffix,                                                                  \
      (MPI_File file, MPI_Offset at, const void* a, Count n, MPI_Datatype t, MPI_Status* status), \
      (file, at, a, n, t, status))                                                                \
  TRANSHIP_PASS(File_write_ordered##suffix,                                                       \
                (MPI_File file, const void* a, Count n, MPI_Datatype t, MPI_Status* status),      \
                (file, a, n, t, status))
// NOLINTEND(bugprone-macro-parentheses)

TRANSHIP_PASS(Barrier, (MPI_Comm comm), (comm))
TRANSHIP_COLLECTIVES(, int, int)
#ifdef TRANSHIP_MPI_LARGE_COUNTS
TRANSHIP_COLLECTIVES(_c, MPI_Count, MPI_Aint)
#endif

TRANSHIP_PASS(Probe, (int source, int tag, MPI_Comm comm, MPI_Status* status),
              (source, tag, comm, status))
TRANSHIP_PASS(Iprobe, (int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status),
              (source, tag, comm, flag, status))
TRANSHIP_PASS(Mprobe,
              (int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status),
              (source, tag, comm, message, status))
TRANSHIP_PASS(Improbe,
              (int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message,
               MPI_Status* status),
              (source, tag, comm, flag, message, status))
TRANSHIP_PASS(Buffer_detach, (void* address, int* bytes), (address, bytes))
#ifdef TRANSHIP_MPI_SESSIONS
TRANSHIP_PASS(Parrived, (MPI_Request request, int part, int* flag), (request, part, flag))
#endif

// Communicators
TRANSHIP_PASS(Comm_dup, (MPI_Comm comm, MPI_Comm* made), (comm, made))
TRANSHIP_PASS(Comm_dup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm* made),
              (comm, info, made))
TRANSHIP_PASS(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm* made), (comm, group, made))
TRANSHIP_PASS(Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* made),
              (comm, group, tag, made))
TRANSHIP_PASS(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm* made),
              (comm, color, key, made))
TRANSHIP_PASS(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* made),
              (comm, type, key, info, made))
TRANSHIP_PASS(Intercomm_create,
              (MPI_Comm comm, int leader, MPI_Comm peers, int remote, int tag, MPI_Comm* made),
              (comm, leader, peers, remote, tag, made))
TRANSHIP_PASS(Intercomm_merge, (MPI_Comm comm, int high, MPI_Comm* made), (comm, high, made))
TRANSHIP_PASS(Cart_create,
              (MPI_Comm comm, int rank, const int* sides, const int* periodic, int reorder,
               MPI_Comm* made),
              (comm, rank, sides, periodic, reorder, made))
TRANSHIP_PASS(Cart_sub, (MPI_Comm comm, const int* kept, MPI_Comm* made), (comm, kept, made))
TRANSHIP_PASS(Graph_create,
              (MPI_Comm comm, int nodes, const int* index, const int* edges, int reorder,
               MPI_Comm* made),
              (comm, nodes, index, edges, reorder, made))
TRANSHIP_PASS(Dist_graph_create,
              (MPI_Comm comm, int n, const int* sources, const int* degrees, const int* targets,
               const int* weights, MPI_Info info, int reorder, MPI_Comm* made),
              (comm, n, sources, degrees, targets, weights, info, reorder, made))
TRANSHIP_PASS(Dist_graph_create_adjacent,
              (MPI_Comm comm, int got, const int* sources, const int* got_weights, int sent,
               const int* targets, const int* sent_weights, MPI_Info info, int reorder,
               MPI_Comm* made),
              (comm, got, sources, got_weights, sent, targets, sent_weights, info, reorder, made))
TRANSHIP_PASS(Comm_accept,
              (const char* port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm* made),
              (port, info, root, comm, made))
TRANSHIP_PASS(Comm_connect,
              (const char* port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm* made),
              (port, info, root, comm, made))
TRANSHIP_PASS(Comm_spawn,
              (const char* command, char** words, int most, MPI_Info info, int root, MPI_Comm comm,
               MPI_Comm* made, int* codes),
              (command, words, most, info, root, comm, made, codes))
TRANSHIP_PASS(Comm_spawn_multiple,
              (int count, char** commands, char*** words, const int* most, const MPI_Info* infos,
               int root, MPI_Comm comm, MPI_Comm* made, int* codes),
              (count, commands, words, most, infos, root, comm, made, codes))

TRANSHIP_MPI_API int MPI_Comm_free(MPI_Comm* comm) {
  if (comm != nullptr) requests().comm_ends(*comm);
  return after(PMPI_Comm_free(comm));
}

TRANSHIP_MPI_API int MPI_Comm_disconnect(MPI_Comm* comm) {
  if (comm != nullptr) requests().comm_ends(*comm);
  return after(PMPI_Comm_disconnect(comm));
}

// One-sided communication
TRANSHIP_PASS(Win_create,
              (void* base, MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, MPI_Win* made),
              (base, bytes, unit, info, comm, made))
TRANSHIP_PASS(Win_allocate,
              (MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void* base, MPI_Win* made),
              (bytes, unit, info, comm, base, made))
TRANSHIP_PASS(Win_allocate_shared,
              (MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void* base, MPI_Win* made),
              (bytes, unit, info, comm, base, made))
TRANSHIP_PASS(Win_create_dynamic, (MPI_Info info, MPI_Comm comm, MPI_Win* made), (info, comm, made))
TRANSHIP_PASS(Win_free, (MPI_Win * window), (window))
TRANSHIP_PASS(Win_fence, (int assertion, MPI_Win window), (assertion, window))
TRANSHIP_PASS(Win_start, (MPI_Group group, int assertion, MPI_Win window),
              (group, assertion, window))
TRANSHIP_PASS(Win_complete, (MPI_Win window), (window))
TRANSHIP_PASS(Win_wait, (MPI_Win window), (window))
TRANSHIP_PASS(Win_test, (MPI_Win window, int* flag), (window, flag))
TRANSHIP_PASS(Win_lock, (int kind, int rank, int assertion, MPI_Win window),
              (kind, rank, assertion, window))
TRANSHIP_PASS(Win_unlock, (int rank, MPI_Win window), (rank, window))
TRANSHIP_PASS(Win_lock_all, (int assertion, MPI_Win window), (assertion, window))
TRANSHIP_PASS(Win_unlock_all, (MPI_Win window), (window))
TRANSHIP_PASS(Win_flush, (int rank, MPI_Win window), (rank, window))
TRANSHIP_PASS(Win_flush_all, (MPI_Win window), (window))
TRANSHIP_PASS(Win_flush_local, (int rank, MPI_Win window), (rank, window))
TRANSHIP_PASS(Win_flush_local_all, (MPI_Win window), (window))
TRANSHIP_PASS(Win_sync, (MPI_Win window), (window))

// Files
#ifdef MPI_FILE_NULL
TRANSHIP_PASS(File_open, (MPI_Comm comm, const char* name, int mode, MPI_Info info, MPI_File* made),
              (comm, name, mode, info, made))
TRANSHIP_PASS(File_close, (MPI_File * file), (file))
TRANSHIP_PASS(File_sync, (MPI_File file), (file))
TRANSHIP_PASS(File_set_size, (MPI_File file, MPI_Offset bytes), (file, bytes))
TRANSHIP_PASS(File_preallocate, (MPI_File file, MPI_Offset bytes), (file, bytes))
TRANSHIP_FILES(, int)
#ifdef TRANSHIP_MPI_LARGE_COUNTS
TRANSHIP_FILES(_c, MPI_Count)
#endif
#endif
