/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The patterns that `make bench` times, over a small table of functions, so that
 * every peer runs exactly the same code, sizes and choices.
 *
 * Sizes are log-uniform multiples of 256 bytes.  Nothing is ever written into a
 * block: the figures are an allocator's own cost.  Single-threaded.
 */
#ifndef SOMA_BENCH_WORKLOAD_H
#define SOMA_BENCH_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_GRANULE 256u

/* What a peer offers.  alloc never returns 0; failures end the process. */
struct bench_allocator {
	void *context;
	uint64_t (*alloc)(void *context, uint64_t size, unsigned stream);
	void (*free)(void *context, uint64_t ptr, unsigned stream);
	void (*synchronize)(void *context);  /* NULL: the peer has nothing to do */
	uint64_t (*resident)(void *context); /* bytes its records hold in memory; NULL: unknown */
};

/* One operation of a recorded cycle: granules 0 frees the slot. */
struct bench_op {
	uint32_t slot;
	uint32_t granules;
};

/*
 * a  LIFO: alloc, free at once, with `live` blocks around
 * b  replacement: free a random one of `live` blocks, allocate another
 * m  the same with mixed lifetimes: a quarter of the blocks lives long
 * c  a recorded cycle of operations, repeated
 * d  fill `live` blocks, free them all in random order, repeated
 */
struct workload {
	char pattern;
	uint64_t cap;        /* sizes are below it; 256 times a power of two */
	uint64_t live;       /* blocks; for c: slots */
	uint64_t steps;      /* alloc+free pairs that are timed, at least */
	unsigned streams;    /* a power of two; a slot belongs to one of them */
	unsigned sync_every; /* synchronise after this many pairs; 0: never */
	bool track;          /* measure addresses and live bytes instead of time (b, m) */
	const struct bench_op *ops;
	size_t op_count;
};

struct workload_result {
	uint64_t pairs;
	uint64_t ns;           /* thread CPU time of the timed part */
	uint64_t peak_address; /* track: highest block end minus the first block's address */
	uint64_t peak_live;    /* track: bytes */
	uint64_t resident;     /* growth since the start, at the end of the timed part */
};

/* Opens the peer's allocator; called when the workload's own memory is in place. */
typedef void (*workload_open)(void *argument, struct bench_allocator *allocator);

void workload_run(const struct workload *work, workload_open open_peer, void *argument,
		  struct workload_result *result);

#endif
