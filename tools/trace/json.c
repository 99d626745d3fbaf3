/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jansson, as the readers use it.
 */
#include "tools/trace/json.h"

#include <string.h>

#include "tools/trace/csv.h"
#include "tools/trace/memory.h"

static void *
allocate(size_t size)
{
	return trace_resize(NULL, size);
}

void
trace_json_init(void)
{
	json_set_alloc_funcs(allocate, trace_release);
}

json_t *
trace_json_parse(const char *text, size_t length, json_error_t *error, bool *no_memory)
{
	json_t *value;

	/* jansson does not always say that it was memory that it missed. */
	*error = (json_error_t){ .line = -1 };
	value = json_loadb(text, length, 0, error);
	*no_memory = value == NULL &&
		     (error->text[0] == '\0' || json_error_code(error) == json_error_out_of_memory);
	return value;
}

bool
trace_json_number(const json_t *value, uint64_t *number)
{
	if (json_is_integer(value) && json_integer_value(value) >= 0) {
		*number = (uint64_t)json_integer_value(value);
		return true;
	}
	return json_is_string(value) &&
	       csv_number(json_string_value(value), json_string_length(value), number);
}

const char *
trace_json_text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}
