/* The engine from C: one call copies between any two memories and changes the layout on the way.
 *
 *   tranship_engine* engine;
 *   tranship_engine_open(NULL, &engine);
 *   tranship_instance_of_memory(engine, rows, bytes, &layout, &source);
 *   tranship_file_open(engine, "field.bin", &other_layout, &options, &target);
 *   tranship_copy(engine, source, target, NULL, &event);
 *   tranship_event_wait(event, 60.0);
 *
 * Threads may share every handle and call all functions at the same time; a handle must not be
 * freed while another call uses it. Timeouts are seconds, from 0 to at most 1e6. In a fork of the
 * process that made a handle, every call with it fails with TRANSHIP_CLOSED, and freeing it does
 * nothing: open an engine there. On a failure, output arguments are NULL or unchanged. */
#ifndef TRANSHIP_ENGINE_H
#define TRANSHIP_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "instance.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A setting of `tranship config`, such as {"threads", "4"}. */
typedef struct tranship_setting {
  const char* name;  /* as `tranship config` prints it */
  const char* value; /* as the environment variable would have it */
} tranship_setting;

/* How an engine is opened. Set `size`; other members that are zero mean the defaults. */
typedef struct tranship_engine_options {
  size_t size;                      /* sizeof(tranship_engine_options) */
  const tranship_setting* settings; /* they override the variables of the environment */
  int64_t setting_count;
  const char* profile; /* a file with the machine's profile as JSON. NULL: this machine's, which
                          is measured once (some four seconds) and kept */
  const char* contact_file; /* a file to write, by which other processes find this engine */
  int accept;               /* 1: accept connections by tranship_engine_contact() alone */
  const char* trace_file;   /* a file for the trace, written at close as Chrome trace JSON */
} tranship_engine_options;

/* Opens an engine: its worker threads, its intermediate buffers and its GPUs.
 * options: NULL for the defaults.
 * Errors: TRANSHIP_INVALID_ARGUMENT for a setting that does not exist or cannot be read;
 * TRANSHIP_NOT_FOUND for a profile that does not exist; what the operating system refused. */
TRANSHIP_API tranship_code tranship_engine_open(const tranship_engine_options* options,
                                                tranship_engine** engine);

/* Ends everything that is outstanding, within a bounded time. Copies under way are cancelled and
 * have ended when it returns; calls of other threads, and all later ones, fail with
 * TRANSHIP_CLOSED. NULL, and an engine that is closed already, are ignored.
 * Errors: TRANSHIP_TIMEOUT if another process, which may be stopped, may still access an exported
 * array: keep its memory until that process has exited; TRANSHIP_IO for the trace. */
TRANSHIP_API tranship_code tranship_engine_close(tranship_engine* engine);

/* Writes host:port, by which other processes reach this engine; an empty string if it accepts no
 * connections. The string stays valid for the rest of the process. */
TRANSHIP_API tranship_code tranship_engine_contact(tranship_engine* engine, const char** contact);

/* Returns the number of the GPU on which an address lies, of managed memory too; -1 for host
 * memory, for an engine without GPUs or that is closed, and for NULL. */
TRANSHIP_API int tranship_engine_gpu_of(tranship_engine* engine, const void* address);

/* -- Copies -------------------------------------------------------------------------------- */

/* The end of a copy, to wait for. */
typedef struct tranship_event tranship_event;

/* The way that a copy takes, and what it should cost. */
typedef struct tranship_plan tranship_plan;

/* Options of a copy. Set `size`; other members that are zero mean the defaults. */
typedef struct tranship_copy_options {
  size_t size;                  /* sizeof(tranship_copy_options) */
  const tranship_range* region; /* the ranges to copy, on both sides; dimensions that are not named
                                   are whole */
  int64_t region_count;
  int priority;         /* higher goes first on every channel; a lower one pauses meanwhile */
  const char* planner;  /* "automatic" (default), "full", "simple", "spsl" or "spdl" (Isometry,
                           sections 4.2, 4.4 and 6.3) */
  int64_t buffer_bytes; /* most bytes that the buffers between hops may take; 0: no own limit */
  tranship_event* const* after; /* the copy starts when these have ended */
  int64_t after_count;
  void* stream;   /* a cudaStream_t, used if has_stream is 1: the copy starts after what is in it */
  int has_stream; /* to or from the memory of a GPU that reaches the other end, too, it runs in the
                     stream itself; after any other, wait for the event before you use the target */
  const char* cast;   /* "safe", "same_kind" or "unsafe": numbers change their types as this rule of
                         NumPy's allows; not in pieces and derived types. NULL: types are equal */
  const char* notify; /* name of the notice that the process which exports the target, or else the
                         source, gets once all bytes have arrived (peers.h): UTF-8 text of 1 to 256
                         bytes without control characters. NULL: none is sent */
} tranship_copy_options;

/* Starts a copy, and writes the event of its end. Both instances have the same extents and fields;
 * the target is writable, shares no byte with the source, through whatever map or connection, and
 * no two of its elements share one. A small copy in memory has ended on return. options: NULL for
 * the defaults. Free the event. Errors: TRANSHIP_INVALID_ARGUMENT for instances that do not match,
 * that overlap, a target that is read-only or repeats bytes, and for a notice that has no name, is
 * not taken, or is sent while the stream is captured; TRANSHIP_NO_ROUTE; TRANSHIP_OUT_OF_RANGE for
 * a region outside them. tranship_event_wait() says what fails later. */
TRANSHIP_API tranship_code tranship_copy(tranship_engine* engine, const tranship_instance* source,
                                         const tranship_instance* target,
                                         const tranship_copy_options* options,
                                         tranship_event** event);

/* One of several copies. */
typedef struct tranship_pair {
  const tranship_instance* source;
  const tranship_instance* target;
} tranship_pair;

/* Starts several copies, and writes the event of the end of all. No two targets may overlap, and no
 * target may overlap the source of another pair; neither is checked. Where one GPU reaches all of
 * them in one hop they take one launch. `options` may not have a region.
 * Errors: as tranship_copy(), for any pair; then none of the copies goes on. */
TRANSHIP_API tranship_code tranship_copy_all(tranship_engine* engine, const tranship_pair* pairs,
                                             int64_t pair_count,
                                             const tranship_copy_options* options,
                                             tranship_event** event);

/* Pages to copy: indices of the first dimension. */
typedef struct tranship_pages {
  const int64_t* source; /* `count` indices of the source */
  const int64_t* target; /* `count` indices of the target, each a different one */
  int64_t count;
} tranship_pages;

/* Starts a copy of pages: each page of `pages->source` goes to the page of `pages->target` at the
 * same position. `options` may not have a region.
 * Errors: as tranship_copy(); TRANSHIP_OUT_OF_RANGE for an index outside its instance. */
TRANSHIP_API tranship_code tranship_copy_pages(
    tranship_engine* engine, const tranship_instance* source, const tranship_instance* target,
    const tranship_pages* pages, const tranship_copy_options* options, tranship_event** event);

/* Pieces to copy: ranges of bytes, counted from the first byte of each instance. */
typedef struct tranship_pieces {
  const int64_t* source_offsets; /* `count` offsets in the source */
  const int64_t* target_offsets; /* `count` offsets in the target */
  const int64_t* lengths;        /* bytes of each piece; 0 or more */
  int64_t count;
} tranship_pieces;

/* Starts a copy of pieces: `lengths[k]` bytes at `source_offsets[k]` go to `target_offsets[k]`.
 * Both instances fill one block of memory without gaps; their types do not matter. `options` may
 * not have a region. Errors: as tranship_copy(); TRANSHIP_OUT_OF_RANGE for a piece outside its
 * instance; TRANSHIP_INVALID_ARGUMENT for pieces that overlap in the target, and for one that reads
 * what another writes. */
TRANSHIP_API tranship_code tranship_copy_pieces(
    tranship_engine* engine, const tranship_instance* source, const tranship_instance* target,
    const tranship_pieces* pieces, const tranship_copy_options* options, tranship_event** event);

/* A copy that was checked and planned once, to be started again and again. */
typedef struct tranship_prepared tranship_prepared;

/* Prepares what tranship_copy() would start. The instances may be freed; memory that the caller
 * gave must stay valid until the last start has ended. May wait for a GPU. `options` may have
 * neither a region nor events, a stream or a notice, which belong to a start. Free the prepared
 * copy.
 * Errors: as tranship_copy(). */
TRANSHIP_API tranship_code tranship_prepare(tranship_engine* engine,
                                            const tranship_instance* source,
                                            const tranship_instance* target,
                                            const tranship_copy_options* options,
                                            tranship_prepared** prepared);

/* The same for tranship_copy_all(). Errors: as there. */
TRANSHIP_API tranship_code tranship_prepare_all(tranship_engine* engine, const tranship_pair* pairs,
                                                int64_t pair_count,
                                                const tranship_copy_options* options,
                                                tranship_prepared** prepared);

/* The same for tranship_copy_pages(), whose lists are copied. Errors: as there. */
TRANSHIP_API tranship_code tranship_prepare_pages(tranship_engine* engine,
                                                  const tranship_instance* source,
                                                  const tranship_instance* target,
                                                  const tranship_pages* pages,
                                                  const tranship_copy_options* options,
                                                  tranship_prepared** prepared);

/* The same for tranship_copy_pieces(), whose lists are copied. Errors: as there. */
TRANSHIP_API tranship_code tranship_prepare_pieces(tranship_engine* engine,
                                                   const tranship_instance* source,
                                                   const tranship_instance* target,
                                                   const tranship_pieces* pieces,
                                                   const tranship_copy_options* options,
                                                   tranship_prepared** prepared);

/* Options of a start. Set `size`; other members that are zero mean the defaults. */
typedef struct tranship_start_options {
  size_t size;                     /* sizeof(tranship_start_options) */
  const tranship_instance* source; /* another instance of the same extents, fields and layout in the
                                      same memory; NULL: the prepared one */
  const tranship_instance* target; /* the same; not for several pairs */
  tranship_event* const* after;    /* as for a copy */
  int64_t after_count;
  void* stream; /* as for a copy */
  int has_stream;
  const char* notify; /* as for a copy */
} tranship_start_options;

/* Starts a prepared copy, and writes the event of its end. Starts may overlap. options: NULL for
 * the defaults. Free the event. Errors: TRANSHIP_INVALID_ARGUMENT for other instances that differ
 * from the prepared ones, overlap or may only be read, and for a notice, as tranship_copy();
 * TRANSHIP_NOT_FOUND and TRANSHIP_PEER_LOST for arrays of other processes. */
TRANSHIP_API tranship_code tranship_start(const tranship_prepared* prepared,
                                          const tranship_start_options* options,
                                          tranship_event** event);

/* Frees a prepared copy. Starts under way go on. NULL is ignored. */
TRANSHIP_API void tranship_prepared_free(tranship_prepared* prepared);

/* Waits for the end, and returns how the copy ended: TRANSHIP_TIMEOUT if it has not ended by then
 * (it goes on), TRANSHIP_CANCELLED, TRANSHIP_CLOSED, or what a channel or a peer failed with. */
TRANSHIP_API tranship_code tranship_event_wait(const tranship_event* event, double timeout);

/* Writes 1 if the copy has ended, well or not, else 0. Returns at once. */
TRANSHIP_API tranship_code tranship_event_test(const tranship_event* event, int* ended);

/* Asks the copy to end as cancelled. What was written stays written. */
TRANSHIP_API tranship_code tranship_event_cancel(const tranship_event* event);

/* How far a copy has come. */
typedef struct tranship_progress {
  int64_t bytes_done; /* have arrived: by tiles; of a copy without tiles, none or all */
  int64_t bytes_total;
  double seconds_left; /* of the time that the plan predicts; 0 after the end; -1: not known */
} tranship_progress;

/* Writes how far the copy has come. A copy that failed or was cancelled stays where it was. Returns
 * at once. */
TRANSHIP_API tranship_code tranship_event_progress(const tranship_event* event,
                                                   tranship_progress* progress);

/* Writes the plan that the copy follows. Free the plan.
 * Errors: TRANSHIP_NOT_FOUND for a copy without elements, which needs no plan. */
TRANSHIP_API tranship_code tranship_event_plan(const tranship_event* event, tranship_plan** plan);

/* Frees an event. The copy goes on. NULL is ignored. */
TRANSHIP_API void tranship_event_free(tranship_event* event);

/* -- Plans --------------------------------------------------------------------------------- */

/* Writes the plan that tranship_copy() would follow, with what it would cost now. Free the plan.
 * Errors: as tranship_copy(). */
TRANSHIP_API tranship_code tranship_plan_copy(tranship_engine* engine,
                                              const tranship_instance* source,
                                              const tranship_instance* target,
                                              const tranship_copy_options* options,
                                              tranship_plan** plan);

/* Returns the plan as text: hops, layouts, tiles, predicted time, what binds it, and what it beat.
 * Valid until the plan is freed; empty for NULL. */
TRANSHIP_API const char* tranship_plan_text(const tranship_plan* plan);

/* Returns the same as JSON, with the keys of `tranship plan --json`. Valid until the plan is freed;
 * empty for NULL. */
TRANSHIP_API const char* tranship_plan_json(const tranship_plan* plan);

/* Returns the predicted time in seconds; 0 for NULL. */
TRANSHIP_API double tranship_plan_seconds(const tranship_plan* plan);

/* Frees a plan. NULL is ignored. */
TRANSHIP_API void tranship_plan_free(tranship_plan* plan);

#ifdef __cplusplus
}
#endif

#endif
