/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequences of operations, and running one through two engines side by side.
 *
 * An operation names what it uses by labels (the number of the operation that made
 * it), never by value, so that a sequence keeps its meaning when operations are
 * dropped from it.  An operation whose label was never made is skipped.
 */
#ifndef SOMA_TESTS_SEQUENCE_H
#define SOMA_TESTS_SEQUENCE_H

#include <stdio.h>

#include "tests/engine.h"

enum op_kind {
	OP_ALLOC,          /* label = alloc(size, stream) */
	OP_FREE,           /* free(other + size, stream): size 0 unless it is a bad one */
	OP_FREE_ADDRESS,   /* free(address, stream) */
	OP_STREAM_CREATE,  /* label = create(flags) */
	OP_STREAM_DESTROY, /* destroy(stream) */
	OP_RECORD,         /* label = record(stream) */
	OP_WAIT,           /* wait(stream, event other) */
	OP_WAIT_BACK,      /* wait(stream, (other, submitted of other - back)) */
	OP_ADVANCE,        /* advance(stream, submitted - back) */
	OP_SYNCHRONIZE,    /* synchronize(stream) */
	OP_SYNCHRONIZE_ALL,
	OP_TRIM,      /* trim_to(size) */
	OP_THRESHOLD, /* set_release_threshold(size) */
	OP_RESET_PEAKS,
	OP_ADOPT_SEGMENT,   /* adopt_segment(stream, flags as pool, address, size) */
	OP_ADOPT_BLOCK,     /* label = adopt_block(address, size, capacity) */
	OP_RELEASE_SEGMENT, /* release_segment(address) */
};

/* Stream label 0 is the legacy stream; this one is no stream's. */
#define LABEL_UNKNOWN ((unsigned)-1)

struct op {
	enum op_kind kind;
	unsigned label;
	unsigned stream;
	unsigned other;
	unsigned flags;
	uint64_t size;
	uint64_t address;
	uint64_t capacity;
	int64_t back;
};

struct sequence {
	struct soma_policy policy;
	struct soma_model_limits limits; /* policy and segments are filled in when run */
	unsigned refuse_every;           /* of its own source, which refuses so often; 0: no source */
	unsigned labels;                 /* every label is below */
	struct op *ops;
	size_t count;
	size_t room;
};

void sequence_append(struct sequence *sequence, struct op op);
void sequence_copy(struct sequence *to, const struct sequence *from);
void sequence_free(struct sequence *sequence);

/* The policy, the limits and the operations as a person reads them. */
void sequence_print(FILE *out, const struct sequence *sequence);
void op_print(FILE *out, const struct op *op);

/* What is run; the fault is for the oracle alone. */
struct pair {
	const struct engine *engine[2];
	enum oracle_fault fault[2];
};

#define SOURCE_LARGEST ((uint64_t)1 << 36)
#define SOURCE_END ((uint64_t)1 << 46) /* a sequence adopts above it */

/* Gives addresses in two far regions, now and then one that came back. */
struct source {
	unsigned refuse_every;
	uint64_t alignment;
	uint64_t calls;
	uint64_t next[2];
	uint64_t returned_address;
	uint64_t returned_size;
	uint64_t digest; /* of all calls */
	/* What is mapped, in no order; broken: mapped twice, or unmapped without. */
	struct source_part {
		uint64_t begin, end;
	} * parts;
	size_t part_count;
	bool broken;
};

void source_init(struct source *source, const struct sequence *sequence);
enum soma_status source_acquire(void *context, uint64_t stream, uint64_t size, uint64_t *address);
void source_release(void *context, uint64_t address, uint64_t size);
enum soma_status source_reserve(void *context, unsigned pool, uint64_t size, uint64_t *address);
enum soma_status source_map(void *context, uint64_t address, uint64_t size);
void source_unmap(void *context, uint64_t address, uint64_t size);

/* How much of [address, address + size) is mapped. */
uint64_t source_mapped(const struct source *source, uint64_t address, uint64_t size);

struct known_event {
	uint64_t stream;
	uint64_t seq;
	bool known;
};

#define RECENT 32

struct run {
	const struct pair *pair;
	void *handle[2];
	struct source source[2];
	enum soma_status status; /* of the last operation */
	unsigned labels;
	bool maps;                       /* the source has pages */
	struct soma_model_alloc *allocs; /* by label; ptr 0: unknown */
	uint64_t *streams;               /* by label; 0, except for label 0: unknown */
	struct known_event *events;      /* by label */
	unsigned recent[RECENT];         /* labels of allocs */
	unsigned recent_count;
	char difference[512];
};

/* false: the engines differ; run->difference says in what.  Destroy in any case. */
bool run_create(struct run *run, const struct sequence *sequence, const struct pair *pair);
void run_destroy(struct run *run);

/* After that: both gave back to their source the same, and everything. */
bool run_gave_back(struct run *run);

/* One operation, then the results and all counters. */
bool run_op(struct run *run, const struct op *op);

/* Positions, readiness, liveness, the walk. */
bool run_check(struct run *run);

#endif
