/* Threads that wait for messages of derived types, beside one whose requests get the handles that
 * theirs give back. Argument: seconds. */
#include <pthread.h>

#include "check.h"

enum { messages = 16, elements = 5000, small = 4 };
static volatile int stop;
static MPI_Comm comms[3];
static MPI_Datatype type;

static void* short_messages(void* none) {
  for (int turn = 0; !stop; turn++) {
    int got[small][2], sent[small][2];
    MPI_Request all[2 * small];
    for (int k = 0; k < small; k++) sent[k][0] = sent[k][1] = turn + k;
    for (int k = 0; k < small; k++) {
      MPI_Irecv(got[k], 2, MPI_INT, 0, 5, comms[0], &all[k]);
    }
    for (int k = 0; k < small; k++) {
      MPI_Isend(sent[k], 2, MPI_INT, 0, 5, comms[0], &all[small + k]);
    }
    for (int k = 0; k < 2 * small; k++) MPI_Wait(&all[k], MPI_STATUS_IGNORE);
    for (int k = 0; k < small; k++) CHECK(got[k][0] == turn + k && got[k][1] == turn + k);
  }
  return none;
}

static void* long_messages(void* which) {
  MPI_Comm comm = *(MPI_Comm*)which;
  int* sent = malloc(sizeof(int) * 2 * elements);
  int* got = malloc(sizeof(int) * 2 * elements * messages);
  for (int turn = 0; !stop; turn++) {
    MPI_Request all[2 * messages];
    for (int k = 0; k < 2 * elements; k++) sent[k] = k + turn;
    memset(got, 0xff, sizeof(int) * 2 * elements * messages);
    for (int k = 0; k < messages; k++) {
      MPI_Irecv(got + 2 * elements * k, 1, type, 0, k, comm, &all[k]);
    }
    for (int k = 0; k < messages; k++) MPI_Isend(sent, 1, type, 0, k, comm, &all[messages + k]);
    if (turn % 2 == 0) {
      MPI_Waitall(2 * messages, all, MPI_STATUSES_IGNORE);
    } else {
      for (int left = 2 * messages, index; left > 0; left--) {
        MPI_Waitany(2 * messages, all, &index, MPI_STATUS_IGNORE);
      }
    }
    for (int k = 0; k < messages * elements; k++) {
      CHECK(got[2 * k] == k % elements * 2 + turn && got[2 * k + 1] == -1);
    }
  }
  free(sent);
  free(got);
  return NULL;
}

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK(provided == MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  for (int k = 0; k < 3; k++) MPI_Comm_dup(MPI_COMM_SELF, &comms[k]);
  type = strided(elements, 1, 2);
  pthread_t threads[3];
  pthread_create(&threads[0], NULL, &short_messages, NULL);
  pthread_create(&threads[1], NULL, &long_messages, &comms[1]);
  pthread_create(&threads[2], NULL, &long_messages, &comms[2]);
  const double begin = MPI_Wtime();
  while (MPI_Wtime() - begin < (argc > 1 ? atof(argv[1]) : 3)) {
    struct timespec pause = {0, 20 * 1000 * 1000};
    nanosleep(&pause, NULL);
  }
  stop = 1;
  for (int k = 0; k < 3; k++) pthread_join(threads[k], NULL);
  MPI_Type_free(&type);
  end();
  MPI_Finalize();
  return 0;
}
