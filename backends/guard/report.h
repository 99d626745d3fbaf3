/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports: what was found, filled in under the guard's lock from the records, then
 * written as text and JSON under no lock.
 */
#ifndef SOMA_BACKENDS_GUARD_REPORT_H
#define SOMA_BACKENDS_GUARD_REPORT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <soma/backend.h>

#include "backends/guard/block.h"
#include "backends/guard/memory.h"
#include "backends/guard/uses.h"

/* X(name, text) */
#define REPORT_KINDS(X)                             \
	X(OOB_AFTER, "oob-write-after")             \
	X(OOB_BEFORE, "oob-write-before")           \
	X(WRITE_AFTER_FREE, "write-after-free")     \
	X(DOUBLE_FREE, "double-free")               \
	X(FOREIGN_FREE, "foreign-free")             \
	X(WRONG_SIZE, "wrong-size-free")            \
	X(USE_AFTER_FREE, "use-after-free")         \
	X(FOREIGN_USE, "foreign-use")               \
	X(UNINITIALISED_READ, "uninitialised-read") \
	X(USE_BEFORE_READY, "use-before-ready")     \
	X(FREE_UNORDERED, "free-unordered")         \
	X(STREAM_RACE, "stream-race")               \
	X(LEAK, "leak")                             \
	X(OVERLAP, "overlapping-block")

enum report_kind {
#define X(name, text) REPORT_##name,
	REPORT_KINDS(X)
#undef X
};

/* What a report says of a block: a copy, the record may be gone by then. */
struct report_block {
	uint64_t ptr, size, generation;
	enum block_state state;
	struct clock_access alloc, freed, last;
	uint64_t clean_seq;
	char tag[BLOCK_TAG_MAX];
};

struct report {
	enum report_kind kind;
	bool warning;   /* not an error for certain */
	bool has_block; /* `block` is known */
	uint64_t ptr;   /* what the program named, or the block's */
	struct report_block block;
	struct report_block before, after; /* neighbours; ptr 0: none */
	struct report_block around;        /* the block that ptr points into; ptr 0: none */
	struct damage damage;              /* count 0: none */
	struct clock_access now;           /* the access or free that was wrong; seq 0: none */
	struct clock_access first;         /* the earlier one that it is not ordered after; tick 0: none */
	bool first_is_alloc;
	uint64_t seq;        /* of the guard, when it was found */
	uint64_t given_size; /* WRONG_SIZE */
	uint64_t generation; /* without a block: the library's, of one that was freed; 0: not known */
	const char *found_by;
};

struct reporter {
	int output, json; /* descriptors; json -1: none */
	uint64_t limit;
	_Atomic uint64_t count, suppressed;
	bool to_listener; /* on_error=callback */
	bool aborts;
	pthread_mutex_t mutex; /* protects the two below */
	void (*listener)(void *context, const struct soma_backend_guard_report *report);
	void *listener_context;
	bool listened; /* a listener was set once: callback mode writes no more text */
};

const char *report_kind_text(enum report_kind kind);
const char *report_state_text(enum block_state state);

/* Copies the block and its neighbours into the report; under the guard's lock. */
void report_about(struct soma_backend *g, struct report *report, const struct block *block);
/* The same for an address that is no block's. */
void report_about_address(struct soma_backend *g, struct report *report, uint64_t ptr);
/* And for a block that is not known any more, and what is at its address now; ptr 0: not known either. */
void report_about_gone(struct soma_backend *g, struct report *report, uint64_t ptr, uint64_t generation);

/* Writes it, calls back, and may abort.  Under no lock. */
void report_emit(struct soma_backend *g, const struct report *report);

enum soma_status reporter_open(struct soma_backend *g);
void reporter_close(struct soma_backend *g);

/* ---- the two forms ---- */

struct text {
	char *at;
	size_t used, room;
};

void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void report_text(struct soma_backend *g, const struct report *report, struct text *text);
void report_json(struct soma_backend *g, const struct report *report, struct text *text);

#endif
