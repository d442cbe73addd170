/* Return codes, messages and hints of the C API.
 *
 * Every function that can fail returns a tranship_code. The message and the hint of a thread's last
 * failure are kept for that thread. No function throws, and none ends the program for a failure of
 * its arguments or of the system. */
#ifndef TRANSHIP_ERROR_H
#define TRANSHIP_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TRANSHIP_API __attribute__((visibility("default")))
#else
#define TRANSHIP_API
#endif

/* What a function returns. There is one code for each case in which a caller acts differently. */
typedef enum tranship_code {
  TRANSHIP_OK = 0,
  TRANSHIP_INVALID_ARGUMENT = 1, /* the call cannot be carried out as written */
  TRANSHIP_NOT_FOUND = 2,        /* there is no such file, variable, version or exported array */
  TRANSHIP_OUT_OF_RANGE = 3,     /* an index or a range lies outside the array */
  TRANSHIP_NO_ROUTE = 4,         /* no chain of channels joins the two memories */
  TRANSHIP_UNSUPPORTED = 5,      /* this build, this machine or this server cannot do it */
  TRANSHIP_OUT_OF_MEMORY = 6,    /* a memory or its budget is exhausted */
  TRANSHIP_IO = 7,               /* the operating system refused a file or a socket */
  TRANSHIP_PERMISSION = 8,       /* the operating system forbids it */
  TRANSHIP_PEER_LOST = 9,        /* another process died or cannot be reached */
  TRANSHIP_TIMEOUT = 10,         /* the timeout passed before the wait ended */
  TRANSHIP_CANCELLED = 11,       /* the copy was cancelled */
  TRANSHIP_CLOSED = 12 /* the handle was closed, or every producer of the variable has closed */
} tranship_code;

/* Returns the code's name, such as "peer_lost"; "unknown" for a number that is no code. */
TRANSHIP_API const char* tranship_error_name(tranship_code code);

/* Returns the message of this thread's last failure: what went wrong, with the value and the
 * argument's name. It stays valid until this thread's next failure. Empty before the first one;
 * never NULL. */
TRANSHIP_API const char* tranship_last_error(void);

/* Returns the hint of this thread's last failure: what to do about it. Empty if there is nothing to
 * say; never NULL. It stays valid as tranship_last_error() does. */
TRANSHIP_API const char* tranship_last_hint(void);

#ifdef __cplusplus
}
#endif

#endif
