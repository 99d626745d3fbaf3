/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers of the trace reader tests; nothing here is tested.
 */
#include "config.h" /* first: memfd_create */

#include "tests/check_trace_support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "tools/trace/memory.h"

void
bytes_put(struct bytes *bytes, const void *data, size_t size)
{
	if (bytes->size + size > bytes->capacity) {
		bytes->capacity = (bytes->size + size) * 2;
		bytes->data = realloc(bytes->data, bytes->capacity);
		MUST(bytes->data != NULL);
	}
	if (size > 0)
		memcpy(bytes->data + bytes->size, data, size);
	bytes->size += size;
}

void
bytes_text(struct bytes *bytes, const char *text)
{
	bytes_put(bytes, text, strlen(text));
}

void
bytes_free(struct bytes *bytes)
{
	free(bytes->data);
	*bytes = (struct bytes){ 0 };
}

struct bytes
bytes_gzip(const struct bytes *plain)
{
	struct bytes packed = { .capacity = plain->size + 1024 };
	z_stream z = { 0 };

	packed.data = malloc(packed.capacity);
	MUST(packed.data != NULL);
	ck_assert_int_eq(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	z.next_in = plain->data;
	z.avail_in = (unsigned)plain->size;
	z.next_out = packed.data;
	z.avail_out = (unsigned)packed.capacity;
	ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
	packed.size = z.total_out;
	deflateEnd(&z);
	return packed;
}

struct bytes
bytes_load(const char *path)
{
	FILE *file = fopen(path, "rb");
	struct bytes bytes = { 0 };
	uint8_t part[65536];
	size_t got;

	ck_assert_msg(file != NULL, "cannot open %s", path);
	while ((got = fread(part, 1, sizeof part, file)) > 0)
		bytes_put(&bytes, part, got);
	fclose(file);
	return bytes;
}

int
file_of(const struct bytes *bytes, char *path)
{
	int fd = memfd_create("trace", MFD_CLOEXEC);

	MUST(fd >= 0);
	for (size_t done = 0; done < bytes->size;) {
		ssize_t put = write(fd, bytes->data + done, bytes->size - done);
		MUST(put > 0);
		done += (size_t)put;
	}
	snprintf(path, 64, "/proc/self/fd/%d", fd);
	return fd;
}

/* ---- events ------------------------------------------------------------------ */

void
events_drain(struct events *events)
{
	struct trace_event event;

	while ((events->result = trace_next(events->reader, &event, &events->error)) == TRACE_OK) {
		if (events->count == events->capacity) {
			events->capacity = events->capacity * 2 + 16;
			events->event = realloc(events->event, events->capacity * sizeof event);
			MUST(events->event != NULL);
		}
		events->event[events->count++] = event;
	}
}

struct events
events_of_file(const char *path)
{
	struct events events = { 0 };

	events.opened = events.result = trace_open(path, NULL, &events.reader, &events.error);
	MUST((events.opened == TRACE_OK) == (events.reader != NULL));
	if (events.opened == TRACE_OK)
		events_drain(&events);
	return events;
}

struct events
events_of(const struct bytes *bytes)
{
	char path[64];
	int fd = file_of(bytes, path);
	struct events events = events_of_file(path);

	close(fd);
	return events;
}

struct events
events_of_text(const char *text)
{
	struct bytes bytes = { 0 };
	struct events events;

	bytes_text(&bytes, text);
	events = events_of(&bytes);
	bytes_free(&bytes);
	return events;
}

struct events
events_good(const char *text)
{
	struct events events = events_of_text(text);

	ck_assert_msg(events.result == TRACE_END, "%s", events.error.text);
	return events;
}

void
events_end(const char *text, enum trace_result result, size_t count, const char *says)
{
	struct events events = events_of_text(text);

	ck_assert_msg(events.result == result, "result %d: %s", events.result, events.error.text);
	ck_assert_uint_eq(events.count, count);
	if (says != NULL)
		ck_assert_msg(strstr(events.error.text, says) != NULL, "\"%s\" does not say \"%s\"",
			      events.error.text, says);
	events_free(&events);
}

void
events_free(struct events *events)
{
	trace_close(events->reader);
	free(events->event);
}

const char *
events_holder(const struct events *events, size_t index)
{
	ck_assert_uint_lt(index, events->count);
	return trace_name_text(events->reader, events->event[index].holder);
}

const char *
events_detail(const struct events *events, size_t index)
{
	ck_assert_uint_lt(index, events->count);
	return trace_name_text(events->reader, events->event[index].detail);
}

size_t
events_number(const struct events *events, enum trace_op op)
{
	size_t number = 0;

	for (size_t i = 0; i < events->count; i++)
		number += events->event[i].op == op;
	return number;
}

bool
events_equal(const struct trace_event *a, const struct trace_event *b)
{
	return a->op == b->op && a->deferred == b->deferred && a->device == b->device &&
	       a->thread == b->thread && a->index == b->index && a->time_ns == b->time_ns &&
	       a->stream == b->stream && a->ptr == b->ptr && a->size == b->size &&
	       a->generation == b->generation && a->holder == b->holder && a->detail == b->detail &&
	       a->has_pool == b->has_pool && a->pool[0] == b->pool[0] && a->pool[1] == b->pool[1];
}

/* ---- samples ------------------------------------------------------------------------ */

static const char soma_sample[] =
	"time,thread,op,device,stream,ptr,size,tag,generation,detail\n"
	"0,1,segment_alloc,0,0,0x7f0000000000,2097152,,,\n"
	"18446744073709551615,,alloc,0,3,0x7f0000000000,1000,\"a, \"\"b\"\"\nc\",1,\n"
	"20,4294967295,free,0,3,0x7f0000000000,1000,,1,deferred;later\r\n"
	"\n"
	"30,,free_completed,2147483647,3,0x7f0000000000,,,,\n"
	"40,,mark,0,0,,,start,,\"x,y\"\n";

static const char pool_sample[] = "time,thread,op,device,stream,ptr,size,tag,generation,detail,pool\n"
				  "1,,alloc,0,0,0x1000,8,a,,,3:1\n"
				  "2,,alloc,0,0,0x2000,8,a,,,\n";

/* Cut behind a comma, its first line is an event: the one that it has first. */
static const char start_sample[] = "time,thread,op,device,stream,ptr,size,tag,generation,detail,pool\n"
				   ",,segment_alloc,0,7,0x200000,2097152,,,start;small,0:1\n"
				   ",,alloc,0,7,0x200000,600,\"a, b\",,start;1024,0:1\n"
				   ",,alloc,0,7,0x200400,600,,,start;512;pending,0:1\n"
				   ",,segment_map,1,7,0x400000,2097152,,,start,\n"
				   "1,,segment_alloc,0,7,0x200000,2097152,,,,\n"
				   "2,,free,0,7,0x200000,600,,,,\n";

static const char rmm_sample[] = "Thread,Time,Action,Pointer,Size,Stream\n"
				 "12,23:59:59.999999,allocate,0x7f6a00000000,1024,0x0\n"
				 "12,00:00:00.000001,allocate failure,(nil),99999999999,0x7fff1\n"
				 "\"13\",1700000000.25,\"free\",7F6A00000000,1024,2\r\n"
				 "13,1700000001,deallocate,0x10,0,0\n";

static const char umpire_sample[] =
	"{\"category\":\"metadata\",\"name\":\"version\",\"numeric_args\":{\"major\":2022}}\n"
	"{\"category\":\"operation\",\"name\":\"make_memory_resource\",\"string_args\":{\"allocator_ref\":"
	"\"0x10\"},\"tags\":{\"allocator_name\":\"HOST\"},\"timestamp\":1656100509508239593}\n"
	"{\"category\":\"operation\",\"name\":\"make_allocator\",\"string_args\":{\"allocator_ref\":\"0x20\","
	"\"arg0\":\"HOST\"},\"tags\":{\"allocator_name\":\"pool\"},\"timestamp\":1656100509508239594}\n"
	"{\"category\":\"operation\",\"name\":\"allocate\",\"numeric_args\":{\"size\":128},\"string_args\":{"
	"\"allocator_ref\":\"0x20\",\"pointer\":\"0x1000\"},\"timestamp\":1656100509508239595}\n"
	"{\"category\":\"operation\",\"name\":\"reallocate\",\"numeric_args\":{\"size\":256},\"string_args\":"
	"{"
	"\"allocator_ref\":\"0x20\",\"current_ptr\":\"0x1000\"},\"timestamp\":1656100509508239596}\n"
	"{\"category\":\"operation\",\"name\":\"reallocate\",\"numeric_args\":{},\"string_args\":{"
	"\"allocator_ref\":\"0x20\",\"new_ptr\":\"0x2000\"},\"timestamp\":1656100509508239597}\n"
	"{\"category\":\"operation\",\"name\":\"deallocate\",\"string_args\":{\"allocator_ref\":\"0x20\","
	"\"pointer\":\"0x2000\"},\"timestamp\":1656100509508239598}\n"
	"{\"category\":\"operation\",\"name\":\"allocate_resource\",\"numeric_args\":{\"size\":8},"
	"\"string_args\":{\"allocator_ref\":\"0x20\",\"pointer\":\"0x3000\",\"resource\":\"r\"},"
	"\"timestamp\":1656100509508239599}\n";

static const char kineto_sample[] =
	"{\n \"schemaVersion\": 1, \"deviceProperties\": [ {\"id\": 0, \"name\": \"a \\\"]} b\"} ],\n"
	" \"traceEvents\": [\n"
	"  {\"ph\": \"X\", \"name\": \"op\", \"ts\": 1, \"dur\": 2, \"args\": {\"a\": [1, [2]]}},\n"
	"  {\"ph\": \"i\", \"name\": \"[memory]\", \"tid\": 7, \"ts\": 10,\n"
	"   \"args\": {\"Device Type\": 1, \"Device Id\": 2, \"Bytes\": 512}},\n"
	"  {\"ph\": \"i\", \"name\": \"[memory]\", \"tid\": 7, \"ts\": 11,\n"
	"   \"args\": {\"Device Type\": 0, \"Device Id\": -1, \"Bytes\": 64}},\n"
	"  {\"ph\": \"i\", \"name\": \"[memory]\", \"tid\": 7, \"ts\": 12.25,\n"
	"   \"args\": {\"Device Type\": 1, \"Device Id\": 2, \"Bytes\": -512}},\n"
	"  {\"ph\": \"i\", \"name\": \"[OutOfMemory]\", \"tid\": 7, \"ts\": 13,\n"
	"   \"args\": {\"Device Type\": 1, \"Device Id\": 2, \"Bytes\": 4096}}\n"
	" ],\n \"traceName\": \"x\"\n}\n";

static const char stalloc_sample[] = "1 139637976727552 512 0\n"
				     "1 0x7f0000000200 1024 7\n"
				     "Iteration Index : 0\n"
				     "0 139637976727552 512 0\n";

static void
add_sample(struct sample **samples, size_t *count, const char *name, struct bytes bytes)
{
	*samples = realloc(*samples, (*count + 1) * sizeof **samples);
	MUST(*samples != NULL);
	(*samples)[(*count)++] = (struct sample){ name, bytes };
}

size_t
samples_make(struct sample **samples)
{
	static const int protocols[] = { 2, 4, 5 };
	struct bytes text = { 0 };
	size_t count = 0, plain;

	*samples = NULL;
	for (size_t i = 0; i < 3; i++)
		for (int shape = 0; shape < SHAPE_COUNT; shape++)
			add_sample(samples, &count, "pickle",
				   make_snapshot(protocols[i], (enum snapshot_shape)shape));
	bytes_text(&text, soma_sample);
	add_sample(samples, &count, "soma", text);
	text = (struct bytes){ 0 };
	bytes_text(&text, rmm_sample);
	add_sample(samples, &count, "rmm", text);
	plain = count;
	text = (struct bytes){ 0 };
	bytes_text(&text, pool_sample);
	add_sample(samples, &count, "pools", text);
	text = (struct bytes){ 0 };
	bytes_text(&text, umpire_sample);
	add_sample(samples, &count, "umpire", text);
	text = (struct bytes){ 0 };
	bytes_text(&text, kineto_sample);
	add_sample(samples, &count, "kineto", text);
	text = (struct bytes){ 0 };
	bytes_text(&text, stalloc_sample);
	add_sample(samples, &count, "stalloc", text);
	text = (struct bytes){ 0 };
	bytes_text(&text, start_sample);
	add_sample(samples, &count, "start", text);
	add_sample(samples, &count, "pickle.gz", bytes_gzip(&(*samples)[SHAPE_COUNT].bytes));
	add_sample(samples, &count, "soma.gz", bytes_gzip(&(*samples)[plain - 2].bytes));
	return count;
}

void
samples_free(struct sample *samples, size_t count)
{
	for (size_t i = 0; i < count; i++)
		bytes_free(&samples[i].bytes);
	free(samples);
}

/* ---- allocations ---------------------------------------------------------------------- */

static void *
counting_resize(void *context, void *memory, size_t size)
{
	struct counting *counting = context;
	void *resized;

	counting->calls++;
	if (counting->fail_at != 0 && counting->calls >= counting->fail_at)
		return NULL;
	resized = realloc(memory, size);
	counting->live += memory == NULL && resized != NULL;
	return resized;
}

static void
counting_release(void *context, void *memory)
{
	struct counting *counting = context;

	counting->live--;
	free(memory);
}

void
counting_start(struct counting *counting)
{
	trace_set_allocator(&(struct trace_allocator){
		.resize = counting_resize, .release = counting_release, .context = counting });
}

void
counting_stop(void)
{
	trace_set_allocator(NULL);
}
