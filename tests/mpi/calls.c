/* Calls of MPI with derived types, each checked against loops by hand. The program knows nothing of
 * Tranship: it passes with libtranship-mpi.so and without it. Run by two or more processes; prints
 * "all calls are right" at the end. */
#include "check.h"

enum { items_max = 1 << 16 };

static int to_right, from_left;

static int sent[items_max], got[items_max];

/* Numbers that differ by process, place and turn. */
static int number(int process, int place, int turn) {
  return process * 1000003 + place * 31 + turn * 7;
}

static void fill(int turn) {
  for (int k = 0; k < items_max; k++) {
    sent[k] = number(rank, k, turn);
    got[k] = -1;
  }
}

/* The types that are tried, and the places of their elements, in ints. */
typedef struct {
  const char* name;
  MPI_Datatype type;
  int count; /* elements of one item */
  int* places;
  int extent; /* ints from one item to the next */
} tried;

static tried made(const char* name, MPI_Datatype type, int count, int* places) {
  MPI_Aint lower_bound, extent;
  MPI_Type_commit(&type);
  MPI_Type_get_extent(type, &lower_bound, &extent);
  tried one = {name, type, count, places, (int)(extent / (MPI_Aint)sizeof(int))};
  return one;
}

static int* places_of(int count) { return malloc((size_t)count * sizeof(int)); }

static tried vector(int blocks, int length, int stride) {
  MPI_Datatype type;
  MPI_Type_vector(blocks, length, stride, MPI_INT, &type);
  int* places = places_of(blocks * length);
  for (int b = 0; b < blocks; b++)
    for (int k = 0; k < length; k++) places[b * length + k] = b * stride + k;
  return made("vector", type, blocks * length, places);
}

static tried backwards(void) { /* the elements are not in the order of their addresses */
  MPI_Datatype type;
  int lengths[3] = {2, 1, 3}, displacements[3] = {20, 9, 2};
  MPI_Type_indexed(3, lengths, displacements, MPI_INT, &type);
  int* places = places_of(6);
  const int all[6] = {20, 21, 9, 2, 3, 4};
  memcpy(places, all, sizeof all);
  return made("indexed", type, 6, places);
}

static tried box(int order) {
  MPI_Datatype type;
  int sizes[3] = {6, 7, 8}, subsizes[3] = {3, 2, 5}, starts[3] = {1, 4, 2};
  MPI_Type_create_subarray(3, sizes, subsizes, starts, order, MPI_INT, &type);
  int* places = places_of(30);
  int n = 0;
  if (order == MPI_ORDER_C) {
    for (int i = 1; i < 4; i++)
      for (int j = 4; j < 6; j++)
        for (int k = 2; k < 7; k++) places[n++] = (i * 7 + j) * 8 + k;
  } else {
    for (int k = 2; k < 7; k++)
      for (int j = 4; j < 6; j++)
        for (int i = 1; i < 4; i++) places[n++] = (k * 7 + j) * 6 + i;
  }
  return made("subarray", type, 30, places);
}

static tried structure(void) { /* nested, resized */
  MPI_Datatype column, both, type;
  MPI_Type_vector(3, 1, 4, MPI_INT, &column);
  int lengths[2] = {1, 2};
  MPI_Aint displacements[2] = {4, 60};
  MPI_Datatype bases[2] = {column, MPI_INT};
  MPI_Type_create_struct(2, lengths, displacements, bases, &both);
  MPI_Type_create_resized(both, 0, 80, &type);
  MPI_Type_free(&column);
  MPI_Type_free(&both);
  int* places = places_of(5);
  const int all[5] = {1, 5, 9, 15, 16};
  memcpy(places, all, sizeof all);
  return made("struct", type, 5, places);
}

static tried hvector_of_bytes(void) {
  MPI_Datatype type;
  MPI_Type_create_hvector(50, 4, 12, MPI_BYTE, &type);
  int* places = places_of(50);
  for (int k = 0; k < 50; k++) places[k] = 3 * k;
  return made("hvector", type, 50, places);
}

static tried blocks(void) {
  MPI_Datatype type;
  int displacements[4] = {12, 0, 6, 30};
  MPI_Type_create_indexed_block(4, 2, displacements, MPI_INT, &type);
  int* places = places_of(8);
  for (int b = 0; b < 4; b++)
    for (int k = 0; k < 2; k++) places[2 * b + k] = displacements[b] + k;
  return made("indexed_block", type, 8, places);
}

static tried hindexed(void) {
  MPI_Datatype type, inner;
  MPI_Aint displacements[2] = {40, 8};
  int lengths[2] = {1, 2};
  MPI_Type_contiguous(2, MPI_INT, &inner);
  MPI_Type_create_hindexed(2, lengths, displacements, inner, &type);
  MPI_Type_free(&inner);
  int* places = places_of(6);
  const int all[6] = {10, 11, 2, 3, 4, 5};
  memcpy(places, all, sizeof all);
  return made("hindexed", type, 6, places);
}

static tried darray(void) {
  MPI_Datatype type;
  int sizes[2] = {6, 10}, kinds[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK};
  int arguments[2] = {2, MPI_DISTRIBUTE_DFLT_DARG}, grid[2] = {2, 2};
  MPI_Type_create_darray(4, 2, 2, sizes, kinds, arguments, grid, MPI_ORDER_C, MPI_INT, &type);
  int* places = places_of(10);
  int n = 0;
  for (int i = 0; i < 6; i++)
    for (int j = 0; j < 10; j++)
      if (i / 2 % 2 == 1 && j / 5 == 0) places[n++] = 10 * i + j;
  return made("darray", type, n, places);
}

static tried duplicate(void) {
  tried one = vector(9, 2, 3);
  MPI_Datatype copy;
  MPI_Type_dup(one.type, &copy);
  MPI_Type_free(&one.type);
  return made("dup", copy, one.count, one.places);
}

/* Whether the first `count` elements of the items in `got` came from `process`, and nothing else
 * changed. */
static void check_got(const tried* one, int count, int process, int turn) {
  char* written = calloc(items_max, 1);
  for (int k = 0; k < count; k++) {
    const int place = k / one->count * one->extent + one->places[k % one->count];
    CHECK(got[place] == number(process, place, turn));
    written[place] = 1;
  }
  for (int k = 0; k < items_max; k++) CHECK(written[k] || got[k] == -1);
  free(written);
}

static void blocking(const tried* one, int items) {
  MPI_Status status;
  int elements = 0;
  static char attached[1 << 20];
  MPI_Buffer_attach(attached, sizeof attached);
  for (int turn = 0; turn < 4; turn++) {
    fill(turn);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(got, items, one->type, from_left, turn, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD); /* for the ready send */
    call = "Send, Ssend, Rsend or Bsend";
    if (turn == 0) MPI_Send(sent, items, one->type, to_right, turn, MPI_COMM_WORLD);
    if (turn == 1) MPI_Ssend(sent, items, one->type, to_right, turn, MPI_COMM_WORLD);
    if (turn == 2) MPI_Rsend(sent, items, one->type, to_right, turn, MPI_COMM_WORLD);
    if (turn == 3) MPI_Bsend(sent, items, one->type, to_right, turn, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    CHECK(request == MPI_REQUEST_NULL);
    MPI_Get_count(&status, one->type, &elements);
    CHECK(elements == items && status.MPI_SOURCE == from_left && status.MPI_TAG == turn);
    check_got(one, items * one->count, from_left, turn);
  }
  void* detached;
  int bytes;
  MPI_Buffer_detach(&detached, &bytes);

  call = "Sendrecv";
  fill(5);
  MPI_Sendrecv(sent, items, one->type, to_right, 5, got, items, one->type, from_left, 5,
               MPI_COMM_WORLD, &status);
  MPI_Get_elements(&status, one->type, &elements);
  CHECK(elements == items * one->count || strcmp(one->name, "hvector") == 0);
  check_got(one, items * one->count, from_left, 5);

  call = "Sendrecv_replace";
  fill(6);
  memcpy(got, sent, sizeof got);
  MPI_Sendrecv_replace(got, items, one->type, to_right, 6, from_left, 6, MPI_COMM_WORLD,
                       MPI_STATUS_IGNORE);
  for (int k = 0; k < items * one->count; k++) {
    const int place = k / one->count * one->extent + one->places[k % one->count];
    CHECK(got[place] == number(from_left, place, 6));
    got[place] = sent[place];
  }
  CHECK(memcmp(got, sent, sizeof got) == 0);
}

/* The wire carries packed bytes: a contiguous side understands a strided one. */
static void mixed(const tried* one, int items) {
  call = "a typed side and a contiguous one";
  static int packed[items_max];
  const int count = items * one->count;
  fill(1);
  MPI_Sendrecv(sent, items, one->type, to_right, 1, packed, count, MPI_INT, from_left, 1,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int k = 0; k < count; k++) {
    const int place = k / one->count * one->extent + one->places[k % one->count];
    CHECK(packed[k] == number(from_left, place, 1));
  }
  MPI_Sendrecv(packed, count, MPI_INT, to_right, 2, got, items, one->type, from_left, 2,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  check_got(one, count, (rank + processes - 2) % processes, 1);
}

static void matched(const tried* one, int items) {
  call = "Mprobe and Mrecv";
  MPI_Message message;
  MPI_Request request;
  MPI_Status status;
  int count = 0;
  fill(2);
  MPI_Isend(sent, items, one->type, to_right, 3, MPI_COMM_WORLD, &request);
  MPI_Mprobe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &message, &status);
  MPI_Get_count(&status, one->type, &count);
  CHECK(count == items);
  MPI_Mrecv(got, items, one->type, &message, &status);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  check_got(one, items * one->count, from_left, 2);
  call = "Imrecv";
  fill(3);
  MPI_Request both[2];
  MPI_Issend(sent, items, one->type, to_right, 4, MPI_COMM_WORLD, &both[0]);
  MPI_Mprobe(from_left, 4, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
  MPI_Imrecv(got, items, one->type, &message, &both[1]);
  MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
  check_got(one, items * one->count, from_left, 3);
}

/* Every way to learn that a request has ended. */
static void ends(const tried* one, int items) {
  for (int way = 0; way < 8; way++) {
    MPI_Request all[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status status, statuses[3];
    int flag = 0, index = MPI_UNDEFINED, left = 2, ended = 0, places[3];
    fill(way);
    MPI_Irecv(got, items, one->type, from_left, way, MPI_COMM_WORLD, &all[2]);
    if (way % 2) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Issend(sent, items, one->type, to_right, way, MPI_COMM_WORLD, &all[0]);
    switch (way) {
      case 0:
        call = "Waitall";
        MPI_Waitall(3, all, statuses);
        CHECK(statuses[2].MPI_SOURCE == from_left);
        break;
      case 1:
        call = "Testall";
        while (!flag) MPI_Testall(3, all, &flag, MPI_STATUSES_IGNORE);
        break;
      case 2:
        call = "Waitany";
        while (left-- > 0) MPI_Waitany(3, all, &index, &status);
        break;
      case 3:
        call = "Testany";
        while (left > 0) {
          MPI_Testany(3, all, &index, &flag, MPI_STATUS_IGNORE);
          if (flag && index != MPI_UNDEFINED) left--;
        }
        break;
      case 4:
        call = "Waitsome";
        for (; left > 0; left -= ended) MPI_Waitsome(3, all, &ended, places, statuses);
        break;
      case 5:
        call = "Testsome";
        for (; left > 0; left -= ended) {
          MPI_Testsome(3, all, &ended, places, MPI_STATUSES_IGNORE);
          CHECK(ended != MPI_UNDEFINED);
        }
        break;
      case 6:
        call = "Test";
        while (!flag) MPI_Test(&all[2], &flag, &status);
        MPI_Wait(&all[0], MPI_STATUS_IGNORE);
        break;
      default:
        call = "Request_get_status";
        while (!flag) MPI_Request_get_status(all[2], &flag, &status);
        check_got(one, items * one->count, from_left, way);
        MPI_Wait(&all[2], &status);
        CHECK(status.MPI_SOURCE == from_left);
        MPI_Request_free(&all[0]);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int k = 0; k < 3; k++) CHECK(all[k] == MPI_REQUEST_NULL);
    check_got(one, items * one->count, from_left, way);
  }
}

static void persistent(const tried* one, int items) {
  call = "persistent requests";
  MPI_Request all[2];
  MPI_Status statuses[2];
  MPI_Send_init(sent, items, one->type, to_right, 8, MPI_COMM_WORLD, &all[0]);
  MPI_Recv_init(got, items, one->type, from_left, 8, MPI_COMM_WORLD, &all[1]);
  MPI_Waitall(2, all, MPI_STATUSES_IGNORE); /* not started: ends at once */
  for (int turn = 0; turn < 3; turn++) {
    fill(turn);
    if (turn == 1) {
      MPI_Start(&all[1]);
      MPI_Start(&all[0]);
    } else {
      MPI_Startall(2, all);
    }
    MPI_Waitall(2, all, statuses);
    CHECK(statuses[1].MPI_SOURCE == from_left && all[1] != MPI_REQUEST_NULL);
    check_got(one, items * one->count, from_left, turn);
    memset(got, 0xff, sizeof got);
    int flag = 0;
    MPI_Test(&all[1], &flag, &statuses[1]); /* inactive: nothing is unpacked again */
    CHECK(flag && got[one->places[0]] == -1);
  }
  MPI_Request_free(&all[0]);
  MPI_Request_free(&all[1]);
}

/* Fewer elements than the receive has room for, also within an item. */
static void shorter(const tried* one, int items) {
  call = "a shorter message";
  const int all = items * one->count;
  static int packed[items_max];
  for (int left = 0; left <= (all < 7 ? all : 7); left++) {
    MPI_Status status;
    int elements = 0;
    fill(left);
    for (int k = 0; k < all; k++) {
      packed[k] = number(rank, k / one->count * one->extent + one->places[k % one->count], left);
    }
    MPI_Sendrecv(packed, all - left, MPI_INT, to_right, 9, got, items, one->type, from_left, 9,
                 MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &elements);
    CHECK(elements == all - left);
    check_got(one, all - left, from_left, left);
  }
}

static void cancelled(const tried* one, int items) {
  call = "Cancel";
  MPI_Request request;
  MPI_Status status;
  int flag = 0;
  fill(0);
  MPI_Irecv(got, items, one->type, from_left, 77, MPI_COMM_WORLD, &request);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &flag);
  CHECK(flag && got[one->places[0]] == -1);
  call = "PROC_NULL";
  MPI_Sendrecv(sent, items, one->type, MPI_PROC_NULL, 0, got, items, one->type, MPI_PROC_NULL, 0,
               MPI_COMM_WORLD, &status);
  MPI_Recv(got, items, one->type, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status);
  CHECK(status.MPI_SOURCE == MPI_PROC_NULL && got[one->places[0]] == -1);
}

static void truncated(const tried* one) {
  call = "truncation";
  MPI_Comm comm;
  MPI_Status status;
  int class = MPI_SUCCESS;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  fill(0);
  MPI_Request request;
  MPI_Isend(sent, 3, one->type, to_right, 1, comm, &request);
  const int code = MPI_Recv(got, 2, one->type, from_left, 1, comm, &status);
  MPI_Error_class(code, &class);
  CHECK(class == MPI_ERR_TRUNCATE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_free(&comm);
}

/* What MPI refuses, it refuses in the way that the communicator asks for. */
static void refused(const tried* one) {
  call = "types that cannot be sent";
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_SELF, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Datatype uncommitted;
  MPI_Type_vector(10, 1, 2, MPI_INT, &uncommitted);
  CHECK(MPI_Send(sent, 1, uncommitted, 0, 1, comm) != MPI_SUCCESS);
  CHECK(MPI_Send(sent, 1, MPI_DATATYPE_NULL, 0, 1, comm) != MPI_SUCCESS);
  CHECK(MPI_Send(sent, -1, one->type, 0, 1, comm) != MPI_SUCCESS);
  CHECK(MPI_Send(sent, 1, one->type, 7, 1, comm) != MPI_SUCCESS);
  MPI_Request request = MPI_REQUEST_NULL;
  CHECK(MPI_Irecv(got, 1, one->type, 7, 1, comm, &request) != MPI_SUCCESS);
  MPI_Type_free(&uncommitted);
  MPI_Comm_free(&comm);
}

static void packing(const tried* one, int items) {
  call = "Pack and Unpack";
  static char packed[4 * items_max + 64];
  int position = 0, bytes = 0, first = 3;
  fill(1);
  MPI_Pack_size(items, one->type, MPI_COMM_WORLD, &bytes);
  CHECK(bytes >= 4 * items * one->count);
  MPI_Pack(&first, 1, MPI_INT, packed, sizeof packed, &position, MPI_COMM_WORLD);
  MPI_Pack(sent, items, one->type, packed, sizeof packed, &position, MPI_COMM_WORLD);
  const int end = position;
  position = 0;
  first = 0;
  MPI_Unpack(packed, end, &position, &first, 1, MPI_INT, MPI_COMM_WORLD);
  MPI_Unpack(packed, end, &position, got, items, one->type, MPI_COMM_WORLD);
  CHECK(first == 3 && position == end);
  check_got(one, items * one->count, rank, 1);
}

static void all_to_all(const tried* one, int items) {
  const int stride = items_max / (processes + 1);
  if (items * one->extent + 64 > stride) return;
  int* counts = places_of(processes);
  int* displacements = places_of(processes);
  MPI_Datatype* types = malloc((size_t)processes * sizeof *types);
  for (int p = 0; p < processes; p++) {
    counts[p] = p == (rank + 1) % processes && processes > 2 ? 0 : items;
    displacements[p] = 4 * p * stride;
    types[p] = one->type;
  }
  int* got_counts = places_of(processes);
  for (int p = 0; p < processes; p++)
    got_counts[p] = rank == (p + 1) % processes && processes > 2 ? 0 : items;
  for (int way = 0; way < 2; way++) {
    call = way ? "Ialltoallw" : "Alltoallw";
    fill(way);
    if (way) {
      MPI_Request request;
      MPI_Ialltoallw(sent, counts, displacements, types, got, got_counts, displacements, types,
                     MPI_COMM_WORLD, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      MPI_Alltoallw(sent, counts, displacements, types, got, got_counts, displacements, types,
                    MPI_COMM_WORLD);
    }
    for (int p = 0; p < processes; p++) {
      for (int k = 0; k < got_counts[p] * one->count; k++) {
        const int place = k / one->count * one->extent + one->places[k % one->count];
        CHECK(got[p * stride + place] == number(p, rank * stride + place, way));
      }
    }
  }
  call = "Neighbor_alltoallw";
  MPI_Comm ring;
  int sides[1] = {processes}, periodic[1] = {1};
  MPI_Cart_create(MPI_COMM_WORLD, 1, sides, periodic, 0, &ring);
  int ones[2] = {items, items};
  MPI_Aint apart[2] = {0, 4 * stride};
  MPI_Datatype both[2] = {one->type, one->type};
  for (int way = 0; way < 2; way++) {
    fill(way);
    if (way) {
      MPI_Request request;
      MPI_Ineighbor_alltoallw(sent, ones, apart, both, got, ones, apart, both, ring, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      MPI_Neighbor_alltoallw(sent, ones, apart, both, got, ones, apart, both, ring);
    }
    if (processes <= 2) break; /* both neighbours are one process: which block is which is open */
    for (int k = 0; k < items * one->count; k++) {
      const int place = k / one->count * one->extent + one->places[k % one->count];
      CHECK(got[place] == number(from_left, stride + place, way));
      CHECK(got[stride + place] == number(to_right, place, way));
    }
  }
  MPI_Comm_free(&ring);
  free(counts);
  free(got_counts);
  free(displacements);
  free(types);
}

/* A type may be freed while its messages travel. */
static void freed(void) {
  call = "a freed type";
  MPI_Request all[2];
  tried one = vector(200, 3, 7);
  fill(4);
  MPI_Irecv(got, 2, one.type, from_left, 1, MPI_COMM_WORLD, &all[0]);
  MPI_Isend(sent, 2, one.type, to_right, 1, MPI_COMM_WORLD, &all[1]);
  MPI_Type_free(&one.type);
  tried other = vector(5, 1, 2); /* may get the handle of the freed one */
  MPI_Waitall(2, all, MPI_STATUSES_IGNORE);
  check_got(&one, 2 * one.count, from_left, 4);
  fill(5);
  MPI_Sendrecv(sent, 1, other.type, to_right, 2, got, 1, other.type, from_left, 2, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  check_got(&other, other.count, from_left, 5);
  MPI_Type_free(&other.type);
}

/* Several arrays at absolute addresses in one message. */
static void absolute(void) {
  call = "MPI_BOTTOM";
  static int first[8], second[8];
  int lengths[2] = {2, 3};
  MPI_Aint places[2];
  MPI_Datatype type;
  MPI_Get_address(&second[4], &places[0]);
  MPI_Get_address(&first[1], &places[1]);
  MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &type);
  MPI_Type_commit(&type);
  for (int k = 0; k < 8; k++) first[k] = second[k] = number(rank, k, 0);
  MPI_Sendrecv_replace(MPI_BOTTOM, 1, type, to_right, 1, from_left, 1, MPI_COMM_WORLD,
                       MPI_STATUS_IGNORE);
  for (int k = 0; k < 8; k++) {
    CHECK(first[k] == number(k >= 1 && k < 4 ? from_left : rank, k, 0));
    CHECK(second[k] == number(k >= 4 && k < 6 ? from_left : rank, k, 0));
  }
  MPI_Type_free(&type);
}

/* Types with gaps of MPI's own, and contiguous ones, stay MPI's. */
static void basic(void) {
  call = "basic types";
  struct {
    double value;
    int index;
  } mine[10], theirs[10];
  memset(theirs, 0, sizeof theirs);
  for (int k = 0; k < 10; k++) {
    mine[k].value = rank + k / 16.0;
    mine[k].index = k;
  }
  MPI_Sendrecv(mine, 10, MPI_DOUBLE_INT, to_right, 1, theirs, 10, MPI_DOUBLE_INT, from_left, 1,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int k = 0; k < 10; k++) CHECK(theirs[k].value == from_left + k / 16.0);
  MPI_Datatype row;
  MPI_Type_contiguous(100, MPI_INT, &row);
  MPI_Type_commit(&row);
  fill(3);
  MPI_Sendrecv(sent, 3, row, to_right, 1, got, 3, row, from_left, 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  for (int k = 0; k < 300; k++) CHECK(got[k] == number(from_left, k, 3));
  MPI_Type_free(&row);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  to_right = (rank + 1) % processes;
  from_left = (rank + processes - 1) % processes;
  tried all[] = {
      vector(40, 1, 3), vector(3000, 3, 6), backwards(), box(MPI_ORDER_C), box(MPI_ORDER_FORTRAN),
      structure(),      hvector_of_bytes(), blocks(),    hindexed(),       darray(),
      duplicate()};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
    for (int items = 1; items <= 3; items++) {
      blocking(&all[k], items);
      mixed(&all[k], items);
      matched(&all[k], items);
      ends(&all[k], items);
      persistent(&all[k], items);
      shorter(&all[k], items);
      cancelled(&all[k], items);
      packing(&all[k], items);
      all_to_all(&all[k], items);
    }
    truncated(&all[k]);
    refused(&all[k]);
  }
  freed();
  absolute();
  basic();
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
    MPI_Type_free(&all[k].type);
    free(all[k].places);
  }
  end();
  MPI_Finalize();
  return 0;
}
