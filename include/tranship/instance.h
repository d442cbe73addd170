/* Instances: what one end of a copy names. An instance is memory of this process, a file or an
 * array of another process, with an index space, fields and a layout.
 *
 * An instance refers to memory; it does not copy it. Memory that the caller gave must stay valid
 * until every copy with the instance has ended; memory that the library allocated, an open file and
 * a connection stay as long as an instance or a running copy refers to them. Instances do not
 * change: several threads may use one at the same time. Free each with tranship_instance_free(). */
#ifndef TRANSHIP_INSTANCE_H
#define TRANSHIP_INSTANCE_H

#include <stddef.h>
#include <stdint.h>

#include "array.h"
#include "error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An engine: see engine.h. */
typedef struct tranship_engine tranship_engine;

/* One end of a copy. */
typedef struct tranship_instance tranship_instance;

/* Makes an instance of an array. The struct need not stay; the array's memory must. The
 * dimensions are named d0, d1, ..., the field f0; in a copy they match the other side by position.
 * Errors: TRANSHIP_INVALID_ARGUMENT for a type, a rank, extents, strides or data that are not
 * usable. */
TRANSHIP_API tranship_code tranship_instance_of_array(tranship_engine* engine,
                                                      const tranship_array* array,
                                                      tranship_instance** instance);

/* Makes an instance of `bytes` bytes at `data`, read through a layout. In a copy the dimensions
 * match the other side by name where both sides have names.
 * Errors: TRANSHIP_INVALID_ARGUMENT if the layout is not usable or needs more bytes. */
TRANSHIP_API tranship_code tranship_instance_of_memory(tranship_engine* engine, void* data,
                                                       int64_t bytes, const tranship_layout* layout,
                                                       tranship_instance** instance);

/* Allocates memory for a layout, filled with zeros unless it lies on a GPU.
 * memory: "shared" (host memory that other processes of this machine map once the instance is
 * exported), "pinned" (host memory that GPUs reach directly) or "device0", "device1", ... NULL:
 * "shared".
 * Errors: TRANSHIP_UNSUPPORTED for pinned and device memory if this process uses no GPU;
 * TRANSHIP_OUT_OF_MEMORY. */
TRANSHIP_API tranship_code tranship_instance_allocate(tranship_engine* engine,
                                                      const tranship_layout* layout,
                                                      const char* memory,
                                                      tranship_instance** instance);

/* Makes an instance of a part of another: each named range is counted from the first index of
 * `whole`, and dimensions that are not named are whole. It refers to the same memory.
 * Errors: TRANSHIP_INVALID_ARGUMENT for a name that `whole` does not have; TRANSHIP_OUT_OF_RANGE.
 */
TRANSHIP_API tranship_code tranship_instance_part(const tranship_instance* whole,
                                                  const tranship_range* ranges, int64_t range_count,
                                                  tranship_instance** part);

/* Makes an instance of the same memory that copies, and processes to which it is exported, may only
 * read. */
TRANSHIP_API tranship_code tranship_instance_read_only(const tranship_instance* whole,
                                                       tranship_instance** read_only);

/* Returns the address of the memory that an instance refers to; NULL for a file, for an array of
 * another process, and for NULL. */
TRANSHIP_API void* tranship_instance_data(const tranship_instance* instance);

/* Returns the bytes of all elements, without padding; 0 for NULL. */
TRANSHIP_API int64_t tranship_instance_bytes(const tranship_instance* instance);

/* Frees an instance. Copies that use it go on. NULL is ignored. */
TRANSHIP_API void tranship_instance_free(tranship_instance* instance);

/* How a file is opened. Set `size`; other members that are zero mean the defaults. */
typedef struct tranship_file_options {
  size_t size;      /* sizeof(tranship_file_options) */
  const char* mode; /* "r" (default): reads a file that exists. "w": makes a new file, which takes
                       its name when it is flushed or closed. "r+": changes a file that exists */
  int64_t offset;   /* bytes from the start of the file to the first element */
  int cached;       /* 1: large runs go through the page cache too. Set it when the file fits in
                       memory and is read again soon */
  int durable;      /* 1: flushing returns when the file's folder is on the disk too, so that the
                       name survives a power failure */
} tranship_file_options;

/* Opens a raw binary file as an instance. (.npy files have a header, which this API neither reads
 * nor writes: open an existing one with its offset and layout in mode "r".)
 * options: NULL for the defaults. The file is closed when no instance and no copy refers to it.
 * Errors: TRANSHIP_NOT_FOUND for a file or folder that does not exist; TRANSHIP_OUT_OF_RANGE for a
 * file that is shorter than the layout; TRANSHIP_PERMISSION; TRANSHIP_IO; TRANSHIP_INVALID_ARGUMENT
 * for a directory or a pipe. */
TRANSHIP_API tranship_code tranship_file_open(tranship_engine* engine, const char* path,
                                              const tranship_layout* layout,
                                              const tranship_file_options* options,
                                              tranship_instance** file);

/* Waits until copies into the file have ended and what they wrote is on the disk. A new file then
 * has its name.
 * Errors: TRANSHIP_INVALID_ARGUMENT for an instance that is no file; TRANSHIP_IO if a copy into the
 * file failed or was cancelled, or the disk refused: a new file does not take its name then. */
TRANSHIP_API tranship_code tranship_file_flush(tranship_instance* file);

/* Flushes the file and ends every use of it; later copies fail with TRANSHIP_CLOSED. The instance
 * stays and must be freed. May be repeated. Errors: as tranship_file_flush(). */
TRANSHIP_API tranship_code tranship_file_close(tranship_instance* file);

#ifdef __cplusplus
}
#endif

#endif
