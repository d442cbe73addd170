/* Steps from C: many variables and attributes of one number, which are seen whole or not at all.
 *
 * A step has a number, which is the version of its variables, and is written by one process or by
 * several. Readers see all of it once each of its writers has ended its part, and nothing before.
 * Where a writer gives it up, or dies within it, nothing of it is kept, and readers pass it by.
 * docs/guides/c-and-fortran.md shows programs. */
#ifndef TRANSHIP_STEPS_H
#define TRANSHIP_STEPS_H

#include <stdint.h>

#include "array.h"
#include "attributes.h"
#include "error.h"
#include "staging.h"

#ifdef __cplusplus
extern "C" {
#endif

/* This process's part of a step that is being written. Threads may share it. */
typedef struct tranship_step_writer tranship_step_writer;

/* Begins a step that `writers` processes write; each of them begins it. Steps rise: a broken one
 * may be begun again while it is the highest. Free the writer, also after its end.
 * Errors: TRANSHIP_INVALID_ARGUMENT if the step is whole, a higher one was begun before, it has
 * another number of writers, or this connection has begun it before; TRANSHIP_OUT_OF_MEMORY for a
 * limit of the server, which is named. */
TRANSHIP_API tranship_code tranship_step_begin(tranship_staging* staging, int64_t number,
                                               int writers, double timeout,
                                               tranship_step_writer** step);

/* Puts an array as a box of a variable, as tranship_put() does, within the step.
 * Errors: as tranship_put(); TRANSHIP_INVALID_ARGUMENT if this part of the step has ended;
 * TRANSHIP_NOT_FOUND if the step is broken. */
TRANSHIP_API tranship_code tranship_step_put(tranship_step_writer* step, const char* variable,
                                             const tranship_array* array, double timeout);

/* Starts such a put, as tranship_put_async() does. tranship_step_end() waits for it, and fails if
 * it has failed. Free the request, before or after the end of the step. */
TRANSHIP_API tranship_code tranship_step_put_async(tranship_step_writer* step, const char* variable,
                                                   const tranship_array* array, double timeout,
                                                   tranship_request** request);

/* Set an attribute of the step or, unless `variable` is NULL or empty, of a variable in it. It is
 * sent with the end. Set again, it has the later value; no two writers may give it different ones.
 * Errors: as tranship_set_double() and its like, and as tranship_step_put(). */
TRANSHIP_API tranship_code tranship_step_set_double(tranship_step_writer* step,
                                                    const char* variable, const char* key,
                                                    double value);
TRANSHIP_API tranship_code tranship_step_set_int64(tranship_step_writer* step, const char* variable,
                                                   const char* key, int64_t value);
TRANSHIP_API tranship_code tranship_step_set_text(tranship_step_writer* step, const char* variable,
                                                  const char* key, const char* value);
TRANSHIP_API tranship_code tranship_step_set_json(tranship_step_writer* step, const char* variable,
                                                  const char* key, const char* json);

/* Ends this process's part: the step is whole when all writers have ended theirs. Waits for puts of
 * other threads and for asynchronous ones, whose own timeouts bound that, and then at most
 * `timeout` for the server's answer. Unless an argument is refused, the part has ended afterwards;
 * if it fails, the step is broken.
 * Errors: TRANSHIP_NOT_FOUND if the step is broken: another writer has died within it, or given it
 * up; TRANSHIP_INVALID_ARGUMENT if another writer has set an attribute to another value;
 * TRANSHIP_OUT_OF_MEMORY for a limit of the server; what an asynchronous put has failed with. */
TRANSHIP_API tranship_code tranship_step_end(tranship_step_writer* step, double timeout);

/* Breaks the step: nothing of it is kept, and readers pass it by. `why`: what they are told; NULL:
 * nothing.
 * Errors: TRANSHIP_INVALID_ARGUMENT if this part of the step has ended. */
TRANSHIP_API tranship_code tranship_step_give_up(tranship_step_writer* step, const char* why);

/* Gives the step up unless its part has ended, and frees the writer. NULL is ignored. */
TRANSHIP_API void tranship_step_writer_free(tranship_step_writer* step);

/* A whole step that was found: its number, what it has, and its attributes. It does not change. */
typedef struct tranship_step tranship_step;

/* Waits for the lowest whole step above `after` (INT64_MIN: the lowest of all), and for open ones
 * below it. Broken ones are passed by. Free the step.
 * Errors: TRANSHIP_CLOSED if all processes that wrote steps have closed and there is no such step;
 * TRANSHIP_PEER_LOST if one of them has died instead; TRANSHIP_TIMEOUT, which says what is missing.
 */
TRANSHIP_API tranship_code tranship_step_next(tranship_staging* staging, int64_t after,
                                              double timeout, tranship_step** step);

/* Finds the highest whole step; waits while there is none. Errors: as tranship_step_next(). */
TRANSHIP_API tranship_code tranship_step_latest(tranship_staging* staging, double timeout,
                                                tranship_step** step);

/* Waits until the step with this number is whole.
 * Errors: as tranship_step_next(); TRANSHIP_NOT_FOUND, which says why, if it is broken, was never
 * written though a higher one was, or was discarded. */
TRANSHIP_API tranship_code tranship_step_find(tranship_staging* staging, int64_t number,
                                              double timeout, tranship_step** step);

/* Returns the number of the step; 0 for NULL. */
TRANSHIP_API int64_t tranship_step_number(const tranship_step* step);

/* Returns the number of its variables; 0 for NULL. */
TRANSHIP_API int64_t tranship_step_size(const tranship_step* step);

/* Writes the name of variable `index`, from 0, in the order of the names; it is valid until the
 * step is freed.
 * Errors: TRANSHIP_OUT_OF_RANGE. */
TRANSHIP_API tranship_code tranship_step_name(const tranship_step* step, int64_t index,
                                              const char** name);

/* Describes a variable of the step: `lower` and `upper` are the box around what the step has of it,
 * and `producers` is 0.
 * Errors: TRANSHIP_NOT_FOUND if the step does not have it. */
TRANSHIP_API tranship_code tranship_step_describe(const tranship_step* step, const char* name,
                                                  tranship_variable* variable);

/* Gets a box of a variable, as tranship_get() does. Nothing is waited for but the servers' answers.
 * Errors: TRANSHIP_NOT_FOUND if the step does not have all of the box, or was discarded. */
TRANSHIP_API tranship_code tranship_step_get(const tranship_step* step, const char* variable,
                                             const tranship_array* array, double timeout);

/* Writes the attributes of the step or, unless `variable` is NULL or empty, those that it has of a
 * variable. They are part of the step, and valid until it is freed.
 * Errors: TRANSHIP_NOT_FOUND if the step has nothing of the variable. */
TRANSHIP_API tranship_code tranship_step_attributes(const tranship_step* step, const char* variable,
                                                    const tranship_attributes** attributes);

/* Frees a step that was found. NULL is ignored. */
TRANSHIP_API void tranship_step_free(tranship_step* step);

/* Discards a whole step: no reader finds it any more, and its variables' versions go. Gets that are
 * reading them are not disturbed.
 * Errors: TRANSHIP_NOT_FOUND if there is no such step, or it is not whole. */
TRANSHIP_API tranship_code tranship_step_discard(tranship_staging* staging, int64_t number);

#ifdef __cplusplus
}
#endif

#endif
