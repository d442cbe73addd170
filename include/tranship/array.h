/* Descriptions of arrays: plain structs, filled by the caller and read during a call.
 *
 * A tranship_array is an address with extents and strides, as NumPy has it. A tranship_layout is an
 * index space, fields and the order in which they lie in memory (Isometry, ICS'18, section 2).
 * Indices are 64-bit; strides and sizes are bytes. */
#ifndef TRANSHIP_ARRAY_H
#define TRANSHIP_ARRAY_H

#include <stdint.h>

#include "error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Largest number of dimensions. */
#define TRANSHIP_RANK_MAX 16

/* How a dense array lies in memory. */
typedef enum tranship_order {
  TRANSHIP_C_ORDER = 0,      /* the last index is fastest */
  TRANSHIP_FORTRAN_ORDER = 1 /* the first index is fastest */
} tranship_order;

/* An array of one element type. Set the whole struct: members that an initializer leaves out are
 * zero, and mean "dense, in C order, from index 0".
 *
 *   tranship_array block = {.data = heat, .type = "f8", .rank = 2, .extents = {rows, columns},
 *                           .lower = {first_row, 0}};
 *
 * The staging service puts the array as a box of a variable. Indices keep their order, whatever the
 * order in memory: element (i, j) of the array is element (lower[0] + i, lower[1] + j) of the
 * variable, for readers in every language. The engine does not use `lower`. */
typedef struct tranship_array {
  void* data;       /* the first element, in host memory or, if this process uses GPUs, on a GPU */
  const char* type; /* element type as NumPy writes it: b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 f16 c8
                       c16 */
  int rank;         /* number of dimensions, from 0 to TRANSHIP_RANK_MAX */
  int order;        /* a tranship_order; ignored if there are strides */
  int64_t extents[TRANSHIP_RANK_MAX]; /* indices of each dimension, at least 1 */
  int64_t strides[TRANSHIP_RANK_MAX]; /* bytes from one index to the next; all 0: dense */
  int64_t lower[TRANSHIP_RANK_MAX];   /* the box's first indices; they may be negative */
} tranship_array;

/* One dimension of an index space. */
typedef struct tranship_dimension {
  const char* name; /* letters, digits and underscores; "F" is taken */
  int64_t extent;   /* number of indices, counted from 0 */
} tranship_dimension;

/* One field of each point of an index space. */
typedef struct tranship_field {
  const char* name;
  const char* type; /* as in tranship_array */
} tranship_field;

/* An index space, its fields, and the order of both in memory. */
typedef struct tranship_layout {
  const tranship_dimension* dimensions;
  int rank; /* number of dimensions, from 0 to TRANSHIP_RANK_MAX */
  const tranship_field* fields;
  int field_count;   /* at least 1 */
  const char* order; /* terms, fastest first, such as "x:4, F, x, y": x in blocks of four, then the
                        fields F, then the blocks of x, then y. NULL: the fields fastest, then the
                        last dimension, as an array of structs in C */
} tranship_layout;

/* Writes the bytes that an instance of the layout needs, padding of edge blocks included.
 * Errors: TRANSHIP_INVALID_ARGUMENT for a name, an extent, a type or an order that is not usable.
 */
TRANSHIP_API tranship_code tranship_layout_bytes(const tranship_layout* layout, int64_t* bytes);

/* A half-open range of a named dimension. The dimensions of a tranship_array are named d0, d1, ...
 */
typedef struct tranship_range {
  const char* name; /* dimension name */
  int64_t lower;    /* first index */
  int64_t upper;    /* one past the last index */
} tranship_range;

#ifdef __cplusplus
}
#endif

#endif
