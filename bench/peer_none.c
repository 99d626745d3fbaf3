/* SPDX-License-Identifier: Apache-2.0 */
/* No allocator at all: what the driver's own loop costs. */
#include "bench/peer.h"

static uint64_t
none_alloc(void *context, uint64_t size, unsigned stream)
{
	uint64_t *next = context;

	(void)stream;
	return *next += size;
}

static void
none_free(void *context, uint64_t ptr, unsigned stream)
{
	(void)context;
	(void)ptr;
	(void)stream;
}

void
peer_open(const struct peer_options *options, struct bench_allocator *allocator)
{
	static uint64_t next;

	(void)options;
	allocator->context = &next;
	allocator->alloc = none_alloc;
	allocator->free = none_free;
}
