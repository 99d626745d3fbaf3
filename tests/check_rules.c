/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model's edges: what is refused and leaves no trace, streams that are gone, exact
 * trims, counters, the segment source.
 */
#include "tests/model_fixture.h"
#include "tests/unit.h"

#include <string.h>

/* ---- what is refused leaves no trace --------------------------------------- */

struct picture {
	struct soma_model_stats stats;
	struct soma_extent extents[64];
	unsigned count;
};

static bool
draw(void *context, const struct soma_extent *extent)
{
	struct picture *picture = context;

	ck_assert_uint_lt(picture->count, 64);
	picture->extents[picture->count++] = *extent;
	return true;
}

static void
take_picture(const struct soma_model *m, struct picture *picture)
{
	memset(picture, 0, sizeof *picture);
	soma_model_stats(m, &picture->stats, sizeof picture->stats);
	soma_model_walk(m, draw, picture);
}

static void
assert_unchanged(const struct soma_model *m, const struct picture *before)
{
	struct picture now;

	take_picture(m, &now);
	ck_assert_mem_eq(&now.stats, &before->stats, sizeof now.stats);
	ck_assert_uint_eq(now.count, before->count);
	for (unsigned i = 0; i < now.count; i++) {
		ck_assert_uint_eq(now.extents[i].kind, before->extents[i].kind);
		ck_assert_uint_eq(now.extents[i].address, before->extents[i].address);
		ck_assert_uint_eq(now.extents[i].size, before->extents[i].size);
		ck_assert_uint_eq(now.extents[i].seq, before->extents[i].seq);
	}
}

START_TEST(a_bad_free_is_refused_and_changes_nothing)
{
	struct soma_model *m = model_of("cuda", 0);
	uint64_t s = stream_of(m);
	struct soma_model_alloc a = alloc(m, 2000, s), freed = alloc(m, 4096, s);
	struct picture before;

	release(m, freed, s);
	take_picture(m, &before);
	ck_invalid(soma_model_free(m, freed.ptr, s));
	ck_invalid(soma_model_free(m, a.ptr + 512, s));
	ck_invalid(soma_model_free(m, a.ptr + 1, s));
	ck_invalid(soma_model_free(m, a.ptr - 512, s));
	ck_invalid(soma_model_free(m, 0x1234, s));
	ck_invalid(soma_model_free(m, UINT64_MAX, s));
	ck_invalid(soma_model_free(m, a.ptr, 77));
	assert_unchanged(m, &before);
	ck_assert_uint_eq(submitted(m, s), 3);
	soma_model_destroy(m);
}
END_TEST

START_TEST(freeing_nothing_succeeds_and_takes_no_position)
{
	struct soma_model *m = model_of("strict", 0);
	uint64_t s = stream_of(m);

	ck_ok(soma_model_free(m, 0, s));
	ck_assert_uint_eq(submitted(m, s), 0);
	ck_assert_uint_eq(soma_model_free_count(m), 0);
	soma_model_destroy(m);
}
END_TEST

static void
check_failing_alloc(const char *preset)
{
	struct soma_model *m = model_of(preset, 3 * SEGMENT);
	uint64_t s = stream_of(m), t = stream_of(m);
	struct soma_model_alloc a = alloc(m, SEGMENT, s);
	struct picture before;

	alloc(m, SEGMENT, s);
	release(m, a, t);
	take_picture(m, &before);
	ck_assert_int_eq(try_alloc(m, 3 * SEGMENT, t), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	ck_assert_int_eq(try_alloc(m, SOMA_MODEL_ADDRESS_MAX + 1, t), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	ck_assert_int_eq(try_alloc(m, UINT64_MAX, t), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	ck_invalid(try_alloc(m, 0, t));
	ck_invalid(try_alloc(m, 512, 99));
	assert_unchanged(m, &before);
	ck_assert_uint_eq(submitted(m, t), 1);
	soma_model_destroy(m);
}

START_TEST(an_alloc_that_fails_changes_nothing)
{
	check_failing_alloc("strict");
	check_failing_alloc("cuda");
	check_failing_alloc("pytorch");
	check_failing_alloc("soma");
}
END_TEST

START_TEST(an_outcome_is_written_only_on_success)
{
	struct soma_model *m = model_of("strict", SEGMENT);
	struct soma_model_alloc a = { .ptr = 1, .ready_seq = 2 };
	uint64_t stream = 3, seq = 4;
	struct soma_model_position position = { 5, 6 };

	ck_assert_int_eq(soma_model_alloc(m, 2 * SEGMENT, 0, &a), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	ck_invalid(soma_model_alloc(m, 0, 0, &a));
	ck_invalid(soma_model_stream_create(m, 2, &stream));
	ck_invalid(soma_model_record_event(m, 99, &seq));
	ck_invalid(soma_model_position(m, 99, &position));
	ck_assert_uint_eq(a.ptr, 1);
	ck_assert_uint_eq(a.ready_seq, 2);
	ck_assert_uint_eq(stream, 3);
	ck_assert_uint_eq(seq, 4);
	ck_assert_uint_eq(position.submitted, 5);
	soma_model_destroy(m);
}
END_TEST

START_TEST(out_of_memory_says_how_much_was_asked_held_left_and_allowed)
{
	struct soma_model *m = model_of("cuda", 2 * SEGMENT + 1000);
	const struct soma_error *e;

	alloc(m, SEGMENT, 0);
	ck_assert_int_eq(try_alloc(m, 2 * SEGMENT - 100, 0), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	e = soma_error_last();
	ck_assert_int_eq(e->status, SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	ck_assert_uint_eq(e->requested, 2 * SEGMENT - 100);
	ck_assert_uint_eq(e->current, SEGMENT);
	ck_assert_uint_eq(e->remaining, SEGMENT + 1000);
	ck_assert_uint_eq(e->limit, 2 * SEGMENT + 1000);
	ck_assert_uint_gt(strlen(e->text), 10);
	soma_model_destroy(m);
}
END_TEST

/* ---- streams --------------------------------------------------------------- */

START_TEST(a_destroyed_stream_refuses_work_and_stays_until_it_has_nothing_pending)
{
	struct soma_model *m = model_of("cuda", 0);
	uint64_t s = stream_of(m), seq, next;
	struct soma_model_alloc a = alloc(m, 512, s), b = alloc(m, 512, s);

	release(m, a, s);
	ck_ok(soma_model_stream_destroy(m, s));
	ck_invalid(try_alloc(m, 512, s));
	ck_invalid(soma_model_free(m, b.ptr, s));
	ck_invalid(soma_model_record_event(m, s, &seq));
	ck_invalid(soma_model_wait_event(m, s, 0, 0));
	ck_invalid(soma_model_stream_destroy(m, s));
	ck_assert_uint_eq(soma_model_pending_free_count(m), 1);
	ck_assert_uint_eq(submitted(m, s), 3);
	next = stream_of(m);
	ck_assert_uint_eq(next, s + 1);
	ck_ok(soma_model_synchronize(m, s));
	ck_assert_uint_eq(soma_model_pending_free_count(m), 0);
	ck_invalid(soma_model_synchronize(m, s));
	ck_ok(soma_model_wait_event(m, next, s, 3)); /* of a stream that is gone */
	ck_assert_uint_eq(stream_of(m), s + (1 << 20));
	release(m, b, next);
	soma_model_destroy(m);
}
END_TEST

START_TEST(stream_ids_are_never_used_twice)
{
	struct soma_model *m = model_of("strict", 0);

	for (uint64_t i = 0; i < 5; i++) {
		uint64_t s = stream_of(m);

		ck_assert_uint_eq(s, 1 + (i << 20));
		ck_ok(soma_model_stream_destroy(m, s));
	}
	ck_invalid(soma_model_stream_destroy(m, 0));
	ck_invalid(soma_model_stream_destroy(m, 1));
	soma_model_destroy(m);
}
END_TEST

START_TEST(a_block_of_a_stream_that_is_gone_is_ready)
{
	struct soma_model *m = model_of("strict", 0);
	uint64_t s = stream_of(m);
	struct soma_model_alloc a = alloc(m, 512, s);

	ck_ok(soma_model_stream_destroy(m, s));
	ck_assert(!soma_model_is_ready_same_stream(m, &a));
	ck_ok(soma_model_synchronize_all(m));
	ck_assert(soma_model_is_ready_same_stream(m, &a));
	ck_assert(soma_model_is_live(m, a.ptr));
	soma_model_destroy(m);
}
END_TEST

/* ---- sizes, counters, trims ------------------------------------------------ */

START_TEST(used_counts_what_was_asked_for_and_capacity_what_is_held)
{
	struct soma_model *m = model_of("strict", 0);
	struct soma_model_alloc a = alloc(m, 1, 0), b = alloc(m, 513, 0);

	ck_assert_uint_eq(a.capacity, 512);
	ck_assert_uint_eq(b.capacity, 1024);
	ck_assert_uint_eq(b.ptr, a.ptr + 512);
	ck_assert_uint_eq(a.ptr, SOMA_MODEL_BASE_DEFAULT);
	ck_assert_uint_eq(soma_model_used(m), 514);
	ck_assert_uint_eq(soma_model_capacity(m), 1536);
	ck_assert_uint_eq(soma_model_active(m), 1536);
	ck_assert_uint_eq(soma_model_reserved(m), 1536);
	release(m, b, 0);
	ck_assert_uint_eq(soma_model_used(m), 1);
	ck_assert_uint_eq(soma_model_capacity(m), 512);
	ck_assert_uint_eq(soma_model_active(m), 1536);
	ck_ok(soma_model_synchronize(m, 0));
	ck_assert_uint_eq(soma_model_active(m), 512);
	ck_assert_uint_eq(soma_model_used_high(m), 514);
	ck_assert_uint_eq(soma_model_peak_active(m), 1536);
	ck_assert_uint_eq(soma_model_live_count(m), 1);
	ck_assert_uint_eq(soma_model_alloc_count(m), 2);
	ck_assert_uint_eq(soma_model_free_count(m), 1);
	soma_model_destroy(m);
}
END_TEST

START_TEST(only_the_start_of_a_live_block_is_live)
{
	struct soma_model *m = model_of("strict", 0);
	struct soma_model_alloc a = alloc(m, 2000, 0);

	ck_assert(soma_model_is_live(m, a.ptr));
	ck_assert(!soma_model_is_live(m, a.ptr + 1));
	ck_assert(!soma_model_is_live(m, a.ptr + 512));
	ck_assert(!soma_model_is_live(m, a.ptr - 512));
	ck_assert(!soma_model_is_live(m, 0));
	ck_assert(!soma_model_is_live(m, UINT64_MAX));
	release(m, a, 0);
	ck_assert(!soma_model_is_live(m, a.ptr));
	soma_model_destroy(m);
}
END_TEST

START_TEST(a_range_is_trimmed_to_the_granule_above_what_is_kept)
{
	struct soma_model *m = model_of("strict", 0);
	struct soma_model_alloc a = alloc(m, 10 * KIB, 0);

	alloc(m, 512, 0);
	release(m, a, 0);
	ck_ok(soma_model_synchronize(m, 0));
	ck_ok(soma_model_trim_to(m, 5000));
	ck_assert_uint_eq(soma_model_reserved(m), 5120);
	ck_assert_uint_eq(soma_model_segments_released(m), 1);
	ck_assert_uint_eq(soma_model_segment_count(m), 1);
	/* The hole is at the end of the freed block and is grown into again. */
	ck_assert_uint_eq(alloc(m, 5 * KIB, 0).ptr, a.ptr + 10 * KIB - 5632);
	ck_assert_uint_eq(soma_model_reserved(m), 10240);
	soma_model_destroy(m);
}
END_TEST

START_TEST(segments_are_trimmed_largest_first_without_overshooting)
{
	struct soma_model *m = model_of("cuda", 0);
	struct soma_model_alloc a[3];

	for (unsigned i = 0; i < 3; i++)
		a[i] = alloc(m, (i + 1) * SEGMENT, 0);
	for (unsigned i = 0; i < 3; i++)
		release(m, a[i], 0);
	ck_ok(soma_model_synchronize(m, 0));
	ck_ok(soma_model_trim_to(m, 3 * SEGMENT + 1));
	ck_assert_uint_eq(soma_model_reserved(m), 4 * SEGMENT);
	ck_assert_uint_eq(soma_model_segments_released(m), 1);
	ck_ok(soma_model_trim_to(m, SEGMENT));
	ck_assert_uint_eq(soma_model_reserved(m), SEGMENT);
	soma_model_destroy(m);
}
END_TEST

START_TEST(a_threshold_takes_effect_at_the_next_synchronisation)
{
	struct soma_model *m = model_of("cuda", 0);

	release(m, alloc(m, SEGMENT, 0), 0);
	ck_ok(soma_model_synchronize(m, 0));
	soma_model_set_release_threshold(m, 0);
	ck_assert_uint_eq(soma_model_reserved(m), SEGMENT);
	ck_ok(soma_model_synchronize_all(m));
	ck_assert_uint_eq(soma_model_reserved(m), 0);
	ck_assert_uint_eq(soma_model_reserved_high(m), SEGMENT);
	soma_model_destroy(m);
}
END_TEST

/* ---- segments from outside -------------------------------------------------- */

struct shelf_of_one {
	uint64_t address;
	uint64_t acquired;
	uint64_t released;
	enum soma_status answer;
};

static enum soma_status
lend(void *context, uint64_t stream, uint64_t size, uint64_t *address)
{
	struct shelf_of_one *shelf = context;

	(void)stream;
	shelf->acquired += size;
	*address = shelf->address;
	return shelf->answer;
}

static void
take_back(void *context, uint64_t address, uint64_t size)
{
	struct shelf_of_one *shelf = context;

	ck_assert_uint_eq(address, shelf->address);
	shelf->released += size;
}

static struct soma_model *
model_on(struct shelf_of_one *shelf)
{
	struct soma_segment_source source = {
		.size = sizeof source, .context = shelf, .acquire = lend, .release = take_back
	};
	struct soma_model_limits limits = {
		.size = sizeof limits,
		.policy = soma_policy_preset("cuda"),
		.segments = &source,
	};
	struct soma_model *m = NULL;

	ck_ok(soma_model_create(&limits, &m));
	return m;
}

START_TEST(a_source_gives_whole_segments_and_gets_them_back)
{
	struct shelf_of_one shelf = { .address = 512 * MIB };
	struct soma_model *m = model_on(&shelf);

	ck_assert_uint_eq(alloc(m, 1000, 0).ptr, 512 * MIB);
	ck_assert_uint_eq(shelf.acquired, SEGMENT);
	ck_ok(soma_model_free(m, 512 * MIB, 0));
	ck_assert_uint_eq(shelf.released, 0);
	ck_ok(soma_model_synchronize(m, 0));
	ck_assert_uint_eq(shelf.released, SEGMENT);
	alloc(m, 2 * SEGMENT, 0);
	soma_model_destroy(m);
	ck_assert_uint_eq(shelf.acquired, 3 * SEGMENT);
	ck_assert_uint_eq(shelf.released, 3 * SEGMENT);
}
END_TEST

START_TEST(what_a_source_answers_is_the_error)
{
	struct shelf_of_one shelf = { .answer = SOMA_STATUS_DRIVER };
	struct soma_model *m = model_on(&shelf);

	ck_assert_int_eq(try_alloc(m, 512, 0), SOMA_STATUS_DRIVER);
	ck_assert_int_eq(soma_error_last()->status, SOMA_STATUS_DRIVER);
	ck_assert_uint_eq(soma_model_reserved(m), 0);
	soma_model_destroy(m);
	ck_assert_uint_eq(shelf.released, 0);
}
END_TEST

START_TEST(an_address_that_a_source_must_not_give_is_given_back)
{
	struct shelf_of_one shelf = { .address = 512 * MIB + 1 };
	struct soma_model *m = model_on(&shelf);

	ck_invalid(try_alloc(m, 512, 0));
	ck_assert_uint_eq(shelf.released, SEGMENT);
	ck_assert_uint_eq(soma_model_reserved(m), 0);
	soma_model_destroy(m);
	ck_assert_uint_eq(shelf.released, SEGMENT);
}
END_TEST

START_TEST(a_state_can_be_adopted_and_run_on)
{
	struct soma_model *m = model_of("pytorch", 0);
	uint64_t at = SOMA_MODEL_BASE_DEFAULT + 64 * MIB;

	ck_ok(soma_model_adopt_segment(m, 0, 0, at, 2 * MIB));
	ck_invalid(soma_model_adopt_segment(m, 0, 0, at + MIB, 2 * MIB)); /* overlaps */
	ck_invalid(soma_model_adopt_segment(m, 0, 2, at + 8 * MIB, 2 * MIB));
	ck_ok(soma_model_adopt_block(m, at + 512, 1000, 1024));
	ck_invalid(soma_model_adopt_block(m, at + 1024, 512, 512));
	ck_assert(soma_model_is_live(m, at + 512));
	ck_assert_uint_eq(soma_model_used(m), 1000);
	ck_assert_uint_eq(submitted(m, 0), 0);
	ck_assert_uint_eq(alloc(m, 512, 0).ptr, at);
	ck_assert_uint_eq(alloc(m, 512, 0).ptr, at + 1536);
	ck_assert_int_eq(soma_model_release_segment(m, at + 512), SOMA_STATUS_NOT_FOUND);
	ck_invalid(soma_model_release_segment(m, at));
	ck_ok(soma_model_free(m, at, 0));
	ck_ok(soma_model_free(m, at + 512, 0));
	ck_ok(soma_model_free(m, at + 1536, 0));
	ck_ok(soma_model_release_segment(m, at));
	ck_assert_uint_eq(soma_model_reserved(m), 0);
	soma_model_destroy(m);
}
END_TEST

static bool
stop_after_three(void *context, const struct soma_extent *extent)
{
	unsigned *count = context;

	(void)extent;
	return ++*count < 3;
}

START_TEST(a_walk_goes_by_address_and_stops_when_told)
{
	struct soma_model *m = model_of("cuda", 0);
	struct picture picture;
	unsigned count = 0;

	release(m, alloc(m, SEGMENT, 0), 0);
	alloc(m, 3 * MIB, 0);
	alloc(m, 2 * SEGMENT, 0);
	take_picture(m, &picture);
	ck_assert_uint_eq(picture.count, 5);
	ck_assert_int_eq(picture.extents[0].kind, SOMA_EXTENT_SEGMENT);
	ck_assert_int_eq(picture.extents[1].kind, SOMA_EXTENT_LIVE);
	ck_assert_uint_eq(picture.extents[1].requested, 3 * MIB);
	ck_assert_int_eq(picture.extents[2].kind, SOMA_EXTENT_PENDING);
	ck_assert_uint_eq(picture.extents[2].seq, 1);
	ck_assert(picture.extents[2].stranded);
	ck_assert_int_eq(picture.extents[3].kind, SOMA_EXTENT_SEGMENT);
	ck_assert_uint_eq(picture.extents[3].size, 2 * SEGMENT);
	for (unsigned i = 2; i < 5; i++)
		ck_assert_uint_ge(picture.extents[i].address, picture.extents[i - 1].address);
	soma_model_walk(m, stop_after_three, &count);
	ck_assert_uint_eq(count, 3);
	soma_model_destroy(m);
}
END_TEST

UNIT_MAIN("rules", a_bad_free_is_refused_and_changes_nothing, freeing_nothing_succeeds_and_takes_no_position,
	  an_alloc_that_fails_changes_nothing, an_outcome_is_written_only_on_success,
	  out_of_memory_says_how_much_was_asked_held_left_and_allowed,
	  a_destroyed_stream_refuses_work_and_stays_until_it_has_nothing_pending,
	  stream_ids_are_never_used_twice, a_block_of_a_stream_that_is_gone_is_ready,
	  used_counts_what_was_asked_for_and_capacity_what_is_held, only_the_start_of_a_live_block_is_live,
	  a_range_is_trimmed_to_the_granule_above_what_is_kept,
	  segments_are_trimmed_largest_first_without_overshooting,
	  a_threshold_takes_effect_at_the_next_synchronisation,
	  a_source_gives_whole_segments_and_gets_them_back, what_a_source_answers_is_the_error,
	  an_address_that_a_source_must_not_give_is_given_back, a_state_can_be_adopted_and_run_on,
	  a_walk_goes_by_address_and_stops_when_told)
