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
 *
 * A call may name the resource (of camp) that it is ordered by: each text is a stream.
 */
#include "config.h" /* first: memmem */

#include "tools/trace/umpire.h"

#include <string.h>

#include "tools/trace/json.h"
#include "tools/trace/memory.h"

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
	trace_map_fini(&umpire->streams);
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
read_time(struct umpire_reader *umpire, struct umpire_call *call)
{
	const json_t *time = json_object_get(call->line, "timestamp");

	if (time == NULL || trace_json_number(time, &call->time))
		return TRACE_OK;
	return lines_fail(&umpire->lines, "expected \"timestamp\" to be nanoseconds, a number of 64 bits");
}

/* false: the line is about something else, such as the version. */
static bool
is_call(struct umpire_call *call)
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

/* ---- blocks ---------------------------------------------------------------------- */

static void
event_of(const struct umpire_call *call, struct trace_event *event, enum trace_op op, uint64_t ptr,
	 uint64_t size, uint64_t device, trace_name holder)
{
	*event = (struct trace_event){ .op = op,
				       .time_ns = call->time,
				       .device = (int32_t)device,
				       .stream = call->stream,
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
	entry->more = event->stream;
	entry->name = event->holder;
	return TRACE_OK;
}

/* Blocks of no bytes may share an address with each other and with one that has some:
 * those are freed as a null pointer is, and only when no other one is there. */
static void
free_block(struct umpire_reader *umpire, const struct umpire_call *call, uint64_t ptr,
	   const struct trace_map_entry *allocator, struct trace_event *event)
{
	struct trace_map_entry *entry = trace_map_find(&umpire->live, ptr);
	struct trace_map_entry *nothing = entry == NULL ? trace_map_find(&umpire->nothing, ptr) : NULL;

	if (entry != NULL) {
		event_of(call, event, TRACE_FREE, ptr, entry->number, entry->other, entry->name);
		event->stream = call->stream != 0 ? call->stream : entry->more;
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

static enum trace_result
allocate(struct umpire_reader *umpire, const struct umpire_call *call, struct trace_event *event, bool *made)
{
	const struct trace_map_entry *allocator = umpire_allocator(umpire, call);
	const char *key = call->old ? "memory_ptr" : "pointer";
	uint64_t ptr, size;
	enum trace_result result;

	if (call->result == NULL || json_object_get(call->result, key) == NULL)
		return TRACE_OK; /* the request, or one that failed */
	result = umpire_need(umpire, call, call->result, key, &ptr);
	if (result == TRACE_OK)
		result = umpire_need(umpire, call, call->numbers, "size", &size);
	if (result != TRACE_OK)
		return result;
	umpire->moved = true;
	event_of(call, event, TRACE_ALLOC, ptr, size, allocator != NULL ? allocator->other : 0,
		 allocator != NULL ? allocator->name : 0);
	*made = true;
	return note_alloc(umpire, event);
}

static enum trace_result
deallocate(struct umpire_reader *umpire, const struct umpire_call *call, struct trace_event *event,
	   bool *made)
{
	const char *key = call->old ? "memory_ptr" : "pointer";
	uint64_t ptr;
	enum trace_result result = umpire_need(umpire, call, call->arguments, key, &ptr);

	if (result != TRACE_OK)
		return result;
	free_block(umpire, call, ptr, umpire_allocator(umpire, call), event);
	*made = true;
	return TRACE_OK;
}

static enum trace_result
request_move(struct umpire_reader *umpire, const struct umpire_call *call, const char *key)
{
	enum trace_result result = umpire_need(umpire, call, call->arguments, key, &umpire->from);

	if (result == TRACE_OK)
		result = umpire_need(umpire, call, call->numbers, "size", &umpire->size);
	umpire->moving = result == TRACE_OK;
	umpire->moved = false;
	return result;
}

/* The block was resized where it was, or by means that the log does not show: what it was
 * is freed, and allocated as what it is. */
static enum trace_result
finish_move(struct umpire_reader *umpire, const struct umpire_call *call, const char *key,
	    struct trace_event *event, bool *made)
{
	const struct trace_map_entry *allocator = umpire_allocator(umpire, call);
	const struct trace_map_entry *old;
	struct trace_event alloc;
	uint64_t to, device = allocator != NULL ? allocator->other : 0;
	trace_name holder = allocator != NULL ? allocator->name : 0;
	enum trace_result result = umpire_need(umpire, call, call->result, key, &to);
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
	alloc.stream = old != NULL ? old->more : 0;
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
reallocate(struct umpire_reader *umpire, const struct umpire_call *call, struct trace_event *event,
	   bool *made)
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

typedef enum trace_result call_function(struct umpire_reader *umpire, const struct umpire_call *call,
					struct trace_event *event, bool *made);

static const struct {
	const char *name;
	call_function *function;
} calls[] = {
	{ "allocate", allocate },
	{ "named_allocate", allocate },
	{ "allocate_resource", allocate },
	{ "deallocate", deallocate },
	{ "deallocate_resource", deallocate },
	{ "reallocate", reallocate },
	{ "reallocate_ex", reallocate },
	{ "make_memory_resource", umpire_make_resource },
	{ "makeMemoryResource", umpire_make_resource },
	{ "make_allocator", umpire_make_allocator },
	{ "makeAllocator", umpire_make_allocator },
};

/* Others move or copy what is in memory, or say what they do in calls of their own. */
static enum trace_result
do_call(struct umpire_reader *umpire, struct umpire_call *call, struct trace_event *event, bool *made)
{
	enum trace_result result = umpire_stream(umpire, call);

	for (size_t i = 0; result == TRACE_OK && i < sizeof calls / sizeof calls[0]; i++)
		if (strcmp(call->name, calls[i].name) == 0)
			return calls[i].function(umpire, call, event, made);
	return result;
}

static enum trace_result
read_line(struct umpire_reader *umpire, struct trace_event *event, bool *made)
{
	struct lines *lines = &umpire->lines;
	json_error_t error;
	bool no_memory;
	json_t *line = trace_json_parse(lines->text, lines->length, &error, &no_memory);
	struct umpire_call call = { .line = line };
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
	.allocations = "operations \"allocate\"",
	.has_addresses = true,
	.probe = umpire_probe,
	.open = umpire_open,
	.next = umpire_next,
	.rewind = umpire_rewind,
	.close = umpire_close,
};
