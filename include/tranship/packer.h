/* Packing in host memory, at once: for those who pack and send messages in every step.
 *
 *   tranship_packer* packer;
 *   tranship_packer_new(column, 1, &packer);            // a type of types.h
 *   tranship_packer_pack(packer, matrix, message);      // on the caller's thread, without an
 * engine
 *
 * Memory is given by its address, and nothing is checked against its length. A packer does not
 * change: several threads may use one at the same time. */
#ifndef TRANSHIP_PACKER_H
#define TRANSHIP_PACKER_H

#include <stdint.h>

#include "error.h"
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Packs and unpacks items of one type. */
typedef struct tranship_packer tranship_packer;

/* Makes a packer of `count` items of a type, one extent apart. The type may be freed. Free the
 * packer.
 * Errors: TRANSHIP_INVALID_ARGUMENT for a negative count; TRANSHIP_OUT_OF_RANGE for items beyond
 * 2^61 bytes. */
TRANSHIP_API tranship_code tranship_packer_new(const tranship_type* type, int64_t count,
                                               tranship_packer** packer);

/* Frees a packer. NULL is ignored. */
TRANSHIP_API void tranship_packer_free(tranship_packer* packer);

/* Returns the bytes of all items, packed; 0 for NULL. */
TRANSHIP_API int64_t tranship_packer_bytes(const tranship_packer* packer);

/* Copies the elements of the items at `items` to `packed`, one behind the other: as many bytes as
 * tranship_packer_bytes(). The two may not overlap, which is noticed by their addresses alone: two
 * mappings of the same memory are not. `items` may be NULL for a type of absolute addresses.
 * Errors: TRANSHIP_INVALID_ARGUMENT for addresses that overlap; TRANSHIP_UNSUPPORTED for a type of
 * millions of pieces; then nothing is copied. */
TRANSHIP_API tranship_code tranship_packer_pack(const tranship_packer* packer, const void* items,
                                                void* packed);

/* Copies packed bytes to the elements of the items at `items`, and nothing between them: the
 * reverse of tranship_packer_pack().
 * Errors: TRANSHIP_INVALID_ARGUMENT for a type that names a byte twice and for addresses that
 * overlap; TRANSHIP_UNSUPPORTED for a type of millions of pieces; then nothing is copied. */
TRANSHIP_API tranship_code tranship_packer_unpack(const tranship_packer* packer, const void* packed,
                                                  void* items);

#ifdef __cplusplus
}
#endif

#endif
