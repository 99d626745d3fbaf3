/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a format provides and what it is given.  Adding a format: one file that
 * defines a struct trace_format, and one row in trace_formats[] (trace.c).
 *
 * A format's functions put the text of a failure into reader->failure.
 */
#ifndef SOMA_TOOLS_TRACE_READER_H
#define SOMA_TOOLS_TRACE_READER_H

#include "tools/trace/input.h"
#include "tools/trace/keep.h"
#include "tools/trace/names.h"

/* The first bytes of the unpacked file, which probes look at. */
#define TRACE_PROBE_SIZE 4096

struct trace_format {
	const char *name;
	const char *hint; /* how such a file begins, for the message when none fits */
	const char *allocations; /* how an allocation stands in it, for the message when there is none */
	const char *others;      /* what passed_over counts; NULL: nothing */
	bool has_addresses;
	bool is_of_pytorch; /* written by PyTorch, of its caching allocator */
	bool has_moments; /* its times are in a unit of its own */
	/* Whether a file that begins with these bytes is of this format.  `size` is
	 * TRACE_PROBE_SIZE or the whole file. */
	bool (*probe)(const uint8_t *data, size_t size);
	/* Makes reader->state and, where there is one, reader->snapshot.  After a
	 * failure, close is called all the same. */
	enum trace_result (*open)(struct trace_reader *reader);
	/* Fills everything but `index`; the event is zeroed before. */
	enum trace_result (*next)(struct trace_reader *reader, struct trace_event *event);
	/* The input stands at its first byte again. */
	enum trace_result (*rewind)(struct trace_reader *reader);
	void (*close)(struct trace_reader *reader);
};

struct trace_reader {
	const struct trace_format *format;
	char *path;
	struct trace_input input;
	struct trace_names names;
	const struct trace_snapshot *snapshot;
	void *state;              /* the format's own */
	bool upper_inclusive;     /* placement instances: see struct trace_options */
	bool needs_allocations;   /* the same */
	uint64_t counts[TRACE_OP_COUNT];
	uint64_t passed_over; /* what is in the file and is no event */
	uint64_t event_count;     /* given out */
	enum trace_result result; /* not TRACE_OK: the end, and what it was */
	struct trace_error failure;

	size_t keep_max;          /* bytes; 0: events are not kept */
	struct trace_kept *kept;  /* being filled, until it is whole; NULL: none */
	bool kept_whole;          /* events come from there */
	bool shares;              /* all but the cursor and `result` is another reader's */
	struct trace_kept_cursor cursor;
};

extern const struct trace_format trace_format_kineto;
extern const struct trace_format trace_format_nsys;
extern const struct trace_format trace_format_placement;
extern const struct trace_format trace_format_pytorch;
extern const struct trace_format trace_format_rmm;
extern const struct trace_format trace_format_soma;
extern const struct trace_format trace_format_stalloc;
extern const struct trace_format trace_format_umpire;

/* "PATH: byte N: ..." and "PATH:N: ..." into reader->failure; TRACE_ERROR. */
enum trace_result trace_fail_byte(struct trace_reader *reader, uint64_t offset, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
enum trace_result trace_fail_line(struct trace_reader *reader, uint64_t line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The same with TRACE_TRUNCATED. */
enum trace_result trace_truncated_byte(struct trace_reader *reader, uint64_t offset);
enum trace_result trace_truncated_line(struct trace_reader *reader, uint64_t line);

enum trace_result trace_no_memory(struct trace_reader *reader);

/* any.c: every event is counted; at the end `result` is what was found, or the error that there is nothing. */
void trace_any_count(struct trace_reader *reader, const struct trace_event *event);
enum trace_result trace_any_check(struct trace_reader *reader, enum trace_result result);

#endif
