/* SPDX-License-Identifier: Apache-2.0 */
/* lib/resource over the host backend: real memory, streams that run when told. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <soma/budget.h>

#include "lib/resource/open.h"
#include "lib/resource/terminal.h"
#include "tests/backend_name.h"
#include "tests/check_resource_sanitizer.h"
#include "tests/unit.h"

static struct soma_resource *
open_host(void)
{
	const struct soma__backend_config config = { .name = test_backend("host"), .search = BACKENDS_FOLDER };
	struct soma_resource *resource;

	ck_assert_msg(soma__resource_open(&config, &resource) == SOMA_STATUS_OK, "%s",
		      soma_error_last()->text);
	return resource;
}

START_TEST(blocks_are_memory_of_this_process)
{
	struct soma_resource *host = open_host(), *budget;
	struct soma_block a = { .size = sizeof a }, b = { .size = sizeof b };
	uint64_t stream;

	ck_assert_int_eq(soma_budget_create(host, 1 << 20, &budget), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_stream_create(budget, 0, &stream), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_allocate(budget, 5000, stream, &a), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_allocate(budget, 3000, stream, &b), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_stream_synchronize(budget, stream), SOMA_STATUS_OK);
	memset((void *)(uintptr_t)a.ptr, 1, 5000);
	memset((void *)(uintptr_t)b.ptr, 2, 3000);
	for (int i = 0; i < 5000; i++)
		ck_assert_int_eq(((char *)(uintptr_t)a.ptr)[i], 1);
	ck_assert_int_eq(soma_resource_deallocate(budget, &a), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_deallocate(budget, &b), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_stream_synchronize(budget, stream), SOMA_STATUS_OK);
	test_complete(host);
	ck_assert_uint_eq(soma_budget_reserved(budget), 0);
	soma_resource_release(budget);
	soma_resource_release(host);
}
END_TEST

START_TEST(a_use_on_another_stream_holds_the_free_back)
{
	struct soma_resource *host = open_host();
	const struct soma_backend_ops *ops = soma__resource_backend(host)->ops;
	struct soma_backend *self = soma__resource_backend(host)->self;
	struct soma_block block = { .size = sizeof block };
	struct soma_use use = { .size = sizeof use };
	uint64_t a, b;

	ck_assert(soma_resource_supports_use_tracking(host));
	ck_assert_int_eq(soma_resource_stream_create(host, 1, &a), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_stream_create(host, 1, &b), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_allocate(host, 4096, a, &block), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_prepare_use(host, block.id, b, SOMA_ACCESS_WRITE, &use),
			 SOMA_STATUS_OK);
	struct soma_backend_stream *on_a = soma__stream_find(&host->terminal->streams, a)->handle;
	struct soma_backend_stream *on_b = soma__stream_find(&host->terminal->streams, b)->handle;
	ck_assert_int_eq(ops->fill8(self, block.ptr, 7, 4096, on_b), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_finish_use(host, &use, 1), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_deallocate(host, &block), SOMA_STATUS_OK);

	/* a alone gets no further than the wait for b. */
	ck_assert_int_eq(ops->stream_step(self, on_a, 100, NULL), SOMA_STATUS_OK);
	test_complete(host);
	ck_assert_int_eq(soma_resource_block_state(host, block.id),
			 host->terminal->keeps ? SOMA_BLOCK_QUARANTINED : SOMA_BLOCK_RETIRED);
	ck_assert_int_eq(ops->stream_step(self, on_b, 100, NULL), SOMA_STATUS_OK);
	ck_assert_int_eq(ops->stream_step(self, on_a, 100, NULL), SOMA_STATUS_OK);
	test_complete(host);
	ck_assert_int_eq(soma_resource_block_state(host, block.id), SOMA_BLOCK_FREED);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(host), 0);
	soma_resource_release(host);
}
END_TEST

/* ---- threads ---- */

struct worker {
	pthread_t thread;
	struct soma_resource *resource;
	uint64_t stream;
	unsigned seed;
};

static void *
churn(void *argument)
{
	struct worker *w = argument;
	struct soma_block held[16] = { 0 };

	for (int i = 0; i < 3000; i++) {
		w->seed = w->seed * 1664525u + 1013904223u;
		struct soma_block *block = &held[w->seed >> 28];
		if (block->bytes != 0) {
			ck_assert_int_eq(soma_resource_deallocate(w->resource, block), SOMA_STATUS_OK);
			block->bytes = 0;
			continue;
		}
		*block = (struct soma_block){ 0 };
		enum soma_status status =
			soma_resource_allocate(w->resource, 1 + (w->seed >> 8 & 0xffff), w->stream, block);
		ck_assert(status == SOMA_STATUS_OK || status == SOMA_STATUS_OUT_OF_BUDGET);
		if (status != SOMA_STATUS_OK)
			ck_assert_int_eq(soma_resource_stream_synchronize(w->resource, w->stream),
					 SOMA_STATUS_OK);
		else
			memset((void *)(uintptr_t)block->ptr, i, block->bytes);
	}
	for (int i = 0; i < 16; i++)
		if (held[i].bytes != 0)
			ck_assert_int_eq(soma_resource_deallocate(w->resource, &held[i]), SOMA_STATUS_OK);
	return NULL;
}

START_TEST(threads_share_a_budget_over_real_memory)
{
	struct soma_resource *host = open_host(), *trace, *budget;
	struct soma_trace_config config = { .size = sizeof config,
					    .path = "/dev/null",
					    .patience_ms = 600000 };
	struct soma_trace_stats stats = { .size = sizeof stats };
	struct worker workers[4];

	ck_assert_int_eq(soma_trace_create(host, &config, &trace), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_budget_create(trace, 1 << 20, &budget), SOMA_STATUS_OK);
	for (unsigned i = 0; i < 4; i++) {
		workers[i] = (struct worker){ .resource = budget, .seed = i };
		ck_assert_int_eq(soma_resource_stream_create(budget, 1, &workers[i].stream), SOMA_STATUS_OK);
		ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, churn, &workers[i]), 0);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(workers[i].thread, NULL);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(soma_resource_stream_synchronize(budget, workers[i].stream), SOMA_STATUS_OK);
	test_complete(host);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(host), 0);
	ck_assert_uint_eq(soma_budget_reserved(budget), 0);
	ck_assert_int_eq(soma_trace_flush(budget), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_trace_stats(budget, &stats), SOMA_STATUS_OK);
	ck_assert_uint_eq(stats.live_bytes, 0);
	ck_assert_uint_eq(stats.dropped, 0);
	ck_assert_uint_le(stats.peak_bytes, 1 << 20);
	soma_resource_release(budget);
	soma_resource_release(trace);
	soma_resource_release(host);
}
END_TEST

START_TEST(a_backend_that_cannot_be_opened_is_an_error)
{
	const struct soma__backend_config config = { .name = "nonesuch", .search = BACKENDS_FOLDER };
	struct soma_resource *resource;

	ck_assert_int_eq(soma__resource_open(&config, &resource), SOMA_STATUS_NOT_FOUND);
}
END_TEST

START_TEST(what_a_backend_releases_while_it_is_closed_is_not_listened_to)
{
	const struct soma__backend_config config = { .name = "releases_late", .search = MODULES_FOLDER };
	struct soma_block block = { .size = sizeof block };
	struct soma_resource *resource;

	ck_assert_int_eq(soma__resource_open(&config, &resource), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_allocate(resource, 100, 0, &block), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_deallocate(resource, &block), SOMA_STATUS_OK);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 100);
	soma_resource_release(resource);
}
END_TEST

UNIT_MAIN("resource_host", what_a_backend_releases_while_it_is_closed_is_not_listened_to,
	  blocks_are_memory_of_this_process, a_use_on_another_stream_holds_the_free_back,
	  threads_share_a_budget_over_real_memory, a_backend_that_cannot_be_opened_is_an_error)
