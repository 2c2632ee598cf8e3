#ifndef CJANSSON_SHIM_H
#define CJANSSON_SHIM_H
#include <jansson.h>

/* What jansson has as macros or as arrays inside structures, as functions with exact types. */
static inline int cjansson_type(const json_t *value) { return (int)json_typeof(value); }
static inline int cjansson_error_code(const json_error_t *error) { return (int)json_error_code(error); }
static inline const char *cjansson_error_text(const json_error_t *error) { return error->text; }
static inline json_t *cjansson_parse(
    const char *bytes, size_t count, int reject_duplicates, int allow_nul, json_error_t *error) {
  size_t flags = JSON_DECODE_ANY | (reject_duplicates ? JSON_REJECT_DUPLICATES : 0) |
                 (allow_nul ? JSON_ALLOW_NUL : 0);
  return json_loadb(bytes, count, flags, error);
}
enum {
  CJANSSON_OBJECT = JSON_OBJECT,
  CJANSSON_ARRAY = JSON_ARRAY,
  CJANSSON_STRING = JSON_STRING,
  CJANSSON_INTEGER = JSON_INTEGER,
  CJANSSON_REAL = JSON_REAL,
  CJANSSON_TRUE = JSON_TRUE,
  CJANSSON_FALSE = JSON_FALSE,
  CJANSSON_DUPLICATE_KEY = json_error_duplicate_key,
  CJANSSON_NUMERIC_OVERFLOW = json_error_numeric_overflow,
  CJANSSON_TOO_DEEP = json_error_stack_overflow,
  CJANSSON_OUT_OF_MEMORY = json_error_out_of_memory,
  CJANSSON_NUL = json_error_null_character,
  CJANSSON_NUL_IN_KEY = json_error_null_byte_in_key,
  CJANSSON_INPUT_ENDS = json_error_premature_end_of_input
};
#endif
