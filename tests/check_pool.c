/* SPDX-License-Identifier: Apache-2.0 */
/* Pools alone, and what is the same for all: configs, handles, addresses, attributes, streams, the
 * registry. */
#include <string.h>

#include "tests/pool_fixture.h"

static enum soma_status
try_create(struct soma_pool_config config, struct soma_resource *resource)
{
	struct soma_pool *pool = NULL;
	enum soma_status status;

	config.size = config.size != 0 ? config.size : sizeof config;
	status = soma_pool_create(&config, resource, &pool);
	ck_ok(soma_pool_destroy(pool));
	return status;
}

START_TEST(a_config_is_refused_with_the_reason)
{
	struct soma_resource *host = open_backend("host");
	struct soma_policy policy = *soma_policy_preset("cuda");

	ck_is(try_create((struct soma_pool_config){ .size = 3 }, NULL), INVALID_VALUE);
	ck_is(try_create((struct soma_pool_config){ .device = -1 }, NULL), INVALID_VALUE);
	ck_is(try_create((struct soma_pool_config){ .device = 1 }, host), INVALID_VALUE);
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "device is 1"));
	ck_is(try_create((struct soma_pool_config){ .placement = (enum soma_placement)3 }, host),
	      INVALID_VALUE);
	ck_is(try_create((struct soma_pool_config){ .max_size = 10, .initial_size = 11 }, NULL),
	      INVALID_VALUE);
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "initial size of 11"));
	ck_is(try_create((struct soma_pool_config){ .max_size = 10, .release_threshold = 11 }, NULL),
	      INVALID_VALUE);
	ck_is(try_create((struct soma_pool_config){ .tag = SOMA_TAG_COUNT_MAX }, host), INVALID_VALUE);
	policy.alignment = 100;
	ck_is(try_create((struct soma_pool_config){ .policy = &policy }, NULL), INVALID_VALUE);
	ck_is(try_create((struct soma_pool_config){ .policy = soma_policy_preset("strict"),
						    .initial_size = MIB },
			 NULL),
	      NOT_SUPPORTED);
	ck_is(try_create((struct soma_pool_config){ .initial_size = UINT64_MAX }, NULL), INVALID_VALUE);
	ck_ok(try_create((struct soma_pool_config){ .device = 7, .max_size = 10, .release_threshold = 10 },
			 NULL));
	ck_ok(try_create((struct soma_pool_config){ .placement = SOMA_PLACEMENT_POOL }, NULL));
	soma_resource_release(host);
}
END_TEST

START_TEST(without_a_config_a_pool_has_the_defaults_of_the_driver)
{
	struct soma_pool *pool;

	ck_ok(soma_pool_create(NULL, NULL, &pool));
	ck_assert_int_eq(soma_pool_device(pool), 0);
	ck_assert_int_eq(soma_pool_placement(pool), SOMA_PLACEMENT_AUTO);
	ck_assert_uint_eq(attribute(pool, SOMA_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES), 1);
	ck_assert_uint_eq(attribute(pool, SOMA_POOL_REUSE_ALLOW_OPPORTUNISTIC), 1);
	ck_assert_uint_eq(attribute(pool, SOMA_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES), 1);
	ck_assert_uint_eq(attribute(pool, SOMA_POOL_RELEASE_THRESHOLD), 0);
	ck_assert_uint_eq(attribute(pool, SOMA_POOL_RESERVED_CURRENT), 0);
	ck_assert_uint_eq(attribute(pool, SOMA_POOL_USED_HIGH), 0);
	ck_ok(soma_pool_destroy(pool));
	ck_ok(soma_pool_destroy(NULL));
}
END_TEST

START_TEST(an_initial_size_is_reserved_and_serves_the_first_block)
{
	for (enum kind kind = ALONE; kind < KINDS; kind++) {
		struct setup s = set_up(kind, (struct soma_pool_config){ .initial_size = SEGMENT + 1,
									 .release_threshold = UINT64_MAX });
		ck_assert_uint_eq(stats_of(s.pool).reserved, 2 * SEGMENT);
		if (kind == POOL_OVER_HOST)
			ck_assert_uint_eq(soma_resource_bytes_outstanding(s.resource), 2 * SEGMENT);
		drop(alloc(s.pool, 2 * SEGMENT, 0), 0);
		ck_assert_uint_eq(stats_of(s.pool).segments_acquired, 0);
		take_down(s);
	}
}
END_TEST

START_TEST(attributes_take_what_they_may)
{
	struct soma_pool *pool = pool_over(NULL, (struct soma_pool_config){ 0 });
	uint64_t value;

	for (int which = SOMA_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES;
	     which <= SOMA_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES; which++) {
		ck_ok(soma_pool_set_attribute(pool, (enum soma_pool_attribute)which, 0));
		ck_assert_uint_eq(attribute(pool, (enum soma_pool_attribute)which), 0);
		ck_is(soma_pool_set_attribute(pool, (enum soma_pool_attribute)which, 2), INVALID_VALUE);
		ck_ok(soma_pool_set_attribute(pool, (enum soma_pool_attribute)which, 1));
		ck_assert_uint_eq(attribute(pool, (enum soma_pool_attribute)which), 1);
	}
	ck_ok(soma_pool_set_attribute(pool, SOMA_POOL_RELEASE_THRESHOLD, UINT64_MAX));
	ck_assert_uint_eq(attribute(pool, SOMA_POOL_RELEASE_THRESHOLD), UINT64_MAX);
	ck_is(soma_pool_get_attribute(pool, (enum soma_pool_attribute)9, &value), INVALID_VALUE);
	ck_is(soma_pool_set_attribute(pool, (enum soma_pool_attribute)0, 0), INVALID_VALUE);
	ck_ok(soma_pool_destroy(pool));
}
END_TEST

START_TEST(a_pool_for_each_stream_has_no_reuse_by_order)
{
	struct soma_pool *pool =
		pool_over(NULL, (struct soma_pool_config){ .policy = soma_policy_preset("pytorch") });

	ck_assert_uint_eq(attribute(pool, SOMA_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES), 0);
	ck_is(soma_pool_set_attribute(pool, SOMA_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, 1), NOT_SUPPORTED);
	ck_is(soma_pool_set_attribute(pool, SOMA_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 1), NOT_SUPPORTED);
	ck_ok(soma_pool_set_attribute(pool, SOMA_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0));
	ck_ok(soma_pool_set_attribute(pool, SOMA_POOL_REUSE_ALLOW_OPPORTUNISTIC, 0));
	ck_ok(soma_pool_destroy(pool));
}
END_TEST

/* What happened before counts: an order that was made, and what has executed. */
START_TEST(a_reuse_that_is_switched_on_uses_what_is_known)
{
	struct setup s = set_up(POOL_OVER_HOST, (struct soma_pool_config){ .release_threshold = UINT64_MAX });
	struct soma_pool *p = s.pool;
	uint64_t a = stream_of(s), b = stream_of(s), c = stream_of(s);

	for (int which = 1; which <= 3; which++)
		ck_ok(soma_pool_set_attribute(p, (enum soma_pool_attribute)which, 0));
	uint64_t first = drop(alloc(p, SEGMENT, a), a);
	order_after(p, b, a);
	struct soma_allocation *x = alloc(p, SEGMENT, b);
	ck_assert_uint_ne(soma_allocation_ptr(x), first);
	ck_ok(soma_pool_set_attribute(p, SOMA_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, 1));
	struct soma_allocation *y = alloc(p, SEGMENT, b);
	ck_assert_uint_eq(soma_allocation_ptr(y), first);
	ck_ok(soma_pool_set_attribute(p, SOMA_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, 0));

	uint64_t second = drop(x, b);
	(void)record(p, b);
	step(s.resource, a);
	step(s.resource, b);
	x = alloc(p, SEGMENT, c);
	ck_assert_uint_ne(soma_allocation_ptr(x), second);
	ck_ok(soma_pool_set_attribute(p, SOMA_POOL_REUSE_ALLOW_OPPORTUNISTIC, 1));
	struct soma_allocation *z = alloc(p, SEGMENT, c);
	ck_assert_uint_eq(soma_allocation_ptr(z), second);
	drop(x, c), drop(y, b), drop(z, c);
	take_down(s);
}
END_TEST

/* ---- handles and addresses --------------------------------------------------------------- */

START_TEST(a_handle_answers_until_it_is_released)
{
	for (enum kind kind = ALONE; kind < KINDS; kind++) {
		struct setup s = set_up(kind, (struct soma_pool_config){ .release_threshold = UINT64_MAX });
		uint64_t a = stream_of(s), b = stream_of(s), native;
		struct soma_allocation *first = alloc(s.pool, 1, b);
		struct soma_allocation *x = alloc(s.pool, 1000, b);
		ck_assert_uint_eq(soma_allocation_size(x), 1000);
		ck_assert_uint_eq(soma_allocation_stream_id(x), b);
		ck_assert_uint_eq(soma_allocation_ready_seq(x), 1);
		ck_assert_ptr_eq(soma_allocation_pool(x), s.pool);
		ck_assert(!soma_allocation_is_freed(x));
		ck_assert_int_eq(soma_allocation_device_ptr(x) == 0, kind == ALONE);
		if (kind == POOL_OVER_HOST)
			ck_assert_uint_eq(soma_allocation_ptr(x), soma_allocation_device_ptr(x));
		if (kind == ALONE)
			ck_is(soma_allocation_stream(x, &native), NOT_SUPPORTED);
		else
			ck_ok(soma_allocation_stream(x, &native));
		order_after(s.pool, a, b);
		ck_ok(soma_pool_free(x, a));
		ck_is(soma_pool_free(x, a), USE_AFTER_FREE);
		ck_is(soma_pool_free_now(x), USE_AFTER_FREE);
		struct soma_allocation *y = alloc(s.pool, 1000, a);
		ck_assert(soma_allocation_is_freed(x));
		ck_assert_uint_eq(soma_allocation_size(x), 1000);
		ck_assert_uint_eq(stats_of(s.pool).handle_count, 3);
		ck_ok(soma_allocation_release(x));
		ck_is(soma_allocation_release(x), INVALID_VALUE);
		/* A live one is freed with its handle. */
		ck_ok(soma_allocation_release(y));
		ck_assert_uint_eq(stats_of(s.pool).live_count, 1);
		ck_assert_uint_eq(stats_of(s.pool).handle_count, 1);
		ck_ok(soma_allocation_release(NULL));
		ck_ok(soma_pool_free(NULL, a));
		drop(first, b);
		take_down(s);
	}
}
END_TEST

START_TEST(blocks_are_found_and_freed_by_address)
{
	for (enum kind kind = ALONE; kind < KINDS; kind++) {
		struct setup s = set_up(kind, (struct soma_pool_config){ .release_threshold = UINT64_MAX });
		struct soma_allocation *blocks[300], *found;
		for (unsigned i = 0; i < 300; i++)
			blocks[i] = alloc(s.pool, 512 + i, 0);
		for (unsigned i = 0; i < 300; i++) {
			ck_ok(soma_pool_find(s.pool, soma_allocation_ptr(blocks[i]), &found));
			ck_assert_ptr_eq(found, blocks[i]);
		}
		uint64_t ptr = soma_allocation_ptr(blocks[7]);
		ck_is(soma_pool_free_ptr(s.pool, ptr + 1, 0), INVALID_VALUE);
		ck_is(soma_pool_free_ptr(s.pool, ptr + 512, 0), INVALID_VALUE);
		ck_ok(soma_pool_free_ptr(s.pool, ptr, 0));
		ck_is(soma_pool_free_ptr(s.pool, ptr, 0), INVALID_VALUE);
		ck_is(soma_pool_find(s.pool, ptr, &found), NOT_FOUND);
		ck_ok(soma_pool_free_ptr(s.pool, 0, 0));
		for (unsigned i = 0; i < 300; i++)
			if (i != 7)
				ck_ok(soma_pool_free_ptr(s.pool, soma_allocation_ptr(blocks[i]), 0));
		ck_assert_uint_eq(stats_of(s.pool).used, 0);
		ck_assert_uint_eq(stats_of(s.pool).handle_count, 0);
		take_down(s);
	}
}
END_TEST

START_TEST(no_pool_takes_another_ones_address)
{
	struct soma_pool *pools[40];
	struct soma_allocation *blocks[40];

	for (unsigned i = 0; i < 40; i++) {
		pools[i] = pool_over(NULL, (struct soma_pool_config){ .max_size = i % 3 * 10 * SEGMENT });
		blocks[i] = alloc(pools[i], SEGMENT, 0);
		for (unsigned j = 0; j < i; j++) {
			uint64_t x = soma_allocation_ptr(blocks[i]), y = soma_allocation_ptr(blocks[j]);
			ck_assert(x >= y + SEGMENT || y >= x + SEGMENT);
			ck_is(soma_pool_free_ptr(pools[j], x, 0), INVALID_VALUE);
		}
		ck_assert(!soma_allocation_is_freed(blocks[i]));
	}
	/* A window is free for another pool when its own is gone. */
	uint64_t name = soma_allocation_ptr(blocks[3]);
	drop(blocks[3], 0);
	ck_ok(soma_pool_destroy(pools[3]));
	pools[3] = pool_over(NULL, (struct soma_pool_config){ 0 });
	blocks[3] = alloc(pools[3], SEGMENT, 0);
	ck_assert_uint_eq(soma_allocation_ptr(blocks[3]), name);
	for (unsigned i = 0; i < 40; i++) {
		drop(blocks[i], 0);
		ck_ok(soma_pool_destroy(pools[i]));
	}
}
END_TEST

/* Whose ranges of addresses are as long as the policy says, whatever the pool's maximum. */
START_TEST(pools_of_mapped_pages_have_no_address_in_common)
{
	struct soma_pool_config config = { .policy = soma_policy_preset("soma") };
	struct soma_allocation *blocks[6];
	struct soma_pool *pools[3];

	for (unsigned i = 0; i < 3; i++) {
		config.max_size = i * 4 * SEGMENT;
		pools[i] = pool_over(NULL, config);
		blocks[i] = alloc(pools[i], KIB, 0);
		blocks[i + 3] = alloc(pools[i], SEGMENT, 0);
	}
	for (unsigned i = 0; i < 6; i++)
		for (unsigned j = 0; j < i; j++)
			ck_assert_uint_ne(soma_allocation_ptr(blocks[i]), soma_allocation_ptr(blocks[j]));
	for (unsigned i = 0; i < 6; i++)
		drop(blocks[i], 0);
	for (unsigned i = 0; i < 3; i++)
		ck_ok(soma_pool_destroy(pools[i]));
}
END_TEST

START_TEST(there_is_an_end_to_virtual_addresses_and_it_is_said)
{
	const struct soma_pool_config config = { .size = sizeof config };
	struct soma_pool *pools[200];
	enum soma_status status = SOMA_STATUS_OK;
	unsigned count = 0;

	while (count < 200 && status == SOMA_STATUS_OK) {
		status = soma_pool_create(&config, NULL, &pools[count]);
		count += status == SOMA_STATUS_OK;
	}
	ck_assert_uint_eq(count, 128); /* of 1 TiB each */
	ck_is(status, NOT_SUPPORTED);
	ck_ok(soma_pool_destroy(pools[50]));
	/* Nor does a pool leave its own. */
	struct soma_pool *small = pool_over(NULL, (struct soma_pool_config){ .max_size = 256 * SEGMENT });
	ck_is(try_alloc(small, (uint64_t)1 << 41, 0), OUT_OF_DEVICE_MEMORY);
	ck_is(try_alloc(pools[49], ((uint64_t)1 << 40) + 1, 0), OUT_OF_DEVICE_MEMORY);
	drop(alloc(pools[49], (uint64_t)1 << 40, 0), 0);
	ck_ok(soma_pool_destroy(small));
	for (unsigned i = 0; i < count; i++)
		if (i != 50)
			ck_ok(soma_pool_destroy(pools[i]));
}
END_TEST

START_TEST(a_struct_of_another_size_is_refused)
{
	struct soma_pool *pool = pool_over(NULL, (struct soma_pool_config){ 0 });
	struct soma_pool_stats stats = { .size = 8 };

	ck_is(soma_pool_stats(pool, &stats), INVALID_VALUE);
	ck_ok(soma_pool_destroy(pool));
}
END_TEST

/* ---- streams, order ------------------------------------------------------------------------ */

START_TEST(a_pool_alone_has_streams_of_its_own)
{
	struct setup s = set_up(ALONE, (struct soma_pool_config){ 0 });
	uint64_t a = stream_of(s), seq;

	ck_is(try_alloc(s.pool, 100, a + 5), INVALID_VALUE);
	ck_is(soma_pool_record_event(s.pool, a + 5, &seq), INVALID_VALUE);
	ck_is(soma_pool_synchronize(s.pool, a + 5), INVALID_VALUE);
	ck_is(soma_pool_stream_destroy(s.pool, 0), INVALID_VALUE);
	ck_is(soma_pool_stream_destroy(s.pool, a + 5), INVALID_VALUE);
	ck_is(soma_pool_stream_create(s.pool, 99, &seq), INVALID_VALUE);
	drop(alloc(s.pool, 100, a), a);
	ck_ok(soma_pool_stream_destroy(s.pool, a));
	ck_is(try_alloc(s.pool, 100, a), INVALID_VALUE);
	ck_ok(soma_pool_synchronize(s.pool, a));
	ck_assert_uint_eq(stats_of(s.pool).pending_free_count, 0);
	take_down(s);
}
END_TEST

/* It has one for its own use, which is no user's. */
START_TEST(no_stream_can_be_guessed)
{
	struct setup s = set_up(ALONE, (struct soma_pool_config){ 0 });

	for (uint64_t stream = 1; stream < 100; stream++)
		ck_is(soma_pool_stream_destroy(s.pool, stream), INVALID_VALUE);
	take_down(s);
}
END_TEST

START_TEST(a_pool_over_a_resource_has_that_ones_streams)
{
	struct setup s = set_up(POOL_OVER_HOST, (struct soma_pool_config){ 0 });
	uint64_t a = stream_of(s), b = stream_of(s), stream, seq;

	ck_is(soma_pool_stream_create(s.pool, 0, &stream), NOT_SUPPORTED);
	ck_is(soma_pool_stream_destroy(s.pool, a), NOT_SUPPORTED);
	ck_is(try_alloc(s.pool, 100, b + 77), STREAM_MISUSE);
	ck_is(soma_pool_synchronize(s.pool, b + 77), STREAM_MISUSE);
	ck_is(soma_pool_record_event(s.pool, b + 77, &seq), STREAM_MISUSE);
	ck_is(soma_pool_wait_event(s.pool, a, b + 77, 0), STREAM_MISUSE);
	ck_is(soma_pool_wait_event(s.pool, a, UINT64_MAX, 0), STREAM_MISUSE);
	ck_is(soma_pool_wait_event(s.pool, a, b, 0), INVALID_VALUE);
	seq = record(s.pool, b);
	ck_is(soma_pool_wait_event(s.pool, a, b, seq + 1), INVALID_VALUE);
	ck_ok(soma_pool_wait_event(s.pool, a, b, seq));
	ck_ok(soma_pool_wait_event(s.pool, b, b, record(s.pool, b)));
	take_down(s);
}
END_TEST

START_TEST(readiness_follows_the_real_streams)
{
	for (enum kind kind = POOL_OVER_HOST; kind < OVER_GUARD; kind++) {
		struct setup s = set_up(kind, (struct soma_pool_config){ 0 });
		uint64_t a = stream_of(s), b = stream_of(s);
		struct soma_allocation *x = alloc(s.pool, 1000, a);
		fill(s.resource, soma_allocation_device_ptr(x), 1, 1000, a);
		ck_assert(!soma_pool_is_ready(x));
		uint64_t early = soma_allocation_ready_seq(x), seq = record(s.pool, a);
		ck_assert(!soma_pool_is_ready_on(x, b, early));
		ck_assert(soma_pool_is_ready_on(x, b, seq));
		ck_assert(!soma_pool_is_ready_on(x, a, seq));
		/* Asking again and again queues nothing further. */
		uint64_t before = queued(s.resource, a);
		for (int i = 0; i < 10; i++)
			ck_assert(!soma_pool_is_ready(x));
		ck_assert_uint_eq(queued(s.resource, a), before);
		step(s.resource, a);
		ck_assert(soma_pool_is_ready(x));
		ck_assert(soma_pool_is_ready_on(x, a, 0));
		drop(x, a);
		take_down(s);
	}
}
END_TEST

/* Order with the legacy default stream is the driver's, and the pool knows it. */
START_TEST(blocking_streams_and_the_legacy_stream_share_blocks_without_events)
{
	struct setup s = set_up(POOL_OVER_HOST, (struct soma_pool_config){ .release_threshold = UINT64_MAX });
	uint64_t blocking, apart = stream_of(s);

	ck_ok(soma_resource_stream_create(s.resource, SOMA_STREAM_BLOCKING, &blocking));
	uint64_t first = drop(alloc(s.pool, SEGMENT, blocking), blocking);
	struct soma_allocation *x = alloc(s.pool, SEGMENT, apart);
	ck_assert_uint_ne(soma_allocation_ptr(x), first);
	struct soma_allocation *y = alloc(s.pool, SEGMENT, 0);
	ck_assert_uint_eq(soma_allocation_ptr(y), first);
	drop(x, apart), drop(y, 0);
	take_down(s);
}
END_TEST

/* Allocates all that is free on `stream`, writes there, lets every stream run, this one first; the byte. */
static uint8_t
byte_after_reuse(struct setup s, uint64_t stream, const uint64_t *others, unsigned count)
{
	struct soma_allocation *x = alloc(s.pool, SEGMENT, stream);
	const uint8_t *byte = (const uint8_t *)(uintptr_t)soma_allocation_device_ptr(x);

	fill(s.resource, soma_allocation_device_ptr(x), 2, 1, stream);
	for (unsigned round = 0; round <= count; round++) {
		step(s.resource, stream);
		for (unsigned i = 0; i < count; i++)
			step(s.resource, others[i]);
	}
	drop(x, stream);
	return *byte;
}

/* The driver orders the work of two blocking streams only if the legacy stream has work between them, and an
 * allocation is none. */
START_TEST(blocking_streams_are_not_ordered_by_an_allocation_on_the_legacy_stream)
{
	struct setup s = set_up(POOL_OVER_HOST, (struct soma_pool_config){ .release_threshold = UINT64_MAX });
	uint64_t first, second;

	ck_ok(soma_resource_stream_create(s.resource, SOMA_STREAM_BLOCKING, &first));
	ck_ok(soma_resource_stream_create(s.resource, SOMA_STREAM_BLOCKING, &second));
	struct soma_allocation *small = alloc(s.pool, KIB, first), *x = alloc(s.pool, SEGMENT, first);
	fill(s.resource, soma_allocation_device_ptr(x), 1, 1, first);
	drop(x, first);
	struct soma_allocation *between = alloc(s.pool, KIB, 0);
	ck_assert_uint_eq(byte_after_reuse(s, second, &first, 1), 2);
	drop(small, first), drop(between, 0);
	take_down(s);
}
END_TEST

/* Nor does waiting for a stream on which nothing is queued say anything of the legacy stream's work. */
START_TEST(synchronising_an_idle_blocking_stream_does_not_complete_the_legacy_streams_frees)
{
	struct setup s = set_up(POOL_OVER_HOST, (struct soma_pool_config){ .release_threshold = UINT64_MAX });
	uint64_t blocking, apart = stream_of(s), legacy = 0;

	ck_ok(soma_resource_stream_create(s.resource, SOMA_STREAM_BLOCKING, &blocking));
	struct soma_allocation *small = alloc(s.pool, KIB, blocking), *x = alloc(s.pool, SEGMENT, 0);
	fill(s.resource, soma_allocation_device_ptr(x), 1, 1, 0);
	drop(x, 0);
	struct soma_allocation *after = alloc(s.pool, KIB, blocking);
	ck_ok(soma_pool_synchronize(s.pool, blocking));
	ck_assert_uint_eq(byte_after_reuse(s, apart, &legacy, 1), 2);
	drop(small, blocking), drop(after, blocking);
	take_down(s);
}
END_TEST

START_TEST(a_block_is_not_ready_because_an_idle_blocking_stream_was_waited_for)
{
	for (enum kind kind = POOL_OVER_HOST; kind <= BACKEND_OVER_HOST; kind++) {
		struct setup s = set_up(kind, (struct soma_pool_config){ .release_threshold = UINT64_MAX });
		uint64_t blocking;
		ck_ok(soma_resource_stream_create(s.resource, SOMA_STREAM_BLOCKING, &blocking));
		struct soma_allocation *x = alloc(s.pool, KIB, 0);
		fill(s.resource, soma_allocation_device_ptr(x), 1, 1, 0);
		struct soma_allocation *y = alloc(s.pool, KIB, blocking);
		ck_ok(soma_pool_synchronize(s.pool, blocking));
		ck_assert(!soma_pool_is_ready(x));
		drop(x, 0), drop(y, blocking);
		ck_ok(soma_pool_synchronize(s.pool, 0));
		take_down(s);
	}
}
END_TEST

START_TEST(a_free_may_count_on_the_order_with_the_legacy_stream)
{
	struct setup s = set_up(POOL_OVER_HOST, (struct soma_pool_config){ .release_threshold = UINT64_MAX });
	uint64_t blocking, apart = stream_of(s), legacy = 0;

	ck_ok(soma_resource_stream_create(s.resource, SOMA_STREAM_BLOCKING, &blocking));
	struct soma_allocation *x = alloc(s.pool, SEGMENT, 0);
	fill(s.resource, soma_allocation_device_ptr(x), 1, 1, 0);
	drop(x, blocking);
	ck_ok(soma_pool_synchronize(s.pool, blocking));
	ck_assert_uint_eq(stats_of(s.pool).pending_free_count, 0);
	ck_assert_uint_eq(byte_after_reuse(s, apart, &legacy, 1), 2);
	take_down(s);
}
END_TEST

/* The pool's own operations on it are done; what the event covers beyond them is not. */
START_TEST(an_event_of_a_destroyed_stream_stands_for_work_that_is_still_queued)
{
	struct setup s = set_up(POOL_OVER_HOST, (struct soma_pool_config){ .release_threshold = UINT64_MAX });
	uint64_t a = stream_of(s), b = stream_of(s), c = stream_of(s);
	struct soma_allocation *x = alloc(s.pool, KIB, a), *y = alloc(s.pool, KIB, c);
	const uint8_t *byte = (const uint8_t *)(uintptr_t)soma_allocation_device_ptr(x);

	drop(alloc(s.pool, KIB, a), a);
	ck_ok(soma_pool_trim(s.pool, UINT64_MAX));
	step(s.resource, a);
	ck_ok(soma_pool_trim(s.pool, UINT64_MAX));
	ck_assert_uint_eq(stats_of(s.pool).pending_free_count, 0);
	fill(s.resource, soma_allocation_device_ptr(x), 1, 1, a);
	uint64_t seq = record(s.pool, a);
	ck_ok(soma_resource_stream_destroy(s.resource, a));
	fill(s.resource, soma_allocation_device_ptr(y), 1, 1, c);
	drop(y, c);
	ck_ok(soma_pool_trim(s.pool, UINT64_MAX));
	ck_ok(soma_pool_wait_event(s.pool, b, a, seq));
	fill(s.resource, soma_allocation_device_ptr(x), 2, 1, b);
	step(s.resource, b);
	ck_ok(s.resource->terminal->ops->synchronize(s.resource->terminal->self));
	ck_assert_uint_eq(*byte, 2);
	drop(x, b);
	take_down(s);
}
END_TEST

START_TEST(what_is_freed_while_a_synchronisation_runs_is_not_taken_as_done)
{
	struct setup s = set_up(POOL_OVER_HOST, (struct soma_pool_config){ .release_threshold = UINT64_MAX });
	uint64_t a = stream_of(s);
	struct soma_allocation *x = alloc(s.pool, SEGMENT, a);

	fill(s.resource, soma_allocation_device_ptr(x), 1, 1, a);
	struct soma_model *model = s.pool->model;
	struct soma_model_position position;
	uint64_t id = x->model_stream;
	drop(x, a);
	/* As if the wait had begun before the free. */
	ck_ok(soma__model_observe(model, id, 1, true));
	ck_ok(soma_model_position(model, id, &position));
	ck_assert_uint_eq(position.executed, 1);
	ck_assert_uint_eq(stats_of(s.pool).pending_free_count, 1);
	ck_ok(soma_pool_synchronize(s.pool, a));
	ck_assert_uint_eq(stats_of(s.pool).pending_free_count, 0);
	take_down(s);
}
END_TEST

/* ---- over a guard, and what is not to be had --------------------------------------------------- */

START_TEST(a_guard_sees_the_pools_blocks)
{
	struct setup s = set_up(OVER_GUARD, (struct soma_pool_config){ 0 });
	struct soma_pool_config config = { .size = sizeof config, .placement = SOMA_PLACEMENT_POOL };
	struct soma_backend_guard_stats stats = { .size = sizeof stats };
	struct soma_pool *pool;

	ck_assert_int_eq(soma_pool_placement(s.pool), SOMA_PLACEMENT_BACKEND);
	ck_is(soma_pool_create(&config, s.resource, &pool), NOT_SUPPORTED);
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "guard"));
	struct soma_allocation *x = alloc(s.pool, 100, 0), *y = alloc(s.pool, 200, 0);
	ck_ok(s.resource->terminal->ops->guard_stats(s.resource->terminal->self, &stats));
	ck_assert_uint_eq(stats.live_blocks, 2);
	drop(x, 0), drop(y, 0);
	take_down(s);
}
END_TEST

START_TEST(what_a_pool_alone_does_not_have_is_said)
{
	struct soma_pool *pool = pool_over(NULL, (struct soma_pool_config){ 0 });
	int descriptor;

	ck_is(soma_pool_export(pool, SOMA_POOL_HANDLE_POSIX_FD, &descriptor), NOT_SUPPORTED);
	ck_ok(soma_pool_export(pool, SOMA_POOL_HANDLE_NONE, &descriptor));
	ck_assert_int_eq(descriptor, -1);
	ck_is(soma_pool_peer_access(pool, 1, true), NOT_SUPPORTED);
	ck_ok(soma_pool_destroy(pool));
}
END_TEST

/* ---- default and current --------------------------------------------------------------------------- */

START_TEST(a_device_has_one_default_pool)
{
	struct soma_resource *host = open_backend("host"), *other = open_backend("host");
	struct soma_pool *x, *y;

	ck_ok(soma_pool_default(0, host, &x));
	ck_ok(soma_pool_default(0, host, &y));
	ck_assert_ptr_eq(x, y);
	ck_ok(soma_pool_default(0, NULL, &y));
	ck_assert_ptr_eq(x, y);
	ck_is(soma_pool_default(0, other, &y), INVALID_VALUE);
	struct soma_resource *budget;
	ck_ok(soma_budget_create(host, 1 << 30, &budget));
	ck_ok(soma_pool_default(0, budget, &y));
	ck_assert_ptr_eq(x, y);
	soma_resource_release(budget);
	ck_is(soma_pool_default(-1, NULL, &y), INVALID_VALUE);
	ck_is(soma_pool_default(1, host, &y), INVALID_VALUE);
	ck_is(soma_pool_current(1, &y), NOT_FOUND);
	ck_is(soma_pool_destroy(x), INVALID_VALUE);
	ck_assert_int_eq(soma_pool_placement(x), SOMA_PLACEMENT_POOL);
	soma__pool_end_default(0);
	ck_is(soma_pool_current(0, &y), NOT_FOUND);
	soma__pool_end_default(0);
	soma_resource_release(host);
	soma_resource_release(other);
}
END_TEST

START_TEST(the_current_pool_is_one_of_the_device)
{
	struct soma_pool *x = pool_over(NULL, (struct soma_pool_config){ .device = 2 }), *y;

	ck_is(soma_pool_set_current(1, x), INVALID_VALUE);
	ck_is(soma_pool_set_current(-1, NULL), INVALID_VALUE);
	ck_ok(soma_pool_set_current(2, x));
	ck_ok(soma_pool_current(2, &y));
	ck_assert_ptr_eq(x, y);
	ck_ok(soma_pool_set_current(2, NULL));
	ck_is(soma_pool_current(2, &y), NOT_FOUND);
	ck_ok(soma_pool_set_current(2, x));
	ck_ok(soma_pool_destroy(x));
	ck_is(soma_pool_current(2, &y), NOT_FOUND);
}
END_TEST

UNIT_MAIN("pool", a_config_is_refused_with_the_reason, without_a_config_a_pool_has_the_defaults_of_the_driver,
	  an_initial_size_is_reserved_and_serves_the_first_block, attributes_take_what_they_may,
	  a_pool_for_each_stream_has_no_reuse_by_order, a_reuse_that_is_switched_on_uses_what_is_known,
	  a_handle_answers_until_it_is_released, blocks_are_found_and_freed_by_address,
	  no_pool_takes_another_ones_address, pools_of_mapped_pages_have_no_address_in_common,
	  there_is_an_end_to_virtual_addresses_and_it_is_said, a_struct_of_another_size_is_refused,
	  a_pool_alone_has_streams_of_its_own, no_stream_can_be_guessed,
	  a_pool_over_a_resource_has_that_ones_streams, readiness_follows_the_real_streams,
	  blocking_streams_and_the_legacy_stream_share_blocks_without_events,
	  blocking_streams_are_not_ordered_by_an_allocation_on_the_legacy_stream,
	  synchronising_an_idle_blocking_stream_does_not_complete_the_legacy_streams_frees,
	  a_block_is_not_ready_because_an_idle_blocking_stream_was_waited_for,
	  a_free_may_count_on_the_order_with_the_legacy_stream,
	  an_event_of_a_destroyed_stream_stands_for_work_that_is_still_queued,
	  what_is_freed_while_a_synchronisation_runs_is_not_taken_as_done, a_guard_sees_the_pools_blocks,
	  what_a_pool_alone_does_not_have_is_said, a_device_has_one_default_pool,
	  the_current_pool_is_one_of_the_device)
