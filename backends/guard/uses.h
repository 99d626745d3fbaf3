/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was done to one block, in clock terms, and what may be done next: the rules of
 * use, free and reuse over the clocks.
 *
 * A check changes nothing; what passed, or was let through, is then recorded.  A use that a
 * later one is ordered after is forgotten (whoever comes after the later one comes after
 * both).  `write` is the last write; an earlier one that it is not ordered after is kept with the reads.  Protected by the guard's lock.
 */
#ifndef SOMA_BACKENDS_GUARD_USES_H
#define SOMA_BACKENDS_GUARD_USES_H

#include "backends/guard/clocks.h"

enum use_fault {
	USE_FINE = 0,
	USE_BEFORE_READY, /* the allocation is not ordered before it */
	USE_RACE,
	USE_UNINITIALISED, /* nothing was ever written */
	USE_FREE_UNORDERED,
	USE_REUSE_UNORDERED, /* the guard's or the backend's own mistake */
};

#define USES_READS_WITHIN 1u

struct uses {
	struct clock_access alloc;
	struct clock_access write;  /* tick 0: none */
	struct clock_access *reads; /* NULL: `one` */
	struct clock_access one;
	uint32_t read_count, read_room;
};

/* What is wrong, and with which earlier access. */
struct use_verdict {
	enum use_fault fault;
	struct clock_access first;
};

void uses_init(struct uses *uses, const struct clock_access *alloc);
void uses_fini(struct uses *uses, const struct soma_backend_host *host);

/* All of them after clocks_op() of the lane. */
struct use_verdict uses_check(const struct uses *uses, const struct clocks *clocks, uint32_t lane,
			      unsigned access);
struct use_verdict uses_check_free(const struct uses *uses, const struct clocks *clocks, uint32_t lane);
struct use_verdict uses_check_reuse(const struct uses *uses, const struct clock_access *freed,
				    const struct clocks *clocks, uint32_t lane);

/* Before uses_record(): room for one more.  False without memory. */
bool uses_reserve(struct uses *uses, const struct soma_backend_host *host);
void uses_record(struct uses *uses, const struct clocks *clocks, const struct clock_access *access);

/* The latest of write and reads; tick 0: never used. */
struct clock_access uses_last(const struct uses *uses);

/* The i-th use (the write first) that the lane is not ordered after; false: no more. */
bool uses_unordered(const struct uses *uses, const struct clocks *clocks, uint32_t lane, uint32_t *at,
		    struct clock_access *use);

/* Whether the host has seen the end of the allocation and of every use. */
bool uses_are_over(const struct uses *uses, const struct clocks *clocks);

#endif
