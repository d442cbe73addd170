/* Types in the sense of MPI (MPI-4.1, chapter 5): elements, and the bytes at which they lie.
 *
 * A type says which bytes of an instance are moved, and in which order. Two types with the same
 * elements are the ends of a copy, wherever their elements lie:
 *
 *   tranship_type_element("f8", &number);
 *   tranship_type_vector(512, 1, 512, number, &column);     // a column of a 512 x 512 matrix
 *   tranship_typed_pair pair = {matrix, packed, column, NULL};
 *   tranship_copy_types(engine, &pair, 1, NULL, &event);    // its elements, side by side
 *
 * Displacements and strides count extents of the base, except in tranship_type_hvector(),
 * tranship_type_hindexed(), tranship_type_hindexed_block() and tranship_type_struct(), where they
 * are bytes; both may be negative. The extent of a type is the distance from one item to the next.
 *
 * A type belongs to no engine, and does not change: several threads may use it at the same time, in
 * a fork as well. Free each with tranship_type_free(): types and prepared copies that were made of
 * it stay as they are. A list of no members may be NULL. Every constructor has the errors
 * TRANSHIP_INVALID_ARGUMENT for negative counts, TRANSHIP_OUT_OF_RANGE for bytes beyond 2^61, and
 * TRANSHIP_UNSUPPORTED for types nested deeper than 20 levels or with more than 2^26 listed places.
 */
#ifndef TRANSHIP_TYPES_H
#define TRANSHIP_TYPES_H

#include <stdint.h>

#include "array.h"
#include "engine.h"
#include "error.h"
#include "instance.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A type. */
typedef struct tranship_type tranship_type;

/* -- Constructors -------------------------------------------------------------------------- */

/* Makes the type of one element, named as NumPy does: "f8", "i4", "c16", or "V1" for a raw byte.
 * Errors: TRANSHIP_INVALID_ARGUMENT for a name that is none. */
TRANSHIP_API tranship_code tranship_type_element(const char* name, tranship_type** type);

/* Makes a type of `count` items, one extent of the base apart. */
TRANSHIP_API tranship_code tranship_type_contiguous(int64_t count, const tranship_type* base,
                                                    tranship_type** type);

/* Makes a type of `count` blocks of `block_length` items each. `stride`: extents of the base from
 * one block to the next. */
TRANSHIP_API tranship_code tranship_type_vector(int64_t count, int64_t block_length, int64_t stride,
                                                const tranship_type* base, tranship_type** type);

/* Makes a vector as above, with the stride in bytes. */
TRANSHIP_API tranship_code tranship_type_hvector(int64_t count, int64_t block_length,
                                                 int64_t stride_bytes, const tranship_type* base,
                                                 tranship_type** type);

/* Makes a type of `count` blocks of different lengths at any places. `block_lengths`: items of each
 * block; `displacements`: extents of the base from the begin to each block. */
TRANSHIP_API tranship_code tranship_type_indexed(int64_t count, const int64_t* block_lengths,
                                                 const int64_t* displacements,
                                                 const tranship_type* base, tranship_type** type);

/* Makes blocks of different lengths as above, with the displacements in bytes. */
TRANSHIP_API tranship_code tranship_type_hindexed(int64_t count, const int64_t* block_lengths,
                                                  const int64_t* displacements_bytes,
                                                  const tranship_type* base, tranship_type** type);

/* Makes a type of `count` blocks of one length at any places. */
TRANSHIP_API tranship_code tranship_type_indexed_block(int64_t count, int64_t block_length,
                                                       const int64_t* displacements,
                                                       const tranship_type* base,
                                                       tranship_type** type);

/* Makes blocks of one length as above, with the displacements in bytes. */
TRANSHIP_API tranship_code tranship_type_hindexed_block(int64_t count, int64_t block_length,
                                                        const int64_t* displacements_bytes,
                                                        const tranship_type* base,
                                                        tranship_type** type);

/* Makes a type of `count` blocks of different types: `block_lengths[k]` items of `bases[k]` at byte
 * `displacements_bytes[k]`. The extent is rounded up to the strictest alignment of the elements, as
 * in C, unless a base was resized, or is a subarray or darray. */
TRANSHIP_API tranship_code tranship_type_struct(int64_t count, const int64_t* block_lengths,
                                                const int64_t* displacements_bytes,
                                                const tranship_type* const* bases,
                                                tranship_type** type);

/* Makes the type of a box of an array, which has the extent of the whole array.
 * `sizes`, `subsizes` and `starts` have `dimension_count` members: items of the array, items of the
 * box, and the first index of the box. order: a tranship_order.
 * Errors: TRANSHIP_INVALID_ARGUMENT for a box outside the array. */
TRANSHIP_API tranship_code tranship_type_subarray(int dimension_count, const int64_t* sizes,
                                                  const int64_t* subsizes, const int64_t* starts,
                                                  int order, const tranship_type* base,
                                                  tranship_type** type);

/* How a dimension of an array is dealt out to processes. */
typedef enum tranship_distribution_kind {
  TRANSHIP_UNDISTRIBUTED = 0, /* each process has all indices */
  TRANSHIP_BLOCK = 1,         /* each process has one block of indices */
  TRANSHIP_CYCLIC = 2         /* blocks go to the processes in turns */
} tranship_distribution_kind;

/* How one dimension of an array is dealt out. */
typedef struct tranship_distribution {
  int kind;             /* a tranship_distribution_kind */
  int64_t block_length; /* indices of a block; 0: an even share for blocks, 1 for cyclic ones */
} tranship_distribution;

/* Makes the type of the part of an array that one process of a grid has, which has the extent of
 * the whole array.
 * rank: number of the process, with the last dimension of the grid fastest. `sizes`,
 * `distributions` and `grid` have `dimension_count` members: items of the array, how they are dealt
 * out, and the processes of the grid, 1 where nothing is dealt out. order: a tranship_order of the
 * array.
 * Errors: TRANSHIP_INVALID_ARGUMENT for a process outside the grid, and for blocks that do not
 * cover their dimension. */
TRANSHIP_API tranship_code tranship_type_darray(int64_t rank, int dimension_count,
                                                const int64_t* sizes,
                                                const tranship_distribution* distributions,
                                                const int64_t* grid, int order,
                                                const tranship_type* base, tranship_type** type);

/* Makes a type of the same elements with other bounds: an item begins at byte `lower_bound`, and
 * the next one `extent` bytes further. */
TRANSHIP_API tranship_code tranship_type_resized(const tranship_type* base, int64_t lower_bound,
                                                 int64_t extent, tranship_type** type);

/* Frees a type. What was made of it stays. NULL is ignored. */
TRANSHIP_API void tranship_type_free(tranship_type* type);

/* -- Properties ----------------------------------------------------------------------------- */

/* Returns the bytes of the elements, as many as they have side by side; 0 for NULL. */
TRANSHIP_API int64_t tranship_type_bytes(const tranship_type* type);

/* Returns the bytes from one item of the type to the next; 0 for NULL. */
TRANSHIP_API int64_t tranship_type_extent(const tranship_type* type);

/* Returns the byte at which the extent begins; it may be negative. 0 for NULL. */
TRANSHIP_API int64_t tranship_type_lower_bound(const tranship_type* type);

/* Returns the lowest byte that an element occupies; 0 for NULL, and if there is no element. */
TRANSHIP_API int64_t tranship_type_true_lower_bound(const tranship_type* type);

/* Returns one past the highest byte that an element occupies; 0 for NULL, and if there is none. */
TRANSHIP_API int64_t tranship_type_true_upper_bound(const tranship_type* type);

/* Returns in how many contiguous runs the elements lie, at most; 0 for NULL. */
TRANSHIP_API int64_t tranship_type_runs(const tranship_type* type);

/* Returns 1 if no two elements share a byte, so that elements may be written to the type's places.
 * 0 for NULL, and if that cannot be shown: for some million runs of no regular form. */
TRANSHIP_API int tranship_type_disjoint(const tranship_type* type);

/* Returns how the type was built, such as "vector(4, 1, 8, f8)", with long lists cut. Valid until
 * the type is freed; empty for NULL. */
TRANSHIP_API const char* tranship_type_text(const tranship_type* type);

/* -- Copies between types ------------------------------------------------------------------- */

/* Two instances, and the types whose elements are copied. Each instance is one block of memory
 * without gaps, from whose first byte its type counts. */
typedef struct tranship_typed_pair {
  const tranship_instance* source;
  const tranship_instance* target;
  const tranship_type* source_type; /* NULL: as many raw bytes as the other type has, from the first
                                       byte on */
  const tranship_type* target_type; /* the same; one of the two is given */
} tranship_typed_pair;

/* Starts copies between types: the elements of the source's type of each pair go to the places of
 * the target's type, one by one in their order. To pack the elements of a type, leave out the
 * target's; to unpack them, the source's. Pairs between the same two memories are one copy, in one
 * launch on a GPU. No two targets may overlap, and no target may overlap the source of another
 * pair; neither is checked. `options` may not have a region. Free the event.
 * Errors: as tranship_copy(), for any pair, and then none of the copies goes on;
 * TRANSHIP_OUT_OF_RANGE for a type that reaches outside its instance; TRANSHIP_INVALID_ARGUMENT for
 * types of different elements, for a target's type that names a byte twice, and for an instance
 * with gaps; TRANSHIP_UNSUPPORTED for two types that divide each other into millions of pieces. */
TRANSHIP_API tranship_code tranship_copy_types(tranship_engine* engine,
                                               const tranship_typed_pair* pairs, int64_t pair_count,
                                               const tranship_copy_options* options,
                                               tranship_event** event);

/* Prepares what tranship_copy_types() would start, to start it again and again. Instances and types
 * may be freed; as for tranship_prepare(), memory that the caller gave must stay valid, and
 * `options` has neither a region nor events, a stream or a notice. Free the prepared copy.
 * Errors: as tranship_copy_types(). */
TRANSHIP_API tranship_code tranship_prepare_types(tranship_engine* engine,
                                                  const tranship_typed_pair* pairs,
                                                  int64_t pair_count,
                                                  const tranship_copy_options* options,
                                                  tranship_prepared** prepared);

#ifdef __cplusplus
}
#endif

#endif
