/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON in traces: one value at a time, by jansson.
 */
#ifndef SOMA_TOOLS_TRACE_JSON_H
#define SOMA_TOOLS_TRACE_JSON_H

#include <jansson.h>

#include "tools/trace/reader.h"

/* The value that the text is.  NULL: what is wrong is in `error`, and *no_memory says
 * whether it is only that. */
json_t *trace_json_parse(const char *text, size_t length, json_error_t *error, bool *no_memory);

/* A member as an address or another number of 64 bits: an integer of 0 or more, or a text
 * with a decimal or hexadecimal (0x...) number.  false: it is neither. */
bool trace_json_number(const json_t *value, uint64_t *number);

/* A member's text; NULL when it is none. */
const char *trace_json_text(const json_t *object, const char *key);

#endif
