/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks by address, live and freed, for judging their order.  No two overlap: what is
 * allocated cuts the freed ones out that it covers.
 */
#ifndef SOMA_TOOLS_ENGINE_REGIONS_H
#define SOMA_TOOLS_ENGINE_REGIONS_H

#include "tools/engine/order.h"
#include "tools/engine/races.h"

/* One operation on a block. */
struct access {
	struct order_point at; /* tick 0: none */
	struct race_access what;
	uint32_t told; /* the lane that it was last reported against, and as what: once is enough */
};

struct region {
	int32_t device;
	uint64_t start, end; /* what it covers: of a freed block, perhaps only a part */
	uint64_t ptr, size;  /* the block */
	trace_name holder;
	bool freed;
	bool deferred; /* and the free has not completed yet */
	bool reusable; /* the recorder says so: its reuse is not judged */
	struct access alloc, write, end_of_life;
	struct access *reads; /* the last of each lane since the last write */
	size_t read_count, read_room;
	struct region *older, *newer; /* freed ones, in the order of their frees */
};

struct regions {
	void *tree;
	struct region *oldest, *newest;
	size_t freed_count;
};

void regions_fini(struct regions *regions);

/* Any one that has a byte of [start, end), or NULL. */
struct region *regions_find(const struct regions *regions, int32_t device, uint64_t start, uint64_t end);

/* A cleared one; nothing may be there. */
struct region *regions_add(struct regions *regions, int32_t device, uint64_t start, uint64_t end);

/* It becomes a freed one, the newest. */
void regions_free(struct regions *regions, struct region *region);

/* Takes [start, end) out of a freed one: what is left of it stays. */
void regions_cut(struct regions *regions, struct region *region, uint64_t start, uint64_t end);

void regions_remove(struct regions *regions, struct region *region);

#endif
