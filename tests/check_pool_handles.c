/* SPDX-License-Identifier: Apache-2.0 */
/* Pools: handles, finding and freeing by address, and whose addresses are whose. */
#include "tests/pool_fixture.h"

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

UNIT_MAIN("pool handles", a_handle_answers_until_it_is_released, blocks_are_found_and_freed_by_address,
	  no_pool_takes_another_ones_address, pools_of_mapped_pages_have_no_address_in_common,
	  there_is_an_end_to_virtual_addresses_and_it_is_said)
