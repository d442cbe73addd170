/* What programs do rarely: edges of grids, errors that return, requests that are freed, and calls
 * of MPI at the end of the process. Run by two processes or more. */
#include <pthread.h>

#include "check.h"

enum { numbers = 1 << 16 };
static int sent[numbers], got[numbers];

static void fill(int turn) {
  for (int k = 0; k < numbers; k++) {
    sent[k] = 100000 * rank + k + turn;
    got[k] = -1;
  }
}

static MPI_Comm returning(MPI_Comm of) {
  MPI_Comm comm;
  MPI_Comm_dup(of, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  return comm;
}

/* Ghost cells at the edges of a grid that is not periodic stay as they are. */
static void edges_of_a_grid(void) {
  MPI_Comm grid;
  MPI_Datatype type = strided(10, 1, 2);
  int sides[1] = {processes}, periodic[1] = {0}, ones[2] = {1, 1};
  MPI_Aint apart[2] = {0, 400};
  MPI_Datatype both[2] = {type, type};
  MPI_Cart_create(MPI_COMM_WORLD, 1, sides, periodic, 0, &grid);
  for (int way = 0; way < 2; way++) {
    call = way ? "Ineighbor_alltoallw" : "Neighbor_alltoallw";
    fill(way);
    if (way) {
      MPI_Request request;
      MPI_Ineighbor_alltoallw(sent, ones, apart, both, got, ones, apart, both, grid, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      MPI_Neighbor_alltoallw(sent, ones, apart, both, got, ones, apart, both, grid);
    }
    for (int k = 0; k < 20; k++) {
      const int left = rank > 0 && k % 2 == 0 ? 100000 * (rank - 1) + 100 + k + way : -1;
      const int right = rank + 1 < processes && k % 2 == 0 ? 100000 * (rank + 1) + k + way : -1;
      CHECK(got[k] == left && got[100 + k] == right);
    }
  }
  MPI_Comm_free(&grid);
  MPI_Type_free(&type);
}

/* Whether the block at a place holds what `process` sent from place `from` on; nothing if there is
 * no such process. */
static void check_block(int place, int process, int from, int turn) {
  for (int k = 0; k < 40; k++) {
    const int number = 100000 * process + from + k + turn;
    const int expected = process >= 0 && process < processes && k % 4 < 2 ? number : -1;
    CHECK(got[place + k] == expected);
  }
}

/* Blocks of one type among the neighbours of a line: the ones at its ends have one neighbour. */
static void neighbours(void) {
  MPI_Comm line;
  MPI_Datatype item, type; /* ten groups of two numbers of four, an item of 40 */
  int sides[1] = {processes}, periodic[1] = {0};
  MPI_Type_vector(10, 2, 4, MPI_INT, &item);
  MPI_Type_create_resized(item, 0, 40 * sizeof(int), &type);
  MPI_Type_commit(&type);
  MPI_Type_free(&item);
  MPI_Cart_create(MPI_COMM_WORLD, 1, sides, periodic, 0, &line);
  int ones[2] = {1, 1}, apart[2] = {3, 1};
  for (int way = 0; way < 8; way++) {
    MPI_Request request = MPI_REQUEST_NULL;
    fill(way);
    call = way % 4 < 2 ? "Neighbor_alltoall" : "Neighbor_alltoallv";
    if (way >= 4) call = way % 4 < 2 ? "Neighbor_allgather" : "Neighbor_allgatherv";
    if (way == 0) MPI_Neighbor_alltoall(sent, 1, type, got, 1, type, line);
    if (way == 1) MPI_Ineighbor_alltoall(sent, 1, type, got, 1, type, line, &request);
    if (way == 2) MPI_Neighbor_alltoallv(sent, ones, apart, type, got, ones, apart, type, line);
    if (way == 3) {
      MPI_Ineighbor_alltoallv(sent, ones, apart, type, got, ones, apart, type, line, &request);
    }
    if (way == 4) MPI_Neighbor_allgather(sent, 1, type, got, 1, type, line);
    if (way == 5) MPI_Ineighbor_allgather(sent, 1, type, got, 1, type, line, &request);
    if (way == 6) MPI_Neighbor_allgatherv(sent, 1, type, got, ones, apart, type, line);
    if (way == 7) {
      MPI_Ineighbor_allgatherv(sent, 1, type, got, ones, apart, type, line, &request);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    const int with_places = way % 4 >= 2, gathers = way >= 4;
    const int first = with_places ? 120 : 0, second = 40;
    check_block(first, rank - 1, gathers ? 0 : second, way);
    check_block(second, rank + 1 < processes ? rank + 1 : -1, gathers ? 0 : first, way);
  }
  MPI_Comm_free(&line);
  MPI_Type_free(&type);
}

/* A request that failed is forgotten: another one that gets its handle is its own. */
static void failed_requests(void) {
  call = "requests that fail";
  MPI_Comm comm = returning(MPI_COMM_SELF);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Datatype type = strided(40, 1, 2);
  for (int way = 0; way < 4; way++) {
    int index = 0, flag = 0, places[1];
    MPI_Request request;
    fill(way);
    MPI_Irecv(got, 1, type, 0, 1, comm, &request);
    MPI_Send(sent, 60, MPI_INT, 0, 1, comm); /* too long */
    MPI_Status statuses[1];
    if (way == 0) MPI_Waitany(1, &request, &index, MPI_STATUS_IGNORE);
    if (way == 1) MPI_Waitall(1, &request, statuses);
    if (way == 2) MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (way == 3) MPI_Waitsome(1, &request, &index, places, statuses);
    CHECK(got[1] == -1 && got[100] == -1);
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
    memset(got, 0xff, sizeof got);
    int next[40];
    MPI_Irecv(next, 40, MPI_INT, 0, 2, comm, &request);
    MPI_Send(sent, 40, MPI_INT, 0, 2, comm);
    while (!flag) MPI_Testany(1, &request, &index, &flag, MPI_STATUS_IGNORE);
    for (int k = 0; k < 40; k++) CHECK(next[k] == sent[k]);
    for (int k = 0; k < 100; k++) CHECK(got[k] == -1);
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  MPI_Type_free(&type);
  MPI_Comm_free(&comm);
}

static int handled;

static void handle(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  (void)code;
  handled++;
}

/* An error handler of the program that returns: some libraries then say that all is well. */
static void own_handler(void) {
  call = "an error handler that returns";
  MPI_Comm comm;
  MPI_Errhandler handler;
  MPI_Datatype type = strided(40, 1, 2);
  MPI_Comm_dup(MPI_COMM_SELF, &comm);
  MPI_Comm_create_errhandler(&handle, &handler);
  MPI_Comm_set_errhandler(comm, handler);
  MPI_Request request = MPI_REQUEST_NULL;
  fill(0);
  MPI_Recv(got, 1, type, 7, 1, comm, MPI_STATUS_IGNORE); /* no such process */
  MPI_Irecv(got, 1, type, 7, 1, comm, &request);
  MPI_Isend(sent, 1, type, 7, 1, comm, &request);
  CHECK(handled >= 3 && got[0] == -1);
  MPI_Errhandler_free(&handler);
  MPI_Type_free(&type);
  MPI_Comm_free(&comm);
}

/* Sends that are freed before they have ended, many of them; all arrive. */
static void freed_sends(void) {
  call = "freed sends";
  enum { many = 3000 };
  MPI_Datatype type = strided(40, 1, 2);
  const int peer = rank ^ 1;
  fill(0);
  if (peer < processes && rank == 0) {
    MPI_Request request;
    for (int k = 0; k < many; k++) {
      MPI_Issend(sent, 1, type, peer, 1, MPI_COMM_WORLD, &request);
      MPI_Request_free(&request);
      CHECK(request == MPI_REQUEST_NULL);
    }
    MPI_Recv(got, 1, type, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(got[78] == 100000 + 78);
  } else if (rank == 1) {
    int numbers_got[40];
    for (int k = 0; k < many; k++) {
      MPI_Recv(numbers_got, 40, MPI_INT, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (int n = 0; n < 40; n++) CHECK(numbers_got[n] == 2 * n);
    }
    MPI_Send(sent, 1, type, peer, 2, MPI_COMM_WORLD);
  }
  MPI_Type_free(&type);
}

/* Receives that are freed before they have ended, which is permitted: whatever call shows that the
 * message is there finds it in its place. */
static void freed_receives(void) {
  call = "freed receives";
  enum { ways = 12 };
  const int last = processes - 1, mine = rank == last;
  const MPI_Aint bytes = sizeof got;
  MPI_Win window;
  MPI_Win_create(got, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  for (int way = 0; way < ways; way++) {
    MPI_Comm comm, made;
    MPI_Datatype type = strided(way % 2 ? 20000 : 40, 1, 2);
    MPI_Request request, token_request;
    int token = 0, sum = 0, flag = 0, index = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    fill(way);
    if (mine) {
      MPI_Irecv(got, 1, type, 0, 1, comm, &request);
      MPI_Irecv(&token, 1, MPI_INT, 0, 2, comm, &token_request);
      MPI_Request_free(&request);
      CHECK(request == MPI_REQUEST_NULL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
      MPI_Request sent_request;
      MPI_Issend(sent, 1, type, last, 1, comm, &sent_request);
      MPI_Type_free(&type);
      MPI_Wait(&sent_request, MPI_STATUS_IGNORE);
      MPI_Send(&rank, 1, MPI_INT, last, 2, comm);
    } else {
      MPI_Type_free(&type);
    }
    if (mine && way == 0) MPI_Wait(&token_request, MPI_STATUS_IGNORE);
    if (mine && way == 1) MPI_Waitany(1, &token_request, &index, MPI_STATUS_IGNORE);
    while (mine && way == 2 && !flag) MPI_Test(&token_request, &flag, MPI_STATUS_IGNORE);
    while (mine && way == 3 && !flag) {
      MPI_Request_get_status(token_request, &flag, MPI_STATUS_IGNORE);
    }
    if (way == 4) MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (way == 5) MPI_Bcast(&sum, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (way == 6) MPI_Win_fence(0, window);
    if (way == 7) MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &made);
    if (way == 7) MPI_Comm_free(&made);
    if (way == 8) MPI_Gather(&rank, 1, MPI_INT, sent, 1, MPI_INT, last, MPI_COMM_WORLD);
    if (way == 9) MPI_Barrier(MPI_COMM_WORLD);
    if (mine && way == 10) MPI_Waitall(1, &token_request, MPI_STATUSES_IGNORE);
    if (mine && way == 11) {
      MPI_Comm_free(&comm);
      MPI_Wait(&token_request, MPI_STATUS_IGNORE);
    }
    /* What a collective call shows depends on the library; the token came behind the message. */
    if (mine && way >= 4) MPI_Wait(&token_request, MPI_STATUS_IGNORE);
    for (int k = 0; mine && k < (way % 2 ? 20000 : 40); k++) {
      CHECK(got[2 * k] == 2 * k + way && got[2 * k + 1] == -1);
    }
    if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
  }
  MPI_Win_free(&window);
}

/* A session that ends beside the world takes nothing of the world's with it. */
static void session(void) {
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
  call = "the end of a session";
  MPI_Datatype type = strided(40, 1, 2);
  MPI_Request freed, waited;
  MPI_Session beside;
  fill(0);
  MPI_Irecv(got, 1, type, rank, 1, MPI_COMM_WORLD, &freed);
  MPI_Irecv(got + 1000, 1, type, rank, 2, MPI_COMM_WORLD, &waited);
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &beside);
  MPI_Ssend(sent, 1, type, rank, 1, MPI_COMM_WORLD);
  MPI_Request_free(&freed);
  MPI_Session_finalize(&beside);
  MPI_Ssend(sent, 1, type, rank, 2, MPI_COMM_WORLD);
  MPI_Wait(&waited, MPI_STATUS_IGNORE);
  for (int k = 0; k < 40; k++) {
    CHECK(got[2 * k] == sent[2 * k] && got[2 * k + 1] == -1);
    CHECK(got[1000 + 2 * k] == sent[2 * k] && got[1000 + 2 * k + 1] == -1);
  }
  MPI_Type_free(&type);
#endif
}

/* What a call does not write stays as the program left it. */
static void untouched(void) {
  call = "numbers and statuses that are not written";
  MPI_Datatype type = strided(40, 1, 2);
  MPI_Status status, statuses[2];
  MPI_Request all[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  int flag = 7, index = 7;
  memset(&status, 0x55, sizeof status);
  memset(statuses, 0x55, sizeof statuses);
  MPI_Irecv(got, 1, type, rank, 1, MPI_COMM_WORLD, &all[0]);
  MPI_Test(&all[0], &flag, &status);
  CHECK(flag == 0 && status.MPI_SOURCE == 0x55555555 && status.MPI_ERROR == 0x55555555);
  MPI_Testany(2, all, &index, &flag, &status);
  CHECK(flag == 0 && index == MPI_UNDEFINED && status.MPI_TAG == 0x55555555);
  MPI_Send(sent, 1, type, rank, 1, MPI_COMM_WORLD);
  MPI_Waitany(2, all, &index, &status);
  CHECK(index == 0 && status.MPI_TAG == 1 && status.MPI_ERROR == 0x55555555);
  MPI_Type_free(&type);
}

/* Persistent buffered sends, which some libraries start as another request. */
static void buffered(void) {
  call = "Bsend_init";
  enum { turns = 8 };
  static char attached[8 << 20];
  MPI_Datatype type = strided(5000, 1, 2);
  MPI_Buffer_attach(attached, sizeof attached);
  const int right = (rank + 1) % processes, left = (rank + processes - 1) % processes;
  MPI_Request request;
  MPI_Bsend_init(sent, 1, type, right, 3, MPI_COMM_WORLD, &request);
  for (int turn = 0; turn < turns; turn++) {
    fill(turn);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  for (int turn = 0; turn < turns; turn++) {
    MPI_Recv(got, 1, type, left, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int k = 0; k < 5000; k++) CHECK(got[2 * k] == 100000 * left + 2 * k + turn);
  }
  MPI_Request_free(&request);
  void* detached;
  int bytes;
  MPI_Buffer_detach(&detached, &bytes);
  MPI_Type_free(&type);
}

/* A long list, of several items: each is packed by itself. */
static void long_list(void) {
  call = "a long list";
  enum { places_count = 6000, items = 3 };
  static int places[places_count];
  for (int k = 0; k < places_count; k++) places[k] = 3 * k + k % 2;
  MPI_Datatype type;
  MPI_Type_create_indexed_block(places_count, 1, places, MPI_INT, &type);
  MPI_Type_commit(&type);
  MPI_Aint lower_bound, extent;
  MPI_Type_get_extent(type, &lower_bound, &extent);
  const int apart = (int)(extent / (MPI_Aint)sizeof(int));
  for (int count = items; count > 0; count--) {
    fill(count);
    MPI_Sendrecv(sent, count, type, rank, 1, got, count, type, rank, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    int found = 0;
    for (int k = 0; k < numbers; k++) {
      found += got[k] != -1;
      CHECK(got[k] == -1 || got[k] == sent[k]);
    }
    CHECK(found == count * places_count && got[(count - 1) * apart] != -1);
  }
  MPI_Type_free(&type);
}

/* Complete according to calls that do not end the request. */
static void only_looked_at(void) {
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
  MPI_Datatype type = strided(100, 1, 2);
  for (int way = 0; way < 3; way++) {
    call = "Request_get_status_all, any and some";
    MPI_Request all[2];
    MPI_Status status;
    int flag = 0, index = 0, ended = 0, places[2];
    fill(way);
    MPI_Irecv(got, 1, type, rank, 1, MPI_COMM_WORLD, &all[0]);
    MPI_Isend(sent, 1, type, rank, 1, MPI_COMM_WORLD, &all[1]);
    if (way == 0) {
      while (!flag) MPI_Request_get_status_all(2, all, &flag, MPI_STATUSES_IGNORE);
    } else if (way == 1) {
      while (!flag) MPI_Request_get_status_any(1, all, &index, &flag, &status);
    } else {
      while (ended < 1) MPI_Request_get_status_some(1, all, &ended, places, MPI_STATUSES_IGNORE);
    }
    CHECK(got[198] == sent[198] && got[199] == -1);
    got[198] = 5;
    MPI_Waitall(2, all, MPI_STATUSES_IGNORE);
    CHECK(got[198] == 5); /* nothing is unpacked twice */
  }
  MPI_Type_free(&type);
#endif
}

static MPI_Datatype late_type;
static pthread_key_t key;

static void to_itself(void) {
  int now[200], then[200];
  for (int k = 0; k < 200; k++) now[k] = k;
  MPI_Sendrecv(now, 1, late_type, 0, 1, then, 1, late_type, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  CHECK(then[198] == 198);
}

static void late(void* unused) {
  (void)unused;
  to_itself();
}

static void* early(void* value) {
  pthread_setspecific(key, value);
  to_itself();
  return NULL;
}

/* A thread calls MPI while it ends, after other objects of the thread are gone. */
static void ends_of_threads(void) {
  call = "the end of a thread";
  late_type = strided(100, 1, 2);
  pthread_key_create(&key, &late);
  for (int k = 0; k < 3; k++) {
    pthread_t thread;
    pthread_create(&thread, NULL, &early, &key);
    pthread_join(thread, NULL);
  }
  pthread_key_delete(key);
  MPI_Type_free(&late_type);
}

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  edges_of_a_grid();
  neighbours();
  failed_requests();
  own_handler();
  freed_sends();
  freed_receives();
  session();
  untouched();
  buffered();
  long_list();
  only_looked_at();
  ends_of_threads();
  end();
  MPI_Finalize();
  return 0;
}
