/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool on two streams.  What one stream freed serves its own next allocation at once, and the other stream's
 * as soon as that is ordered after the free; no call of the driver is made for either.
 *
 *   cc pools.c $(pkg-config --cflags --libs soma) && ./a.out
 */
#include <inttypes.h>
#include <soma/soma.h>
#include <stdio.h>
#include <stdlib.h>

#define MIB ((uint64_t)1 << 20)

static void
check(enum soma_status status)
{
	if (status == SOMA_STATUS_OK)
		return;
	fprintf(stderr, "%s: %s\n", soma_status_name(status), soma_error_last()->text);
	exit(1);
}

static struct soma_allocation *
take(struct soma_pool *pool, uint64_t stream)
{
	struct soma_allocation *block;

	check(soma_pool_alloc(pool, 32 * MIB, stream, &block));
	return block;
}

/* In the stream's order: after the work that was queued on it. */
static void
give(struct soma_allocation *block, uint64_t stream)
{
	check(soma_pool_free(block, stream));
	check(soma_allocation_release(block));
}

/* The address is for kernels and copies; soma_allocation_ptr() is the pool's name of the block. */
static void
compare(const char *what, struct soma_allocation *block, uint64_t address)
{
	printf("%s %s memory\n", what, soma_allocation_device_ptr(block) == address ? "the same" : "other");
}

int
main(void)
{
	struct soma_allocation *a, *b, *c;
	struct soma_runtime *runtime;
	struct soma_pool *pool;
	uint64_t compute, copy, address, seq;

	check(soma_runtime_open(NULL, &runtime)); /* SOMA_CONF, or what there is: async, sync, host */
	check(soma_runtime_pool_create(runtime, &pool));
	check(soma_runtime_stream_acquire(runtime, SOMA_STREAM_NON_BLOCKING, &compute));
	check(soma_runtime_stream_acquire(runtime, SOMA_STREAM_NON_BLOCKING, &copy));

	a = take(pool, compute);
	address = soma_allocation_device_ptr(a);
	give(a, compute);
	a = take(pool, compute);
	compare("the same stream again:   ", a, address);
	give(a, compute);
	b = take(pool, copy);
	compare("another stream:          ", b, address);
	check(soma_pool_record_event(pool, compute, &seq));
	check(soma_pool_wait_event(pool, copy, compute, seq));
	c = take(pool, copy);
	compare("ordered after it by now: ", c, address);
	give(b, copy);
	give(c, copy);

	check(soma_pool_destroy(pool));
	soma_runtime_release(runtime);
	return 0;
}
