/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jansson, as the readers use it.  Its memory is the C library's, not memory.h's: it does
 * not survive that an allocation fails everywhere.
 */
#include "tools/trace/json.h"

#include "tools/trace/csv.h"

json_t *
trace_json_parse(const char *text, size_t length, json_error_t *error, bool *no_memory)
{
	json_t *value = json_loadb(text, length, 0, error);

	*no_memory = value == NULL && json_error_code(error) == json_error_out_of_memory;
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
