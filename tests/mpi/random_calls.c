/* Random calls with random types. Each rank writes what it saw to a file: buffers, statuses, codes
 * and requests, which must not depend on who packs. Run by two processes or more.
 * Arguments: the first seed, a number of seeds, the beginning of the files' names. */
#include <stdarg.h>
#include <stdint.h>

#include "check.h"

enum { span = 1 << 17, messages_max = 8, slots = 2 * messages_max + 4 };

static FILE* saw;
static uint64_t state;

/* All ranks draw the same numbers. */
static int draw(int below) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (int)((state >> 20) % (uint64_t)below);
}

static void note(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(saw, format, arguments);
  va_end(arguments);
}

/* Codes of one error may differ from call to call; their class does not. */
static int class_of(int code) {
  int class = -1;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
  return code == MPI_SUCCESS ? 0 : class;
}

static int handled;
static void handle(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  handled = 100 * handled % 1000003 + class_of(*code) + 1;
}

/* Types of `basic` elements alone, so that any two of them match. */
static MPI_Datatype random_type(MPI_Datatype basic, int depth) {
  MPI_Datatype base, type;
  if (depth == 0) {
    MPI_Type_dup(basic, &type);
    return type;
  }
  base = random_type(basic, depth - 1);
  MPI_Aint lower_bound, extent;
  MPI_Type_get_extent(base, &lower_bound, &extent);
  const int count = 1 + draw(5), length = 1 + draw(3);
  int lengths[5], places[5];
  MPI_Aint far[5];
  MPI_Datatype bases[5];
  for (int k = 0; k < 5; k++) {
    lengths[k] = draw(4);
    places[k] = 4 * (k * 3 % 5) + draw(2);
    far[k] = 5 * extent * (k * 3 % 5) + draw(extent > 0 ? (int)extent : 1);
    bases[k] = base;
  }
  int sizes[2] = {length + draw(3), count + draw(3)}, parts[2] = {length, count};
  int starts[2] = {draw(sizes[0] - length + 1), draw(sizes[1] - count + 1)};
  switch (draw(9)) {
    case 0: MPI_Type_contiguous(count, base, &type); break;
    case 1: MPI_Type_vector(count * 4, length, length + draw(4), base, &type); break;
    case 2: MPI_Type_create_hvector(count, length, extent * (length + draw(3)), base, &type); break;
    case 3: MPI_Type_indexed(count, lengths, places, base, &type); break;
    case 4: MPI_Type_create_hindexed(count, lengths, far, base, &type); break;
    case 5: MPI_Type_create_indexed_block(count, length, places, base, &type); break;
    case 6: MPI_Type_create_struct(count, lengths, far, bases, &type); break;
    case 7:
      MPI_Type_create_subarray(2, sizes, parts, starts, draw(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN,
                               base, &type);
      break;
    default: MPI_Type_create_resized(base, 0, extent + 8 * draw(3), &type); break;
  }
  MPI_Type_free(&base);
  return type;
}

/* What one side of a message has. */
typedef struct {
  MPI_Datatype type;
  int count, bytes; /* of all items */
} items;

static items random_items(MPI_Datatype basic, int count_max) {
  for (;;) {
    items made = {random_type(basic, 1 + draw(2)), 1 + draw(count_max), 0};
    MPI_Aint lower_bound, extent, true_lower, true_extent;
    MPI_Type_size(made.type, &made.bytes);
    MPI_Type_get_extent(made.type, &lower_bound, &extent);
    MPI_Type_get_true_extent(made.type, &true_lower, &true_extent);
    const int fits = true_lower >= 0 && extent >= true_extent &&
                     true_lower + true_extent + (made.count - 1) * extent <= span;
    if (fits && made.bytes > 0) {
      made.bytes *= made.count;
      MPI_Type_commit(&made.type);
      return made;
    }
    MPI_Type_free(&made.type);
  }
}

static uint64_t hash(const char* data, int bytes) {
  uint64_t sum = 1469598103934665603u;
  for (int k = 0; k < bytes; k++) sum = (sum ^ (unsigned char)data[k]) * 1099511628211u;
  return sum;
}

static void fill(char* buffer, int salt) {
  for (int k = 0; k < span; k++) buffer[k] = (char)(k * 7 + salt * 13 + (k >> 8));
}

static void note_status(const char* what, int number, const MPI_Status* status, int received) {
  int cancelled = -1;
  note(" %s%d:", what, number);
  if (status->MPI_ERROR == 0x55555555) {
    note("E-");
  } else {
    note("E%d", class_of(status->MPI_ERROR));
  }
  if (status->MPI_SOURCE == 0x55555555) {
    note(",untouched");
    return;
  }
  MPI_Test_cancelled(status, &cancelled);
  note(",c%d", cancelled);
  if (received && !cancelled) {
    int bytes = -1, doubles = -1;
    MPI_Get_count(status, MPI_BYTE, &bytes);
    MPI_Get_elements(status, MPI_DOUBLE, &doubles);
    note(",s%d,t%d,%d,%d", status->MPI_SOURCE, status->MPI_TAG, bytes, doubles);
  }
}

/* The requests of a round and where their statuses go. */
typedef struct {
  int count;
  MPI_Request all[slots];
  MPI_Status statuses[slots];
  int received[slots], ended[slots];
} requests;

static void add(requests* r, MPI_Request request, int received) {
  r->all[r->count] = request;
  r->received[r->count] = received;
  r->ended[r->count++] = 0;
}

static void note_end(requests* r, int k, const MPI_Status* status) {
  note_status(r->received[k] ? "r" : "w", k, status, r->received[k]);
  note("%s", r->all[k] == MPI_REQUEST_NULL ? "" : "*");
  r->ended[k] = 1;
}

/* Ends all requests in a random way, which rank draws by itself. */
static void finish(requests* r, int way, int ignores) {
  MPI_Status* given = ignores ? MPI_STATUSES_IGNORE : r->statuses;
  int places[slots], left = 0;
  memset(r->statuses, 0x55, sizeof r->statuses);
  note("\n  way %d%s:", way, ignores ? " without statuses" : "");
  for (int k = 0; k < r->count; k++) left += r->all[k] != MPI_REQUEST_NULL;
  if (way == 0) { /* all at once */
    const int code = MPI_Waitall(r->count, r->all, given);
    note(" all %d", class_of(code));
  } else if (way == 1) {
    int flag = 0, code = MPI_SUCCESS;
    while (!flag && code == MPI_SUCCESS) code = MPI_Testall(r->count, r->all, &flag, given);
    note(" all %d", class_of(code));
  } else if (way <= 3) { /* one after the other; persistent ones stay */
    while (left > 0) {
      int index = -7, flag = -7, code;
      MPI_Status status;
      memset(&status, 0x55, sizeof status);
      MPI_Status* one = ignores ? MPI_STATUS_IGNORE : &status;
      if (way == 2) {
        code = MPI_Waitany(r->count, r->all, &index, one);
      } else {
        do code = MPI_Testany(r->count, r->all, &index, &flag, one);
        while (code == MPI_SUCCESS && !flag);
      }
      if (index < 0 || index == MPI_UNDEFINED) break;
      places[index] = class_of(code);
      r->statuses[index] = status;
      r->ended[index] = 1;
      left--;
    }
    for (int k = 0; k < r->count; k++) {
      if (r->ended[k]) note(" %d", places[k]);
    }
  } else if (way <= 5) {
    while (left > 0) {
      int ended = 0;
      MPI_Status some[slots];
      memset(some, 0x55, sizeof some);
      const int code = (way == 4 ? MPI_Waitsome : MPI_Testsome)(
          r->count, r->all, &ended, places, ignores ? MPI_STATUSES_IGNORE : some);
      if (ended == MPI_UNDEFINED) break;
      if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) {
        note(" stops with %d", class_of(code));
        break;
      }
      for (int k = 0; k < ended; k++) r->statuses[places[k]] = some[k];
      left -= ended;
    }
    /* Whether others ended in the same call is chance: then their errors are written. */
    for (int k = 0; k < r->count && !ignores; k++) {
      if (r->statuses[k].MPI_ERROR == MPI_SUCCESS) r->statuses[k].MPI_ERROR = 0x55555555;
    }
  } else { /* each by itself */
    for (int k = r->count - 1; k >= 0; k--) {
      int flag = 0, code = MPI_SUCCESS;
      MPI_Status* one = ignores ? MPI_STATUS_IGNORE : &r->statuses[k];
      if (way == 6) code = MPI_Wait(&r->all[k], one);
      while (way == 7 && !flag && code == MPI_SUCCESS) code = MPI_Test(&r->all[k], &flag, one);
      while (way == 8 && !flag && code == MPI_SUCCESS) {
        code = MPI_Request_get_status(r->all[k], &flag, one);
      }
      note(" %d", class_of(code));
      if (way == 8) note(",%d", class_of(MPI_Wait(&r->all[k], one)));
    }
  }
  for (int k = 0; k < r->count; k++) note_end(r, k, &r->statuses[k]);
}

enum { to_irecv, to_persistent, to_freed, to_recv, to_mrecv, to_imrecv, to_nowhere, receivers };
enum {
  by_send,
  by_ssend,
  by_rsend,
  by_bsend,
  by_isend,
  by_issend,
  by_irsend,
  by_ibsend,
  by_init,
  senders
};

/* A message; all ranks know it. */
typedef struct {
  int from, to, how_sent, how_got, tag, large;
  int free_sender; /* frees the request of the send */
  int free_types;  /* as soon as the calls have begun */
  int cancels;     /* of what goes nowhere: cancelled and freed, or cancelled and waited for */
  items sent, got;
} message;

static char *buffers_sent[messages_max], *buffers_got[messages_max];

#if MPI_VERSION >= 4
#define LARGE(name, large, ...) ((large) ? MPI_##name##_c(__VA_ARGS__) : MPI_##name(__VA_ARGS__))
#else
#define LARGE(name, large, ...) ((void)(large), MPI_##name(__VA_ARGS__))
#endif

static message random_message(int number, int truncates) {
  const MPI_Datatype basics[4] = {MPI_BYTE, MPI_INT, MPI_DOUBLE, MPI_SHORT};
  message m;
  memset(&m, 0, sizeof m);
  const MPI_Datatype basic = basics[draw(4)];
  m.from = draw(processes);
  m.to = draw(12) == 0 ? MPI_PROC_NULL : draw(processes);
#ifdef OMPI_MAJOR_VERSION
  /* Open MPI reports no error where a short contiguous message to itself is too long. */
  if (truncates && m.to == m.from) m.to = (m.from + 1) % processes;
#endif
  m.tag = 10 + number;
  m.how_sent = draw(senders);
  m.how_got = draw(receivers);
  m.large = draw(2);
  m.free_types = draw(2);
  m.cancels = draw(2);
  const int long_ones = !truncates && draw(4) == 0;
  do {
    if (m.sent.bytes) MPI_Type_free(&m.sent.type);
    if (m.got.bytes) MPI_Type_free(&m.got.type);
    m.sent = random_items(basic, long_ones ? 60 : 4);
    m.got = random_items(basic, long_ones ? 60 : 4);
  } while (truncates ? m.sent.bytes > 2000 : m.sent.bytes > m.got.bytes);
  const int posted = m.how_got == to_irecv || m.how_got == to_persistent || m.how_got == to_freed;
  /* Ready sends need a receive; blocking ones must not wait for one that comes later. */
  if (!posted && (m.how_sent == by_rsend || m.how_sent == by_irsend)) m.how_sent = by_isend;
  if (!posted && (m.how_sent == by_send || m.how_sent == by_ssend)) m.how_sent = by_ibsend;
  /* What follows shows that the receive has ended only if the send is synchronous. */
  if (m.how_got == to_freed) m.how_sent = draw(2) ? by_ssend : by_issend;
  if (m.how_got == to_nowhere) m.how_sent = senders;
  m.free_sender = draw(3) == 0 && m.how_got != to_freed;
  if (m.to == MPI_PROC_NULL && m.how_got == to_freed) m.how_got = to_irecv;
  return m;
}

/* Whether a rank receives a message: those to nobody are received from nobody by their sender. */
static int receives(const message* m) {
  return m->to == rank || (m->to == MPI_PROC_NULL && m->from == rank);
}

static void post_receive(const message* m, int number, MPI_Comm comm, requests* r) {
  char* buffer = buffers_got[number];
  const int from = m->to == MPI_PROC_NULL ? MPI_PROC_NULL : m->from;
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_SUCCESS;
  if (m->how_got == to_irecv || m->how_got == to_freed || m->how_got == to_nowhere) {
    code = LARGE(Irecv, m->large, buffer, m->got.count, m->got.type, from, m->tag, comm, &request);
  } else if (m->how_got == to_persistent) {
    code =
        LARGE(Recv_init, m->large, buffer, m->got.count, m->got.type, from, m->tag, comm, &request);
    MPI_Start(&request);
  } else {
    return;
  }
  note(" post%d %d", number, class_of(code));
  if (m->how_got == to_nowhere && from != MPI_PROC_NULL) {
    note(",%d", class_of(MPI_Cancel(&request)));
    if (m->cancels) note(",%d", class_of(MPI_Request_free(&request)));
  }
  if (m->how_got == to_freed) note(",%d", class_of(MPI_Request_free(&request)));
  add(r, request, 1);
}

static void late_receive(const message* m, int number, MPI_Comm comm, requests* r) {
  char* buffer = buffers_got[number];
  const int from = m->to == MPI_PROC_NULL ? MPI_PROC_NULL : m->from;
  MPI_Status status;
  MPI_Message matched;
  MPI_Request request = MPI_REQUEST_NULL;
  int code;
  memset(&status, 0x55, sizeof status);
  if (m->how_got == to_recv) {
    code = LARGE(Recv, m->large, buffer, m->got.count, m->got.type, from, m->tag, comm, &status);
    note("\n  recv %d", class_of(code));
  } else if (m->how_got == to_mrecv || m->how_got == to_imrecv) {
    MPI_Mprobe(from, m->tag, comm, &matched, &status);
    note_status("p", number, &status, 1);
    memset(&status, 0x55, sizeof status);
    if (m->how_got == to_mrecv) {
      code = LARGE(Mrecv, m->large, buffer, m->got.count, m->got.type, &matched, &status);
    } else {
      code = LARGE(Imrecv, m->large, buffer, m->got.count, m->got.type, &matched, &request);
      add(r, request, 1);
    }
    note("\n  mrecv %d,%d", class_of(code), matched == MPI_MESSAGE_NULL);
  } else {
    return;
  }
  if (m->how_got != to_imrecv) note_status("b", number, &status, 1);
}

static void send(const message* m, int number, MPI_Comm comm, requests* r) {
  const char* buffer = buffers_sent[number];
  const int count = m->sent.count;
  const MPI_Datatype type = m->sent.type;
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_SUCCESS;
#define ARGUMENTS buffer, count, type, m->to, m->tag, comm
  switch (m->how_sent) {
    case by_send: code = LARGE(Send, m->large, ARGUMENTS); break;
    case by_ssend: code = LARGE(Ssend, m->large, ARGUMENTS); break;
    case by_rsend: code = LARGE(Rsend, m->large, ARGUMENTS); break;
    case by_bsend: code = LARGE(Bsend, m->large, ARGUMENTS); break;
    case by_isend: code = LARGE(Isend, m->large, ARGUMENTS, &request); break;
    case by_issend: code = LARGE(Issend, m->large, ARGUMENTS, &request); break;
    case by_irsend: code = LARGE(Irsend, m->large, ARGUMENTS, &request); break;
    case by_ibsend: code = LARGE(Ibsend, m->large, ARGUMENTS, &request); break;
    case by_init:
      code = LARGE(Send_init, m->large, ARGUMENTS, &request);
      MPI_Start(&request);
      break;
    default: return;
  }
  note(" send%d %d", number, class_of(code));
  if (m->free_sender && request != MPI_REQUEST_NULL) {
    note(",%d,%d", class_of(MPI_Request_free(&request)), request == MPI_REQUEST_NULL);
  }
  add(r, request, 0);
}

/* After this, freed receives have ended: their synchronous sends have, before the token was sent.
 */
static void tokens(MPI_Comm comm) {
  const int right = (rank + 1) % processes, left = (rank + processes - 1) % processes;
  int token = 0;
  for (int turn = 0; turn < processes; turn++) {
    MPI_Sendrecv(&rank, 1, MPI_INT, right, 5, &token, 1, MPI_INT, left, 5, comm, MPI_STATUS_IGNORE);
  }
}

static void free_types(message* m) {
  if (m->sent.type != MPI_DATATYPE_NULL) MPI_Type_free(&m->sent.type);
  if (m->got.type != MPI_DATATYPE_NULL) MPI_Type_free(&m->got.type);
}

static void point_to_point(MPI_Comm world, MPI_Errhandler handler) {
  message all[messages_max];
  requests r;
  MPI_Comm comm;
  const int count = 1 + draw(messages_max), truncates = draw(4) == 0, frees_comm = draw(3) == 0;
  int ways[64], ignores[64];
  memset(&r, 0, sizeof r);
  MPI_Comm_dup(world, &comm);
  MPI_Comm_set_errhandler(comm, draw(2) ? handler : MPI_ERRORS_RETURN);
  for (int k = 0; k < count; k++) {
    all[k] = random_message(k, truncates);
    fill(buffers_sent[k], rank + k);
    memset(buffers_got[k], 0x11 + k, span);
  }
#ifdef OMPI_MAJOR_VERSION
  const int certain[5] = {6, 7, 8, 6, 7};
#else
  const int certain[5] = {2, 4, 6, 7, 8};
#endif
  for (int k = 0; k < 64; k++) {
    /* Which of several requests a call has seen when it finds an error is chance. */
    ways[k] = truncates ? certain[draw(5)] : draw(9);
    ignores[k] = draw(3) == 0;
  }
  note("\n messages %d%s:", count, truncates ? ", too long" : "");
  for (int k = 0; k < count; k++) {
    if (receives(&all[k])) post_receive(&all[k], k, comm, &r);
    if (k == count / 2) add(&r, MPI_REQUEST_NULL, 0);
  }
  MPI_Barrier(comm);
  for (int k = 0; k < count; k++) {
    if (all[k].from == rank) send(&all[k], k, comm, &r);
  }
  for (int k = 0; k < count; k++) {
    if (receives(&all[k])) late_receive(&all[k], k, comm, &r);
  }
  for (int k = 0; k < count; k++) {
    if (all[k].free_types) free_types(&all[k]);
  }
  finish(&r, ways[rank % 64], ignores[rank % 64]);
  for (int k = 0; k < r.count; k++) { /* persistent ones are left */
    if (r.all[k] != MPI_REQUEST_NULL) note(" %d", class_of(MPI_Request_free(&r.all[k])));
  }
  tokens(comm);
  if (frees_comm) MPI_Comm_free(&comm);
  for (int k = 0; k < count; k++) {
    if (receives(&all[k])) {
      note("\n  got%d %016llx", k, (unsigned long long)hash(buffers_got[k], span));
    }
    if (!all[k].free_types) free_types(&all[k]);
  }
  if (!frees_comm) MPI_Comm_free(&comm);
  note(" handled %d", handled);
}

/* A persistent send and receive, started several times; the last time, they may be freed. */
static void persistent(MPI_Comm comm) {
  const int right = (rank + 1) % processes, left = (rank + processes - 1) % processes;
  const int turns = 1 + draw(4), frees = draw(2), started = draw(5) > 0;
  items sent = random_items(MPI_INT, 6), got = random_items(MPI_INT, 6);
  MPI_Request both[2];
  MPI_Status statuses[2];
  if (sent.bytes > got.bytes) {
    const items other = sent;
    sent = got;
    got = other;
  }
  note("\n persistent, %d turns:", turns);
  MPI_Recv_init(buffers_got[0], got.count, got.type, left, 3, comm, &both[0]);
  MPI_Ssend_init(buffers_sent[0], sent.count, sent.type, right, 3, comm, &both[1]);
  for (int turn = 0; turn < turns && started; turn++) {
    fill(buffers_sent[0], rank + turn);
    memset(buffers_got[0], turn, span);
    memset(statuses, 0x55, sizeof statuses);
    note(" %d", class_of(MPI_Startall(2, both)));
    if (frees && turn == turns - 1) {
      MPI_Request_free(&both[0]);
      MPI_Wait(&both[1], &statuses[1]);
      tokens(comm);
    } else {
      note(" %d", class_of(MPI_Waitall(2, both, statuses)));
      note_status("r", turn, &statuses[0], 1);
      memset(statuses, 0x55, sizeof statuses);
      MPI_Wait(&both[0], &statuses[0]); /* inactive */
      note_status("i", turn, &statuses[0], 1);
    }
    note(" %016llx", (unsigned long long)hash(buffers_got[0], span));
  }
  for (int k = 0; k < 2; k++) {
    if (both[k] != MPI_REQUEST_NULL) MPI_Request_free(&both[k]);
  }
  MPI_Type_free(&sent.type);
  MPI_Type_free(&got.type);
}

static void exchanges(MPI_Comm comm) {
  const int right = (rank + 1) % processes, left = (rank + processes - 1) % processes;
  const int replaces = draw(2), nobody = draw(6), large = draw(2), truncates = draw(5) == 0;
  items sent = random_items(MPI_SHORT, 6), got = random_items(MPI_SHORT, 6);
  if (truncates ? sent.bytes < got.bytes : sent.bytes > got.bytes) {
    const items other = sent;
    sent = got;
    got = other;
  }
  const int to = nobody == 0 ? MPI_PROC_NULL : right, from = nobody == 0 ? MPI_PROC_NULL : left;
  MPI_Status status;
  int code;
  memset(&status, 0x55, sizeof status);
  fill(buffers_sent[0], rank);
  memset(buffers_got[0], 0x22, span);
  if (replaces) {
    fill(buffers_got[0], rank);
    code = LARGE(Sendrecv_replace, large, buffers_got[0], got.count, got.type, to, 4, from, 4, comm,
                 &status);
  } else {
    code = LARGE(Sendrecv, large, buffers_sent[0], sent.count, sent.type, to, 4, buffers_got[0],
                 got.count, got.type, from, 4, comm, &status);
  }
  note("\n exchange %d %016llx", class_of(code), (unsigned long long)hash(buffers_got[0], span));
  note_status("x", 0, &status, 1);
  MPI_Type_free(&sent.type);
  MPI_Type_free(&got.type);
}

static void collectives(MPI_Comm comm) {
  items one = random_items(MPI_INT, 2);
  int counts[64], places[64];
  MPI_Datatype types[64];
  const int way = draw(4), frees = draw(6) == 0, in_place = draw(4) == 0;
  MPI_Aint lower_bound, extent;
  MPI_Type_get_extent(one.type, &lower_bound, &extent);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Status status;
  memset(&status, 0x55, sizeof status);
  if (processes > 64 || (int)(extent + 64) * one.count * processes > span) {
    MPI_Type_free(&one.type);
    return;
  }
  for (int k = 0; k < processes; k++) {
    counts[k] = one.count;
    places[k] = k * one.count * (int)extent;
    types[k] = one.type;
  }
  fill(buffers_sent[0], rank);
  static char freed[span]; /* when the call ends is not known: nobody looks */
  char* got = frees ? freed : buffers_got[0];
  fill(got, rank + 9);
  const void* sent = in_place && way < 2 ? MPI_IN_PLACE : buffers_sent[0];
  int code = MPI_SUCCESS;
  MPI_Comm ring;
  int sides[1] = {processes}, periodic[1] = {draw(2)};
  MPI_Cart_create(comm, 1, sides, periodic, 0, &ring);
  MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
  if (way == 0) {
    code = MPI_Alltoallw(sent, counts, places, types, got, counts, places, types, comm);
  } else if (way == 1) {
    code = MPI_Ialltoallw(sent, counts, places, types, got, counts, places, types, comm, &request);
  } else if (way == 2) {
    code = MPI_Neighbor_allgather(sent, one.count, one.type, got, one.count, one.type, ring);
  } else {
    code = MPI_Ineighbor_alltoall(buffers_sent[0], 1, one.type, got, 1, one.type, ring, &request);
  }
  note("\n collective %d: %d", way, class_of(code));
  if (request != MPI_REQUEST_NULL && frees) {
    MPI_Request_free(&request); /* some libraries refuse this, and some only while it goes on */
  }
  note(" %d", class_of(MPI_Wait(&request, &status)));
  MPI_Barrier(comm);
  if (!frees) note(" %016llx", (unsigned long long)hash(got, span));
  MPI_Comm_free(&ring);
  MPI_Type_free(&one.type);
}

/* Calls that MPI refuses: what they would have written stays as MPI leaves it. */
static void refused(MPI_Comm comm) {
  items one = random_items(MPI_INT, 2);
  MPI_Datatype uncommitted;
  MPI_Type_vector(3, 1, 2, MPI_INT, &uncommitted);
  static char small[64];
  MPI_Request request = MPI_REQUEST_NULL, before;
  memset(&before, 0x33, sizeof before);
  MPI_Status status;
  memset(&status, 0x55, sizeof status);
  int position = 0, code = MPI_SUCCESS;
  const int way = draw(10);
  char* buffer = buffers_got[0];
  memset(buffer, 0x44, span);
  request = before;
  switch (way) {
    case 0: code = MPI_Isend(buffer, 1, one.type, processes, 1, comm, &request); break;
    case 1: code = MPI_Irecv(buffer, 1, one.type, processes + 3, 1, comm, &request); break;
    case 2: code = MPI_Recv(buffer, 1, one.type, 0, -77, comm, &status); break;
    case 3: code = MPI_Send(buffer, 1, uncommitted, 0, 1, comm); break;
    case 4: code = MPI_Recv(buffer, -1, one.type, 0, 1, comm, &status); break;
    case 5: code = MPI_Irecv(buffer, 1, one.type, 0, 1, MPI_COMM_NULL, &request); break;
    case 6: code = MPI_Pack(buffer, 1, one.type, small, 64, &position, MPI_COMM_NULL); break;
    case 7: code = MPI_Pack(buffer, one.count, one.type, small, 1, &position, comm); break;
    case 8: code = MPI_Unpack(small, 4, &position, buffer, one.count, one.type, comm); break;
    default:
      code = MPI_Sendrecv(buffer, 1, one.type, processes, 1, buffers_got[1], 1, one.type, 0, 1,
                          comm, &status);
      break;
  }
  note("\n refused %d: %d request %s position %d %016llx", way, class_of(code),
       memcmp(&request, &before, sizeof before) == 0 ? "untouched"
       : request == MPI_REQUEST_NULL                 ? "null"
                                                     : "made",
       position, (unsigned long long)hash(buffer, span));
  note_status("x", 0, &status, 1);
  MPI_Type_free(&uncommitted);
  MPI_Type_free(&one.type);
}

int main(int argc, char** argv) {
  static char attached[1 << 23];
  MPI_Errhandler handler;
  MPI_Comm comm;
  char name[1000];
  if (argc < 4) return 2;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_create_errhandler(&handle, &handler);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Buffer_attach(attached, sizeof attached);
  for (int k = 0; k < messages_max; k++) {
    buffers_sent[k] = malloc(span);
    buffers_got[k] = malloc(span);
  }
  snprintf(name, sizeof name, "%s.%d", argv[3], rank);
  saw = fopen(name, "w");
  if (saw == NULL) return 2;
  for (int seed = atoi(argv[1]), left = atoi(argv[2]); left > 0; seed++, left--) {
    state = 88172645463325252u ^ ((uint64_t)seed * 2654435761u);
    for (int k = 0; k < 8; k++) draw(2);
    note("\nseed %d", seed);
    handled = 0;
    for (int round = 0; round < 4; round++) {
      const int kind = draw(10);
      if (kind < 5) point_to_point(comm, handler);
      if (kind == 5) persistent(comm);
      if (kind == 6) exchanges(comm);
      if (kind == 7) collectives(comm);
      if (kind >= 8) refused(comm);
    }
    fflush(saw);
  }
  note("\nthe end\n");
  fclose(saw);
  MPI_Errhandler_free(&handler);
  MPI_Comm_free(&comm);
  end();
  MPI_Finalize();
  return 0;
}
