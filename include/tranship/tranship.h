/* The staging service from C: put boxes of arrays, version by version, and get any box of them.
 *
 * What is promised is said in docs/concepts/staging.md; docs/guides/c-and-fortran.md shows
 * programs. Settings are those of `tranship config`: variables of the environment that begin with
 * TRANSHIP_.
 *
 * Every function returns TRANSHIP_OK or says what went wrong; tranship_last_error() has the words.
 * Every wait ends: timeouts are seconds, from 0 to at most 1e6. Threads may share a
 * tranship_staging and call all functions at the same time. In a fork of the process that opened
 * it, every call fails with TRANSHIP_CLOSED: open one there. */
#ifndef TRANSHIP_TRANSHIP_H
#define TRANSHIP_TRANSHIP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TRANSHIP_API __attribute__((visibility("default")))
#else
#define TRANSHIP_API
#endif

/* A caller acts differently on each of these. */
typedef enum tranship_code {
  TRANSHIP_OK = 0,
  TRANSHIP_INVALID_ARGUMENT = 1, /* the call cannot be carried out as written */
  TRANSHIP_NOT_FOUND = 2,        /* a variable, a version or a contact file that is not there */
  TRANSHIP_OUT_OF_RANGE = 3,     /* an index outside of what it counts */
  TRANSHIP_NO_ROUTE = 4,         /* nothing joins the two memories */
  TRANSHIP_UNSUPPORTED = 5,      /* this build, this machine or this server cannot do it */
  TRANSHIP_OUT_OF_MEMORY = 6,    /* a memory or its budget is exhausted */
  TRANSHIP_IO = 7,               /* the operating system refused a file or a socket */
  TRANSHIP_PERMISSION = 8,       /* the operating system forbids it */
  TRANSHIP_PEER_LOST = 9,        /* a process has died: the server, or one that put */
  TRANSHIP_TIMEOUT = 10,         /* the time was up before it was there, or done */
  TRANSHIP_CANCELLED = 11,       /* it was cancelled */
  TRANSHIP_CLOSED = 12 /* all who put to the variable have ended, or `staging` was closed */
} tranship_code;

/* The code's name, such as "peer_lost". */
TRANSHIP_API const char* tranship_error_name(tranship_code code);

/* What went wrong in this thread's last call that failed, and what to do; it stays until this
 * thread's next call that fails. Never NULL. */
TRANSHIP_API const char* tranship_last_error(void);

#define TRANSHIP_RANK_MAX 8

/* How a dense array lies in memory. */
typedef enum tranship_order {
  TRANSHIP_C_ORDER = 0,      /* the last index is fastest */
  TRANSHIP_FORTRAN_ORDER = 1 /* the first index is fastest */
} tranship_order;

/* An array and the place of its box in a variable. Set all of it: what an initializer leaves out is
 * zero, and means "dense, in C's order, from index 0".
 *
 *   tranship_array block = {.data = heat, .type = "f8", .rank = 2, .extents = {rows, columns},
 *                           .lower = {first_row, 0}};
 *
 * Indices keep their order, whatever the order in memory: element (i, j) of the array is element
 * (lower[0] + i, lower[1] + j) of the variable, for readers in every language. */
typedef struct tranship_array {
  void* data;       /* the first element; host memory, or a GPU's if this process uses GPUs */
  const char* type; /* of an element, as NumPy writes it: b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 f16
                       c8 c16 */
  int rank;         /* 0 to TRANSHIP_RANK_MAX */
  int order;        /* a tranship_order; of no meaning if there are strides */
  int64_t extents[TRANSHIP_RANK_MAX]; /* at least 1 */
  int64_t strides[TRANSHIP_RANK_MAX]; /* bytes from one index to the next; all 0: dense */
  int64_t lower[TRANSHIP_RANK_MAX];   /* the box's first indices; they may be negative */
} tranship_array;

/* A connection to a staging server, with threads and memory of its own. */
typedef struct tranship_staging tranship_staging;

/* Connects to a server and waits until there is one.
 * contact: the file that the server writes, or host:port. name: what the server calls this process;
 * NULL: host and process. The first call on a machine measures it, which takes some four seconds.
 */
TRANSHIP_API tranship_code tranship_open(const char* contact, const char* name, double timeout,
                                         tranship_staging** staging);

/* Waits for puts that were begun, says that nothing more will be put, and disconnects. Calls of
 * other threads, and gets that were begun, end with TRANSHIP_CLOSED, as does every later call with
 * `staging`. A process that ends without this counts as dead. NULL, and what is closed already, is
 * ignored. */
TRANSHIP_API tranship_code tranship_close(tranship_staging* staging);

/* Says what a variable will be: the type of its elements, as in tranship_array; its domain, of
 * which rank, extents and lower are used; and how many processes will put to it, 0 if that is not
 * known.
 * Any process may, before or after the first put; a later domain may be larger. Said before the
 * first put, it lets the servers of a group share the boxes evenly. A variable whose writers are
 * counted does not end before all of them have put and closed; puts outside the domain are
 * refused. */
TRANSHIP_API tranship_code tranship_define(tranship_staging* staging, const char* variable,
                                           const char* type, const tranship_array* domain,
                                           int writers);

/* Puts an array as a box of a variable. When it returns, everybody sees it, whole. Waits while the
 * server's memory is full. The first put decides the variable's element type and rank.
 * Work on a GPU that writes the array must have ended before. */
TRANSHIP_API tranship_code tranship_put(tranship_staging* staging, const char* variable,
                                        int64_t version, const tranship_array* array,
                                        double timeout);

/* Waits until the array's whole box is there at this version, and writes it into the array. */
TRANSHIP_API tranship_code tranship_get(tranship_staging* staging, const char* variable,
                                        int64_t version, const tranship_array* array,
                                        double timeout);

/* The same with the lowest version above `after` (INT64_MIN: with the lowest of all), which it says
 * in `version`. TRANSHIP_CLOSED: all who put to the variable have closed, and there is none. */
TRANSHIP_API tranship_code tranship_get_next(tranship_staging* staging, const char* variable,
                                             int64_t after, const tranship_array* array,
                                             double timeout, int64_t* version);

/* The same with the highest version that covers the box. */
TRANSHIP_API tranship_code tranship_get_latest(tranship_staging* staging, const char* variable,
                                               const tranship_array* array, double timeout,
                                               int64_t* version);

/* Waits as tranship_get_next() does, and moves nothing: `box` needs rank, extents and lower only.
 */
TRANSHIP_API tranship_code tranship_wait_next(tranship_staging* staging, const char* variable,
                                              int64_t after, const tranship_array* box,
                                              double timeout, int64_t* version);

/* Takes a version away; who reads it at the moment reads on. */
TRANSHIP_API tranship_code tranship_discard(tranship_staging* staging, const char* variable,
                                            int64_t version);

/* What is known of a variable. */
typedef struct tranship_variable {
  char type[16];
  int rank;
  int producers;                    /* processes that put to it and are connected */
  int64_t lower[TRANSHIP_RANK_MAX]; /* of the box around all that was ever put */
  int64_t upper[TRANSHIP_RANK_MAX]; /* one past its last indices */
} tranship_variable;

/* Waits until something has been put to the variable. */
TRANSHIP_API tranship_code tranship_describe(tranship_staging* staging, const char* name,
                                             double timeout, tranship_variable* variable);

/* A put or get that goes on behind its caller's back: up to four of a tranship_staging at once, the
 * others after them. The array's memory must stay until it has ended; the tranship_array need not.
 */
typedef struct tranship_request tranship_request;

/* As tranship_put(); `timeout` begins with the work. Free the request. */
TRANSHIP_API tranship_code tranship_put_async(tranship_staging* staging, const char* variable,
                                              int64_t version, const tranship_array* array,
                                              double timeout, tranship_request** request);

/* As tranship_get(); the same. */
TRANSHIP_API tranship_code tranship_get_async(tranship_staging* staging, const char* variable,
                                              int64_t version, const tranship_array* array,
                                              double timeout, tranship_request** request);

/* Returns what the put or get returned; TRANSHIP_TIMEOUT too if it has not ended by then. */
TRANSHIP_API tranship_code tranship_request_wait(tranship_request* request, double timeout);

/* Says in `ended`, by 1 or 0, whether it has; returns at once. */
TRANSHIP_API tranship_code tranship_request_test(tranship_request* request, int* ended);

/* Waits for the end, which its own timeout bounds, and lets go of the request. NULL is ignored. */
TRANSHIP_API void tranship_request_free(tranship_request* request);

/* The variables of a server, as they were when it was asked. */
typedef struct tranship_listing tranship_listing;

typedef struct tranship_entry {
  const char* name; /* valid until the listing is freed */
  tranship_variable variable;
  int64_t versions;      /* how many are held; the next four are of these */
  int64_t version_first; /* 0 if none is */
  int64_t version_last;
  int64_t objects;
  int64_t bytes; /* of the server's memory, in its whole units */
  int64_t puts;  /* since the servers have started, with their bytes */
  int64_t put_bytes;
  int64_t gets;
  int64_t get_bytes;
} tranship_entry;

/* Asks the server. Free the listing. */
TRANSHIP_API tranship_code tranship_ls(tranship_staging* staging, tranship_listing** listing);

/* How many variables there are; 0 for NULL. */
TRANSHIP_API int64_t tranship_listing_size(const tranship_listing* listing);

/* Variable `index`, from 0, in the order of their names. */
TRANSHIP_API tranship_code tranship_listing_entry(const tranship_listing* listing, int64_t index,
                                                  tranship_entry* entry);

/* NULL is ignored. */
TRANSHIP_API void tranship_listing_free(tranship_listing* listing);

#ifdef __cplusplus
}
#endif

#endif
