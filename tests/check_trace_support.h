/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of the trace readers: files that live in memory, a builder of pickles,
 * a counting allocator, and reading a trace to its end.
 */
#ifndef SOMA_TESTS_CHECK_TRACE_SUPPORT_H
#define SOMA_TESTS_CHECK_TRACE_SUPPORT_H

#include <check.h>
#include <stdio.h>

#include "tests/unit.h"
#include "tools/trace/trace.h"

/* An assertion that costs nothing when it holds: Check's own write to a file each time. */
#define MUST(condition)                                         \
	do {                                                    \
		if (!(condition))                               \
			ck_abort_msg("not so: %s", #condition); \
	} while (0)

struct bytes {
	uint8_t *data;
	size_t size, capacity;
};

void bytes_put(struct bytes *bytes, const void *data, size_t size);
void bytes_text(struct bytes *bytes, const char *text);
void bytes_free(struct bytes *bytes);
struct bytes bytes_gzip(const struct bytes *plain);
struct bytes bytes_load(const char *path);

/* Makes `path` (of at least 64 bytes) name a file that holds them; returns what to close. */
int file_of(const struct bytes *bytes, char *path);

/* A trace read to its end. */
struct events {
	struct trace_event *event;
	size_t count, capacity;
	enum trace_result opened, result;
	struct trace_error error;
	struct trace_reader *reader; /* still open unless opening failed */
};

struct events events_of_file(const char *path);
struct events events_of(const struct bytes *bytes);
struct events events_of_text(const char *text);
/* The text is a whole trace. */
struct events events_good(const char *text);
/* Reading it ends like that, after `count` events; says: part of the message, or NULL. */
void events_end(const char *text, enum trace_result result, size_t count, const char *says);
void events_free(struct events *events);
/* Appends what the reader still has. */
void events_drain(struct events *events);
const char *events_holder(const struct events *events, size_t index);
const char *events_detail(const struct events *events, size_t index);
size_t events_number(const struct events *events, enum trace_op op);
bool events_equal(const struct trace_event *a, const struct trace_event *b);

/* ---- pickles ------------------------------------------------------------------ */

struct pickler {
	struct bytes out;
	int protocol;
	uint32_t memo;
	const char *known[128]; /* texts by memo slot */
};

void make_begin(struct pickler *p, int protocol);
void make_op(struct pickler *p, char opcode);
void make_memo(struct pickler *p);
uint32_t make_container(struct pickler *p, char opcode); /* and memoized: its slot */
void make_get(struct pickler *p, uint32_t slot);
void make_string(struct pickler *p, const char *text);
void make_integer(struct pickler *p, uint64_t value);
void make_pair(struct pickler *p, const char *key, uint64_t value);
void make_text_pair(struct pickler *p, const char *key, const char *value);
void make_frame(struct pickler *p, const char *name, const char *file, uint64_t line);
/* A trace entry with one frame, "work (job.py:7)". */
void make_entry(struct pickler *p, const char *action, uint64_t address, uint64_t size, uint64_t stream,
		uint64_t time_us);
/* A segment of 2 MiB at `address`: a live block of 1024 bytes, 1000 requested, and the rest. */
void make_segment(struct pickler *p, uint64_t address);
void make_end(struct pickler *p);

/* A snapshot whose one device's trace is what is added between the two. */
void make_begin_trace(struct pickler *p);
struct bytes make_end_trace(struct pickler *p);

/* The pickle must be refused with a message that has `what` in it, and a place.  It is
 * freed. */
void make_refused(struct bytes bytes, const char *what);

enum snapshot_shape {
	SHAPE_PLAIN,
	SHAPE_LATE_SEGMENTS,
	SHAPE_BARE_LIST,
	SHAPE_NO_EVENTS,
	SHAPE_LEGACY,
	SHAPE_ONE_ENTRY,
	SHAPE_COUNT
};

/* A small snapshot of that shape; SHAPE_PLAIN has SNAPSHOT_EVENTS events on two devices. */
struct bytes make_snapshot(int protocol, enum snapshot_shape shape);
#define SNAPSHOT_EVENTS 9

/* Small files of every format, shape and protocol. */
struct sample {
	const char *name;
	struct bytes bytes;
};

size_t samples_make(struct sample **samples);
void samples_free(struct sample *samples, size_t count);

/* ---- allocations ---------------------------------------------------------------- */

struct counting {
	size_t live; /* blocks */
	size_t calls;
	size_t fail_at; /* this call and those behind it fail; 0: none */
};

/* Counts what the readers allocate from here on. */
void counting_start(struct counting *counting);
void counting_stop(void);

/* ---- damage --------------------------------------------------------------------- */

/* Every beginning of a good trace, `step` bytes apart, is read or refused with a place,
 * and gives the beginning of its events. */
void check_cut_everywhere(const struct bytes *bytes, size_t step);

/* Reading them with ever more memory: each time without enough it says so, and gives all
 * back. */
void check_every_allocation(const struct bytes *bytes);

/* The same bytes with one to four random changes are read or refused with a place. */
void check_changed(const struct bytes *bytes, uint64_t *random);

#endif
