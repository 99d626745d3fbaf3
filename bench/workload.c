/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The patterns.  Random numbers cost about a nanosecond and come from a fixed seed;
 * the table of live pointers is the same for every peer and touched before its
 * allocator is opened, so that growth of resident memory is the allocator's.
 */
#include "bench/workload.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FRACTION_BITS 8
#define FRACTIONS (1u << FRACTION_BITS)

struct run {
	const struct workload *work;
	struct bench_allocator peer;
	uint64_t random;
	uint64_t *ptr;   /* by slot */
	uint32_t *size;  /* by slot, granules; track only */
	uint32_t *order; /* d: the order of the frees */
	uint64_t octaves;
	unsigned until_sync;
	uint64_t live_bytes;
	uint64_t first, end; /* track: lowest address of the first block, highest end */
	uint64_t peak_live;
	uint32_t power[FRACTIONS + 1]; /* 2^(i / FRACTIONS), 16 bits of fraction */
};

static void *
take(uint64_t count, size_t size)
{
	size_t bytes = count < SIZE_MAX / size ? (size_t)count * size + 1 : SIZE_MAX;
	void *memory = malloc(bytes);

	if (memory == NULL) {
		fprintf(stderr, "bench: no memory for %" PRIu64 " slots\n", count);
		exit(1);
	}
	memset(memory, 0xff, bytes);
	return memory;
}

static uint64_t
cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* splitmix64 */
static inline uint64_t
random_next(struct run *run)
{
	uint64_t z = run->random += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline uint64_t
random_below(uint64_t random, uint64_t bound)
{
	return ((random >> 32) * bound) >> 32;
}

/* Log-uniform in [256, cap), from the low half of a random number: 2^x by a table of
 * fractions, interpolated. */
static inline uint64_t
random_size(const struct run *run, uint64_t random)
{
	uint64_t x = ((uint32_t)random * run->octaves) >> 16;
	uint64_t fraction = x & 0xffff;
	uint64_t i = fraction >> (16 - FRACTION_BITS);
	uint64_t low = run->power[i], high = run->power[i + 1];
	uint64_t mantissa = low + (((high - low) * (fraction & 0xff)) >> 8);

	return ((mantissa * BENCH_GRANULE) << (x >> 16) >> 16) & ~(uint64_t)(BENCH_GRANULE - 1);
}

static inline unsigned
stream_of(const struct run *run, uint64_t slot)
{
	return (unsigned)slot & (run->work->streams - 1);
}

static void
track_alloc(struct run *run, uint64_t slot, uint64_t size)
{
	uint64_t end = run->ptr[slot] + size;

	if (run->live_bytes == 0 && run->end == 0)
		run->first = run->ptr[slot];
	if (end > run->end)
		run->end = end;
	run->live_bytes += size;
	if (run->live_bytes > run->peak_live)
		run->peak_live = run->live_bytes;
	run->size[slot] = (uint32_t)(size / BENCH_GRANULE);
}

static inline void
alloc_slot(struct run *run, uint64_t slot, uint64_t size)
{
	run->ptr[slot] = run->peer.alloc(run->peer.context, size, stream_of(run, slot));
}

static inline void
free_slot(struct run *run, uint64_t slot)
{
	run->peer.free(run->peer.context, run->ptr[slot], stream_of(run, slot));
}

static inline void
synchronize_sometimes(struct run *run)
{
	if (--run->until_sync != 0)
		return;
	run->until_sync = run->work->sync_every;
	if (run->work->sync_every != 0 && run->peer.synchronize != NULL)
		run->peer.synchronize(run->peer.context);
}

static void
fill(struct run *run)
{
	for (uint64_t slot = 0; slot < run->work->live; slot++) {
		uint64_t size = random_size(run, random_next(run));

		alloc_slot(run, slot, size);
		if (run->work->track)
			track_alloc(run, slot, size);
		synchronize_sometimes(run);
	}
}

static uint64_t
lifo(struct run *run, uint64_t steps)
{
	for (uint64_t step = 0; step < steps; step++) {
		uint64_t size = random_size(run, random_next(run));
		uint64_t ptr = run->peer.alloc(run->peer.context, size, 0);

		run->peer.free(run->peer.context, ptr, 0);
	}
	return steps;
}

static uint64_t
replace(struct run *run, uint64_t steps)
{
	uint64_t live = run->work->live;

	for (uint64_t step = 0; step < steps; step++) {
		uint64_t random = random_next(run);
		uint64_t slot = random_below(random, live);

		free_slot(run, slot);
		alloc_slot(run, slot, random_size(run, random));
		synchronize_sometimes(run);
	}
	return steps;
}

/* One step in 64 replaces one of the long-lived quarter. */
static uint64_t
mixed_slot(const struct run *run, uint64_t random)
{
	uint64_t longs = run->work->live / 4;

	if ((random & 0x3f) == 0)
		return random_below(random, longs);
	return longs + random_below(random, run->work->live - longs);
}

static uint64_t
replace_tracked(struct run *run, uint64_t steps)
{
	for (uint64_t step = 0; step < steps; step++) {
		uint64_t random = random_next(run);
		uint64_t slot = run->work->pattern == 'm' ? mixed_slot(run, random)
							  : random_below(random, run->work->live);
		uint64_t size = random_size(run, random);

		free_slot(run, slot);
		run->live_bytes -= (uint64_t)run->size[slot] * BENCH_GRANULE;
		alloc_slot(run, slot, size);
		track_alloc(run, slot, size);
	}
	return steps;
}

static uint64_t
cycle(struct run *run, uint64_t steps)
{
	const struct workload *work = run->work;
	uint64_t pairs = 0;

	while (pairs < steps) {
		for (size_t i = 0; i < work->op_count; i++) {
			struct bench_op op = work->ops[i];

			if (op.granules != 0)
				alloc_slot(run, op.slot, (uint64_t)op.granules * BENCH_GRANULE);
			else
				free_slot(run, op.slot);
		}
		pairs += work->op_count / 2;
	}
	return pairs;
}

static uint64_t
fill_and_free(struct run *run, uint64_t steps)
{
	uint64_t pairs = 0;

	for (; pairs < steps; pairs += run->work->live) {
		fill(run);
		for (uint64_t i = 0; i < run->work->live; i++)
			free_slot(run, run->order[i]);
	}
	return pairs;
}

static void
shuffle(struct run *run)
{
	for (uint64_t i = 0; i < run->work->live; i++)
		run->order[i] = (uint32_t)i;
	for (uint64_t i = run->work->live; i > 1; i--) {
		uint64_t j = random_below(random_next(run), i);
		uint32_t other = run->order[j];

		run->order[j] = run->order[i - 1];
		run->order[i - 1] = other;
	}
}

static void
init(struct run *run, const struct workload *work)
{
	*run = (struct run){ .work = work, .random = 1, .until_sync = work->sync_every };
	for (unsigned i = 0; i <= FRACTIONS; i++)
		run->power[i] = (uint32_t)lround(exp2((double)i / FRACTIONS) * 65536);
	while (((uint64_t)BENCH_GRANULE << run->octaves) < work->cap)
		run->octaves++;
	run->ptr = take(work->live, sizeof *run->ptr);
	run->size = take(work->track ? work->live : 0, sizeof *run->size);
	run->order = take(work->pattern == 'd' ? work->live : 0, sizeof *run->order);
	if (work->pattern == 'd')
		shuffle(run);
}

/* What is not timed: b and m start from a full table, where every block has been
 * replaced once on average; c runs its cycle once. */
static void
warm_up(struct run *run)
{
	switch (run->work->pattern) {
	case 'a':
		fill(run);
		break;
	case 'b':
		fill(run);
		if (!run->work->track)
			replace(run, run->work->live);
		break;
	case 'm':
		fill(run);
		break;
	case 'c':
		cycle(run, 1);
		break;
	default:
		break;
	}
}

static uint64_t
timed(struct run *run)
{
	uint64_t steps = run->work->steps;

	switch (run->work->pattern) {
	case 'a':
		return lifo(run, steps);
	case 'b':
		return run->work->track ? replace_tracked(run, steps) : replace(run, steps);
	case 'm':
		return replace_tracked(run, steps);
	case 'c':
		return cycle(run, steps);
	default:
		return fill_and_free(run, steps);
	}
}

void
workload_run(const struct workload *work, workload_open open_peer, void *argument,
	     struct workload_result *result)
{
	struct run run;
	uint64_t resident = 0, start;

	init(&run, work);
	open_peer(argument, &run.peer);
	if (run.peer.resident != NULL)
		resident = run.peer.resident(run.peer.context);
	warm_up(&run);
	start = cpu_ns();
	result->pairs = timed(&run);
	result->ns = cpu_ns() - start;
	result->resident = 0;
	if (run.peer.resident != NULL)
		result->resident = run.peer.resident(run.peer.context) - resident;
	result->peak_address = run.end - run.first;
	result->peak_live = run.peak_live;
	free(run.ptr);
	free(run.size);
	free(run.order);
}
