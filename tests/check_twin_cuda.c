/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The twin of a pool over async, over the stand-in driver: random programs in which the model and the driver
 * must have the same USED, and where reuse is unambiguous the same RESERVED.
 *
 * Reuse is unambiguous when all blocks are of whole segments and the host has seen every free: then any of the free
 * blocks does, and how many segments there are depends on neither's choice.
 */
#include "tests/cuda_fixture.h"

#include <soma/pool.h>
#include <soma/runtime.h>

#include "tests/fake/facts.h"
#include "tests/random.h"

#define STREAMS 4
#define BLOCKS 64
#define USED_UNIT (FAKE_USED_IS_ROUNDED ? FAKE_ALIGNMENT : 1)

struct play {
	uint64_t random;
	struct soma_runtime *runtime;
	struct soma_pool *pool;
	uint64_t streams[STREAMS];
	struct soma_allocation *blocks[BLOCKS];
};

static enum soma_status
open_runtime(const char *options, struct soma_runtime **runtime)
{
	char text[512];

	snprintf(text, sizeof text, "backend_path=%s,%s", BACKEND_FOLDERS, options);
	return soma_runtime_open(text, runtime);
}

static void
begin(struct play *p, uint64_t seed, const char *options)
{
	char text[256];

	*p = (struct play){ .random = seed };
	snprintf(text, sizeof text, "backend=async,twin=on,twin_used_unit=%u,%s", USED_UNIT, options);
	OK(open_runtime(text, &p->runtime));
	OK(soma_runtime_pool_create(p->runtime, &p->pool));
	for (int i = 0; i < STREAMS; i++)
		OK(soma_resource_stream_create(soma_runtime_resource(p->runtime), SOMA_STREAM_NON_BLOCKING,
					       &p->streams[i]));
}

static struct soma_twin_report
report_of(struct play *p)
{
	struct soma_twin_report report = { .size = sizeof report };

	OK(soma_pool_twin(p->pool, &report));
	return report;
}

static void
expect_used(const struct soma_twin_report *report)
{
	ck_assert_msg(!report->used_divergence.happened, "%s\n%.3000s", report->used_divergence.text,
		      report->used_divergence.trace);
	ck_assert_uint_eq(report->used.differences + report->used_high.differences, 0);
}

static void
expect_all(const struct soma_twin_report *report)
{
	expect_used(report);
	ck_assert_msg(!report->reserved_divergence.happened, "%s\n%.3000s", report->reserved_divergence.text,
		      report->reserved_divergence.trace);
	ck_assert_uint_eq(report->reserved.differences + report->reserved_high.differences, 0);
}

/* The host sees every free: where one has executed and nobody has waited, a driver may give back more. */
static struct soma_twin_report
end(struct play *p, void (*expect)(const struct soma_twin_report *report))
{
	for (int i = 0; i < BLOCKS; i++) {
		uint64_t stream =
			p->blocks[i] != NULL ? soma_allocation_stream_id(p->blocks[i]) : p->streams[0];
		OK(soma_allocation_release(p->blocks[i]));
		OK(soma_pool_synchronize(p->pool, stream));
	}
	for (int i = 0; i < STREAMS; i++)
		OK(soma_pool_synchronize(p->pool, p->streams[i]));
	OK(soma_pool_trim(p->pool, 0));
	struct soma_twin_report report = report_of(p);
	ck_assert_uint_eq(report.skipped, 0);
	if (expect != NULL)
		expect(&report); /* its texts go with the pool */
	OK(soma_pool_destroy(p->pool));
	for (int i = 0; i < STREAMS; i++)
		OK(soma_resource_stream_destroy(soma_runtime_resource(p->runtime), p->streams[i]));
	soma_runtime_release(p->runtime);
	EXPECT_NOTHING_FOUND();
	return report;
}

static void
take_one(struct play *p, int i, uint64_t size, int stream)
{
	OK(soma_pool_alloc(p->pool, size, p->streams[stream], &p->blocks[i]));
}

/* Behind the block's own stream; returns the stream of the free. */
static int
give_one(struct play *p, int i, int stream)
{
	uint64_t own = soma_allocation_stream_id(p->blocks[i]), seq;

	if (own != p->streams[stream]) {
		OK(soma_pool_record_event(p->pool, own, &seq));
		OK(soma_pool_wait_event(p->pool, p->streams[stream], own, seq));
	}
	OK(soma_pool_free(p->blocks[i], p->streams[stream]));
	OK(soma_allocation_release(p->blocks[i]));
	p->blocks[i] = NULL;
	return stream;
}

static const char *const thresholds[] = { "release_threshold=0", "release_threshold=all",
					  "release_threshold=256M" };

START_TEST(programs_of_whole_segments_agree_in_everything)
{
	for (uint64_t seed = 1; seed <= 9; seed++) {
		struct play p;
		start_fake();
		begin(&p, seed, thresholds[seed % 3]);
		for (int step = 0; step < 600; step++) {
			int i = (int)below(&p.random, BLOCKS), stream = (int)below(&p.random, STREAMS);
			if (p.blocks[i] == NULL)
				take_one(&p, i, FAKE_RESERVE_STEP, stream);
			else
				OK(soma_pool_synchronize(p.pool, p.streams[give_one(&p, i, stream)]));
			if (below(&p.random, 50) == 0)
				OK(soma_pool_trim(p.pool, below(&p.random, 20) * FAKE_RESERVE_STEP));
		}
		ck_assert_uint_gt(report_of(&p).compared, 200);
		(void)end(&p, expect_all);
	}
}
END_TEST

/* Frees that nobody has waited for, events, all modes in which the stand-in runs work. */
START_TEST(programs_of_any_size_and_order_agree_in_used)
{
	for (uint64_t seed = 1; seed <= 12; seed++) {
		static const enum fake_mode modes[] = { FAKE_IMMEDIATE, FAKE_STEPPED, FAKE_THREADS };
		struct play p;
		start_fake();
		fake.restart();
		fake.check_signals(false);
		fake.mode(modes[seed % 3], seed, 20);
		begin(&p, seed, thresholds[seed / 3 % 3]);
		for (int step = 0; step < 3000; step++) {
			int i = (int)below(&p.random, BLOCKS), stream = (int)below(&p.random, STREAMS);
			uint64_t what = below(&p.random, 100);
			if (p.blocks[i] == NULL)
				take_one(&p, i, 1 + below(&p.random, UINT64_C(1) << below(&p.random, 26)),
					 stream);
			else if (what < 80)
				give_one(&p, i, stream);
			else if (what < 97)
				OK(soma_pool_synchronize(p.pool, p.streams[stream]));
			else
				OK(soma_pool_trim(p.pool, below(&p.random, 4) * FAKE_RESERVE_STEP));
		}
		struct soma_twin_report report = end(&p, expect_used);
		ck_assert_uint_gt(report.compared, 100);
		/* Steps, however they differ. */
		ck_assert_uint_eq(report.reserved.largest % FAKE_RESERVE_STEP, 0);
		ck_assert_uint_eq(report.reserved_high.largest % FAKE_RESERVE_STEP, 0);
	}
}
END_TEST

/* By the driver's implicit order, where no other reuse is allowed. */
START_TEST(the_legacy_streams_blocks_are_reused_on_blocking_streams_in_both)
{
	struct play p;
	uint64_t blocking;

	start_fake();
	fake.restart();
	fake.check_signals(false);
	fake.mode(FAKE_STEPPED, 1, 20);
	begin(&p, 1, "release_threshold=all,async.reuse_opportunistic=off,async.reuse_internal=off");
	OK(soma_resource_stream_create(soma_runtime_resource(p.runtime), SOMA_STREAM_BLOCKING, &blocking));
	for (int i = 0; i < 4; i++) {
		uint64_t stream = i % 2 == 0 ? 0 : blocking;
		OK(soma_pool_alloc(p.pool, FAKE_RESERVE_STEP, stream, &p.blocks[0]));
		OK(soma_pool_free(p.blocks[0], stream));
		OK(soma_allocation_release(p.blocks[0]));
	}
	p.blocks[0] = NULL;
	OK(soma_pool_synchronize(p.pool, p.streams[0]));
	struct soma_twin_report report = report_of(&p);
	ck_assert_uint_eq(report.compared, 1);
	expect_all(&report);
	OK(soma_pool_synchronize(p.pool, 0));
	OK(soma_pool_synchronize(p.pool, blocking));
	OK(soma_resource_stream_destroy(soma_runtime_resource(p.runtime), blocking));
	(void)end(&p, expect_all);
}
END_TEST

START_TEST(the_drivers_threshold_and_reuse_are_the_models)
{
	struct soma_runtime *runtime;
	struct soma_pool *pool;
	uint64_t value;

	start_fake();
	OK(open_runtime("backend=async,twin=on,async.release_threshold=96M,async.reuse_opportunistic=off",
			&runtime));
	OK(soma_runtime_pool_create(runtime, &pool));
	OK(soma_pool_get_attribute(pool, SOMA_POOL_RELEASE_THRESHOLD, &value));
	ck_assert_uint_eq(value, 96 * MB);
	OK(soma_pool_get_attribute(pool, SOMA_POOL_REUSE_ALLOW_OPPORTUNISTIC, &value));
	ck_assert_uint_eq(value, 0);
	OK(soma_pool_get_attribute(pool, SOMA_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, &value));
	ck_assert_uint_eq(value, 1);
	OK(soma_pool_destroy(pool));
	soma_runtime_release(runtime);
	EXPECT_NOTHING_FOUND();
}
END_TEST

START_TEST(a_configuration_that_cannot_have_a_twin_says_why)
{
	static const struct {
		const char *conf, *why;
	} cases[] = {
		{ "backend=host,twin=on", "placement=backend was expected" },
		{ "backend=sync,twin=on", "such as async" },
		{ "backend=guard:async,twin=on", "guard" },
		{ "backend=async,twin=on,placement=pool", "placement=backend was expected" },
		{ "backend=async,twin=on,max_pool_size=1G", "maximum" },
	};

	start_fake();
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct soma_runtime *runtime;
		struct soma_pool *pool;
		OK(open_runtime(cases[i].conf, &runtime));
		REFUSED(NOT_SUPPORTED, cases[i].why, soma_runtime_pool_create(runtime, &pool));
		soma_runtime_release(runtime);
	}
	EXPECT_NOTHING_FOUND();
}
END_TEST

/* Nothing else is compared in a second pool, whose blocks are the first one's divergence. */
START_TEST(a_second_pool_over_the_backend_is_the_firsts_divergence)
{
	struct play p;
	const struct soma_pool_config config = { .size = sizeof config };
	struct soma_pool *other;
	struct soma_allocation *x;

	start_fake();
	begin(&p, 1, "release_threshold=all");
	OK(soma_pool_create(&config, soma_runtime_resource(p.runtime), &other));
	OK(soma_pool_alloc(other, 7777, p.streams[0], &x));
	OK(soma_pool_synchronize(p.pool, p.streams[0]));
	struct soma_twin_report report = report_of(&p);
	ck_assert(report.used_divergence.happened);
	ck_assert_ptr_nonnull(strstr(report.used_divergence.text, "7777 bytes of the resource's blocks"));
	OK(soma_allocation_release(x));
	OK(soma_pool_destroy(other));
	(void)end(&p, NULL);
}
END_TEST

CUDA_MAIN("twin_cuda", programs_of_whole_segments_agree_in_everything,
	  programs_of_any_size_and_order_agree_in_used,
	  the_legacy_streams_blocks_are_reused_on_blocking_streams_in_both,
	  the_drivers_threshold_and_reuse_are_the_models, a_configuration_that_cannot_have_a_twin_says_why,
	  a_second_pool_over_the_backend_is_the_firsts_divergence)
