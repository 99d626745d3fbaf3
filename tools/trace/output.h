/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces written in other formats.  Adding one: one file that defines a struct
 * trace_output_format, and one row in output_formats[] (output.c).
 *
 * What a format cannot hold is counted by kind, for the user to be told.
 */
#ifndef SOMA_TOOLS_TRACE_OUTPUT_H
#define SOMA_TOOLS_TRACE_OUTPUT_H

#include "tools/trace/map.h"
#include "tools/trace/sink.h"
#include "tools/trace/trace.h"

/* X(name, what is lost, in the plural) */
#define TRACE_LOSS_MAP(X)                                                                          \
	X(DEVICES, "events of other devices")                                                      \
	X(STREAMS, "streams")                                                                      \
	X(TIMES, "times")                                                                          \
	X(THREADS, "threads")                                                                      \
	X(TAGS, "tags")                                                                            \
	X(DETAILS, "details")                                                                      \
	X(GENERATIONS, "generations")                                                              \
	X(POOLS, "pools")                                                                          \
	X(DEFERRED, "deferred frees (they take effect at once)")                                   \
	X(FAILED, "failed allocations")                                                            \
	X(SEGMENTS, "segments")                                                                    \
	X(ORDER, "uses, events, waits and synchronisations")                                       \
	X(MARKS, "marks")                                                                          \
	X(COMPLETED, "times at which frees completed")                                             \
	X(UNKNOWN, "frees of blocks that the trace does not allocate")                             \
	X(SNAPSHOT, "segments of the snapshot (a trace that begins in mid-run has nothing before " \
		    "its first event without them)")

enum trace_loss {
#define X(name, text) LOSS_##name,
	TRACE_LOSS_MAP(X)
#undef X
		TRACE_LOSS_COUNT
};

const char *trace_loss_text(enum trace_loss loss);

struct trace_output {
	const struct trace_output_format *format;
	struct trace_sink *sink; /* the soma format has its own */
	const struct trace_reader *reader;
	bool pools;     /* some event says whose memory it is */
	bool has_times; /* some event has a time */
	int32_t device; /* of a format that holds one */
	/* For a format that holds what was there before the first event: */
	const struct trace_snapshot *start; /* or NULL */
	uint64_t start_lost;                /* segments of the reader's snapshot that are not rewound */
	bool no_memory;                     /* of the output's own; nothing is written any more */
	uint64_t events;                    /* put so far */
	uint64_t lost[TRACE_LOSS_COUNT];
	struct trace_map live; /* the format's own: by address */
	void *state;           /* the same */
};

struct trace_output_format {
	const char *name;
	const char *ending; /* of file names, before a ".gz" */
	bool one_device;
	bool holds_start;
	enum trace_result (*open)(struct trace_output *output, const char *path, struct trace_error *error);
	void (*put)(struct trace_output *output, const struct trace_event *event, const char *holder,
		    const char *detail);
	enum trace_result (*close)(struct trace_output *output, struct trace_error *error);
};

/* NULL: none of that name, or of that ending. */
const struct trace_output_format *trace_output_named(const char *name);
const struct trace_output_format *trace_output_of_path(const char *path);

/* The names, "soma|rmm|...". */
#define TRACE_OUTPUT_NAMES "soma|rmm|placement|chrome|json"

/* The caller has set reader, pools, has_times, device and the start, and all else to 0. */
enum trace_result trace_output_open(struct trace_output *output, const struct trace_output_format *format,
				    const char *path, struct trace_error *error);
void trace_output_put(struct trace_output *output, const struct trace_event *event);
enum trace_result trace_output_close(struct trace_output *output, struct trace_error *error);

/* For the formats: they write text to output->sink. */
enum trace_result trace_output_open_sink(struct trace_output *output, const char *path,
					 struct trace_error *error);
/* The same for one that has blocks and no segments, with its first line. */
enum trace_result trace_output_open_blocks(struct trace_output *output, const char *path, const char *head,
					   struct trace_error *error);
enum trace_result trace_output_close_sink(struct trace_output *output, struct trace_error *error);

static inline void
trace_output_lose(struct trace_output *output, enum trace_loss loss, bool lost)
{
	output->lost[loss] += lost;
}

extern const struct trace_output_format trace_output_chrome;
extern const struct trace_output_format trace_output_json;
extern const struct trace_output_format trace_output_placement;
extern const struct trace_output_format trace_output_rmm;
extern const struct trace_output_format trace_output_soma;

#endif
