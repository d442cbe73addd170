/* Attributes from C: values with names that belong to a run, a variable, or a step.
 *
 * A value is a JSON text: a number, a text, true, false, null, or lists and mappings of these.
 * Clients in all languages read what any of them has set. A name has 1 to 1024 bytes of UTF-8
 * without control characters. Where `variable` is NULL or empty, the attribute belongs to the run,
 * or to the step. Attributes of steps are set by the functions of steps.h. */
#ifndef TRANSHIP_ATTRIBUTES_H
#define TRANSHIP_ATTRIBUTES_H

#include <stdint.h>

#include "error.h"
#include "staging.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Set an attribute of the run, or of a variable, which need not exist yet. Of several clients that
 * set one, the last is seen. Those of a variable go when it is deleted.
 * Errors: TRANSHIP_INVALID_ARGUMENT for a name that is none, for a text that is not UTF-8, and for
 * what is no JSON value or does not fit a message; TRANSHIP_OUT_OF_MEMORY if all of them together
 * take more than the server's staging_attribute_bytes. */
TRANSHIP_API tranship_code tranship_set_double(tranship_staging* staging, const char* variable,
                                               const char* key, double value);
TRANSHIP_API tranship_code tranship_set_int64(tranship_staging* staging, const char* variable,
                                              const char* key, int64_t value);
TRANSHIP_API tranship_code tranship_set_text(tranship_staging* staging, const char* variable,
                                             const char* key, const char* value);
TRANSHIP_API tranship_code tranship_set_json(tranship_staging* staging, const char* variable,
                                             const char* key, const char* json);

/* Deletes an attribute of the run, or of a variable.
 * Errors: TRANSHIP_NOT_FOUND. */
TRANSHIP_API tranship_code tranship_unset(tranship_staging* staging, const char* variable,
                                          const char* key);

/* Attributes that were read, in the order of their names. They do not change. */
typedef struct tranship_attributes tranship_attributes;

/* Reads the attributes of the run, or of a variable, as they are now. Free them. */
TRANSHIP_API tranship_code tranship_attributes_of(tranship_staging* staging, const char* variable,
                                                  tranship_attributes** attributes);

/* Returns the number of attributes; 0 for NULL. */
TRANSHIP_API int64_t tranship_attributes_size(const tranship_attributes* attributes);

/* Writes the name and the JSON text of attribute `index`, from 0. Both are valid until the
 * attributes are freed, or the step that they are of.
 * Errors: TRANSHIP_OUT_OF_RANGE. */
TRANSHIP_API tranship_code tranship_attributes_entry(const tranship_attributes* attributes,
                                                     int64_t index, const char** key,
                                                     const char** json);

/* Write the value of an attribute. Texts are valid until the attributes are freed, or the step that
 * they are of. A whole number is got as a double, too, if a double can be that number.
 * Errors: TRANSHIP_NOT_FOUND if there is none of that name; TRANSHIP_INVALID_ARGUMENT, which says
 * what it is, if it has another type; TRANSHIP_UNSUPPORTED for a text with a NUL character. */
TRANSHIP_API tranship_code tranship_attributes_double(const tranship_attributes* attributes,
                                                      const char* key, double* value);
TRANSHIP_API tranship_code tranship_attributes_int64(const tranship_attributes* attributes,
                                                     const char* key, int64_t* value);
TRANSHIP_API tranship_code tranship_attributes_text(const tranship_attributes* attributes,
                                                    const char* key, const char** value);
TRANSHIP_API tranship_code tranship_attributes_json(const tranship_attributes* attributes,
                                                    const char* key, const char** json);

/* Frees attributes of tranship_attributes_of(). NULL is ignored. */
TRANSHIP_API void tranship_attributes_free(tranship_attributes* attributes);

#ifdef __cplusplus
}
#endif

#endif
