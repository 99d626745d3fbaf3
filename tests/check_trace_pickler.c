/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds pickles as the pickling libraries do, and bad ones; nothing here is tested.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/check_trace_support.h"

void
make_op(struct pickler *p, char opcode)
{
	bytes_put(&p->out, &opcode, 1);
}

static void
put_little(struct pickler *p, uint64_t value, int count)
{
	for (int i = 0; i < count; i++)
		make_op(p, (char)(value >> 8 * i));
}

void
make_begin(struct pickler *p, int protocol)
{
	*p = (struct pickler){ .protocol = protocol };
	make_op(p, (char)0x80);
	make_op(p, (char)protocol);
	if (protocol >= 4) {
		make_op(p, (char)0x95);
		put_little(p, 0, 8);
	}
}

void
make_memo(struct pickler *p)
{
	if (p->protocol >= 4) {
		make_op(p, (char)0x94);
	} else if (p->memo < 256) {
		make_op(p, 'q');
		put_little(p, p->memo, 1);
	} else {
		make_op(p, 'r');
		put_little(p, p->memo, 4);
	}
	p->memo++;
}

uint32_t
make_container(struct pickler *p, char opcode)
{
	make_op(p, opcode);
	make_memo(p);
	return p->memo - 1;
}

void
make_get(struct pickler *p, uint32_t slot)
{
	make_op(p, slot < 256 ? 'h' : 'j');
	put_little(p, slot, slot < 256 ? 1 : 4);
}

void
make_string(struct pickler *p, const char *text)
{
	size_t length = strlen(text);

	for (uint32_t i = 0; i < p->memo && i < 128; i++) {
		if (p->known[i] != NULL && strcmp(p->known[i], text) == 0) {
			make_get(p, i);
			return;
		}
	}
	make_op(p, p->protocol >= 4 ? (char)0x8c : 'X');
	put_little(p, length, p->protocol >= 4 ? 1 : 4);
	bytes_put(&p->out, text, length);
	if (p->memo < 128)
		p->known[p->memo] = text;
	make_memo(p);
}

void
make_integer(struct pickler *p, uint64_t value)
{
	int count = 8;

	if (value < 256) {
		make_op(p, 'K');
		put_little(p, value, 1);
	} else if (value < 65536) {
		make_op(p, 'M');
		put_little(p, value, 2);
	} else if (value <= INT32_MAX) {
		make_op(p, 'J');
		put_little(p, value, 4);
	} else {
		count += value > INT64_MAX;
		make_op(p, (char)0x8a);
		make_op(p, (char)count);
		put_little(p, value, 8);
		if (count == 9)
			make_op(p, 0);
	}
}

void
make_pair(struct pickler *p, const char *key, uint64_t value)
{
	make_string(p, key);
	make_integer(p, value);
}

void
make_text_pair(struct pickler *p, const char *key, const char *value)
{
	make_string(p, key);
	make_string(p, value);
}

void
make_frame(struct pickler *p, const char *name, const char *file, uint64_t line)
{
	make_container(p, '}');
	make_op(p, '(');
	make_text_pair(p, "name", name);
	make_text_pair(p, "filename", file);
	make_pair(p, "line", line);
	make_op(p, 'u');
}

static void
one_frame(struct pickler *p)
{
	make_string(p, "frames");
	make_container(p, ']');
	make_frame(p, "work", "/home/user/job.py", 7);
	make_op(p, 'a');
}

void
make_entry(struct pickler *p, const char *action, uint64_t address, uint64_t size, uint64_t stream,
	   uint64_t time_us)
{
	make_container(p, '}');
	make_op(p, '(');
	make_text_pair(p, "action", action);
	make_pair(p, strcmp(action, "oom") == 0 ? "device_free" : "addr", address);
	make_pair(p, "size", size);
	make_pair(p, "stream", stream);
	make_pair(p, "time_us", time_us);
	one_frame(p);
	make_op(p, 'u');
}

static void
block(struct pickler *p, uint64_t address, uint64_t size, uint64_t requested, const char *state)
{
	make_container(p, '}');
	make_op(p, '(');
	make_pair(p, "address", address);
	make_pair(p, "size", size);
	make_pair(p, "requested_size", requested);
	make_text_pair(p, "state", state);
	one_frame(p);
	make_op(p, 'u');
}

static void
segment_head(struct pickler *p, uint64_t address)
{
	make_container(p, '}');
	make_op(p, '(');
	make_pair(p, "device", 0);
	make_pair(p, "address", address);
	make_pair(p, "total_size", 2 << 20);
	make_pair(p, "stream", 0);
	make_text_pair(p, "segment_type", "small");
}

void
make_segment(struct pickler *p, uint64_t address)
{
	segment_head(p, address);
	make_string(p, "segment_pool_id");
	make_integer(p, 0);
	make_integer(p, 3);
	make_op(p, (char)0x86);
	make_memo(p);
	make_string(p, "is_expandable");
	make_op(p, (char)0x89);
	make_string(p, "blocks");
	make_container(p, ']');
	make_op(p, '(');
	block(p, address, 1024, 1000, "active_allocated");
	block(p, address + 1024, (2 << 20) - 1024, (2 << 20) - 1024, "inactive");
	make_op(p, 'e');
	make_op(p, 'u');
}

/* The 2.0 form: no addresses, the request in the history. */
static void
legacy_segment(struct pickler *p, uint64_t address)
{
	segment_head(p, address);
	make_string(p, "blocks");
	make_container(p, ']');
	make_op(p, '(');
	for (int i = 0; i < 2; i++) {
		make_container(p, '}');
		make_op(p, '(');
		make_pair(p, "size", 1 << 20);
		make_text_pair(p, "state", i == 0 ? "active_allocated" : "active_pending_free");
		make_string(p, "history");
		make_container(p, ']');
		make_container(p, '}');
		make_op(p, '(');
		make_pair(p, "addr", address);
		make_pair(p, "real_size", 1000 + (uint64_t)i);
		one_frame(p);
		make_op(p, 'u');
		make_op(p, 'a');
		make_op(p, 'u');
	}
	make_op(p, 'e');
	make_op(p, 'u');
}

static void
segments(struct pickler *p, bool legacy)
{
	make_container(p, ']');
	make_op(p, '(');
	for (uint64_t i = 0; i < 2; i++) {
		uint64_t address = 0x7f0000000000 + i * (4 << 20);
		if (legacy)
			legacy_segment(p, address);
		else
			make_segment(p, address);
	}
	make_op(p, 'e');
}

static void
traces(struct pickler *p)
{
	const uint64_t a = 0x7f0000000000;

	make_string(p, "device_traces");
	make_container(p, ']');
	make_op(p, '(');
	make_container(p, ']');
	make_op(p, '(');
	make_entry(p, "segment_alloc", a, 2 << 20, 0, 10);
	make_entry(p, "alloc", a, 1000, 0, 20);
	make_entry(p, "alloc", a + 1024, 77, 0, 30);
	make_entry(p, "free_requested", a + 1024, 77, 0, 40);
	make_entry(p, "free_completed", a + 1024, 77, 0, 41);
	make_entry(p, "free_requested", a, 1000, 5, 50);
	make_entry(p, "oom", 12345, (uint64_t)1 << 40, 0, 60);
	make_entry(p, "free_completed", a, 1000, 5, 70);
	make_entry(p, "snapshot", 0, 2 << 20, 0, 80);
	make_op(p, 'e');
	make_container(p, ']'); /* a device without a trace */
	make_container(p, ']');
	make_entry(p, "alloc", a + 2048, 5, 9, 15);
	make_op(p, 'a');
	make_op(p, 'e');
}

static void
settings(struct pickler *p)
{
	make_string(p, "allocator_settings");
	make_container(p, '}');
	make_op(p, '(');
	make_pair(p, "max_split_size", 20);
	make_string(p, "expandable_segments");
	make_op(p, (char)0x88);
	make_op(p, 'u');
}

void
make_end(struct pickler *p)
{
	make_op(p, '.');
	if (p->protocol >= 4)
		for (int i = 0; i < 8; i++)
			p->out.data[3 + i] = (uint8_t)((p->out.size - 11) >> 8 * i);
}

static void
one_entry(struct pickler *p)
{
	make_string(p, "device_traces");
	make_container(p, ']');
	make_container(p, ']');
	make_entry(p, "alloc", 0x7f0000000000, 1000, 0, 20);
	make_op(p, 'a');
	make_op(p, 'a');
}

struct bytes
make_snapshot(int protocol, enum snapshot_shape shape)
{
	struct pickler p;

	make_begin(&p, protocol);
	if (shape == SHAPE_BARE_LIST) {
		segments(&p, false);
	} else {
		make_container(&p, '}');
		make_op(&p, '(');
		if (shape == SHAPE_LATE_SEGMENTS)
			traces(&p);
		make_string(&p, "segments");
		segments(&p, shape == SHAPE_LEGACY);
		if (shape == SHAPE_PLAIN)
			traces(&p);
		if (shape == SHAPE_ONE_ENTRY)
			one_entry(&p);
		settings(&p);
		make_op(&p, 'u');
	}
	make_end(&p);
	return p.out;
}

/* A snapshot whose one device's trace is what the caller adds. */
void
make_begin_trace(struct pickler *p)
{
	make_begin(p, 4);
	make_container(p, '}');
	make_op(p, '(');
	make_string(p, "segments");
	make_container(p, ']');
	make_string(p, "device_traces");
	make_container(p, ']');
	make_container(p, ']');
	make_op(p, '(');
}

struct bytes
make_end_trace(struct pickler *p)
{
	make_op(p, 'e');
	make_op(p, 'a');
	make_op(p, 'u');
	make_end(p);
	return p->out;
}

void
make_refused(struct bytes bytes, const char *what)
{
	struct events events = events_of(&bytes);

	ck_assert_int_eq(events.result, TRACE_ERROR);
	ck_assert_msg(strstr(events.error.text, what) != NULL, "\"%s\" does not say \"%s\"",
		      events.error.text, what);
	ck_assert_msg(strstr(events.error.text, ": byte ") != NULL, "\"%s\" names no place",
		      events.error.text);
	events_free(&events);
	bytes_free(&bytes);
}
