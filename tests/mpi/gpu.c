/* Messages of derived types in the memory of GPUs, between processes that know nothing of how they
 * are packed: the program asks the preloaded library for memory, and its engine to read and write
 * it. The GPUs may be emulated ones. Run by one process or more. */
#include <tranship/tranship.h>

#include "check.h"

tranship_engine* tranship_mpi_engine(void);

enum { numbers = 1 << 16 };
static int to_right, from_left;

/* An array on a GPU, and its image in memory of the host. */
typedef struct {
  tranship_instance *there, *here;
  int* items; /* on the GPU */
  int image[numbers];
} array;

static const tranship_dimension dimension = {"i", numbers};
static const tranship_field field = {"f0", "i4"};
static const tranship_layout layout = {
    .dimensions = &dimension, .rank = 1, .fields = &field, .field_count = 1};

static void allocate(array* made, const char* memory) {
  tranship_engine* engine = tranship_mpi_engine();
  CHECK(engine != NULL);
  if (tranship_instance_allocate(engine, &layout, memory, &made->there) != TRANSHIP_OK) {
    CHECK(tranship_instance_allocate(engine, &layout, "device0", &made->there) == TRANSHIP_OK);
  }
  CHECK(tranship_instance_of_memory(engine, made->image, sizeof made->image, &layout,
                                    &made->here) == TRANSHIP_OK);
  made->items = tranship_instance_data(made->there);
  CHECK(tranship_engine_gpu_of(engine, made->items) >= 0);
}

static void copy(const tranship_instance* source, const tranship_instance* target) {
  tranship_event* event = NULL;
  CHECK(tranship_copy(tranship_mpi_engine(), source, target, NULL, &event) == TRANSHIP_OK);
  CHECK(tranship_event_wait(event, 60) == TRANSHIP_OK);
  tranship_event_free(event);
}

static void fill(array* sent, array* got, int turn) {
  for (int k = 0; k < numbers; k++) {
    sent->image[k] = 1000 * rank + k + turn;
    got->image[k] = -1;
  }
  copy(sent->here, sent->there);
  copy(got->here, got->there);
}

static void check(array* got, int count, int length, int stride, int process, int turn) {
  for (int k = 0; k < numbers; k++) {
    const int block = k / stride, inside = k % stride < length && block < count;
    CHECK(got->image[k] == (inside ? 1000 * process + k + turn : -1));
  }
}

static void check_there(array* got, int count, int length, int stride, int process, int turn) {
  copy(got->there, got->here);
  check(got, count, length, stride, process, turn);
}

/* Messages between two GPUs, many times: copies are prepared at the second time. */
static void exchange(array* sent, array* got, MPI_Datatype type) {
  for (int turn = 0; turn < 6; turn++) {
    fill(sent, got, turn);
    MPI_Sendrecv(sent->items, 1, type, to_right, 1, got->items, 1, type, from_left, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check_there(got, 3000, 3, 7, from_left, turn);

    fill(sent, got, turn + 1);
    MPI_Request all[2];
    MPI_Irecv(got->items, 1, type, from_left, 2, MPI_COMM_WORLD, &all[0]);
    MPI_Isend(sent->items, 1, type, to_right, 2, MPI_COMM_WORLD, &all[1]);
    MPI_Waitall(2, all, MPI_STATUSES_IGNORE);
    check_there(got, 3000, 3, 7, from_left, turn + 1);
  }
}

/* A message that ends within an item, from memory of the host. */
static void shorter(array* sent, array* got, MPI_Datatype type) {
  int host[100];
  for (int k = 0; k < 100; k++) host[k] = 1000 * rank + k / 3 * 7 + k % 3;
  fill(sent, got, 0);
  MPI_Sendrecv(host, 99, MPI_INT, to_right, 3, got->items, 1, type, from_left, 3, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  check_there(got, 33, 3, 7, from_left, 0);
}

static void packing(array* sent, array* got, MPI_Datatype type) {
  static char packed[4 * numbers];
  int position = 0;
  fill(sent, got, 5);
  MPI_Pack(sent->items, 1, type, packed, sizeof packed, &position, MPI_COMM_WORLD);
  position = 0;
  MPI_Unpack(packed, sizeof packed, &position, got->items, 1, type, MPI_COMM_WORLD);
  check_there(got, 3000, 3, 7, rank, 5);
}

/* Strided blocks to one side, and two numbers of a basic type to the other. */
static void all_to_all(array* sent, array* got, MPI_Datatype type) {
  enum { most = 64, behind = 21003 };
  int counts[2][most] = {{0}}, places[2][most] = {{0}};
  MPI_Datatype types[2][most];
  CHECK(processes <= most);
  for (int p = 0; p < processes; p++) types[0][p] = types[1][p] = MPI_INT;
  counts[0][to_right] = counts[1][from_left] = 1;
  types[0][to_right] = types[1][from_left] = type;
  if (processes > 2) {
    counts[0][from_left] = counts[1][to_right] = 2;
    places[0][from_left] = places[1][to_right] = 4 * behind;
  }
  fill(sent, got, 8);
  MPI_Alltoallw(sent->items, counts[0], places[0], types[0], got->items, counts[1], places[1],
                types[1], MPI_COMM_WORLD);
  copy(got->there, got->here);
  for (int k = behind; k < behind + 2 && processes > 2; k++) {
    CHECK(got->image[k] == 1000 * to_right + k + 8);
    got->image[k] = -1;
  }
  check(got, 3000, 3, 7, from_left, 8);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  to_right = (rank + 1) % processes;
  from_left = (rank + processes - 1) % processes;
  static array sent, got;
  allocate(&sent, rank % 2 ? "device1" : "device0");
  allocate(&got, "device0");
  MPI_Datatype type;
  MPI_Type_vector(3000, 3, 7, MPI_INT, &type);
  MPI_Type_commit(&type);
  exchange(&sent, &got, type);
  shorter(&sent, &got, type);
  packing(&sent, &got, type);
  all_to_all(&sent, &got, type);
  MPI_Type_free(&type);
  end();
  MPI_Finalize();
  return 0;
}
