/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The twin of a pool over a backend that says what it is told to say: that agreement is no divergence, that a
 * difference of each figure is one, and what is told of it.  tests/check_twin_cuda.c has the stand-in driver,
 * tests/check_twin_faults.c what fails.
 */
#include <soma/log.h>

#include "lib/pool/twin.h"
#include "tests/replay_fixture.h"
#include "tests/twin_fixture.h"

/* ---- making ------------------------------------------------------------------------------- */

static void
refused(uint64_t capabilities, struct soma_pool_config config, const char *why)
{
	struct soma_pool *pool = NULL;

	config.size = sizeof config;
	config.twin = true;
	fake = fake_create(capabilities, &resource);
	ck_is(soma_pool_create(&config, resource, &pool), NOT_SUPPORTED);
	has(soma_error_last()->text, why);
	ck_assert_ptr_null(pool);
	soma_resource_release(resource);
	fake_destroy(fake);
}

START_TEST(a_twin_needs_a_backend_with_a_pool_that_places_the_blocks)
{
	struct soma_pool *pool;
	const struct soma_pool_config alone = { .size = sizeof alone, .twin = true };

	ck_is(soma_pool_create(&alone, NULL, &pool), NOT_SUPPORTED);
	refused(FAKE_ORDERED, (struct soma_pool_config){ .placement = SOMA_PLACEMENT_BACKEND },
		"such as async");
	refused(CAN | SOMA_BACKEND_GUARD, (struct soma_pool_config){ 0 }, "guard");
	refused(CAN, (struct soma_pool_config){ .placement = SOMA_PLACEMENT_POOL },
		"placement=backend was expected");
	refused(CAN, (struct soma_pool_config){ .max_size = SEGMENT }, "maximum");
	refused(CAN,
		(struct soma_pool_config){ .initial_size = SEGMENT, .placement = SOMA_PLACEMENT_BACKEND },
		"initial size");
}
END_TEST

START_TEST(a_twin_needs_the_backends_pool_for_itself)
{
	const struct soma_pool_config config = { .size = sizeof config, TWIN };
	struct soma_pool *pool;

	fake = fake_create(CAN, &resource);
	a = new_stream(resource);
	struct soma_block block = allocate(resource, 1000, a);
	ck_is(soma_pool_create(&config, resource, &pool), NOT_SUPPORTED);
	has(soma_error_last()->text, "1000 bytes in use");
	deallocate(resource, &block);
	ck_ok(soma_pool_create(&config, resource, &p)); /* what is reserved only goes by trimming */
	ck_assert_uint_eq(fake->reserved, 0);
	ck_assert_uint_eq(fake->used_high, 0);
	close_fake();
}
END_TEST

START_TEST(the_model_has_the_backends_attributes)
{
	const struct soma_pool_config config = { .size = sizeof config, TWIN, .release_threshold = 7 };

	fake = fake_create(CAN, &resource);
	fake->attributes[SOMA_BACKEND_RELEASE_THRESHOLD] = 5 * SEGMENT;
	fake->attributes[SOMA_BACKEND_REUSE_ALLOW_OPPORTUNISTIC] = 1;
	ck_ok(soma_pool_create(&config, resource, &p));
	ck_assert_uint_eq(attribute(p, SOMA_POOL_RELEASE_THRESHOLD), 5 * SEGMENT);
	ck_assert_uint_eq(attribute(p, SOMA_POOL_REUSE_ALLOW_OPPORTUNISTIC), 1);
	ck_assert_uint_eq(attribute(p, SOMA_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES), 0);
	ck_assert_uint_eq(attribute(p, SOMA_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES), 0);

	ck_ok(soma_pool_set_attribute(p, SOMA_POOL_RELEASE_THRESHOLD, 9));
	ck_ok(soma_pool_set_attribute(p, SOMA_POOL_REUSE_ALLOW_OPPORTUNISTIC, 0));
	ck_assert_uint_eq(fake->attributes[SOMA_BACKEND_RELEASE_THRESHOLD], 9);
	ck_assert_uint_eq(fake->attributes[SOMA_BACKEND_REUSE_ALLOW_OPPORTUNISTIC], 0);
	fake->fail_with[FAKE_POOL_SET] = SOMA_STATUS_DRIVER;
	ck_is(soma_pool_set_attribute(p, SOMA_POOL_RELEASE_THRESHOLD, 10), DRIVER);
	ck_is(soma_pool_set_attribute(p, SOMA_POOL_REUSE_ALLOW_OPPORTUNISTIC, 1), DRIVER);
	ck_assert_uint_eq(attribute(p, SOMA_POOL_RELEASE_THRESHOLD), 9);
	ck_assert_uint_eq(attribute(p, SOMA_POOL_REUSE_ALLOW_OPPORTUNISTIC), 0);
	fake->fail_with[FAKE_POOL_SET] = SOMA_STATUS_OK;
	close_fake();
}
END_TEST

START_TEST(a_pool_without_a_twin_says_so_and_a_report_has_its_size)
{
	struct soma_twin_report r = { .size = sizeof r };

	open_fake(CAN, BACKEND);
	ck_is(soma_pool_twin(p, &r), NOT_SUPPORTED);
	ck_ok(soma_pool_synchronize(p, a));
	ck_assert_uint_eq(fake_count(fake, FAKE_POOL_GET), 0);
	close_fake();
	open_twin((struct soma_pool_config){ TWIN });
	r.size = 8;
	ck_is(soma_pool_twin(p, &r), INVALID_VALUE);
	close_fake();
}
END_TEST

/* ---- agreement ------------------------------------------------------------------------------ */

START_TEST(each_synchronisation_and_trim_compares_and_agreement_is_no_divergence)
{
	open_twin((struct soma_pool_config){ TWIN });
	struct soma_allocation *x = alloc(p, 1000, a), *y = alloc(p, 3000, b);
	ck_ok(soma_pool_synchronize(p, a));
	order_after(p, b, a);
	drop(x, b);
	ck_ok(soma_pool_synchronize(p, b));
	ck_ok(soma_pool_free_now(y));
	ck_ok(soma_allocation_release(y));
	ck_ok(soma_pool_trim(p, 0));
	expect_agreement(3);
	ck_assert_uint_eq(report().operations, 9); /* of them one record and one wait */
	ck_assert_uint_eq(report().disturbed, 0);
	close_fake();
}
END_TEST

START_TEST(peaks_begin_anew_in_both)
{
	open_twin((struct soma_pool_config){ TWIN });
	drop(alloc(p, SEGMENT + 1, a), a);
	ck_ok(soma_pool_synchronize(p, a));
	ck_ok(soma_pool_trim(p, 0));
	soma_pool_reset_peaks(p);
	ck_assert_uint_eq(fake->used_high, 0);
	struct soma_allocation *x = alloc(p, 100, a);
	ck_ok(soma_pool_synchronize(p, a));
	ck_ok(soma_pool_set_attribute(p, SOMA_POOL_USED_HIGH, 0));
	ck_ok(soma_pool_set_attribute(p, SOMA_POOL_RESERVED_HIGH, 0));
	ck_assert_uint_eq(fake->reserved_high, SEGMENT);
	drop(x, a);
	ck_ok(soma_pool_synchronize(p, a));
	expect_agreement(4);
	close_fake();
}
END_TEST

START_TEST(what_the_backend_refuses_and_what_the_model_cannot_take_are_counted_as_such)
{
	open_twin((struct soma_pool_config){ TWIN });
	drop(alloc(p, 1000, a), a);
	fake->fail_with[FAKE_ALLOC] = SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
	ck_is(try_alloc(p, 5000, a), OUT_OF_DEVICE_MEMORY);
	fake->fail_with[FAKE_ALLOC] = SOMA_STATUS_OK;
	ck_assert_uint_eq(report().disturbed, 1);
	ck_ok(soma_pool_synchronize(p, a));
	ck_assert_uint_eq(report().used_high.differences, 0);
	close_fake();
}
END_TEST

/* ---- divergence -------------------------------------------------------------------------------- */

static struct heard {
	unsigned count;
	char text[512];
} heard;

static void
hear(void *context, enum soma_log_level level, const char *text)
{
	(void)context;
	ck_assert_int_eq(level, SOMA_LOG_WARNING);
	heard.count++;
	snprintf(heard.text, sizeof heard.text, "%s", text);
}

static const struct {
	enum soma_pool_attribute attribute;
	const char *name;
} figures[] = {
	{ SOMA_POOL_USED_CURRENT, "USED is" },
	{ SOMA_POOL_USED_HIGH, "the highest USED is" },
	{ SOMA_POOL_RESERVED_CURRENT, "RESERVED is" },
	{ SOMA_POOL_RESERVED_HIGH, "the highest RESERVED is" },
};

static const struct soma_twin_figure *
figure_of(const struct soma_twin_report *r, unsigned i)
{
	const struct soma_twin_figure *all[] = { &r->used, &r->used_high, &r->reserved, &r->reserved_high };

	return all[i];
}

static void
provoke(unsigned i, int64_t lie)
{
	open_twin((struct soma_pool_config){ TWIN });
	soma_log_set_sink(hear, NULL, SOMA_LOG_WARNING);
	heard = (struct heard){ 0 };
	struct soma_allocation *x = alloc(p, 4096, a);
	ck_ok(soma_pool_synchronize(p, a));
	expect_agreement(1);
	fake->lies[figures[i].attribute] = lie;
	ck_ok(soma_pool_synchronize(p, a));
	fake->lies[figures[i].attribute] = 3 * lie;
	ck_ok(soma_pool_synchronize(p, b));
	fake->lies[figures[i].attribute] = 0;
	ck_ok(soma_pool_trim(p, 0));

	struct soma_twin_report r = report();
	const struct soma_twin_divergence *d = i < 2 ? &r.used_divergence : &r.reserved_divergence;
	uint64_t right = i < 2 ? 4096 : SEGMENT;
	ck_assert(r.used_divergence.happened == (i < 2));
	ck_assert(r.reserved_divergence.happened == (i >= 2));
	ck_assert_int_eq(d->figure, figures[i].attribute);
	ck_assert_uint_eq(d->model, right);
	ck_assert_uint_eq(d->driver, right + (uint64_t)lie);
	ck_assert_uint_eq(d->comparison, 2);
	ck_assert_uint_eq(d->operation, 3);
	has(d->text, figures[i].name);
	ck_assert_uint_eq(heard.count, 1);
	has(heard.text, d->text);
	for (unsigned k = 0; k < 4; k++)
		ck_assert_uint_eq(figure_of(&r, k)->differences, k == i ? 2 : 0);
	ck_assert_uint_eq(figure_of(&r, i)->first, 2);
	ck_assert_uint_eq(figure_of(&r, i)->largest, 3 * (uint64_t)(lie < 0 ? -lie : lie));
	soma_log_set_sink(NULL, NULL, SOMA_LOG_ERROR);
	drop(x, a);
	close_fake();
}

START_TEST(a_difference_of_each_figure_is_found_and_told_once)
{
	for (unsigned i = 0; i < 4; i++) {
		provoke(i, 1);
		provoke(i, -1);
	}
}
END_TEST

START_TEST(a_difference_of_reserved_within_the_tolerance_is_counted_and_no_divergence)
{
	open_twin((struct soma_pool_config){ TWIN, .twin_reserved_tolerance = SEGMENT });
	fake->lies[SOMA_POOL_RESERVED_CURRENT] = (int64_t)SEGMENT;
	fake->lies[SOMA_POOL_RESERVED_HIGH] = (int64_t)SEGMENT;
	struct soma_allocation *x = alloc(p, 100, a);
	ck_ok(soma_pool_synchronize(p, a));
	struct soma_twin_report r = report();
	ck_assert(!r.reserved_divergence.happened);
	ck_assert_uint_eq(r.reserved.differences, 1);
	ck_assert_uint_eq(r.reserved_high.largest, SEGMENT);
	fake->lies[SOMA_POOL_RESERVED_HIGH]++;
	ck_ok(soma_pool_synchronize(p, a));
	ck_assert(report().reserved_divergence.happened);
	ck_assert_int_eq(report().reserved_divergence.figure, SOMA_POOL_RESERVED_HIGH);
	fake->lies[SOMA_POOL_USED_CURRENT] = 1; /* the tolerance is not for this one */
	ck_ok(soma_pool_synchronize(p, a));
	ck_assert(report().used_divergence.happened);
	drop(x, a);
	close_fake();
}
END_TEST

START_TEST(a_used_that_is_rounded_up_agrees_with_its_unit_and_is_recognised_without)
{
	for (int told = 0; told < 2; told++) {
		open_twin((struct soma_pool_config){ TWIN, .twin_used_unit = told ? 512 : 0 });
		fake->used_unit = 512;
		struct soma_allocation *x = alloc(p, 1000, a), *y = alloc(p, 1, a);
		drop(alloc(p, 513, a), a);
		ck_ok(soma_pool_synchronize(p, a));
		if (told)
			expect_agreement(1);
		else
			has(report().used_divergence.text, "rounded up to 512");
		drop(x, a), drop(y, a);
		ck_ok(soma_pool_synchronize(p, a));
		close_fake();
	}
	open_twin((struct soma_pool_config){ TWIN, .twin_used_unit = 512 });
	struct soma_allocation *x = alloc(p, 1000, a);
	ck_ok(soma_pool_synchronize(p, a));
	has(report().used_divergence.text, "sizes as requested");
	drop(x, a);
	close_fake();
}
END_TEST

START_TEST(a_used_that_falls_late_is_recognised)
{
	open_twin((struct soma_pool_config){ TWIN });
	struct soma_allocation *x = alloc(p, 1024, a);
	fake_work(fake_stream(resource, b), 1);
	ck_ok(soma_pool_free(x, b));
	fake->lies[SOMA_POOL_USED_CURRENT] = 1024;
	ck_ok(soma_pool_synchronize(p, a));
	has(report().used_divergence.text, "as much is freed and has not executed");
	ck_ok(soma_allocation_release(x));
	close_fake();
}
END_TEST

START_TEST(blocks_of_others_are_named_as_the_reason)
{
	open_twin((struct soma_pool_config){ TWIN });
	struct soma_block block = allocate(resource, 1234, a);
	ck_ok(soma_pool_synchronize(p, a));
	has(report().used_divergence.text, "1234 bytes of the resource's blocks are not this pool's");
	deallocate(resource, &block);
	close_fake();
}
END_TEST

START_TEST(a_backend_that_does_not_answer_is_no_divergence_and_no_failure)
{
	open_twin((struct soma_pool_config){ TWIN });
	fake->fail_with[FAKE_POOL_GET] = SOMA_STATUS_DRIVER;
	ck_ok(soma_pool_synchronize(p, a));
	fake->fail_with[FAKE_POOL_GET] = SOMA_STATUS_OK;
	ck_assert_uint_eq(report().skipped, 1);
	ck_assert_uint_eq(report().compared, 0);
	close_fake();
}
END_TEST

/* ---- the trace ------------------------------------------------------------------------------------ */

#define HELD 64

/* Many more operations than are remembered; all kinds of them. */
static void
play(struct soma_allocation **held, uint64_t *random, unsigned count)
{
	uint64_t streams[] = { a, b, 0 };

	for (unsigned i = 0; i < count; i++) {
		struct soma_allocation **x = &held[draw(random, HELD)];
		uint64_t stream = streams[draw(random, 3)];
		switch (*x == NULL ? 0 : draw(random, 4)) {
		case 0:
			if (*x == NULL)
				*x = alloc(p, 1 + draw(random, 100000), stream);
			break;
		case 1:
			order_after(p, stream, streams[draw(random, 3)]);
			break;
		case 2:
			drop(*x, stream);
			*x = NULL;
			break;
		default:
			ck_ok(draw(random, 8) == 0 ? soma_pool_trim(p, 0) : soma_pool_synchronize(p, stream));
			break;
		}
	}
}

static void
expect_replay(const char *trace)
{
	struct replayed replayed;
	char path[64];

	ck_assert_int_eq(strncmp(trace, TRACE_HEADER, strlen(TRACE_HEADER)), 0);
	write_lines(path, trace + strlen(TRACE_HEADER));
	struct replay_options options = options_for("cuda");
	options.complete = REPLAY_COMPLETE_SYNC;
	replay_file(&replayed, path, options);
	strcpy(replayed.path, path);
	ck_assert_msg(replayed.status == SOMA_STATUS_OK, "%s", replayed.error.text);
	ck_assert_uint_eq(replayed.result.counts.unknown_frees, 0);
	ck_assert_uint_eq(replayed.result.counts.overwritten, 0);
	ck_assert_uint_eq(replayed.result.counts.unknown_events, 0);
	ck_assert_uint_eq(replayed.result.counts.live_bytes, stats_of(p).used);
	replayed_end(&replayed);
}

START_TEST(the_operations_that_led_there_are_a_trace_that_ends_with_the_same_bytes)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct soma_allocation *held[HELD] = { 0 };
		uint64_t random = seed;
		open_twin((struct soma_pool_config){ TWIN, .twin_reserved_tolerance = UINT64_MAX });
		play(held, &random, seed % 4 == 0 ? 50 : 3000);
		ck_assert(!report().used_divergence.happened);
		fake->lies[SOMA_POOL_USED_CURRENT] = 1;
		ck_ok(soma_pool_synchronize(p, a));
		expect_replay(report().used_divergence.trace);
		const char *trace = report().used_divergence.trace;
		play(held, &random, 100); /* the first stays */
		ck_assert_ptr_eq(report().used_divergence.trace, trace);
		for (unsigned i = 0; i < HELD; i++)
			ck_ok(soma_allocation_release(held[i]));
		close_fake();
	}
}
END_TEST

START_TEST(more_live_blocks_than_a_trace_holds_are_told_by_their_number)
{
	unsigned count = SOMA__TWIN_BYSTANDERS + 10;
	struct soma_allocation **held = calloc(count, sizeof *held);

	open_twin((struct soma_pool_config){ TWIN, .twin_reserved_tolerance = UINT64_MAX });
	for (unsigned i = 0; i < count; i++)
		held[i] = alloc(p, 512, a);
	for (unsigned i = 0; i < SOMA__TWIN_OPERATIONS; i++)
		record(p, a);
	fake->lies[SOMA_POOL_USED_CURRENT] = 1;
	ck_ok(soma_pool_synchronize(p, a));
	has(report().used_divergence.trace, "up to 10 more blocks were live");
	for (unsigned i = 0; i < count; i++)
		ck_ok(soma_allocation_release(held[i]));
	free(held);
	close_fake();
}
END_TEST

UNIT_MAIN("twin", a_twin_needs_a_backend_with_a_pool_that_places_the_blocks,
	  a_twin_needs_the_backends_pool_for_itself, the_model_has_the_backends_attributes,
	  a_pool_without_a_twin_says_so_and_a_report_has_its_size,
	  each_synchronisation_and_trim_compares_and_agreement_is_no_divergence, peaks_begin_anew_in_both,
	  what_the_backend_refuses_and_what_the_model_cannot_take_are_counted_as_such,
	  a_difference_of_each_figure_is_found_and_told_once,
	  a_difference_of_reserved_within_the_tolerance_is_counted_and_no_divergence,
	  a_used_that_is_rounded_up_agrees_with_its_unit_and_is_recognised_without,
	  a_used_that_falls_late_is_recognised, blocks_of_others_are_named_as_the_reason,
	  a_backend_that_does_not_answer_is_no_divergence_and_no_failure,
	  the_operations_that_led_there_are_a_trace_that_ends_with_the_same_bytes,
	  more_live_blocks_than_a_trace_holds_are_told_by_their_number)
