/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Umpire's replay log: a JSON object a line, in two dialects.
 *
 *   before 2022	{"kind":"replay","event":"allocate","payload":{...},"result":{...}}
 *   since		{"category":"operation","name":"allocate","string_args":{...},...}
 *
 * A memory resource (HOST, DEVICE, ...) is a device here, numbered in the order of their
 * making; an allocator is the holder of what it allocates.
 *
 * A reallocation is a request and a result.  Between them Umpire mostly logs what it did,
 * an allocation and a free; when it did not, the block was resized where it was.
 */
#include "config.h" /* first: memmem */

#include <stdio.h>
#include <string.h>

#include "tools/trace/csv.h"
#include "tools/trace/json.h"
#include "tools/trace/lines.h"
#include "tools/trace/map.h"
#include "tools/trace/memory.h"

struct umpire_reader {
	struct lines lines;
	struct trace_map allocators; /* by reference: other = device, name */
	struct trace_map names;      /* allocators by name: other = device */
	struct trace_map live;       /* by address: number = size, other = device, name */
	struct trace_map nothing;    /* blocks of no bytes by address: number = how many */
	int32_t resources;
	/* The reallocation that was requested and has no result yet */
	bool moving, moved; /* moved: its allocation was logged */
	uint64_t from, size;
	struct trace_event second; /* to be given out next */
	bool has_second;
};

/* What both dialects say. */
struct call {
	const json_t *line;
	const char *name;
	const json_t *arguments; /* numbers and texts of the request */
	const json_t *numbers;
	const json_t *result; /* NULL: this line is only the request */
	uint64_t time;
	bool old; /* the dialect */
};

static bool
umpire_probe(const uint8_t *data, size_t size)
{
	size_t length;
	const char *line = lines_first(data, size, &length);

	return line != NULL && line[0] == '{' &&
	       ((memmem(line, length, "\"category\"", 10) != NULL &&
		 memmem(line, length, "\"name\"", 6) != NULL) ||
		(memmem(line, length, "\"kind\"", 6) != NULL &&
		 memmem(line, length, "\"replay\"", 8) != NULL));
}

static void
forget(struct umpire_reader *umpire)
{
	trace_map_fini(&umpire->allocators);
	trace_map_fini(&umpire->names);
	trace_map_fini(&umpire->live);
	trace_map_fini(&umpire->nothing);
	umpire->resources = 0;
	umpire->moving = umpire->has_second = false;
}

static enum trace_result
umpire_rewind(struct trace_reader *reader)
{
	struct umpire_reader *umpire = reader->state;

	forget(umpire);
	lines_init(&umpire->lines, reader);
	return TRACE_OK;
}

static enum trace_result
umpire_open(struct trace_reader *reader)
{
	reader->state = trace_zeroed(sizeof(struct umpire_reader));
	return reader->state != NULL ? umpire_rewind(reader) : trace_no_memory(reader);
}

static void
umpire_close(struct trace_reader *reader)
{
	if (reader->state != NULL)
		forget(reader->state);
	trace_release(reader->state);
}

/* ---- a line ------------------------------------------------------------------- */

static enum trace_result
read_time(struct umpire_reader *umpire, struct call *call)
{
	const json_t *time = json_object_get(call->line, "timestamp");

	if (time == NULL || trace_json_number(time, &call->time))
		return TRACE_OK;
	return lines_fail(&umpire->lines, "expected \"timestamp\" to be nanoseconds, a number of 64 bits");
}

/* false: the line is about something else, such as the version. */
static bool
is_call(struct call *call)
{
	const char *category = trace_json_text(call->line, "category");

	if (category != NULL) {
		call->name = trace_json_text(call->line, "name");
		call->arguments = json_object_get(call->line, "string_args");
		call->numbers = json_object_get(call->line, "numeric_args");
		call->result = call->arguments;
		return call->name != NULL && strcmp(category, "operation") == 0;
	}
	call->old = true;
	call->name = trace_json_text(call->line, "event");
	call->arguments = call->numbers = json_object_get(call->line, "payload");
	call->result = json_object_get(call->line, "result");
	return call->name != NULL;
}

static enum trace_result
need(struct umpire_reader *umpire, const struct call *call, const json_t *object, const char *key,
     uint64_t *number)
{
	const json_t *value = json_object_get(object, key);

	if (trace_json_number(value, number))
		return TRACE_OK;
	return lines_fail(&umpire->lines, "expected \"%s\" of \"%.40s\" to be a number, it %s", key,
			  call->name, value == NULL ? "is missing" : "is something else");
}

/* ---- allocators ----------------------------------------------------------------- */

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
own_name(const struct call *call)
{
	const char *name = trace_json_text(json_object_get(call->line, "tags"), "allocator_name");

	if (name == NULL)
		name = trace_json_text(call->arguments, "allocator_name");
	if (name == NULL)
		name = trace_json_text(call->arguments, "name");
	return name != NULL ? name : "";
}

/* Of the old dialect a resource's result is the reference itself. */
static enum trace_result
make_resource(struct umpire_reader *umpire, const struct call *call)
{
	uint64_t reference;
	enum trace_result result = TRACE_OK;

	if (!trace_json_number(call->result, &reference))
		result = need(umpire, call, call->result, "allocator_ref", &reference);
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
device_under(struct umpire_reader *umpire, const struct call *call, uint64_t *device)
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

static enum trace_result
make_allocator(struct umpire_reader *umpire, const struct call *call)
{
	uint64_t reference, device = 0;
	enum trace_result result;

	if (call->result == NULL || json_object_get(call->result, "allocator_ref") == NULL)
		return TRACE_OK; /* the request, or one that failed */
	result = need(umpire, call, call->result, "allocator_ref", &reference);
	if (result == TRACE_OK)
		result = device_under(umpire, call, &device);
	return result == TRACE_OK ? enter(umpire, reference, own_name(call), device) : result;
}

/* ---- blocks ---------------------------------------------------------------------- */

static void
event_of(const struct call *call, struct trace_event *event, enum trace_op op, uint64_t ptr, uint64_t size,
	 uint64_t device, trace_name holder)
{
	*event = (struct trace_event){ .op = op,
				       .time_ns = call->time,
				       .device = (int32_t)device,
				       .ptr = ptr,
				       .size = size,
				       .holder = holder };
}

static enum trace_result
note_alloc(struct umpire_reader *umpire, const struct trace_event *event)
{
	struct trace_map_entry *entry =
		trace_map_need(event->size > 0 ? &umpire->live : &umpire->nothing, event->ptr);

	if (entry == NULL)
		return trace_no_memory(umpire->lines.reader);
	entry->number = event->size > 0 ? event->size : entry->number + 1;
	entry->other = (uint64_t)event->device;
	entry->name = event->holder;
	return TRACE_OK;
}

/* Blocks of no bytes may share an address with each other and with one that has some:
 * those are freed as a null pointer is, and only when no other one is there. */
static void
free_block(struct umpire_reader *umpire, const struct call *call, uint64_t ptr,
	   const struct trace_map_entry *allocator, struct trace_event *event)
{
	struct trace_map_entry *entry = trace_map_find(&umpire->live, ptr);
	struct trace_map_entry *nothing = entry == NULL ? trace_map_find(&umpire->nothing, ptr) : NULL;

	if (entry != NULL) {
		event_of(call, event, TRACE_FREE, ptr, entry->number, entry->other, entry->name);
		trace_map_remove(&umpire->live, entry);
	} else if (nothing != NULL) {
		event_of(call, event, TRACE_FREE, 0, 0, nothing->other, nothing->name);
		if (--nothing->number == 0)
			trace_map_remove(&umpire->nothing, nothing);
	} else {
		event_of(call, event, TRACE_FREE, ptr, 0, allocator != NULL ? allocator->other : 0,
			 allocator != NULL ? allocator->name : 0);
	}
}

static const struct trace_map_entry *
allocator_of(struct umpire_reader *umpire, const struct call *call)
{
	uint64_t reference;

	if (!trace_json_number(json_object_get(call->arguments, "allocator_ref"), &reference))
		return NULL;
	return trace_map_find(&umpire->allocators, reference);
}

static enum trace_result
allocate(struct umpire_reader *umpire, const struct call *call, struct trace_event *event, bool *made)
{
	const struct trace_map_entry *allocator = allocator_of(umpire, call);
	const char *key = call->old ? "memory_ptr" : "pointer";
	uint64_t ptr, size;
	enum trace_result result;

	if (call->result == NULL || json_object_get(call->result, key) == NULL)
		return TRACE_OK; /* the request, or one that failed */
	result = need(umpire, call, call->result, key, &ptr);
	if (result == TRACE_OK)
		result = need(umpire, call, call->numbers, "size", &size);
	if (result != TRACE_OK)
		return result;
	umpire->moved = true;
	event_of(call, event, TRACE_ALLOC, ptr, size, allocator != NULL ? allocator->other : 0,
		 allocator != NULL ? allocator->name : 0);
	*made = true;
	return note_alloc(umpire, event);
}

static enum trace_result
deallocate(struct umpire_reader *umpire, const struct call *call, struct trace_event *event, bool *made)
{
	const char *key = call->old ? "memory_ptr" : "pointer";
	uint64_t ptr;
	enum trace_result result = need(umpire, call, call->arguments, key, &ptr);

	if (result != TRACE_OK)
		return result;
	free_block(umpire, call, ptr, allocator_of(umpire, call), event);
	*made = true;
	return TRACE_OK;
}

static enum trace_result
request_move(struct umpire_reader *umpire, const struct call *call, const char *key)
{
	enum trace_result result = need(umpire, call, call->arguments, key, &umpire->from);

	if (result == TRACE_OK)
		result = need(umpire, call, call->numbers, "size", &umpire->size);
	umpire->moving = result == TRACE_OK;
	umpire->moved = false;
	return result;
}

/* The block was resized where it was, or by means that the log does not show: what it was
 * is freed, and allocated as what it is. */
static enum trace_result
finish_move(struct umpire_reader *umpire, const struct call *call, const char *key, struct trace_event *event,
	    bool *made)
{
	const struct trace_map_entry *allocator = allocator_of(umpire, call);
	const struct trace_map_entry *old;
	struct trace_event alloc;
	uint64_t to, device = allocator != NULL ? allocator->other : 0;
	trace_name holder = allocator != NULL ? allocator->name : 0;
	enum trace_result result = need(umpire, call, call->result, key, &to);
	bool logged = !umpire->moving || umpire->moved;

	umpire->moving = false;
	if (result != TRACE_OK || logged)
		return result;
	old = trace_map_find(&umpire->live, umpire->from);
	if (old != NULL && allocator == NULL) {
		device = old->other;
		holder = old->name;
	}
	event_of(call, &alloc, TRACE_ALLOC, to, umpire->size, device, holder);
	*made = umpire->from != 0 || to != 0;
	umpire->has_second = umpire->from != 0 && to != 0;
	umpire->second = alloc;
	if (umpire->from != 0)
		free_block(umpire, call, umpire->from, allocator, event);
	else
		*event = alloc;
	return to != 0 ? note_alloc(umpire, &alloc) : TRACE_OK;
}

static enum trace_result
reallocate(struct umpire_reader *umpire, const struct call *call, struct trace_event *event, bool *made)
{
	enum trace_result result;

	if (!call->old) {
		if (json_object_get(call->arguments, "new_ptr") != NULL)
			return finish_move(umpire, call, "new_ptr", event, made);
		return request_move(umpire, call, "current_ptr");
	}
	if (call->result == NULL)
		return request_move(umpire, call, "ptr");
	/* The result repeats the request. */
	if (!umpire->moving) {
		result = request_move(umpire, call, "ptr");
		if (result != TRACE_OK)
			return result;
	}
	return finish_move(umpire, call, "memory_ptr", event, made);
}

/* ---- events ------------------------------------------------------------------------ */

static enum trace_result
do_call(struct umpire_reader *umpire, const struct call *call, struct trace_event *event, bool *made)
{
	if (strcmp(call->name, "allocate") == 0)
		return allocate(umpire, call, event, made);
	if (strcmp(call->name, "deallocate") == 0)
		return deallocate(umpire, call, event, made);
	if (strcmp(call->name, "reallocate") == 0)
		return reallocate(umpire, call, event, made);
	if (strcmp(call->name, "make_memory_resource") == 0 || strcmp(call->name, "makeMemoryResource") == 0)
		return make_resource(umpire, call);
	if (strcmp(call->name, "make_allocator") == 0 || strcmp(call->name, "makeAllocator") == 0)
		return make_allocator(umpire, call);
	return TRACE_OK;
}

static enum trace_result
read_line(struct umpire_reader *umpire, struct trace_event *event, bool *made)
{
	struct lines *lines = &umpire->lines;
	json_error_t error;
	bool no_memory;
	json_t *line = trace_json_parse(lines->text, lines->length, &error, &no_memory);
	struct call call = { .line = line };
	enum trace_result result;

	if (no_memory)
		return trace_no_memory(lines->reader);
	if (line == NULL)
		return lines_fail(lines, "expected a JSON object: column %d: %s", error.column, error.text);
	if (!json_is_object(line)) {
		json_decref(line);
		return lines_fail(lines, "expected a JSON object");
	}
	result = read_time(umpire, &call);
	if (result == TRACE_OK && is_call(&call))
		result = do_call(umpire, &call, event, made);
	json_decref(line);
	return result;
}

static enum trace_result
umpire_next(struct trace_reader *reader, struct trace_event *event)
{
	struct umpire_reader *umpire = reader->state;
	enum trace_result result = TRACE_OK;
	bool made = umpire->has_second;

	if (umpire->has_second)
		*event = umpire->second;
	umpire->has_second = false;
	while (result == TRACE_OK && !made) {
		result = lines_next(&umpire->lines);
		if (result == TRACE_OK)
			result = read_line(umpire, event, &made);
	}
	return result;
}

const struct trace_format trace_format_umpire = {
	.name = "umpire-replay",
	.hint = "an Umpire replay log (JSON lines)",
	.has_addresses = true,
	.probe = umpire_probe,
	.open = umpire_open,
	.next = umpire_next,
	.rewind = umpire_rewind,
	.close = umpire_close,
};
