/* SPDX-License-Identifier: Apache-2.0 */
/* Freed blocks that wait to be filed: whom they serve until then, and that nobody else
 * notices them.  Looks inside for what takes billions of frees. */
#include <soma/model.h>
#include <stdlib.h>

#include "lib/model/state.h"
#include "tests/random.h"
#include "tests/unit.h"

#define KIB ((uint64_t)1 << 10)
#define SEGMENT ((uint64_t)32 << 20) /* what the policy cuda grows by */

static struct soma_model *
created(unsigned batch, uint64_t above)
{
	struct soma_policy policy = *soma_policy_preset("cuda");
	struct soma_model_limits limits = { .size = sizeof limits,
					    .policy = &policy,
					    .release_threshold = UINT64_MAX };
	struct soma_model *model;

	policy.batch = batch;
	policy.batch_above = above;
	ck_assert_int_eq(soma_model_create(&limits, &model), SOMA_STATUS_OK);
	return model;
}

static uint64_t
stream_of(struct soma_model *model)
{
	uint64_t stream;

	ck_assert_int_eq(soma_model_stream_create(model, SOMA_STREAM_NON_BLOCKING, &stream), SOMA_STATUS_OK);
	return stream;
}

static uint64_t
taken(struct soma_model *model, uint64_t size, uint64_t stream)
{
	struct soma_model_alloc alloc;

	ck_assert_int_eq(soma_model_alloc(model, size, stream, &alloc), SOMA_STATUS_OK);
	ck_assert_uint_eq(alloc.size, size);
	return alloc.ptr;
}

static void
given(struct soma_model *model, uint64_t ptr, uint64_t stream)
{
	ck_assert_int_eq(soma_model_free(model, ptr, stream), SOMA_STATUS_OK);
}

/* Its neighbours are free, too, and it is joined with neither. */
START_TEST(a_block_freed_lately_serves_a_request_of_its_size_as_it_is)
{
	struct soma_model *model = created(4, 100);
	uint64_t s = stream_of(model);
	uint64_t a = taken(model, 4 * KIB, s), b = taken(model, 8 * KIB, s), c = taken(model, 16 * KIB, s);

	given(model, a, s);
	given(model, b, s);
	given(model, c, s);
	ck_assert_uint_eq(soma_model_pending_free_count(model), 3);
	ck_assert_uint_eq(taken(model, 8 * KIB - 100, s), b);
	ck_assert_uint_eq(taken(model, 16 * KIB, s), c);
	ck_assert_uint_eq(taken(model, 4 * KIB, s), a);
	ck_assert_uint_eq(soma_model_pending_free_count(model), 0);
	ck_assert_uint_eq(soma_model_used(model), 28 * KIB - 100);
	soma_model_destroy(model);
}
END_TEST

START_TEST(of_two_blocks_of_a_size_the_one_freed_last_serves_first)
{
	struct soma_model *model = created(4, 100);
	uint64_t s = stream_of(model);
	uint64_t a = taken(model, 4 * KIB, s), b = taken(model, 4 * KIB, s);

	given(model, b, s);
	given(model, a, s);
	ck_assert_uint_eq(taken(model, 4 * KIB, s), a);
	ck_assert_uint_eq(taken(model, 4 * KIB, s), b);
	soma_model_destroy(model);
}
END_TEST

START_TEST(what_another_stream_freed_is_not_served_from_the_queue)
{
	struct soma_model *model = created(4, 100);
	uint64_t s = stream_of(model), other = stream_of(model);
	uint64_t a = taken(model, 4 * KIB, s);

	given(model, a, s);
	ck_assert_uint_ne(taken(model, 4 * KIB, other), a);
	ck_assert_uint_eq(taken(model, 4 * KIB, s), a);
	soma_model_destroy(model);
}
END_TEST

START_TEST(a_freed_block_is_not_live_while_it_waits)
{
	struct soma_model *model = created(4, 100);
	uint64_t s = stream_of(model), a = taken(model, 4 * KIB, s);

	given(model, a, s);
	ck_assert(!soma_model_is_live(model, a));
	ck_assert_int_eq(soma_model_free(model, a, s), SOMA_STATUS_INVALID_VALUE);
	ck_assert_uint_eq(taken(model, 4 * KIB, s), a);
	ck_assert(soma_model_is_live(model, a));
	soma_model_destroy(model);
}
END_TEST

/* A request that nothing else serves joins what waits. */
START_TEST(waiting_blocks_are_joined_before_memory_grows)
{
	struct soma_model *model = created(64, 100);
	uint64_t s = stream_of(model), reserved, first, blocks[64];

	for (int i = 0; i < 64; i++)
		blocks[i] = taken(model, 1024 * KIB, s);
	first = blocks[0];
	reserved = soma_model_reserved(model);
	for (int i = 0; i < 64; i++)
		given(model, blocks[i], s);
	ck_assert_uint_eq(soma_model_pending_free_count(model), 64);
	ck_assert_uint_eq(taken(model, 32 * 1024 * KIB, s), first);
	ck_assert_uint_eq(soma_model_reserved(model), reserved);
	soma_model_destroy(model);
}
END_TEST

START_TEST(twice_a_batch_is_the_most_that_waits)
{
	struct soma_model *model = created(4, 100);
	uint64_t s = stream_of(model), blocks[8];

	for (int i = 0; i < 8; i++)
		blocks[i] = taken(model, 4 * KIB, s);
	for (int i = 0; i < 8; i++)
		given(model, blocks[i], s);
	/* The oldest four are one block by now. */
	ck_assert_uint_eq(soma_model_pending_free_count(model), 5);
	ck_assert_uint_eq(taken(model, 16 * KIB, s), blocks[0]);
	soma_model_destroy(model);
}
END_TEST

/* So what is not asked for again is filed in time, however often the others serve. */
START_TEST(a_block_that_serves_leaves_its_place_empty)
{
	struct soma_model *model = created(4, 100);
	uint64_t s = stream_of(model), a = taken(model, 8 * KIB, s), b = taken(model, 4 * KIB, s);
	uint64_t c = taken(model, 2 * KIB, s);

	given(model, a, s);
	for (int i = 0; i < 6; i++) {
		given(model, b, s);
		ck_assert_uint_eq(taken(model, 4 * KIB, s), b);
	}
	ck_assert_uint_eq(soma_model_pending_free_count(model), 1);
	ck_assert_uint_eq(soma_model_free_block_count(model), 1);
	/* The eighth place: the oldest four go, a among them, and b and c wait. */
	given(model, c, s);
	given(model, b, s);
	ck_assert_uint_eq(soma_model_pending_free_count(model), 3);
	ck_assert_uint_eq(taken(model, 1 * KIB, s), a);
	ck_assert_uint_eq(taken(model, 2 * KIB, s), c);
	ck_assert_uint_eq(taken(model, 4 * KIB, s), b);
	soma_model_destroy(model);
}
END_TEST

/* A batch is due at a free whose neighbours in the queue serve again by then. */
START_TEST(what_was_filed_is_not_found_by_its_size_any_more)
{
	struct soma_model *model = created(1, 100);
	uint64_t s = stream_of(model), a = taken(model, 4 * KIB, s), b = taken(model, 4 * KIB, s);

	given(model, a, s);
	given(model, b, s); /* files a */
	ck_assert_uint_eq(taken(model, 4 * KIB, s), b);
	ck_assert_uint_eq(taken(model, 4 * KIB, s), a);
	ck_assert_uint_eq(taken(model, 4 * KIB, s), b + 4 * KIB);
	soma_model_destroy(model);
}
END_TEST

/* Above batch_above: a free's records are fetched first. */
START_TEST(with_many_live_the_latest_eight_do_not_serve_yet)
{
	struct soma_model *model = created(32, 20);
	uint64_t s = stream_of(model), blocks[64];

	for (int i = 0; i < 64; i++)
		blocks[i] = taken(model, (uint64_t)(i + 1) * KIB, s);
	for (int i = 0; i < 8; i++)
		given(model, blocks[2 * i], s);
	ck_assert_uint_ne(taken(model, 1 * KIB, s), blocks[0]);
	given(model, blocks[16], s);
	ck_assert_uint_eq(taken(model, 1 * KIB, s), blocks[0]);
	ck_assert_uint_ne(taken(model, 3 * KIB, s), blocks[2]);
	soma_model_destroy(model);
}
END_TEST

/* The counters are right while accounts of queued frees are not settled. */
START_TEST(counters_do_not_lag_behind)
{
	struct soma_model *model = created(32, 20);
	uint64_t s = stream_of(model), blocks[64], used = 0;

	for (int i = 0; i < 64; i++) {
		blocks[i] = taken(model, (uint64_t)(i + 1) * KIB - 7, s);
		used += (uint64_t)(i + 1) * KIB - 7;
	}
	for (int i = 0; i < 64; i++) {
		given(model, blocks[i], s);
		used -= (uint64_t)(i + 1) * KIB - 7;
		ck_assert_uint_eq(soma_model_used(model), used);
		ck_assert_uint_eq(soma_model_live_count(model), (uint64_t)(63 - i));
	}
	ck_assert_uint_eq(soma_model_used_high(model), 64 * 65 / 2 * KIB - 64 * 7);
	soma_model_destroy(model);
}
END_TEST

/* An entry is found by hash, and many share one; the lookup's links move as records do. */
START_TEST(many_sizes_and_streams_find_their_own)
{
	struct soma_model *model = created(SOMA_POLICY_BATCH_MAX, UINT64_MAX);
	uint64_t streams[8];
	static uint64_t blocks[8][200];

	for (int i = 0; i < 8; i++)
		streams[i] = stream_of(model);
	for (int i = 0; i < 8; i++)
		for (int j = 0; j < 200; j++)
			blocks[i][j] = taken(model, (uint64_t)(j + 1) * KIB, streams[i]);
	for (int j = 0; j < 200; j++)
		for (int i = 0; i < 8; i++)
			given(model, blocks[i][j], streams[i]);
	for (int i = 0; i < 8; i++)
		for (int j = 199; j >= 0; j--)
			ck_assert_uint_eq(taken(model, (uint64_t)(j + 1) * KIB, streams[i]), blocks[i][j]);
	soma_model_destroy(model);
}
END_TEST

/* A free may be what the tables of records grow at. */
START_TEST(a_free_at_which_the_records_move_marks_its_own_block)
{
	static uint64_t blocks[20000];

	for (unsigned phase = 0; phase < 24; phase++) {
		struct soma_model *model = created(1, 1000000);
		uint64_t s = stream_of(model), state = phase + 1;
		size_t live = 0;

		for (unsigned i = 0; i < phase; i++)
			taken(model, KIB, s);
		while (live < 19998) {
			size_t at;

			blocks[live++] = taken(model, KIB, s);
			blocks[live++] = taken(model, 2 * KIB, s);
			state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
			at = (size_t)(state >> 33) % live;
			given(model, blocks[at], s);
			ck_assert(!soma_model_is_live(model, blocks[at]));
			blocks[at] = blocks[--live];
		}
		soma_model_destroy(model);
	}
}
END_TEST

/* As if that many frees had come and gone. */
static void
begin_at(struct soma_model *model, uint32_t number)
{
	struct soma__queue *queue = &model->queue;

	queue->oldest = queue->next = queue->offered = queue->settled = number;
}

static void
expect_same_stats(const struct soma_model *a, const struct soma_model *b)
{
	struct soma_model_stats stats[2];

	soma_model_stats(a, &stats[0], sizeof stats[0]);
	soma_model_stats(b, &stats[1], sizeof stats[1]);
	ck_assert_mem_eq(&stats[0], &stats[1], sizeof stats[0]);
}

/* The same frees and allocations of a few sizes in two models: the same blocks. */
static void
expect_same_blocks(struct soma_model *a, struct soma_model *b, uint64_t state)
{
	uint64_t streams[2], live[40], count = 0;

	for (int i = 0; i < 2; i++) {
		streams[i] = stream_of(a);
		ck_assert_uint_eq(stream_of(b), streams[i]);
	}
	for (int i = 0; i < 400; i++) {
		uint64_t stream = streams[random_next(&state) % 2], r = random_next(&state);

		if (count < 40 && (count == 0 || r % 2 == 0)) {
			live[count] = taken(a, (1 + r / 2 % 5) * KIB, stream);
			ck_assert_uint_eq(taken(b, (1 + r / 2 % 5) * KIB, stream), live[count]);
			count++;
		} else {
			uint64_t *freed = &live[r / 2 % count];

			given(a, *freed, stream);
			given(b, *freed, stream);
			*freed = live[--count];
		}
		expect_same_stats(a, b);
	}
}

/* With all offered at once, with some held back, and with both in turn. */
START_TEST(the_numbers_of_frees_go_round)
{
	static const uint64_t above[] = { 0, 15, UINT64_MAX };
	static const unsigned batches[] = { 1, 3, 8, 50 };

	for (uint32_t before = 0; before < 240; before++) {
		unsigned batch = batches[before / 3 % 4];
		struct soma_model *usual = created(batch, above[before % 3]);
		struct soma_model *late = created(batch, above[before % 3]);

		begin_at(late, UINT32_MAX - before / 2);
		expect_same_blocks(usual, late, before);
		ck_assert_uint_lt(late->queue.next, 1000);
		soma_model_destroy(usual);
		soma_model_destroy(late);
	}
}
END_TEST

/* One free block of `size`, pending, is all that is not live. */
static uint64_t
filed(struct soma_model *model, uint64_t size, uint64_t stream)
{
	uint64_t ptr = taken(model, size, stream);

	given(model, ptr, stream);
	ck_assert_int_eq(soma_model_trim_to(model, UINT64_MAX), SOMA_STATUS_OK);
	ck_assert_uint_eq(soma_model_pending_free_count(model), 1);
	return ptr;
}

/* What is taken from one block and given back in turn leaves no trace. */
START_TEST(what_was_taken_from_the_open_block_last_joins_it_at_once)
{
	struct soma_model *model = created(4, 100);
	uint64_t s = stream_of(model), base = filed(model, SEGMENT, s), blocks[5];

	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < 5; i++) {
			blocks[i] = taken(model, (i + round + 1) * KIB, s);
			ck_assert_uint_eq(blocks[i], i == 0 ? base : blocks[i - 1] + (i + round) * KIB);
		}
		for (unsigned i = 5; i-- > 0;) {
			given(model, blocks[i], s);
			ck_assert_uint_eq(soma_model_pending_free_count(model), 1);
			ck_assert(!soma_model_is_live(model, blocks[i]));
		}
	}
	ck_assert_uint_eq(taken(model, SEGMENT, s), base);
	ck_assert_uint_eq(soma_model_reserved(model), SEGMENT);
	soma_model_destroy(model);
}
END_TEST

/* And the whole is the open block then. */
START_TEST(what_joins_the_open_block_joins_its_other_neighbour_too)
{
	struct soma_model *model = created(4, 100);
	uint64_t s = stream_of(model), base = filed(model, SEGMENT, s);
	uint64_t a = taken(model, KIB, s), b = taken(model, 2 * KIB, s);

	given(model, a, s);
	ck_assert_int_eq(soma_model_trim_to(model, UINT64_MAX), SOMA_STATUS_OK);
	ck_assert_uint_eq(soma_model_pending_free_count(model), 2);
	given(model, b, s);
	ck_assert_uint_eq(soma_model_pending_free_count(model), 1);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(taken(model, SEGMENT - KIB, s), base);
		given(model, base, s);
		ck_assert_uint_eq(soma_model_pending_free_count(model), 1);
	}
	soma_model_destroy(model);
}
END_TEST

/* Each of these keeps a block in the queue, where it serves a request of its size as it is. */
START_TEST(a_block_before_the_open_one_waits_where_others_do)
{
	struct soma_model *model = created(4, 100);
	uint64_t s = stream_of(model), a, b;

	filed(model, SEGMENT, s);
	a = taken(model, KIB, s);
	b = taken(model, 2 * KIB, s);
	given(model, a, s);
	given(model, b, s);
	ck_assert_uint_eq(soma_model_pending_free_count(model), 3);
	ck_assert_uint_eq(taken(model, KIB, s), a);
	soma_model_destroy(model);
}
END_TEST

START_TEST(a_block_before_the_open_one_of_another_stream_waits)
{
	struct soma_model *model = created(4, 100);
	uint64_t s = stream_of(model), other = stream_of(model), a;

	filed(model, SEGMENT, s);
	a = taken(model, KIB, s);
	given(model, a, other);
	ck_assert_uint_eq(soma_model_pending_free_count(model), 2);
	ck_assert_uint_eq(taken(model, KIB, other), a);
	soma_model_destroy(model);
}
END_TEST

/* The event proves the free of the open block, and nothing later. */
START_TEST(a_block_waits_where_an_event_keeps_it_from_the_open_one)
{
	struct soma_model *model = created(4, 100);
	uint64_t s = stream_of(model), other = stream_of(model), base = filed(model, SEGMENT, s), seq, a;

	a = taken(model, KIB, s);
	ck_assert_int_eq(soma_model_record_event(model, s, &seq), SOMA_STATUS_OK);
	given(model, a, s);
	ck_assert_uint_eq(soma_model_pending_free_count(model), 2);
	ck_assert_int_eq(soma_model_wait_event(model, other, s, seq), SOMA_STATUS_OK);
	ck_assert_uint_eq(taken(model, KIB, other), base + KIB);
	soma_model_destroy(model);
}
END_TEST

/* The position of what joined last counts for the whole. */
START_TEST(an_event_before_the_last_free_does_not_prove_the_open_block)
{
	struct soma_model *model = created(4, 100);
	uint64_t s = stream_of(model), other = stream_of(model), seq, a;

	filed(model, SEGMENT, s);
	ck_assert_int_eq(soma_model_wait_event(model, other, s, 2), SOMA_STATUS_OK); /* it is followed now */
	a = taken(model, KIB, s);
	seq = 3; /* after that allocation */
	given(model, a, s);
	ck_assert_uint_eq(soma_model_pending_free_count(model), 1);
	ck_assert_int_eq(soma_model_wait_event(model, other, s, seq), SOMA_STATUS_OK);
	taken(model, KIB, other);
	ck_assert_uint_eq(soma_model_reserved(model), 2 * SEGMENT);
	soma_model_destroy(model);
}
END_TEST

START_TEST(with_many_live_a_block_before_the_open_one_waits)
{
	struct soma_model *model = created(4, 1);
	uint64_t s = stream_of(model), a;

	filed(model, SEGMENT, s);
	taken(model, KIB, s);
	taken(model, KIB, s);
	a = taken(model, KIB, s);
	given(model, a, s);
	ck_assert_uint_eq(soma_model_pending_free_count(model), 2);
	soma_model_destroy(model);
}
END_TEST

UNIT_MAIN("queue", a_block_freed_lately_serves_a_request_of_its_size_as_it_is,
	  of_two_blocks_of_a_size_the_one_freed_last_serves_first,
	  what_another_stream_freed_is_not_served_from_the_queue, a_freed_block_is_not_live_while_it_waits,
	  waiting_blocks_are_joined_before_memory_grows, twice_a_batch_is_the_most_that_waits,
	  a_block_that_serves_leaves_its_place_empty, what_was_filed_is_not_found_by_its_size_any_more,
	  with_many_live_the_latest_eight_do_not_serve_yet, counters_do_not_lag_behind,
	  many_sizes_and_streams_find_their_own, a_free_at_which_the_records_move_marks_its_own_block,
	  the_numbers_of_frees_go_round, what_was_taken_from_the_open_block_last_joins_it_at_once,
	  what_joins_the_open_block_joins_its_other_neighbour_too,
	  a_block_before_the_open_one_waits_where_others_do,
	  a_block_before_the_open_one_of_another_stream_waits,
	  a_block_waits_where_an_event_keeps_it_from_the_open_one,
	  an_event_before_the_last_free_does_not_prove_the_open_block,
	  with_many_live_a_block_before_the_open_one_waits)
