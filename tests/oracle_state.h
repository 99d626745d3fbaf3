/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the oracle's files share; for nobody else.
 */
#ifndef SOMA_TESTS_ORACLE_STATE_H
#define SOMA_TESTS_ORACLE_STATE_H

#include <stdio.h>
#include <stdlib.h>

#include "tests/oracle.h"

#define NO_STREAM SIZE_MAX

/* clock[F], for every stream by index, when the owner's `submitted` was the row's
 * index: what its waits at positions below that had joined. */
struct row {
	size_t count;
	uint64_t *seq;
};

struct stream {
	uint64_t id;
	unsigned flags;
	bool destroyed;
	bool gone;
	uint64_t submitted;
	uint64_t executed;
	uint64_t observed;
	uint64_t barrier;
	struct row *history; /* submitted + 1 rows */
};

struct segment {
	uint64_t address;
	uint64_t size; /* a range: of no meaning; mapped: all of its addresses */
	size_t stream;
	unsigned pool;
};

enum state { LIVE, PENDING, COMPLETE };
enum place { NOWHERE, SHELF, QUEUE };

struct block {
	uint64_t address;
	uint64_t size;
	struct segment *segment;
	enum state state;
	enum place place;
	uint64_t requested;
	size_t stream; /* PENDING: that of the free */
	uint64_t position;
	uint64_t stamp; /* on a shelf: when it was put there, and under what */
	uint64_t class;
	uint64_t region;
	uint64_t since; /* the count of searches when it was put on a shelf */
	bool offered;   /* in the queue: it may serve */
	bool open;      /* on an own shelf, pending: the open one there */
};

/* When a block was last put into a class of a shelf, whatever became of it. */
struct latest {
	size_t stream; /* whose own shelf; SHARED: the shared one */
	unsigned pool;
	uint64_t class;
	uint64_t stamp;
};

#define SHARED ((size_t)-1)

struct oracle {
	struct soma_policy policy;
	struct soma_segment_source source;
	bool has_source;
	enum oracle_fault fault;
	uint64_t max;
	uint64_t threshold;
	uint64_t base;
	uint64_t top;           /* the highest segment end ever reached */
	struct stream *streams; /* every stream there ever was */
	size_t stream_count;
	struct segment **segments; /* by address */
	size_t segment_count;
	struct block **blocks; /* by address */
	size_t block_count;
	struct block **queue; /* places, oldest first; NULL: what was there serves again */
	size_t queue_count;
	uint64_t stamp;
	uint64_t searches; /* for blocks of the last size pool */
	struct latest *latest;
	size_t latest_count;
	enum soma_status refusal;     /* why it could not grow */
	struct soma_model_stats kept; /* the peaks and the counts of events */
};

static inline void *
grown(void *memory, size_t count, size_t size)
{
	memory = realloc(memory, (count + 1) * size);
	if (memory == NULL) {
		fputs("oracle: out of memory\n", stderr);
		abort();
	}
	return memory;
}

static inline uint64_t
max_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline bool
follows(const struct oracle *o)
{
	return o->policy.reuse & SOMA_REUSE_FOLLOW_EVENTS;
}

static inline bool
is_mapped(const struct oracle *o)
{
	return o->policy.segments == SOMA_SEGMENTS_MAPPED;
}

/* A stream has an own shelf for what it freed itself. */
static inline bool
shelves_pending(const struct oracle *o)
{
	return (o->policy.reuse & SOMA_REUSE_SAME_STREAM) && !o->policy.per_stream;
}

/* tests/oracle_order.c */
size_t oracle__find_stream(const struct oracle *o, uint64_t id);
size_t oracle__find_working_stream(const struct oracle *o, uint64_t id);
bool oracle__was_stream(const struct oracle *o, uint64_t id);
uint64_t oracle__released(const struct oracle *o, size_t f);
uint64_t oracle__component(const struct row *row, size_t f);
struct row oracle__begin(const struct oracle *o, size_t s);
void oracle__take_position(struct oracle *o, size_t s, struct row row);
void oracle__wait_for(struct oracle *o, size_t s, size_t f, uint64_t seq);
void oracle__look_for_gone_streams(struct oracle *o);
void oracle__add_stream(struct oracle *o, uint64_t id, unsigned flags);

/* tests/oracle_blocks.c */
struct block *oracle__block_at(const struct oracle *o, uint64_t address);
struct block *oracle__add_block(struct oracle *o, struct segment *segment, uint64_t address, uint64_t size);
void oracle__remove_block(struct oracle *o, struct block *b);
uint64_t oracle__reserved(const struct oracle *o);
uint64_t oracle__range_end(const struct oracle *o);
void oracle__put_on_shelf(struct oracle *o, struct block *b);
void oracle__open_on_shelf(struct oracle *o, struct block *b);
bool oracle__on_shared_shelf(const struct oracle *o, const struct block *b, unsigned pool);
bool oracle__on_own_shelf(const struct oracle *o, const struct block *b, unsigned pool, size_t s);
void oracle__absorb(struct oracle *o, struct block *b, struct block *neighbour);
void oracle__file_queue(struct oracle *o);
bool oracle__has_queued(const struct oracle *o);
void oracle__complete(struct oracle *o, struct block *b);
void oracle__queue_or_file(struct oracle *o, struct block *b);
struct block *oracle__take_queued(struct oracle *o, uint64_t rounded, unsigned pool, size_t s);
void oracle__note_peaks(struct oracle *o);
uint64_t oracle__class_of(uint64_t n);
uint64_t oracle__latest(const struct oracle *o, size_t stream, unsigned pool, uint64_t class);
uint64_t oracle__class_wanted(uint64_t n);

/* tests/oracle_memory.c */
struct segment *oracle__add_segment(struct oracle *o, size_t stream, unsigned pool, uint64_t address,
				    uint64_t size);
struct block *oracle__grow(struct oracle *o, uint64_t rounded, unsigned pool, size_t s);
bool oracle__release_down_to(struct oracle *o, uint64_t keep);
void oracle__collect(struct oracle *o);
bool oracle__make_room(struct oracle *o, uint64_t rounded, unsigned pool, size_t s);

/* tests/oracle_mapped.c */
struct segment *oracle__range_of(const struct oracle *o, unsigned pool);
uint64_t oracle__mapped_end(const struct oracle *o, const struct segment *range);
struct block *oracle__grow_mapped(struct oracle *o, uint64_t rounded, unsigned pool, size_t s);
bool oracle__mapped_release(struct oracle *o, uint64_t keep);
enum soma_status oracle__reserve_ranges(struct oracle *o);
void oracle__give_back_ranges(struct oracle *o);

/* tests/oracle.c */
void oracle__split(struct oracle *o, struct block *b, uint64_t rounded, uint64_t split_min);
void oracle__make_live(struct block *b, uint64_t requested);

#endif
