/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address ranges with and without memory.  Ranges are recorded, so that close gives
 * back those that are left, and so are the parts that are mapped, which
 * count against the heap's limit.
 *
 * One mutex for the records, and over the system calls that map and unmap.
 */
#ifndef SOMA_BACKENDS_HOST_SPANS_H
#define SOMA_BACKENDS_HOST_SPANS_H

#include <pthread.h>
#include <stdint.h>

#include <soma/backend.h>

#include "backends/host/heap.h"

#define SPAN_BUCKETS 1024

struct span;

struct spans {
	const struct soma_backend_host *host;
	struct heap *heap;
	uint64_t page;
	pthread_mutex_t mutex;
	struct span *buckets[SPAN_BUCKETS]; /* by address; mutex */
};

bool spans_init(struct spans *spans, const struct soma_backend_host *host, struct heap *heap);
void spans_fini(struct spans *spans);

/* As <soma/backend.h> says; sizes and addresses are checked. */
enum soma_status spans_reserve(struct spans *spans, uint64_t size, uint64_t alignment, uint64_t *address);
enum soma_status spans_map(struct spans *spans, uint64_t address, uint64_t size);
enum soma_status spans_unmap(struct spans *spans, uint64_t address, uint64_t size);
enum soma_status spans_release(struct spans *spans, uint64_t address, uint64_t size);

#endif
