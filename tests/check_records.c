/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model's records: none is used that was not reserved, a failed call leaves none
 * behind, and trees stay shallow whatever the keys.  Looks inside the model.
 */
#include <soma/model.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/model/state.h"
#include "lib/model/tree.h"
#include "tests/unit.h"

#include "config.h" /* the last: what the model includes must do without */

#define BLOCKS 2000

static struct soma_model *
created(const struct soma_policy *policy, uint64_t max)
{
	struct soma_model_limits limits = { .size = sizeof limits, .policy = policy, .max_pool_size = max };
	struct soma_model *model;

	ck_assert_int_eq(soma_model_create(&limits, &model), SOMA_STATUS_OK);
	return model;
}

static void
expect_reserved(const struct soma_model *model)
{
	const struct soma__slab *slabs[] = { &model->blocks, &model->index.nodes, &model->index.trees,
					     &model->segment_slab, &model->holes.nodes };

	for (size_t i = 0; i < sizeof slabs / sizeof slabs[0]; i++)
		ck_assert_msg(slabs[i]->fresh <= slabs[i]->capacity || slabs[i]->capacity == 0,
			      "slab %zu: record %u of %u was handed out", i, slabs[i]->fresh,
			      slabs[i]->capacity);
}

/* Streams take records of the trees that frees count on. */
START_TEST(streams_created_between_frees_take_no_record_that_a_free_counts_on)
{
	for (int streams = 1; streams < 1100; streams += 7) {
		struct soma_model *model = created(soma_policy_preset("pytorch"), 0);
		struct soma_model_alloc a[BLOCKS];
		uint64_t stream;

		for (int i = 0; i < BLOCKS; i++)
			soma_model_alloc(model, 512, 0, &a[i]);
		for (int i = 0; i < streams; i++)
			soma_model_stream_create(model, SOMA_STREAM_NON_BLOCKING, &stream);
		for (int i = 0; i < BLOCKS; i += 2) {
			ck_assert_int_eq(soma_model_free(model, a[i].ptr, 0), SOMA_STATUS_OK);
			expect_reserved(model);
		}
		soma_model_destroy(model);
	}
}
END_TEST

/* So do the holes that a release makes. */
START_TEST(released_ranges_take_no_record_that_a_free_counts_on)
{
	for (int n = 100; n < BLOCKS / 2; n += 37) {
		struct soma_policy policy = *soma_policy_preset("cuda");
		struct soma_model_alloc a[2 * BLOCKS];
		struct soma_model *model;
		uint64_t first, second, third, seq;

		policy.segments = SOMA_SEGMENTS_RANGE;
		policy.batch = 0;
		model = created(&policy, 0);
		soma_model_stream_create(model, SOMA_STREAM_NON_BLOCKING, &first);
		soma_model_stream_create(model, SOMA_STREAM_NON_BLOCKING, &second);
		soma_model_stream_create(model, SOMA_STREAM_NON_BLOCKING, &third);
		for (int i = 0; i < 4 * n; i++)
			soma_model_alloc(model, 512, first, &a[i]);
		soma_model_record_event(model, first, &seq);
		soma_model_wait_event(model, second, first, seq);
		for (int i = 0; i < 2 * n; i += 2)
			soma_model_free(model, a[i].ptr, third);
		soma_model_synchronize(model, third);
		for (int i = 2 * n; i < 4 * n; i += 2) {
			ck_assert_int_eq(soma_model_free(model, a[i].ptr, first), SOMA_STATUS_OK);
			expect_reserved(model);
		}
		soma_model_destroy(model);
	}
}
END_TEST

/* What frees without a node need is kept for them as long as they are there, and no longer. */
START_TEST(no_record_is_kept_for_frees_that_are_done)
{
	static const char *const policies[] = { "strict", "cuda", "pytorch", "soma" };

	for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
		struct soma_model *model = created(soma_policy_preset(policies[i]), 0);
		struct soma_model_alloc a[BLOCKS];

		for (int j = 0; j < BLOCKS; j++)
			ck_assert_int_eq(soma_model_alloc(model, 512, 0, &a[j]), SOMA_STATUS_OK);
		for (int j = 0; j < BLOCKS; j++)
			if (j % 3 != 0)
				ck_assert_int_eq(soma_model_free(model, a[j].ptr, 0), SOMA_STATUS_OK);
		ck_assert_uint_le(soma__unfiled(model), BLOCKS);
		ck_assert_int_eq(soma_model_synchronize(model, 0), SOMA_STATUS_OK);
		ck_assert_uint_eq(soma__unfiled(model), 0);
		soma_model_destroy(model);
	}
}
END_TEST

START_TEST(segments_too_large_for_any_address_are_refused)
{
	struct soma_policy policy = *soma_policy_preset("cuda");
	struct soma_model_limits limits = { .size = sizeof limits, .policy = &policy };
	struct soma_model_alloc alloc;
	struct soma_model *model;

	policy.pools[0].segment_step = (uint64_t)1 << 50;
	ck_assert_int_eq(soma_model_create(&limits, &model), SOMA_STATUS_INVALID_VALUE);
	policy.pools[0].segment_step = (uint64_t)1 << 48;
	model = created(&policy, 0);
	ck_assert_int_eq(soma_model_alloc(model, 512, 0, &alloc), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	soma_model_destroy(model);
}
END_TEST

/* A free on a blocking stream joins the legacy stream's order; one that failed has not. */
START_TEST(a_free_that_fails_joins_no_order)
{
	unsigned long failed = 0;

	for (unsigned long nth = 1; nth < 40; nth++) {
		struct soma_model *model = created(soma_policy_preset("cuda"), 0);
		struct soma_model_alloc a, b;
		uint64_t stream, seq;

		soma_model_stream_create(model, SOMA_STREAM_BLOCKING, &stream);
		soma_model_alloc(model, 1 << 20, stream, &a);
		soma_model_alloc(model, 512, 0, &b);
		soma__arena_fail_nth(nth);
		if (soma_model_free(model, a.ptr, stream) != SOMA_STATUS_OK) {
			failed++;
			soma__arena_fail_nth(0);
			/* The event has to wait for the legacy stream: one position more. */
			ck_assert_int_eq(soma_model_record_event(model, stream, &seq), SOMA_STATUS_OK);
			ck_assert_uint_eq(seq, 2);
		}
		soma__arena_fail_nth(0);
		soma_model_destroy(model);
	}
	ck_assert_uint_gt(failed, 0);
}
END_TEST

/* At its maximum `cuda` releases what is idle and may then insert a wait: when the records
 * for that cannot be had, nothing is released either. */
START_TEST(an_allocation_out_of_records_releases_nothing)
{
	unsigned long failed = 0;

	for (unsigned long nth = 1; nth < 40; nth++) {
		struct soma_model *model = created(soma_policy_preset("cuda"), (uint64_t)96 << 20);
		struct soma_model_alloc idle, pending, wanted;
		uint64_t first, second;

		soma_model_stream_create(model, SOMA_STREAM_NON_BLOCKING, &first);
		soma_model_stream_create(model, SOMA_STREAM_NON_BLOCKING, &second);
		soma_model_set_release_threshold(model, UINT64_MAX);
		ck_assert_int_eq(soma_model_alloc(model, 32 << 20, second, &idle), SOMA_STATUS_OK);
		ck_assert_int_eq(soma_model_alloc(model, 64 << 20, first, &pending), SOMA_STATUS_OK);
		soma_model_free(model, idle.ptr, second);
		soma_model_synchronize(model, second);
		soma_model_free(model, pending.ptr, first);
		soma__arena_fail_nth(nth);
		if (soma_model_alloc(model, 64 << 20, second, &wanted) == SOMA_STATUS_OUT_OF_HOST_MEMORY) {
			failed++;
			ck_assert_uint_eq(soma_model_segments_released(model), 0);
		} else {
			ck_assert_uint_eq(wanted.wait_stream, first);
		}
		soma__arena_fail_nth(0);
		soma_model_destroy(model);
	}
	ck_assert_uint_gt(failed, 0);
}
END_TEST

/* Does a process that takes so many blocks' records come to its end? */
static bool
can_be_taken(struct soma__slab *slab, uint32_t count)
{
	pid_t child = fork();
	int how;

	ck_assert_int_ge(child, 0);
	if (child == 0) {
		while (count-- > 0)
			soma__slab_take(slab, sizeof(struct soma__block), SOMA__NAME_UNIT);
		_exit(EXIT_SUCCESS);
	}
	ck_assert_int_eq(waitpid(child, &how, 0), child);
	return how == 0;
}

/* Nor does a synchronisation under `strict`, whose holes need records of their own. */
START_TEST(a_synchronisation_out_of_records_releases_nothing)
{
	unsigned long failed = 0;

	for (unsigned long nth = 1; nth < 10; nth++) {
		struct soma_model *model = created(soma_policy_preset("strict"), 0);
		struct soma_model_alloc a[BLOCKS];

		for (int i = 0; i < BLOCKS; i++)
			soma_model_alloc(model, 512, 0, &a[i]);
		for (int i = 0; i < BLOCKS; i += 2)
			ck_assert_int_eq(soma_model_free(model, a[i].ptr, 0), SOMA_STATUS_OK);
		soma__arena_fail_nth(nth);
		if (soma_model_synchronize(model, 0) != SOMA_STATUS_OK) {
			failed++;
			soma__arena_fail_nth(0);
			ck_assert_uint_eq(soma_model_pending_free_count(model), BLOCKS / 2);
			ck_assert_uint_eq(soma_model_reserved(model), BLOCKS * 512);
			ck_assert_int_eq(soma_model_synchronize(model, 0), SOMA_STATUS_OK);
		}
		soma__arena_fail_nth(0);
		expect_reserved(model);
		ck_assert_uint_eq(soma_model_pending_free_count(model), 0);
		ck_assert_uint_eq(soma_model_segments_released(model), BLOCKS / 2);
		ck_assert_uint_eq(soma_model_reserved(model), BLOCKS / 2 * 512);
		soma_model_destroy(model);
	}
	ck_assert_uint_gt(failed, 0);
}
END_TEST

/* The next record's memory may well be there: a sanitizer would see nothing. */
START_TEST(under_sanitizers_no_record_can_be_taken_that_was_not_reserved)
{
	struct soma_model *model = created(NULL, 0);
	uint32_t spare = soma__slab_spare(&model->blocks);

	ck_assert(can_be_taken(&model->blocks, spare));
#ifdef SOMA_SANITIZERS
	ck_assert(!can_be_taken(&model->blocks, spare + 1));
#endif
	soma_model_destroy(model);
}
END_TEST

/* ---- trees ---- */

static uint32_t
depth(const struct soma__slab *slab, uint32_t root)
{
	uint32_t left, right;

	if (root == 0)
		return 0;
	left = depth(slab, soma__tree_at(slab, root)->child[0]);
	right = depth(slab, soma__tree_at(slab, root)->child[1]);
	ck_assert_msg(left <= right + 1 && right <= left + 1, "sides of depth %u and %u", left, right);
	return 1 + (left > right ? left : right);
}

static void
put(struct soma__slab *slab, uint32_t *root, uint64_t key, uint64_t value)
{
	uint32_t node = soma__tree_take(slab);

	*soma__tree_at(slab, node) = (struct soma__tree_node){ .minor = key, .value = value };
	soma__tree_insert(slab, root, node);
}

START_TEST(trees_are_shallow_whatever_the_order_of_keys)
{
	struct soma__arena *arena;
	struct soma__slab slab;
	uint32_t root = 0;

	ck_assert_int_eq(soma__arena_create(&arena), SOMA_STATUS_OK);
	soma__slab_init(&slab, sizeof(struct soma__tree_node), 1 << 20);
	ck_assert(soma__slab_reserve(&slab, arena, 20000));
	for (uint64_t key = 1; key <= 10000; key++)
		put(&slab, &root, key, 0);
	ck_assert_uint_le(depth(&slab, root), 14);
	for (uint64_t key = 10000; key > 9000; key--)
		soma__tree_give(&slab, soma__tree_remove(&slab, &root, 0, key));
	for (uint64_t key = 30000; key > 20000; key--)
		put(&slab, &root, key, 0);
	ck_assert_uint_le(depth(&slab, root), 18);
	soma__arena_destroy(arena);
}
END_TEST

#define KEYS 64

/* The first key from `from` on whose value is below the limit, by looking at all. */
static uint64_t
first_below(const uint64_t *value, uint64_t from, uint64_t limit)
{
	for (uint64_t key = from; key < KEYS; key++)
		if (value[key] < limit)
			return key;
	return 0;
}

START_TEST(a_tree_finds_what_looking_at_all_nodes_finds)
{
	uint64_t value[KEYS], state = 88172645463325252u;
	struct soma__arena *arena;
	struct soma__slab slab;
	uint32_t root = 0;

	memset(value, 0xff, sizeof value); /* not there */
	ck_assert_int_eq(soma__arena_create(&arena), SOMA_STATUS_OK);
	soma__slab_init(&slab, sizeof(struct soma__tree_node), 1 << 20);
	ck_assert(soma__slab_reserve(&slab, arena, KEYS + 1));
	for (int i = 0; i < 200000; i++) {
		uint64_t key, limit, expected;
		uint32_t found;

		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		key = 2 + (state >> 20) % (KEYS - 2);
		if (value[key] == UINT64_MAX) {
			value[key] = (state >> 40) % 100;
			put(&slab, &root, key, value[key]);
		} else if ((state >> 60) % 4 == 0 && value[key - 1] == UINT64_MAX) {
			value[key - 1] = (state >> 40) % 100;
			value[key] = UINT64_MAX;
			soma__tree_change(&slab, &root, 0, key, key - 1, value[key - 1]);
		} else {
			value[key] = UINT64_MAX;
			soma__tree_give(&slab, soma__tree_remove(&slab, &root, 0, key));
		}
		key = 1 + (state >> 32) % (KEYS - 1);
		limit = (state >> 50) % 100;
		expected = first_below(value, key, limit);
		found = soma__tree_at_least_below(&slab, root, 0, key, limit);
		ck_assert_uint_eq(found != 0 ? soma__tree_at(&slab, found)->minor : 0, expected);
	}
	depth(&slab, root);
	soma__arena_destroy(arena);
}
END_TEST

/* ---- structs that say their size ---- */

START_TEST(a_larger_struct_is_accepted_if_the_rest_is_zero)
{
	struct {
		struct soma_model_limits known;
		uint64_t later;
	} limits = { .known = { .size = sizeof limits } };
	struct soma_model *model;

	ck_assert_int_eq(soma_model_create(&limits.known, &model), SOMA_STATUS_OK);
	soma_model_destroy(model);
	limits.later = 1;
	ck_assert_int_eq(soma_model_create(&limits.known, &model), SOMA_STATUS_INVALID_VALUE);
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "limits"));
	limits.known.size = sizeof limits.known - 1;
	ck_assert_int_eq(soma_model_create(&limits.known, &model), SOMA_STATUS_INVALID_VALUE);
}
END_TEST

START_TEST(outputs_are_written_only_as_far_as_the_caller_knows_them)
{
	struct soma_model *model = created(NULL, 0);
	struct soma_model_stats stats;
	struct soma_model_alloc alloc;

	memset(&stats, 0x5a, sizeof stats);
	soma_model_alloc(model, 1000, 0, &alloc);
	soma_model_stats(model, &stats, sizeof stats.reserved);
	ck_assert_uint_eq(stats.reserved, 1024);
	ck_assert_uint_eq(stats.reserved_high, UINT64_C(0x5a5a5a5a5a5a5a5a));
	soma_model_destroy(model);
}
END_TEST

UNIT_MAIN("records", streams_created_between_frees_take_no_record_that_a_free_counts_on,
	  released_ranges_take_no_record_that_a_free_counts_on, no_record_is_kept_for_frees_that_are_done,
	  segments_too_large_for_any_address_are_refused, a_free_that_fails_joins_no_order,
	  an_allocation_out_of_records_releases_nothing, a_synchronisation_out_of_records_releases_nothing,
	  under_sanitizers_no_record_can_be_taken_that_was_not_reserved,
	  trees_are_shallow_whatever_the_order_of_keys, a_tree_finds_what_looking_at_all_nodes_finds,
	  a_larger_struct_is_accepted_if_the_rest_is_zero,
	  outputs_are_written_only_as_far_as_the_caller_knows_them)
