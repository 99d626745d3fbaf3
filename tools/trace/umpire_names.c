/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who an Umpire call is about: resources and allocators, by reference and by name, and
 * the streams that calls are ordered by.  Blocks are umpire.c's.
 */
#include "tools/trace/umpire.h"

#include <stdio.h>
#include <string.h>

#include "tools/trace/json.h"

/* A null pointer is printed by a stream as 0, and as (nil) by the C library. */
static bool
read_number(const json_t *value, uint64_t *number)
{
	*number = 0;
	return (json_is_string(value) && strcmp(json_string_value(value), "(nil)") == 0) ||
	       trace_json_number(value, number);
}

enum trace_result
umpire_need(struct umpire_reader *umpire, const struct umpire_call *call, const json_t *object,
	    const char *key, uint64_t *number)
{
	const json_t *value = json_object_get(object, key);

	if (read_number(value, number))
		return TRACE_OK;
	return lines_fail(&umpire->lines, "expected \"%s\" of \"%.40s\" to be a number, it %s", key,
			  call->name, value == NULL ? "is missing" : "is something else");
}

static enum trace_result
enter(struct umpire_reader *umpire, uint64_t reference, const char *name, uint64_t device)
{
	struct trace_reader *reader = umpire->lines.reader;
	struct trace_map_entry *by_reference, *by_name;
	trace_name interned;

	if (!trace_names_add(&reader->names, name, strlen(name), &interned))
		return trace_no_memory(reader);
	by_name = trace_map_need(&umpire->names, interned);
	by_reference = trace_map_need(&umpire->allocators, reference);
	if (by_name == NULL || by_reference == NULL)
		return trace_no_memory(reader);
	by_name->other = by_reference->other = device;
	by_reference->name = interned;
	return TRACE_OK;
}

static const char *
own_name(const struct umpire_call *call)
{
	const char *name = trace_json_text(json_object_get(call->line, "tags"), "allocator_name");

	if (name == NULL)
		name = trace_json_text(call->arguments, "allocator_name");
	if (name == NULL)
		name = trace_json_text(call->arguments, "name");
	return name != NULL ? name : "";
}

/* Of the old dialect a resource's result is the reference itself. */
enum trace_result
umpire_make_resource(struct umpire_reader *umpire, const struct umpire_call *call, struct trace_event *event,
		     bool *made)
{
	uint64_t reference;
	enum trace_result result = TRACE_OK;

	(void)event;
	(void)made;
	if (!trace_json_number(call->result, &reference))
		result = umpire_need(umpire, call, call->result, "allocator_ref", &reference);
	if (result != TRACE_OK)
		return result;
	if (umpire->resources == INT32_MAX)
		return lines_fail(&umpire->lines, "more than %d memory resources", INT32_MAX);
	return enter(umpire, reference, own_name(call), (uint64_t)umpire->resources++);
}

static enum trace_result
device_of_name(struct umpire_reader *umpire, const json_t *value, uint64_t *device, bool *found)
{
	const struct trace_map_entry *entry;
	trace_name name;

	if (!json_is_string(value))
		return TRACE_OK;
	if (!trace_names_add(&umpire->lines.reader->names, json_string_value(value),
			     json_string_length(value), &name))
		return trace_no_memory(umpire->lines.reader);
	entry = trace_map_find(&umpire->names, name);
	*found = entry != NULL;
	if (*found)
		*device = entry->other;
	return TRACE_OK;
}

/* The allocator under this one is the first argument that is an allocator's name. */
static enum trace_result
device_under(struct umpire_reader *umpire, const struct umpire_call *call, uint64_t *device)
{
	const json_t *list = json_object_get(call->arguments, "args");
	enum trace_result result = TRACE_OK;
	bool found = false;
	char key[16];

	for (int i = 0; i < 16 && result == TRACE_OK && !found; i++) {
		const json_t *value = json_array_get(list, (size_t)i);

		snprintf(key, sizeof key, "arg%d", i);
		if (value == NULL)
			value = json_object_get(call->arguments, key);
		result = device_of_name(umpire, value, device, &found);
	}
	return result;
}

enum trace_result
umpire_make_allocator(struct umpire_reader *umpire, const struct umpire_call *call, struct trace_event *event,
		      bool *made)
{
	uint64_t reference, device = 0;
	enum trace_result result;

	(void)event;
	(void)made;
	if (call->result == NULL || json_object_get(call->result, "allocator_ref") == NULL)
		return TRACE_OK; /* the request, or one that failed */
	result = umpire_need(umpire, call, call->result, "allocator_ref", &reference);
	if (result == TRACE_OK)
		result = device_under(umpire, call, &device);
	return result == TRACE_OK ? enter(umpire, reference, own_name(call), device) : result;
}

const struct trace_map_entry *
umpire_allocator(struct umpire_reader *umpire, const struct umpire_call *call)
{
	uint64_t reference;

	if (!trace_json_number(json_object_get(call->arguments, "allocator_ref"), &reference))
		return NULL;
	return trace_map_find(&umpire->allocators, reference);
}

enum trace_result
umpire_stream(struct umpire_reader *umpire, struct umpire_call *call)
{
	const json_t *resource = json_object_get(call->arguments, "resource");
	struct trace_reader *reader = umpire->lines.reader;
	struct trace_map_entry *entry;
	trace_name name;

	if (!json_is_string(resource))
		return TRACE_OK;
	if (!trace_names_add(&reader->names, json_string_value(resource), json_string_length(resource),
			     &name))
		return trace_no_memory(reader);
	entry = trace_map_need(&umpire->streams, name);
	if (entry == NULL)
		return trace_no_memory(reader);
	if (entry->number == 0)
		entry->number = umpire->streams.count;
	call->stream = entry->number;
	return TRACE_OK;
}
