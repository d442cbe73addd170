/* What the programs of this folder share. They know nothing of Tranship: they pass with
 * libtranship-mpi.so and without it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, processes;
static const char* call = "";

#define CHECK(truth)                                                                      \
  do {                                                                                    \
    if (!(truth)) {                                                                       \
      fprintf(stderr, "rank %d, %s: line %d is not as expected\n", rank, call, __LINE__); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                       \
    }                                                                                     \
  } while (0)

static inline MPI_Datatype strided(int count, int length, int stride) {
  MPI_Datatype type;
  MPI_Type_vector(count, length, stride, MPI_INT, &type);
  MPI_Type_commit(&type);
  return type;
}

static inline void end(void) {
  call = "the end";
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("all calls are right\n");
}
