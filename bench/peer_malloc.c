/* SPDX-License-Identifier: Apache-2.0 */
/*
 * malloc and free of the library that this executable is linked with: jemalloc's
 * (which takes the standard names) or, with BENCH_MIMALLOC, mimalloc's.
 */
#include "bench/peer.h"

#include <stdlib.h>

#ifdef BENCH_MIMALLOC
#include <mimalloc.h>
#define peer_malloc mi_malloc
#define peer_mfree mi_free
#else
#define peer_malloc malloc
#define peer_mfree free
#endif

static uint64_t
malloc_alloc(void *context, uint64_t size, unsigned stream)
{
	void *memory = peer_malloc((size_t)size);

	(void)context;
	(void)stream;
	if (memory == NULL)
		peer_fail("malloc failed");
	return (uint64_t)(uintptr_t)memory;
}

static void
malloc_free(void *context, uint64_t ptr, unsigned stream)
{
	(void)context;
	(void)stream;
	peer_mfree((void *)(uintptr_t)ptr);
}

void
peer_open(const struct peer_options *options, struct bench_allocator *allocator)
{
	(void)options;
	allocator->alloc = malloc_alloc;
	allocator->free = malloc_free;
}
