/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that was freed out of order, or used so, stays until all that was queued for it is over. */
#include "config.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "backends/guard/guard.h"
#include "tests/check_guard_support.h"
#include "tests/unit.h"

#define WRITE SOMA_BACKEND_ACCESS_WRITE
#define NON_BLOCKING SOMA_BACKEND_STREAM_NON_BLOCKING

static struct soma_backend_guard_stats
stats_of(struct fixture *f)
{
	struct soma_backend_guard_stats stats = { .size = sizeof stats };

	ck_assert_int_eq(f->ops->guard_stats(f->g, &stats), SOMA_STATUS_OK);
	return stats;
}

static void
step(struct fixture *f, struct soma_backend_stream *stream)
{
	uint64_t ran;

	ck_assert_int_eq(f->ops->stream_step(f->g, stream, 1000, &ran), SOMA_STATUS_OK);
}

static void
fill(struct fixture *f, void *ptr, struct soma_backend_stream *stream)
{
	ck_assert_int_eq(f->ops->fill8(f->g, (uintptr_t)ptr, 0x5a, 100, stream), SOMA_STATUS_OK);
}

/* ---- a settlement that gets in between ------------------------------------------------------ */

static struct {
	struct fixture *f;
	const struct soma_backend_ops *ops;
	uint32_t lane;
	bool armed;
} hook;

/* From here on the guard calls what is in `ops`, which is what it called before until that is changed. */
static void
hook_into(struct fixture *f, struct soma_backend_ops *ops)
{
	hook.ops = f->g->ops;
	*ops = *hook.ops;
	f->g->ops = ops;
}

static enum soma_status
hooked_record(struct soma_backend *inner, struct soma_backend_event *event,
	      struct soma_backend_stream *stream)
{
	if (hook.armed) {
		hook.armed = false;
		lane_settle(hook.f->g, hook.lane, true);
	}
	return hook.ops->event_record(inner, event, stream);
}

/* The stream's lane is settled before its next record. */
static void
hook_record(struct fixture *f, struct soma_backend_ops *ops, const struct soma_backend_stream *stream)
{
	hook.f = f;
	hook.lane = stream->lane;
	ops->event_record = hooked_record;
	hook.armed = true;
}

START_TEST(a_marker_that_gets_in_before_the_missing_order_does_not_stand_for_it)
{
	struct fixture f;

	fixture_open(&f, INNER_HOST, NULL);
	struct soma_backend_stream *a = make_stream(&f, NON_BLOCKING), *b = make_stream(&f, NON_BLOCKING);
	unsigned char *p = take(&f, 100, a);
	order(&f, a, b);
	ck_assert_int_eq(use(&f, p, WRITE, b), SOMA_STATUS_OK);
	fill(&f, p, b);
	struct soma_backend_ops ops;
	hook_into(&f, &ops);
	hook_record(&f, &ops, a);
	give(&f, p, 100, a);
	ck_assert(!hook.armed);
	step(&f, a);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(f.ops->guard_settle(f.g), SOMA_STATUS_OK);
	ck_assert_uint_eq(stats_of(&f).retired_blocks, 1);
	step(&f, b);
	step(&f, a);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(f.ops->guard_settle(f.g), SOMA_STATUS_OK);
		step(&f, a);
	}
	ck_assert_uint_eq(stats_of(&f).quarantined_blocks, 1);
	EXPECT(&f, "free-unordered");
	f.g->ops = hook.ops;
	fixture_close(&f);
	fixture_forget_reports(&f);
}
END_TEST

/* ---- nobody waits --------------------------------------------------------------------------- */

static void
settle(struct fixture *f, struct soma_backend_stream *stream)
{
	ck_assert_int_eq(f->ops->guard_settle(f->g), SOMA_STATUS_OK);
	step(f, stream);
	ck_assert_int_eq(f->ops->guard_settle(f->g), SOMA_STATUS_OK);
}

static void
expect_kept(struct fixture *f, uint64_t retired, uint64_t quarantined)
{
	struct soma_backend_guard_stats stats = stats_of(f);

	ck_assert_uint_eq(stats.retired_blocks, retired);
	ck_assert_uint_eq(stats.quarantined_blocks, quarantined);
}

/* A guard whose memory it writes itself puts nothing on such a stream. */
START_TEST(an_idle_stream_is_past_its_frees_though_nobody_waits_for_it)
{
	static const enum inner_kind kinds[] = { INNER_DIRECT, INNER_HOST };
	struct fixture f;

	for (int k = 0; k < 2; k++) {
		fixture_open(&f, kinds[k], NULL);
		struct soma_backend_stream *a = make_stream(&f, NON_BLOCKING);
		for (int i = 0; i < 1000; i++)
			give(&f, take(&f, 100, a), 100, a);
		/* It asks when there are 16. */
		expect_kept(&f, 1000 % 16, 1000 - 1000 % 16);
		ck_assert_int_eq(f.ops->guard_settle(f.g), SOMA_STATUS_OK);
		expect_kept(&f, 0, 1000);
		EXPECT(&f);
		fixture_close(&f);
	}
}
END_TEST

START_TEST(a_stream_with_work_on_it_is_not_past_its_frees)
{
	struct fixture f;

	fixture_open(&f, INNER_HOST, NULL);
	struct soma_backend_stream *a = make_stream(&f, NON_BLOCKING);
	unsigned char *p = take(&f, 100, a);
	fill(&f, p, a);
	give(&f, p, 100, a);
	for (int i = 1; i < 100; i++)
		give(&f, take(&f, 100, a), 100, a);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(f.ops->guard_settle(f.g), SOMA_STATUS_OK);
	expect_kept(&f, 100, 0);
	step(&f, a);
	settle(&f, a);
	expect_kept(&f, 0, 100);
	EXPECT(&f);
	fixture_close(&f);
}
END_TEST

static enum soma_status
refuse_query(struct soma_backend *inner, struct soma_backend_stream *stream, bool *done)
{
	(void)inner, (void)stream;
	*done = true;
	return SOMA_STATUS_DRIVER;
}

START_TEST(a_stream_that_cannot_be_asked_gets_a_marker)
{
	struct fixture f;

	fixture_open(&f, INNER_HOST, NULL);
	const struct soma_backend_ops *before = f.g->ops;
	struct soma_backend_ops ops = *before;
	struct soma_backend_stream *a = make_stream(&f, NON_BLOCKING);
	ops.stream_query = refuse_query;
	f.g->ops = &ops;
	give(&f, take(&f, 100, a), 100, a);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(f.ops->guard_settle(f.g), SOMA_STATUS_OK);
	expect_kept(&f, 1, 0);
	settle(&f, a);
	expect_kept(&f, 0, 1);
	f.g->ops = before;
	fixture_close(&f);
}
END_TEST

/* To the clocks the free comes after the legacy stream's work.  On the stream itself there is nothing yet. */
START_TEST(an_idle_stream_in_turn_with_the_legacy_one_is_not_past_its_frees)
{
	struct fixture f;

	fixture_open(&f, INNER_HOST, NULL);
	struct soma_backend_stream *legacy = legacy_stream(&f), *a = make_stream(&f, 0);
	unsigned char *p = take(&f, 100, legacy);
	fill(&f, p, legacy);
	struct soma_backend_ops ops;
	hook_into(&f, &ops);
	hook_record(&f, &ops, a);
	give(&f, p, 100, a);
	ck_assert(!hook.armed);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(f.ops->guard_settle(f.g), SOMA_STATUS_OK);
	expect_kept(&f, 1, 0);
	step(&f, legacy);
	step(&f, a);
	settle(&f, a);
	expect_kept(&f, 0, 1);
	EXPECT(&f);
	f.g->ops = hook.ops;
	fixture_close(&f);
}
END_TEST

/* ---- many streams --------------------------------------------------------------------------- */

enum { READERS = 40 };

START_TEST(a_free_that_many_streams_are_missing_from_waits_for_each)
{
	struct fixture f;
	struct soma_backend_stream *readers[READERS];

	fixture_open(&f, INNER_HOST, NULL);
	struct soma_backend_stream *a = make_stream(&f, NON_BLOCKING);
	unsigned char *p = take(&f, 100, a);
	ck_assert_int_eq(use(&f, p, WRITE, a), SOMA_STATUS_OK);
	for (int i = 0; i < READERS; i++) {
		readers[i] = make_stream(&f, NON_BLOCKING);
		order(&f, a, readers[i]);
		ck_assert_int_eq(use(&f, p, SOMA_BACKEND_ACCESS_READ, readers[i]), SOMA_STATUS_OK);
		fill(&f, p, readers[i]);
	}
	give(&f, p, 100, a);
	for (int i = 0; i < READERS; i++) {
		step(&f, a);
		for (int k = 0; k < 3; k++)
			ck_assert_int_eq(f.ops->guard_settle(f.g), SOMA_STATUS_OK);
		ck_assert_msg(stats_of(&f).retired_blocks == 1, "given back before stream %d was over", i);
		step(&f, a);
		step(&f, readers[i]);
	}
	sync_stream(&f, a);
	ck_assert_uint_eq(stats_of(&f).retired_blocks, 0);
	EXPECT(&f, "free-unordered");
	fixture_close(&f);
	fixture_forget_reports(&f);
}
END_TEST

/* ---- two frees of the host's --------------------------------------------------------------------- */

/* Each has a stream of its own to be queued on, and has to follow the other's. */
struct mutual {
	struct fixture *f;
	const struct soma_backend_ops *ops;
	unsigned char *p[2];
	uint32_t second_follows; /* the lane that the second free follows first */
	struct soma_backend_stream *trigger;
	_Atomic bool armed;
	pthread_t second;
};

static struct mutual mutual;

static void *
free_second(void *argument)
{
	give(mutual.f, mutual.p[1], 100, NULL);
	return argument;
}

static bool
is_borrowed(struct soma_backend *g, uint32_t lane)
{
	pthread_mutex_lock(&g->lock);
	bool borrowed = g->lanes[lane]->borrowed;
	pthread_mutex_unlock(&g->lock);
	return borrowed;
}

/* Within the first free: it goes on when the second one has begun to follow, too. */
static enum soma_status
mutual_record(struct soma_backend *inner, struct soma_backend_event *event,
	      struct soma_backend_stream *stream)
{
	if (stream == mutual.trigger && atomic_exchange(&mutual.armed, false)) {
		ck_assert_int_eq(pthread_create(&mutual.second, NULL, free_second, NULL), 0);
		while (!is_borrowed(mutual.f->g, mutual.second_follows))
			sched_yield();
	}
	return mutual.ops->event_record(inner, event, stream);
}

/* A block of stream `home` that also `one` and `two` read, unknown to the host. */
static unsigned char *
take_read(struct fixture *f, struct soma_backend_stream *home, struct soma_backend_stream *one,
	  struct soma_backend_stream *two)
{
	unsigned char *p = take(f, 100, home);

	ck_assert_int_eq(use(f, p, WRITE, home), SOMA_STATUS_OK);
	order(f, home, one);
	ck_assert_int_eq(use(f, p, SOMA_BACKEND_ACCESS_READ, one), SOMA_STATUS_OK);
	order(f, home, two);
	ck_assert_int_eq(use(f, p, SOMA_BACKEND_ACCESS_READ, two), SOMA_STATUS_OK);
	return p;
}

START_TEST(two_late_frees_that_follow_each_others_streams_do_not_wait_for_each_other)
{
	struct fixture f;
	struct soma_backend_stream *s[4];

	alarm(300); /* else a deadlock would last */
	fixture_open(&f, INNER_HOST, NULL);
	for (int i = 0; i < 4; i++)
		s[i] = make_stream(&f, NON_BLOCKING);
	mutual = (struct mutual){ .f = &f,
				  .ops = f.g->ops,
				  .p = { take_read(&f, s[0], s[2], s[1]), take_read(&f, s[1], s[3], s[0]) },
				  .second_follows = s[3]->lane,
				  .trigger = s[2]->inner,
				  .armed = true };
	struct soma_backend_ops ops = *f.g->ops;
	ops.event_record = mutual_record;
	f.g->ops = &ops;
	give(&f, mutual.p[0], 100, NULL);
	ck_assert(!mutual.armed);
	pthread_join(mutual.second, NULL);
	EXPECT(&f, "free-unordered", "free-unordered");
	ck_assert_uint_eq(stats_of(&f).retired_blocks, 2);
	ck_assert_int_eq(f.ops->synchronize(f.g), SOMA_STATUS_OK);
	ck_assert_uint_eq(stats_of(&f).retired_blocks, 0);
	f.g->ops = mutual.ops;
	fixture_close(&f);
	fixture_forget_reports(&f);
}
END_TEST

static enum soma_status
failing_wait(struct soma_backend *inner, struct soma_backend_event *event, struct soma_backend_stream *stream)
{
	return hook.armed ? SOMA_STATUS_DRIVER : hook.ops->event_wait(inner, event, stream);
}

START_TEST(a_late_free_whose_order_cannot_be_queued_waits_for_the_host)
{
	struct fixture f;

	fixture_open(&f, INNER_HOST, NULL);
	struct soma_backend_stream *a = make_stream(&f, NON_BLOCKING), *b = make_stream(&f, NON_BLOCKING);
	unsigned char *p = take(&f, 100, a);
	order(&f, a, b);
	ck_assert_int_eq(use(&f, p, WRITE, b), SOMA_STATUS_OK);
	fill(&f, p, b);
	struct soma_backend_ops ops;
	hook_into(&f, &ops);
	ops.event_wait = failing_wait;
	hook.armed = true;
	give(&f, p, 100, a);
	hook.armed = false;
	sync_stream(&f, a);
	ck_assert_uint_eq(stats_of(&f).retired_blocks, 1);
	ck_assert_int_eq(f.ops->synchronize(f.g), SOMA_STATUS_OK);
	ck_assert_uint_eq(stats_of(&f).retired_blocks, 0);
	EXPECT(&f, "free-unordered");
	f.g->ops = hook.ops;
	fixture_close(&f);
	fixture_forget_reports(&f);
}
END_TEST

/* ---- uses that were let through ---------------------------------------------------------------- */

START_TEST(an_unordered_write_does_not_hide_the_one_before_it)
{
	struct fixture f;

	fixture_open(&f, INNER_HOST, (const char *const[]){ "race", "off", NULL });
	struct soma_backend_stream *a = make_stream(&f, NON_BLOCKING), *b = make_stream(&f, NON_BLOCKING),
				   *c = make_stream(&f, NON_BLOCKING);
	unsigned char *p = take(&f, 100, a);
	order(&f, a, b);
	order(&f, a, c);
	ck_assert_int_eq(use(&f, p, WRITE, b), SOMA_STATUS_OK);
	fill(&f, p, b);
	ck_assert_int_eq(use(&f, p, WRITE, c), SOMA_STATUS_OK);
	order(&f, c, a);
	give(&f, p, 100, a);
	sync_stream(&f, c);
	step(&f, a);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(f.ops->guard_settle(f.g), SOMA_STATUS_OK);
		step(&f, a);
	}
	ck_assert_uint_eq(stats_of(&f).retired_blocks, 1);
	step(&f, b);
	sync_stream(&f, a);
	ck_assert_uint_eq(stats_of(&f).retired_blocks, 0);
	EXPECT(&f);
	fixture_close(&f);
	fixture_forget_reports(&f);
}
END_TEST

START_TEST(a_use_that_confirm_lets_through_is_waited_for)
{
	struct fixture f;

	fixture_open(&f, INNER_HOST, (const char *const[]){ "race", "confirm", NULL });
	struct soma_backend_stream *a = make_stream(&f, NON_BLOCKING), *b = make_stream(&f, NON_BLOCKING),
				   *c = make_stream(&f, NON_BLOCKING);
	unsigned char *p = take(&f, 100, a);
	order(&f, a, b);
	order(&f, a, c);
	ck_assert_int_eq(use(&f, p, WRITE, b), SOMA_STATUS_OK);
	fill(&f, p, b);
	order(&f, b, a);
	step(&f, a);
	step(&f, b);
	ck_assert_int_eq(use(&f, p, WRITE, c), SOMA_STATUS_OK);
	EXPECT(&f, "stream-race");
	fill(&f, p, c);
	give(&f, p, 100, a);
	EXPECT(&f, "stream-race", "free-unordered");
	for (int i = 0; i < 3; i++) {
		step(&f, a);
		ck_assert_int_eq(f.ops->guard_settle(f.g), SOMA_STATUS_OK);
	}
	ck_assert_uint_eq(stats_of(&f).retired_blocks, 1);
	sync_stream(&f, a);
	ck_assert_uint_eq(stats_of(&f).retired_blocks, 0);
	fixture_close(&f);
	fixture_forget_reports(&f);
}
END_TEST

/* ---- streams that go ------------------------------------------------------------------------------ */

static enum soma_status
failing_record(struct soma_backend *inner, struct soma_backend_event *event,
	       struct soma_backend_stream *stream)
{
	return hook.armed ? SOMA_STATUS_DRIVER : hook.ops->event_record(inner, event, stream);
}

START_TEST(a_stream_that_goes_without_a_marker_leaves_nothing_behind)
{
	struct fixture f;

	fixture_open(&f, INNER_HOST, NULL);
	struct soma_backend_stream *a = make_stream(&f, NON_BLOCKING);
	unsigned char *p = take(&f, 100, a);
	fill(&f, p, a);
	struct soma_backend_ops ops;
	hook_into(&f, &ops);
	ops.event_record = failing_record;
	give(&f, p, 100, a);
	hook.armed = true;
	f.ops->stream_destroy(f.g, a);
	hook.armed = false;
	ck_assert_int_eq(f.ops->guard_settle(f.g), SOMA_STATUS_OK);
	ck_assert_uint_eq(stats_of(&f).retired_blocks, 0);
	ck_assert_uint_eq(stats_of(&f).quarantined_blocks, 1);
	EXPECT(&f);
	f.g->ops = hook.ops;
	fixture_close(&f);
	fixture_forget_reports(&f);
}
END_TEST

/* ---- a wait without memory for what it is for ------------------------------------------------- */

enum { WIDE = 70 }; /* streams: more than a wait has room for by itself */

static struct {
	struct fixture *f;
	const struct soma_backend_ops *ops;
	void *ptr; /* NULL: nobody queues anything meanwhile */
	struct soma_backend_stream *stream;
} meanwhile;

/* Another thread's use, queued after what is waited for and before the wait returns. */
static enum soma_status
hooked_synchronize(struct soma_backend *inner, struct soma_backend_stream *stream)
{
	enum soma_status status = meanwhile.ops->stream_synchronize(inner, stream);

	if (meanwhile.ptr != NULL)
		ck_assert_int_eq(use(meanwhile.f, meanwhile.ptr, WRITE, meanwhile.stream), SOMA_STATUS_OK);
	return status;
}

/* Waits for stream a, and then b frees a block that a uses. */
static void
wait_and_free_elsewhere(bool memory, bool used_meanwhile)
{
	struct fixture f;
	struct soma_backend_stream *streams[WIDE];

	fixture_open(&f, INNER_HOST, NULL);
	for (int i = 0; i < WIDE; i++)
		streams[i] = make_stream(&f, NON_BLOCKING);
	struct soma_backend_stream *a = streams[WIDE - 1], *b = streams[WIDE - 2],
				   *before = streams[WIDE - 3];
	ck_assert_uint_gt(f.g->clocks.width, 64);
	unsigned char *p = take(&f, 100, b);
	order(&f, b, before);
	ck_assert_int_eq(use(&f, p, WRITE, before), SOMA_STATUS_OK);
	order(&f, before, a); /* a stands for this one's work, too */
	ck_assert_int_eq(use(&f, p, WRITE, a), SOMA_STATUS_OK);
	meanwhile.f = &f;
	meanwhile.ptr = used_meanwhile ? p : NULL;
	meanwhile.stream = a;
	meanwhile.ops = f.g->ops;
	struct soma_backend_ops ops = *f.g->ops;
	ops.stream_synchronize = hooked_synchronize;
	f.g->ops = &ops;
	if (!memory)
		atomic_store(&table_fail_in, 0);
	sync_stream(&f, a);
	ck_assert_int_lt(atomic_exchange(&table_fail_in, -1), 0);
	f.g->ops = meanwhile.ops;
	give(&f, p, 100, b);
	if (used_meanwhile)
		EXPECT(&f, "free-unordered");
	else
		EXPECT(&f);
	fixture_close(&f);
	fixture_forget_reports(&f);
}

START_TEST(a_wait_without_memory_does_not_cover_what_was_queued_during_it)
{
	for (int memory = 0; memory < 2; memory++)
		for (int used_meanwhile = 0; used_meanwhile < 2; used_meanwhile++)
			wait_and_free_elsewhere(memory, used_meanwhile);
}
END_TEST

/* ---- the legacy stream's order, which is one of work -------------------------------------------- */

/* A block of 100 bytes, and the look at it that is still to come. */
static unsigned char *
take_looked_at(struct fixture *f, struct soma_backend_stream *stream, unsigned char *seen)
{
	unsigned char *p = take(f, 100, stream);

	fill(f, p, stream);
	sync_stream(f, stream);
	memset(seen, 0, 100);
	ck_assert_int_eq(f->ops->copy_to_host(f->g, seen, (uintptr_t)p, 100, stream), SOMA_STATUS_OK);
	return p;
}

static void
expect_seen(const unsigned char *seen)
{
	for (int i = 0; i < 100; i++)
		ck_assert_uint_eq(seen[i], 0x5a);
}

/* On a stream without work there is nothing to wait for, and nothing that is not done. */
START_TEST(an_idle_stream_says_nothing_of_the_legacy_streams_work)
{
	for (int asks = 0; asks < 2; asks++) {
		struct fixture f;
		unsigned char seen[100];
		bool done = false;
		fixture_open(&f, INNER_HOST, NULL);
		struct soma_backend_stream *legacy = legacy_stream(&f), *blocking = make_stream(&f, 0);
		unsigned char *p = take_looked_at(&f, legacy, seen);
		give(&f, p, 100, blocking);
		if (asks)
			ck_assert_int_eq(f.ops->stream_query(f.g, blocking, &done), SOMA_STATUS_OK);
		else
			sync_stream(&f, blocking);
		drain(&f);
		sync_stream(&f, legacy);
		expect_seen(seen);
		EXPECT(&f);
		fixture_close(&f);
	}
}
END_TEST

/* Nor does an event on one blocking stream say anything of another one's work, because the legacy stream has freed
 * something in between: that is no work that could be waited for. */
START_TEST(a_free_on_the_legacy_stream_orders_no_two_blocking_streams_without_work)
{
	struct fixture f;
	unsigned char seen[100];

	fixture_open(&f, INNER_HOST, NULL);
	struct soma_backend_stream *legacy = legacy_stream(&f), *one = make_stream(&f, 0),
				   *other = make_stream(&f, 0);
	struct soma_backend_event *event = make_event(&f);
	unsigned char *y = take(&f, 100, legacy);
	sync_stream(&f, legacy);
	unsigned char *x = take_looked_at(&f, one, seen);
	give(&f, x, 100, one);
	give(&f, y, 100, legacy);
	ck_assert_int_eq(f.ops->event_record(f.g, event, other), SOMA_STATUS_OK);
	ck_assert_int_eq(f.ops->event_synchronize(f.g, event), SOMA_STATUS_OK);
	drain(&f);
	sync_stream(&f, one);
	expect_seen(seen);
	EXPECT(&f);
	fixture_close(&f);
}
END_TEST

UNIT_MAIN("guard order", an_idle_stream_is_past_its_frees_though_nobody_waits_for_it,
	  a_stream_with_work_on_it_is_not_past_its_frees, a_stream_that_cannot_be_asked_gets_a_marker,
	  an_idle_stream_in_turn_with_the_legacy_one_is_not_past_its_frees,
	  an_idle_stream_says_nothing_of_the_legacy_streams_work,
	  a_free_on_the_legacy_stream_orders_no_two_blocking_streams_without_work,
	  a_marker_that_gets_in_before_the_missing_order_does_not_stand_for_it,
	  a_free_that_many_streams_are_missing_from_waits_for_each,
	  two_late_frees_that_follow_each_others_streams_do_not_wait_for_each_other,
	  a_late_free_whose_order_cannot_be_queued_waits_for_the_host,
	  an_unordered_write_does_not_hide_the_one_before_it, a_use_that_confirm_lets_through_is_waited_for,
	  a_stream_that_goes_without_a_marker_leaves_nothing_behind,
	  a_wait_without_memory_does_not_cover_what_was_queued_during_it)
