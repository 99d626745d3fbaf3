/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in's pools keep the rules that the model and the backends are held to: reuse,
 * release at a synchronisation, counts.  The numbers in names are those behaviours'.
 */
#include "tests/fake/fixture.h"

#define STEP FAKE_RESERVE_STEP

START_TEST(b1_same_stream_reuses_at_once)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool();
	CUstream s = new_stream();
	CUdeviceptr a = alloc(pool, MIB, s);
	ok(cuMemFreeAsync(a, s));
	ck_assert_uint_eq(alloc(pool, MIB, s), a);
	ck_assert_uint_eq(fake_cuda_pending(s), 3);
	found_nothing();
}
END_TEST

/* Two streams, and a block as large as a segment freed on the first, unexecuted. */
struct two {
	CUmemoryPool pool;
	CUstream a, b;
	CUdeviceptr freed;
};

static struct two
freed_on_a(size_t max)
{
	struct two t;

	start(FAKE_STEPPED);
	t.pool = new_pool_of(max, 0);
	t.a = new_stream();
	t.b = new_stream();
	t.freed = alloc(t.pool, STEP, t.a);
	ok(cuMemFreeAsync(t.freed, t.a));
	return t;
}

START_TEST(b2_a_pending_free_elsewhere_is_not_reused)
{
	struct two t = freed_on_a(0);
	rules(t.pool, 0, 0, 0);
	ck_assert_uint_ne(alloc(t.pool, STEP, t.b), t.freed);
	ck_assert_uint_eq(reserved(t.pool), 2 * STEP);
}
END_TEST

START_TEST(b3_follows_an_event_recorded_after_the_free)
{
	struct two t = freed_on_a(0);
	rules(t.pool, 1, 0, 0);
	wait_on(t.b, t.a);
	CUdeviceptr again = alloc(t.pool, STEP, t.b);
	ck_assert_uint_eq(again, t.freed);
	ok(cuMemsetD8Async(again, 1, STEP, t.b));
	ck_assert_uint_eq(fake_cuda_step(t.b, 1), 0); /* a has not run */
	ok(cuStreamSynchronize(t.b));
	found_nothing();
}
END_TEST

START_TEST(b4_an_event_recorded_before_the_free_proves_nothing)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool();
	CUstream a = new_stream(), b = new_stream();
	rules(pool, 1, 0, 0);
	CUdeviceptr p = alloc(pool, STEP, a);
	CUevent before = recorded(a);
	ok(cuMemFreeAsync(p, a));
	ok(cuStreamWaitEvent(b, before, 0));
	ck_assert_uint_ne(alloc(pool, STEP, b), p);
}
END_TEST

START_TEST(b5_event_chains_are_followed)
{
	struct two t = freed_on_a(0);
	CUstream c = new_stream();
	rules(t.pool, 1, 0, 0);
	wait_on(t.b, t.a);
	wait_on(c, t.b);
	ck_assert_uint_eq(alloc(t.pool, STEP, c), t.freed);
}
END_TEST

START_TEST(b6_with_follow_off_a_waited_event_is_not_enough)
{
	struct two t = freed_on_a(0);
	rules(t.pool, 0, 0, 0);
	wait_on(t.b, t.a);
	ck_assert_uint_ne(alloc(t.pool, STEP, t.b), t.freed);
}
END_TEST

START_TEST(b7_an_executed_free_is_reused_by_any_stream)
{
	struct two t = freed_on_a(0);
	rules(t.pool, 0, 1, 0);
	ck_assert_uint_eq(fake_cuda_step(t.a, 2), 2);
	ck_assert_uint_eq(alloc(t.pool, STEP, t.b), t.freed);
}
END_TEST

START_TEST(b8_with_opportunistic_off_only_after_a_synchronisation)
{
	struct two t = freed_on_a(0);
	rules(t.pool, 0, 0, 0);
	set(t.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX);
	fake_cuda_step(t.a, 2);
	CUdeviceptr other = alloc(t.pool, STEP, t.b);
	ck_assert_uint_ne(other, t.freed);
	ok(cuStreamSynchronize(t.a));
	ck_assert_uint_eq(alloc(t.pool, STEP, t.b), t.freed);
}
END_TEST

START_TEST(b9_when_growing_fails_a_wait_is_inserted)
{
	struct two t = freed_on_a(STEP);
	rules(t.pool, 0, 0, 1);
	CUdeviceptr again = alloc(t.pool, STEP, t.b);
	ck_assert_uint_eq(again, t.freed);
	ck_assert_uint_eq(fake_cuda_step(t.b, 1), 0);
	ck_assert_uint_eq(fake_cuda_step(t.a, 2), 2);
	ck_assert_uint_eq(fake_cuda_step(t.b, 1), 1);
}
END_TEST

START_TEST(b10_without_internal_dependencies_it_is_out_of_memory)
{
	struct two t = freed_on_a(STEP);
	CUdeviceptr ptr;
	rules(t.pool, 0, 0, 0);
	no(cuMemAllocFromPoolAsync(&ptr, STEP, t.pool, t.b), CUDA_ERROR_OUT_OF_MEMORY);
	ok(cuStreamSynchronize(t.a));
	ck_assert_uint_eq(reserved(t.pool), 0); /* threshold 0 */
	alloc(t.pool, STEP, t.b);
}
END_TEST

START_TEST(b11_no_wait_is_inserted_while_growing_is_possible)
{
	struct two t = freed_on_a(2 * STEP);
	rules(t.pool, 0, 0, 1);
	ck_assert_uint_ne(alloc(t.pool, STEP, t.b), t.freed);
	ck_assert_uint_eq(fake_cuda_step(t.b, 1), 1);
}
END_TEST

START_TEST(b12_a_free_on_another_stream_is_not_the_allocating_streams)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool();
	CUstream a = new_stream(), b = new_stream();
	rules(pool, 1, 0, 0);
	CUdeviceptr p = alloc(pool, STEP, a);
	wait_on(b, a);
	ok(cuMemFreeAsync(p, b));
	CUdeviceptr q = alloc(pool, STEP, a);
	ck_assert_uint_ne(q, p);
	wait_on(a, b);
	ck_assert_uint_eq(alloc(pool, STEP, a), p);
	found_nothing();
}
END_TEST

START_TEST(b13_release_happens_only_at_a_synchronisation)
{
	struct two t = freed_on_a(0);
	fake_cuda_step(t.a, 2);
	CUdeviceptr small = alloc(t.pool, STEP, t.a);
	ok(cuMemFreeAsync(small, t.a));
	fake_cuda_step(t.a, 2);
	ck_assert_uint_eq(reserved(t.pool), STEP);
	ok(cuStreamSynchronize(t.a));
	ck_assert_uint_eq(reserved(t.pool), 0);
	ck_assert_uint_eq(fake_cuda_device_taken(0), 0);
}
END_TEST

START_TEST(b13_events_and_contexts_release_as_well)
{
	struct two t = freed_on_a(0);
	ok(cuEventSynchronize(recorded(t.a)));
	ck_assert_uint_eq(reserved(t.pool), 0);
	ok(cuMemFreeAsync(alloc(t.pool, STEP, t.b), t.b));
	ok(cuCtxSynchronize());
	ck_assert_uint_eq(reserved(t.pool), 0);
}
END_TEST

START_TEST(a_query_releases_or_not_as_the_constant_says)
{
	struct two t = freed_on_a(0);
	fake_cuda_step(t.a, 2);
	ok(cuStreamQuery(t.a));
	ck_assert_uint_eq(reserved(t.pool), FAKE_QUERY_RELEASES ? 0 : STEP);
}
END_TEST

START_TEST(b14_a_high_threshold_keeps_everything)
{
	struct two t = freed_on_a(0);
	set(t.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX);
	ok(cuCtxSynchronize());
	ck_assert_uint_eq(reserved(t.pool), STEP);
}
END_TEST

START_TEST(the_threshold_is_not_undercut)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool();
	CUstream s = new_stream();
	CUdeviceptr p[3];
	for (int i = 0; i < 3; i++)
		p[i] = alloc(pool, STEP, s);
	for (int i = 0; i < 3; i++)
		ok(cuMemFreeAsync(p[i], s));
	set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, STEP + STEP / 2);
	ok(cuStreamSynchronize(s));
	ck_assert_uint_eq(reserved(pool), 2 * STEP);
}
END_TEST

START_TEST(b15_synchronising_one_stream_proves_nothing_of_another)
{
	struct two t = freed_on_a(0);
	rules(t.pool, 0, 0, 0);
	set(t.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX);
	ok(cuMemFreeAsync(alloc(t.pool, MIB, t.b), t.b));
	ok(cuStreamSynchronize(t.b));
	ck_assert_uint_ne(alloc(t.pool, STEP, t.b), t.freed);
}
END_TEST

START_TEST(b16_trim_keeps_at_least_what_it_is_told)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool();
	CUstream s = new_stream();
	CUdeviceptr p[3];
	set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX);
	for (int i = 0; i < 3; i++)
		p[i] = alloc(pool, STEP, s);
	for (int i = 0; i < 3; i++)
		ok(cuMemFreeAsync(p[i], s));
	ok(cuStreamSynchronize(s));
	ok(cuMemPoolTrimTo(pool, 4 * STEP));
	ck_assert_uint_eq(reserved(pool), 3 * STEP);
	ok(cuMemPoolTrimTo(pool, STEP + 1));
	ck_assert_uint_eq(reserved(pool), 2 * STEP);
	ok(cuMemPoolTrimTo(pool, 0));
	ck_assert_uint_eq(reserved(pool), 0);
}
END_TEST

START_TEST(b17_trim_releases_after_the_host_has_seen_the_free)
{
	struct two t = freed_on_a(0);
	set(t.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX);
	ok(cuMemPoolTrimTo(t.pool, 0));
	ck_assert_uint_eq(reserved(t.pool), STEP);
	fake_cuda_step(t.a, 2);
	ok(cuMemPoolTrimTo(t.pool, 0));
	ck_assert_uint_eq(reserved(t.pool), FAKE_TRIM_RELEASES_UNOBSERVED ? 0 : STEP);
	ok(cuStreamSynchronize(t.a));
	ok(cuMemPoolTrimTo(t.pool, 0));
	ck_assert_uint_eq(reserved(t.pool), 0);
}
END_TEST

START_TEST(b18_a_segment_with_a_live_block_stays_whole)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool();
	CUstream s = new_stream();
	CUdeviceptr small = alloc(pool, 1, s);
	ok(cuMemFreeAsync(alloc(pool, STEP / 2, s), s));
	ok(cuStreamSynchronize(s));
	ck_assert_uint_eq(reserved(pool), STEP);
	ok(cuMemFreeAsync(small, s));
	ok(cuStreamSynchronize(s));
	ck_assert_uint_eq(reserved(pool), 0);
}
END_TEST

START_TEST(b19_b20_marks_are_reset_by_zero_only)
{
	struct two t = freed_on_a(0);
	uint64_t zero = 0, one = 1;
	ck_assert_uint_eq(used(t.pool), FAKE_USED_FALLS_AT_CALL ? 0 : STEP);
	ck_assert_uint_eq(attribute(t.pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), STEP);
	no(cuMemPoolSetAttribute(t.pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &one), CUDA_ERROR_INVALID_VALUE);
	no(cuMemPoolSetAttribute(t.pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &one), CUDA_ERROR_INVALID_VALUE);
	no(cuMemPoolSetAttribute(t.pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &zero), CUDA_ERROR_INVALID_VALUE);
	no(cuMemPoolSetAttribute(t.pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &zero),
	   CUDA_ERROR_INVALID_VALUE);
	ok(cuStreamSynchronize(t.a));
	set(t.pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0);
	set(t.pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0);
	ck_assert_uint_eq(attribute(t.pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 0);
	ck_assert_uint_eq(attribute(t.pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 0);
}
END_TEST

START_TEST(b21_growth_past_the_maximum_fails_and_reuse_does_not)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool_of(STEP, 0);
	CUstream s = new_stream();
	CUdeviceptr p = alloc(pool, STEP, s), q;
	no(cuMemAllocFromPoolAsync(&q, 1, pool, s), CUDA_ERROR_OUT_OF_MEMORY);
	ok(cuMemFreeAsync(p, s));
	ck_assert_uint_eq(alloc(pool, STEP, s), p);
}
END_TEST

START_TEST(b22_a_pool_destroyed_with_live_blocks_ends_with_the_last_free)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool();
	CUstream s = new_stream();
	CUdeviceptr p = alloc(pool, MIB, s);
	ok(cuMemPoolDestroy(pool));
	no(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
	found(FAKE_FOUND_STALE_HANDLE, 1);
	ck_assert_uint_eq(fake_cuda_device_taken(0), STEP);
	ok(cuMemFreeAsync(p, s));
	ck_assert_uint_eq(fake_cuda_device_taken(0), STEP);
	ok(cuStreamSynchronize(s));
	ck_assert_uint_eq(fake_cuda_device_taken(0), 0);
	CUmemoryPool own;
	ok(cuDeviceGetDefaultMemPool(&own, 0));
	no(cuMemPoolDestroy(own), FAKE_DESTROY_DEFAULT_POOL);
}
END_TEST

START_TEST(b23_destroying_the_current_pool_makes_the_default_one_current)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool(), other = new_pool_of(0, 1), now, own;
	ok(cuDeviceSetMemPool(0, pool));
	no(cuDeviceSetMemPool(0, other), CUDA_ERROR_INVALID_VALUE);
	ok(cuDeviceGetMemPool(&now, 0));
	ck_assert_ptr_eq(now, pool);
	CUdeviceptr p;
	ok(cuMemAllocAsync(&p, 512, NULL));
	ck_assert_uint_eq(used(pool), 512);
	ok(cuMemFreeAsync(p, NULL));
	ok(cuMemPoolDestroy(pool));
	ok(cuDeviceGetMemPool(&now, 0));
	ok(cuDeviceGetDefaultMemPool(&own, 0));
	ck_assert_ptr_eq(now, own);
}
END_TEST

START_TEST(b24_cuMemFree_of_pool_memory_is_immediate)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool();
	CUstream s = new_stream(), t = new_stream();
	CUdeviceptr p = alloc(pool, STEP, s);
	fake_cuda_step(s, 1);
	ok(cuMemFree_v2(p));
	ck_assert_uint_eq(used(pool), 0);
	rules(pool, 0, 0, 0);
	ck_assert_uint_eq(alloc(pool, STEP, t), p);
	found_nothing();
}
END_TEST

START_TEST(used_counts_what_was_asked_for)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool();
	CUstream s = new_stream();
	CUdeviceptr a = alloc(pool, 1000, s), b = alloc(pool, 1, s);
	uint64_t one = FAKE_USED_IS_ROUNDED ? 512 : 1, both = FAKE_USED_IS_ROUNDED ? 1536 : 1001;
	ck_assert_uint_eq(used(pool), both);
	ck_assert_uint_eq(b - a, 1024);
	ok(cuMemFreeAsync(a, s));
	ck_assert_uint_eq(used(pool), FAKE_USED_FALLS_AT_CALL ? one : both);
	ok(cuStreamSynchronize(s));
	ck_assert_uint_eq(used(pool), one);
	ck_assert_uint_eq(reserved(pool), STEP);
}
END_TEST

START_TEST(sizes_and_pointers_that_are_none)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool();
	CUstream s = new_stream();
	CUdeviceptr p;
	no(cuMemAllocFromPoolAsync(&p, 0, pool, s), FAKE_ASYNC_SIZE_0);
	no(cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE);
	no(cuMemFreeAsync(0, s), FAKE_FREE_ASYNC_NULL);
	no(cuMemFree_v2(0), FAKE_FREE_NULL);
	no(cuMemAllocFromPoolAsync(&p, SIZE_MAX, pool, s), CUDA_ERROR_OUT_OF_MEMORY);
	no(cuMemAllocFromPoolAsync(&p, (size_t)1 << 60, pool, s), CUDA_ERROR_OUT_OF_MEMORY);
}
END_TEST

START_TEST(a_large_request_is_rounded_to_a_step)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool();
	alloc(pool, STEP + 1, new_stream());
	ck_assert_uint_eq(reserved(pool), 2 * STEP);
}
END_TEST

START_TEST(the_device_can_be_full)
{
	start(FAKE_STEPPED);
	fake_cuda_device_memory(0, 2 * STEP);
	CUmemoryPool pool = new_pool();
	CUstream s = new_stream();
	CUdeviceptr p = alloc(pool, 2 * STEP, s), q;
	size_t free_bytes, total;
	ok(cuMemGetInfo_v2(&free_bytes, &total));
	ck_assert_uint_eq(free_bytes, 0);
	ck_assert_uint_eq(total, 2 * STEP);
	no(cuMemAllocFromPoolAsync(&q, 1, pool, s), CUDA_ERROR_OUT_OF_MEMORY);
	no(cuMemAlloc_v2(&q, 1), CUDA_ERROR_OUT_OF_MEMORY);
	ok(cuMemFreeAsync(p, s));
	ok(cuStreamSynchronize(s));
	ok(cuMemAlloc_v2(&q, 1));
	ok(cuMemFree_v2(q));
}
END_TEST

START_TEST(the_legacy_stream_implies_dependencies_that_are_followed)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool();
	CUstream a, b = new_stream();
	ok(cuStreamCreate(&a, CU_STREAM_DEFAULT));
	rules(pool, 1, 0, 0);
	CUdeviceptr p = alloc(pool, STEP, a);
	ok(cuMemFreeAsync(p, a));
	ck_assert_uint_ne(alloc(pool, STEP, b), p);
	ck_assert_uint_eq(alloc(pool, STEP, NULL), p);
}
END_TEST

UNIT_MAIN("fake_driver_pool", b1_same_stream_reuses_at_once, b2_a_pending_free_elsewhere_is_not_reused,
	  b3_follows_an_event_recorded_after_the_free, b4_an_event_recorded_before_the_free_proves_nothing,
	  b5_event_chains_are_followed, b6_with_follow_off_a_waited_event_is_not_enough,
	  b7_an_executed_free_is_reused_by_any_stream, b8_with_opportunistic_off_only_after_a_synchronisation,
	  b9_when_growing_fails_a_wait_is_inserted, b10_without_internal_dependencies_it_is_out_of_memory,
	  b11_no_wait_is_inserted_while_growing_is_possible,
	  b12_a_free_on_another_stream_is_not_the_allocating_streams,
	  b13_release_happens_only_at_a_synchronisation, b13_events_and_contexts_release_as_well,
	  a_query_releases_or_not_as_the_constant_says, b14_a_high_threshold_keeps_everything,
	  the_threshold_is_not_undercut, b15_synchronising_one_stream_proves_nothing_of_another,
	  b16_trim_keeps_at_least_what_it_is_told, b17_trim_releases_after_the_host_has_seen_the_free,
	  b18_a_segment_with_a_live_block_stays_whole, b19_b20_marks_are_reset_by_zero_only,
	  b21_growth_past_the_maximum_fails_and_reuse_does_not,
	  b22_a_pool_destroyed_with_live_blocks_ends_with_the_last_free,
	  b23_destroying_the_current_pool_makes_the_default_one_current,
	  b24_cuMemFree_of_pool_memory_is_immediate, used_counts_what_was_asked_for,
	  sizes_and_pointers_that_are_none, a_large_request_is_rounded_to_a_step, the_device_can_be_full,
	  the_legacy_stream_implies_dependencies_that_are_followed)
