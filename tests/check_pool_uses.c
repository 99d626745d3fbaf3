/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches over the blocks of a pool, in both placements: the ids, the order that is kept, and what is said of ids
 * that are none.
 */
#include <soma/launch.h>
#include <soma/runtime.h>

#include "tests/pool_fake.h"

/* Over memory that is given at once, and in stream order. */
static const enum soma_placement placements[] = { SOMA_PLACEMENT_POOL, SOMA_PLACEMENT_POOL,
						  SOMA_PLACEMENT_BACKEND };
static const uint64_t capabilities[] = { SYNCHRONOUS, ORDERED, ORDERED };
#define PLACEMENTS 3

static void
open_placed(unsigned i)
{
	open_fake(capabilities[i], (struct soma_pool_config){ .placement = placements[i], KEEP });
}

static struct soma_block_id
id_of(struct soma_allocation *x)
{
	struct soma_block_id id = { 0 };

	ck_ok(soma_allocation_id(x, &id));
	return id;
}

/* Work on the stream that uses the block; where its end is. */
static uint64_t
launch(struct soma_block_id id, uint64_t stream,
       enum soma_status (*access)(struct soma_launch *launch, struct soma_block_id id))
{
	struct soma_backend_stream *on = fake_stream(resource, stream);
	struct soma_launch l;

	ck_ok(soma_launch_begin(&l, resource, stream));
	ck_ok(access(&l, id));
	ck_ok(soma_launch_preflight(&l));
	fake_work(on, 1);
	uint64_t end = on->queued;
	ck_ok(soma_launch_commit(&l));
	return end;
}

static bool
ordered(uint64_t later, uint64_t earlier, uint64_t position)
{
	return fake_ordered(fake_stream(resource, later), fake_stream(resource, earlier), position);
}

/* ---- order ----------------------------------------------------------------------------- */

START_TEST(a_use_comes_after_the_allocation_and_the_free_after_the_use)
{
	for (unsigned i = 0; i < PLACEMENTS; i++) {
		open_placed(i);
		struct soma_allocation *x = alloc(p, 1000, a);
		fake_work(fake_stream(resource, a), 3);
		uint64_t before = fake_stream(resource, a)->queued;
		ck_assert(!ordered(b, a, before));
		uint64_t used = launch(id_of(x), b, soma_launch_write);
		ck_assert(ordered(b, a, before));
		ck_assert(!ordered(a, b, used));
		drop(x, a);
		ck_assert(ordered(a, b, used));
		close_fake();
	}
}
END_TEST

/* It is the work of the stream that had the memory before which the other stream must not overtake. */
START_TEST(a_reused_blocks_first_use_elsewhere_comes_after_what_had_its_memory)
{
	open_placed(0);
	struct soma_allocation *x = alloc(p, 1000, a);
	uint64_t ptr = soma_allocation_ptr(x);
	fake_work(fake_stream(resource, a), 5);
	uint64_t last = fake_stream(resource, a)->queued;
	drop(x, a);
	x = alloc(p, 1000, a);
	ck_assert_uint_eq(soma_allocation_ptr(x), ptr);
	(void)launch(id_of(x), b, soma_launch_read);
	ck_assert(ordered(b, a, last));
	drop(x, a);
	close_fake();
}
END_TEST

START_TEST(a_write_waits_for_reads_and_reads_for_the_last_write_alone)
{
	for (unsigned i = 0; i < PLACEMENTS; i++) {
		open_placed(i);
		uint64_t c = new_stream(resource), d = new_stream(resource);
		struct soma_allocation *x = alloc(p, 1000, a);
		struct soma_block_id id = id_of(x);
		uint64_t written = launch(id, a, soma_launch_write);
		uint64_t on_b = launch(id, b, soma_launch_read), on_c = launch(id, c, soma_launch_read);
		ck_assert(ordered(b, a, written) && ordered(c, a, written));
		ck_assert(!ordered(c, b, on_b));
		(void)launch(id, d, soma_launch_read_write);
		ck_assert(ordered(d, b, on_b) && ordered(d, c, on_c));
		drop(x, a);
		close_fake();
	}
}
END_TEST

START_TEST(a_free_on_another_stream_waits_for_the_uses_too)
{
	for (unsigned i = 0; i < PLACEMENTS; i++) {
		open_placed(i);
		uint64_t c = new_stream(resource);
		struct soma_allocation *x = alloc(p, 1000, a);
		uint64_t on_b = launch(id_of(x), b, soma_launch_read);
		uint64_t on_a = launch(id_of(x), a, soma_launch_read);
		drop(x, c);
		ck_assert(ordered(c, a, on_a) && ordered(c, b, on_b));
		close_fake();
	}
}
END_TEST

START_TEST(a_free_in_no_order_waits_for_nothing)
{
	for (unsigned i = 0; i < PLACEMENTS; i++) {
		open_placed(i);
		struct soma_allocation *x = alloc(p, 1000, a);
		uint64_t used = launch(id_of(x), b, soma_launch_write);
		fake_run_all(fake);
		ck_ok(soma_pool_free_now(x));
		ck_ok(soma_allocation_release(x));
		ck_assert(!ordered(a, b, used));
		close_fake();
	}
}
END_TEST

START_TEST(an_abandoned_launch_leaves_no_use)
{
	for (unsigned i = 0; i < PLACEMENTS; i++) {
		struct soma_launch l;

		open_placed(i);
		struct soma_allocation *x = alloc(p, 1000, a);
		ck_ok(soma_launch_begin(&l, resource, b));
		ck_ok(soma_launch_write(&l, id_of(x)));
		ck_ok(soma_launch_preflight(&l));
		soma_launch_abandon(&l);
		uint64_t position = fake_stream(resource, b)->queued;
		drop(x, a);
		ck_assert(!ordered(a, b, position));
		close_fake();
	}
}
END_TEST

START_TEST(a_guard_has_nothing_to_say_of_launches_over_a_pools_blocks)
{
	struct setup s = set_up(OVER_GUARD, (struct soma_pool_config){ KEEP });
	struct soma_guard_stats stats = { .size = sizeof stats };
	uint64_t streams[] = { stream_of(s), stream_of(s) };
	struct soma_launch l;

	for (unsigned i = 0; i < 100; i++) {
		struct soma_allocation *x = alloc(s.pool, 1000 + i, streams[i % 2]);
		ck_ok(soma_launch_begin(&l, s.resource, streams[(i + 1) % 2]));
		ck_ok(soma_launch_write(&l, id_of(x)));
		ck_ok(soma_launch_preflight(&l));
		ck_ok(soma_launch_commit(&l));
		drop(x, streams[i % 2]);
	}
	ck_ok(soma_guard_stats(s.resource, &stats));
	ck_assert_uint_eq(stats.reports, 0);
	take_down(s);
}
END_TEST

/* ---- ids ---------------------------------------------------------------------------------- */

static bool
is_same(struct soma_block_id x, struct soma_block_id y)
{
	return x.handle == y.handle && x.generation == y.generation;
}

START_TEST(an_id_is_one_blocks_also_at_the_same_address)
{
	for (unsigned i = 0; i < PLACEMENTS; i++) {
		open_placed(i);
		struct soma_allocation *x = alloc(p, 1000, a), *y = alloc(p, 1000, a);
		struct soma_block_id of_x = id_of(x), of_y = id_of(y);
		ck_assert(is_same(of_x, id_of(x)));
		ck_assert(!is_same(of_x, of_y));
		ck_assert_int_eq(soma_resource_block_state(resource, of_x), SOMA_BLOCK_LIVE);
		uint64_t ptr = drop(x, a);
		ck_assert_int_ne(soma_resource_block_state(resource, of_x), SOMA_BLOCK_LIVE);
		x = alloc(p, 1000, a);
		if (placements[i] == SOMA_PLACEMENT_POOL)
			ck_assert_uint_eq(soma_allocation_ptr(x), ptr);
		ck_assert(!is_same(of_x, id_of(x)));
		ck_assert_int_ne(soma_resource_block_state(resource, of_x), SOMA_BLOCK_LIVE);
		drop(x, a), drop(y, a);
		close_fake();
	}
}
END_TEST

START_TEST(a_freed_blocks_id_is_refused_and_the_others_are_recorded)
{
	for (unsigned i = 0; i < PLACEMENTS; i++) {
		struct soma_block_id none = { 7, 7 };
		struct soma_launch l;

		open_placed(i);
		struct soma_allocation *x = alloc(p, 1000, a), *y = alloc(p, 1000, a);
		struct soma_block_id of_x = id_of(x);
		ck_ok(soma_launch_begin(&l, resource, b));
		ck_ok(soma_launch_write(&l, of_x));
		ck_ok(soma_launch_write(&l, id_of(y)));
		ck_ok(soma_launch_preflight(&l));
		fake_work(fake_stream(resource, b), 1);
		uint64_t used = fake_stream(resource, b)->queued;
		ck_ok(soma_pool_free(x, a));
		ck_is(soma_launch_commit(&l), USE_AFTER_FREE);
		ck_assert_int_eq(soma_launch_use(&l, 0)->status, SOMA_STATUS_USE_AFTER_FREE);
		ck_assert_int_eq(soma_launch_use(&l, 1)->status, SOMA_STATUS_OK);
		soma_launch_abandon(&l);
		drop(y, a);
		ck_assert(ordered(a, b, used));

		ck_ok(soma_launch_begin(&l, resource, b));
		ck_ok(soma_launch_read(&l, of_x));
		ck_is(soma_launch_preflight(&l), USE_AFTER_FREE);
		soma_launch_abandon(&l);
		ck_is(soma_allocation_id(x, &none), USE_AFTER_FREE);
		ck_assert_uint_eq(none.handle, 7);
		ck_ok(soma_allocation_release(x));
		close_fake();
	}
}
END_TEST

START_TEST(an_id_that_is_none_of_the_stacks_is_refused)
{
	struct soma_resource *host = open_backend("host");
	struct soma_pool *other =
		pool_over(host, (struct soma_pool_config){ .placement = SOMA_PLACEMENT_POOL });
	struct soma_allocation *foreign = alloc(other, 1000, 0);

	for (unsigned i = 0; i < PLACEMENTS; i++) {
		struct soma_launch l;

		open_placed(i);
		struct soma_allocation *x = alloc(p, 1000, a);
		const struct soma_block_id id = id_of(x), wrong[] = { { 0, 0 },
								      { id.handle, 0 },
								      { id.handle, id.generation + 1 },
								      { id.handle + 100000, id.generation },
								      { UINT64_MAX, UINT64_MAX },
								      id_of(foreign) };
		for (unsigned k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
			ck_ok(soma_launch_begin(&l, resource, b));
			ck_ok(soma_launch_read_write(&l, wrong[k]));
			ck_is(soma_launch_preflight(&l), INVALID_VALUE);
			ck_is(soma_launch_commit(&l), INVALID_VALUE);
			soma_launch_abandon(&l);
		}
		(void)launch(id, b, soma_launch_write);
		drop(x, a);
		close_fake();
	}
	drop(foreign, 0);
	ck_ok(soma_pool_destroy(other));
	soma_resource_release(host);
}
END_TEST

START_TEST(a_pool_alone_has_no_ids)
{
	struct soma_pool *alone = pool_over(NULL, (struct soma_pool_config){ 0 });
	struct soma_allocation *x = alloc(alone, 1000, 0);
	struct soma_block_id id;

	ck_is(soma_allocation_id(x, &id), NOT_SUPPORTED);
	drop(x, 0);
	ck_ok(soma_pool_destroy(alone));
}
END_TEST

/* ---- the resource --------------------------------------------------------------------------- */

START_TEST(the_resource_neither_frees_nor_accounts_a_part_of_a_segment)
{
	open_placed(0);
	struct soma_allocation *x = alloc(p, 1000, a);
	struct soma_ledger before = { .size = sizeof before }, after = { .size = sizeof after };
	ck_ok(soma_resource_ledger(resource, &before));
	struct soma_block block = { .size = sizeof block,
				    .ptr = soma_allocation_device_ptr(x),
				    .bytes = 1000,
				    .stream = a,
				    .id = id_of(x) };
	ck_is(soma_resource_deallocate(resource, &block), INVALID_VALUE);
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "soma_pool_free() was expected"));
	ck_is(soma_resource_set_tag(resource, block.id, soma_tag_intern("part")), INVALID_VALUE);
	ck_assert_int_eq(soma_resource_block_state(resource, block.id), SOMA_BLOCK_LIVE);
	(void)launch(block.id, b, soma_launch_write);
	drop(x, a);
	ck_ok(soma_resource_ledger(resource, &after));
	ck_assert_int_eq(memcmp(&before, &after, sizeof before), 0);
	ck_assert(!fake->bad_free);
	close_fake();
}
END_TEST

/* A part's record goes to the next block that is allocated. */
START_TEST(a_record_that_was_a_parts_is_a_blocks_again)
{
	struct soma_block block = { .size = sizeof block };

	open_placed(0);
	struct soma_allocation *x = alloc(p, 1000, a);
	struct soma_block_id id = id_of(x);
	drop(x, a);
	ck_ok(soma_resource_allocate(resource, 5000, a, &block));
	ck_assert_uint_eq(block.id.handle, id.handle);
	ck_assert_uint_gt(block.id.generation, id.generation);
	ck_ok(soma_resource_set_tag(resource, block.id, soma_tag_intern("whole")));
	ck_ok(soma_resource_deallocate(resource, &block));
	close_fake();
}
END_TEST

/* ---- failures --------------------------------------------------------------------------------- */

/* Neither an order nor a wait is to be had. */
START_TEST(a_free_that_cannot_come_after_a_use_fails_and_the_block_is_as_before)
{
	for (unsigned i = 0; i < PLACEMENTS; i++) {
		open_placed(i);
		struct soma_allocation *x = alloc(p, 1000, a);
		struct soma_block_id id = id_of(x);
		uint64_t used = launch(id, b, soma_launch_write);
		struct soma_pool_stats before = stats_of(p);
		fake->fail_with[FAKE_EVENT_WAIT] = fake->fail_with[FAKE_EVENT_SYNCHRONIZE] =
			SOMA_STATUS_DRIVER;
		ck_is(soma_pool_free(x, a), DRIVER);
		ck_assert(!soma_allocation_is_freed(x));
		ck_assert(same(before, stats_of(p)));
		ck_assert_int_eq(soma_resource_block_state(resource, id), SOMA_BLOCK_LIVE);
		fake->fail_with[FAKE_EVENT_WAIT] = fake->fail_with[FAKE_EVENT_SYNCHRONIZE] = SOMA_STATUS_OK;
		drop(x, a);
		ck_assert(ordered(a, b, used));
		close_fake();
	}
}
END_TEST

static bool waited;

static void
look_at_the_lock(struct soma_backend *backend, enum fake_op op, void *context)
{
	(void)backend, (void)context;
	if (op != FAKE_EVENT_SYNCHRONIZE)
		return;
	waited = true;
	ck_assert_int_eq(pthread_mutex_trylock(&p->mutex), 0);
	pthread_mutex_unlock(&p->mutex);
}

START_TEST(where_no_order_can_be_queued_the_host_waits_without_the_lock)
{
	for (unsigned i = 0; i < PLACEMENTS; i++) {
		open_placed(i);
		struct soma_allocation *x = alloc(p, 1000, a);
		(void)launch(id_of(x), b, soma_launch_write);
		fake->fail_with[FAKE_EVENT_WAIT] = SOMA_STATUS_DRIVER;
		fake->before = look_at_the_lock;
		waited = false;
		drop(x, a);
		ck_assert(waited);
		fake->before = NULL;
		fake->fail_with[FAKE_EVENT_WAIT] = SOMA_STATUS_OK;
		close_fake();
	}
}
END_TEST

START_TEST(a_free_on_a_captured_stream_is_refused_before_anything_is_queued)
{
	open_placed(0);
	struct soma_allocation *x = alloc(p, 1000, a);
	(void)launch(id_of(x), b, soma_launch_write);
	fake->captures[fake_stream(resource, a)->index] = true;
	uint64_t waits = fake_count(fake, FAKE_EVENT_WAIT);
	ck_is(soma_pool_free(x, a), STREAM_MISUSE);
	ck_assert_uint_eq(fake_count(fake, FAKE_EVENT_WAIT), waits);
	fake->captures[fake_stream(resource, a)->index] = false;
	drop(x, a);
	close_fake();
}
END_TEST

/* ---- threads ------------------------------------------------------------------------------------ */

#define THREADS 4
#define ROUNDS 400

struct worker {
	struct soma_resource *resource;
	struct soma_pool *pool;
	struct soma_allocation *shared; /* used by all, freed by none */
	uint64_t streams[2];
};

static void *
run_worker(void *argument)
{
	const struct worker *w = argument;
	struct soma_block_id shared = id_of(w->shared);

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct soma_allocation *x = alloc(w->pool, 1000 + i, w->streams[i % 2]);
		struct soma_launch l;
		ck_ok(soma_launch_begin(&l, w->resource, w->streams[(i + 1) % 2]));
		ck_ok(soma_launch_write(&l, id_of(x)));
		ck_ok(soma_launch_read(&l, shared));
		ck_ok(soma_launch_preflight(&l));
		ck_ok(soma_launch_commit(&l));
		drop(x, w->streams[i % 2]);
	}
	return NULL;
}

START_TEST(threads_launch_over_one_pool)
{
	for (unsigned i = 0; i < PLACEMENTS; i++) {
		struct soma_resource *host = open_backend("host");
		struct soma_pool *pool =
			pool_over(host, (struct soma_pool_config){ .placement = placements[i] });
		struct soma_allocation *shared = alloc(pool, MIB, 0);
		struct worker workers[THREADS];
		pthread_t threads[THREADS];
		for (unsigned t = 0; t < THREADS; t++) {
			workers[t] = (struct worker){ .resource = host, .pool = pool, .shared = shared };
			workers[t].streams[0] = new_stream(host);
			workers[t].streams[1] = new_stream(host);
			ck_assert_int_eq(pthread_create(&threads[t], NULL, run_worker, &workers[t]), 0);
		}
		for (unsigned t = 0; t < THREADS; t++)
			pthread_join(threads[t], NULL);
		drop(shared, 0);
		for (unsigned t = 0; t < 2 * THREADS; t++)
			ck_ok(soma_pool_synchronize(pool, workers[t / 2].streams[t % 2]));
		ck_ok(soma_pool_synchronize(pool, 0));
		ck_ok(soma_pool_destroy(pool));
		ck_ok(soma_resource_reap_pending(host));
		ck_assert_uint_eq(soma_resource_bytes_outstanding(host), 0);
		ck_assert(soma__records_none(&host->terminal->ledger, NULL));
		soma_resource_release(host);
	}
}
END_TEST

UNIT_MAIN("pool_uses", a_use_comes_after_the_allocation_and_the_free_after_the_use,
	  a_reused_blocks_first_use_elsewhere_comes_after_what_had_its_memory,
	  a_write_waits_for_reads_and_reads_for_the_last_write_alone,
	  a_free_on_another_stream_waits_for_the_uses_too, a_free_in_no_order_waits_for_nothing,
	  an_abandoned_launch_leaves_no_use, a_guard_has_nothing_to_say_of_launches_over_a_pools_blocks,
	  an_id_is_one_blocks_also_at_the_same_address,
	  a_freed_blocks_id_is_refused_and_the_others_are_recorded,
	  an_id_that_is_none_of_the_stacks_is_refused, a_pool_alone_has_no_ids,
	  the_resource_neither_frees_nor_accounts_a_part_of_a_segment,
	  a_record_that_was_a_parts_is_a_blocks_again,
	  a_free_that_cannot_come_after_a_use_fails_and_the_block_is_as_before,
	  where_no_order_can_be_queued_the_host_waits_without_the_lock,
	  a_free_on_a_captured_stream_is_refused_before_anything_is_queued, threads_launch_over_one_pool)
