/* The staging service from C: put boxes of arrays, version by version, and get any box of them.
 *
 * docs/concepts/staging.md says what is promised; docs/guides/c-and-fortran.md shows programs.
 * Settings are those of `tranship config`: environment variables that begin with TRANSHIP_.
 *
 * Threads may share a tranship_staging and call all functions at the same time. Every wait ends:
 * timeouts are seconds, from 0 to at most 1e6. In a fork of the process that opened it, every call
 * fails with TRANSHIP_CLOSED: open a connection there. */
#ifndef TRANSHIP_STAGING_H
#define TRANSHIP_STAGING_H

#include <stdint.h>

#include "array.h"
#include "error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A connection to a staging server, with threads and memory of its own. */
typedef struct tranship_staging tranship_staging;

/* Connects to a server; waits until the server is there.
 * contact: the file that the server writes, or host:port. name: client name, which appears in the
 * server's messages; NULL: host name and process id. The first call on a machine measures it, which
 * takes some four seconds. */
TRANSHIP_API tranship_code tranship_open(const char* contact, const char* name, double timeout,
                                         tranship_staging** staging);

/* Waits for asynchronous puts, declares that this client puts nothing more, and disconnects. Calls
 * of other threads, and asynchronous gets, end with TRANSHIP_CLOSED, as does every later call with
 * `staging`. A process that ends without this call counts as dead. NULL, and a connection that is
 * closed already, are ignored. */
TRANSHIP_API tranship_code tranship_close(tranship_staging* staging);

/* Returns 1 if the connection is open, 0 after tranship_close(), in a fork, and for NULL. It tells
 * the two reasons for TRANSHIP_CLOSED apart: this connection is closed, or every producer is. */
TRANSHIP_API int tranship_is_open(tranship_staging* staging);

/* Defines a variable: its element type, as in tranship_array; its domain, of which rank, extents
 * and lower are used; and the number of processes that will put to it, 0 if that is not known. Any
 * process may define a variable, before or after the first put; a later domain may be larger.
 * Called before the first put, it lets the servers of a group share the boxes evenly. A variable
 * with a number of writers does not end before all of them have put and closed. Puts outside the
 * domain are refused, but for those of processes that had put to the variable before it was
 * defined; what was put before is not compared with the domain. */
TRANSHIP_API tranship_code tranship_define(tranship_staging* staging, const char* variable,
                                           const char* type, const tranship_array* domain,
                                           int writers);

/* Puts an array as a box of a variable. When it returns, every client sees the whole box. Waits
 * while the server's memory is full. The first put decides the variable's element type and rank.
 * GPU work that writes the array must have ended before the call. */
TRANSHIP_API tranship_code tranship_put(tranship_staging* staging, const char* variable,
                                        int64_t version, const tranship_array* array,
                                        double timeout);

/* Waits until the array's whole box has been put at this version, and writes it into the array. */
TRANSHIP_API tranship_code tranship_get(tranship_staging* staging, const char* variable,
                                        int64_t version, const tranship_array* array,
                                        double timeout);

/* Does the same with the lowest version above `after` (INT64_MIN: the lowest of all), and writes
 * that version to `version`. Versions that have something of the box and will never have all of it
 * are passed by. Returns TRANSHIP_CLOSED if every producer of the variable has closed
 * and there is no such version. */
TRANSHIP_API tranship_code tranship_get_next(tranship_staging* staging, const char* variable,
                                             int64_t after, const tranship_array* array,
                                             double timeout, int64_t* version);

/* Does the same with the highest version that covers the box. */
TRANSHIP_API tranship_code tranship_get_latest(tranship_staging* staging, const char* variable,
                                               const tranship_array* array, double timeout,
                                               int64_t* version);

/* Waits as tranship_get_next() does, and moves nothing: of `box` only rank, extents and lower are
 * used. */
TRANSHIP_API tranship_code tranship_wait_next(tranship_staging* staging, const char* variable,
                                              int64_t after, const tranship_array* box,
                                              double timeout, int64_t* version);

/* Discards a version. Gets that are reading it are not disturbed. */
TRANSHIP_API tranship_code tranship_discard(tranship_staging* staging, const char* variable,
                                            int64_t version);

/* Description of a variable. */
typedef struct tranship_variable {
  char type[16];
  int rank;
  int producers;                    /* connected processes that have put to it */
  int64_t lower[TRANSHIP_RANK_MAX]; /* first indices of the box around everything that was put */
  int64_t upper[TRANSHIP_RANK_MAX]; /* one past its last indices */
} tranship_variable;

/* Waits until a box has been put to the variable, and describes the variable. */
TRANSHIP_API tranship_code tranship_describe(tranship_staging* staging, const char* name,
                                             double timeout, tranship_variable* variable);

/* Does the same for one version: `lower` and `upper` are the box around what was put to it, and
 * `producers` is 0. More may still come. */
TRANSHIP_API tranship_code tranship_describe_version(tranship_staging* staging, const char* name,
                                                     int64_t version, double timeout,
                                                     tranship_variable* variable);

/* Waits for the lowest version above `after` (INT64_MIN: the lowest of all) that is whole by its
 * own bounds: what was put to it covers the box around it, and each process that puts to the
 * variable has taken part in it. Writes its number, and that box to `lower` and `upper` of
 * `variable`. Versions that will never be whole are passed by. Returns TRANSHIP_CLOSED if every
 * producer of the variable has closed and there is no such version. */
TRANSHIP_API tranship_code tranship_wait_next_version(tranship_staging* staging, const char* name,
                                                      int64_t after, double timeout,
                                                      int64_t* version,
                                                      tranship_variable* variable);

/* Says that this process has nothing in a version of a variable, which need not exist yet. Readers
 * of whole versions wait for each process that puts to the variable; from then on this is one. */
TRANSHIP_API tranship_code tranship_nothing(tranship_staging* staging, const char* variable,
                                            int64_t version);

/* An asynchronous put or get. Up to four of a tranship_staging run at the same time, the others
 * after them. The array's memory must stay valid until the request has ended; the tranship_array
 * itself need not. */
typedef struct tranship_request tranship_request;

/* Starts a put, as tranship_put(); its timeout begins when a thread starts to work on it. Free the
 * request. */
TRANSHIP_API tranship_code tranship_put_async(tranship_staging* staging, const char* variable,
                                              int64_t version, const tranship_array* array,
                                              double timeout, tranship_request** request);

/* Starts a get, as tranship_get(). Free the request. */
TRANSHIP_API tranship_code tranship_get_async(tranship_staging* staging, const char* variable,
                                              int64_t version, const tranship_array* array,
                                              double timeout, tranship_request** request);

/* Waits for the end, and returns what the put or get returned; TRANSHIP_TIMEOUT also if it has not
 * ended within `timeout`. */
TRANSHIP_API tranship_code tranship_request_wait(tranship_request* request, double timeout);

/* Writes 1 to `ended` if the request has ended, else 0. Returns at once. */
TRANSHIP_API tranship_code tranship_request_test(tranship_request* request, int* ended);

/* Waits for the end, which the request's own timeout bounds, and frees the request. NULL is
 * ignored. */
TRANSHIP_API void tranship_request_free(tranship_request* request);

/* The variables of a server at the time of tranship_ls(). */
typedef struct tranship_listing tranship_listing;

/* One variable of a listing. */
typedef struct tranship_entry {
  const char* name; /* valid until the listing is freed */
  tranship_variable variable;
  int64_t versions;      /* number of versions that the server holds */
  int64_t version_first; /* lowest of them; 0 if there is none */
  int64_t version_last;  /* highest of them; 0 if there is none */
  int64_t objects;       /* boxes of these versions */
  int64_t bytes;         /* server memory that they take, in allocation units */
  int64_t puts;          /* since the servers started, as are the next three */
  int64_t put_bytes;
  int64_t gets;
  int64_t get_bytes;
} tranship_entry;

/* Lists the variables of the server. Free the listing. */
TRANSHIP_API tranship_code tranship_ls(tranship_staging* staging, tranship_listing** listing);

/* Returns the number of variables; 0 for NULL. */
TRANSHIP_API int64_t tranship_listing_size(const tranship_listing* listing);

/* Writes variable `index`, from 0, in the order of the names.
 * Errors: TRANSHIP_OUT_OF_RANGE. */
TRANSHIP_API tranship_code tranship_listing_entry(const tranship_listing* listing, int64_t index,
                                                  tranship_entry* entry);

/* Frees a listing. NULL is ignored. */
TRANSHIP_API void tranship_listing_free(tranship_listing* listing);

#ifdef __cplusplus
}
#endif

#endif
