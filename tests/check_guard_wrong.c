/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that are wrong on purpose, in ways that are no row of the guard's table to the letter; and beside
 * some of them the program that is right.  Around each inner backend.
 */
#include "config.h"

#include "tests/guard_case.h"

#include <stdio.h>
#include <string.h>

/* ---- bounds -------------------------------------------------------------------------- */

static void
expect_last(struct fixture *f, unsigned char *p, const char *kind, long offset)
{
	char text[48];

	snprintf(text, sizeof text, "first bad byte: offset %+ld ", offset);
	ck_assert_uint_gt(f->report_count, 0);
	const struct seen *last = &f->reports[f->report_count - 1];
	ck_assert_str_eq(last->kind, kind);
	ck_assert_uint_eq(last->ptr, (uintptr_t)p);
	ck_assert_msg(strstr(last->text, text) != NULL, "\"%s\" is not in:\n%s", text, last->text);
}

CASE_WITH(a_loop_that_is_off_by_n, "report_limit", "1000")
{
	static const unsigned sizes[] = { 1, 3, 5, 7, 13, 255, 257, 1001, 4097 };
	static const unsigned off[] = { 0, 1, 2, 17, 100, 254 };
	unsigned count = 0;

	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		for (size_t j = 0; j < sizeof off / sizeof off[0]; j++) {
			unsigned char *p = take(f, sizes[i], s.a), *q = take(f, sizes[i], s.a);
			p[sizes[i] + off[j]] ^= 0x10;
			ck_assert_uint_eq(scan_now(f), 1);
			expect_last(f, p, "oob-write-after", (long)sizes[i] + off[j]);
			q[-1 - (long)off[j]] ^= 0x10;
			ck_assert_uint_eq(scan_now(f), 1);
			expect_last(f, q, "oob-write-before", -1 - (long)off[j]);
			give(f, p, sizes[i], s.a);
			give(f, q, sizes[i], s.a);
			count += 2;
		}
	}
	sync_stream(f, s.a);
	ck_assert_uint_eq(f->report_count, count);
}

CASE(a_memset_of_too_many_bytes_with_any_value)
{
	static const int values[] = { 0, 1, 0x7f, 0x80, 0xff };
	static const char *const kinds[] = { "oob-write-after", "oob-write-after", "oob-write-after",
					     "oob-write-after", "oob-write-after", NULL };

	for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
		unsigned char *p = take(f, 777, s.a);
		memset(p, values[i], 777 + 4);
		give(f, p, 777, s.a);
		sync_stream(f, s.a);
		ck_assert_uint_eq(f->report_count, i + 1);
	}
	expect_reports(f, kinds, __FILE__, __LINE__);
}

/* ---- order --------------------------------------------------------------------------- */

CASE(a_chain_of_waits_that_misses_the_write)
{
	unsigned char *p = take(f, 100, s.a), *q = take(f, 100, s.a);

	ck_assert_int_eq(use(f, q, WRITE, s.a), SOMA_STATUS_OK);
	order(f, s.a, s.b);
	ck_assert_int_eq(use(f, p, WRITE, s.a), SOMA_STATUS_OK); /* after the event */
	order(f, s.b, s.c);
	ck_assert_int_eq(use(f, q, READ, s.c), SOMA_STATUS_OK);
	EXPECT(f);
	ck_assert_int_eq(use(f, p, READ, s.c), SOMA_STATUS_STREAM_MISUSE);
	EXPECT(f, "stream-race");
	EXPECT_TEXT(f, 0, "missing: stream ");
	ck_assert_int_eq(f->ops->synchronize(f->g), SOMA_STATUS_OK);
	give(f, p, 100, s.a);
	give(f, q, 100, s.a);
	EXPECT(f, "stream-race");
}

CASE(a_chain_of_waits_that_are_in_the_wrong_sequence)
{
	unsigned char *p = take(f, 100, s.a);

	ck_assert_int_eq(use(f, p, WRITE, s.a), SOMA_STATUS_OK);
	order(f, s.b, s.c); /* c has what b knew before it waited for a */
	order(f, s.a, s.b);
	ck_assert_int_eq(use(f, p, WRITE, s.c), SOMA_STATUS_STREAM_MISUSE);
	EXPECT(f, "use-before-ready");
	give(f, p, 100, s.a);
}

CASE(an_event_that_was_recorded_before_the_allocation)
{
	struct soma_backend_event *early = make_event(f);

	ck_assert_int_eq(f->ops->event_record(f->g, early, s.a), SOMA_STATUS_OK);
	unsigned char *p = take(f, 100, s.a);
	ck_assert_int_eq(f->ops->event_wait(f->g, early, s.b), SOMA_STATUS_OK);
	ck_assert_int_eq(use(f, p, WRITE, s.b), SOMA_STATUS_STREAM_MISUSE);
	EXPECT(f, "use-before-ready");
	give(f, p, 100, s.a);
	f->ops->event_destroy(f->g, early);
}

CASE(an_event_that_is_recorded_again_after_the_wait)
{
	struct soma_backend_event *event = make_event(f);
	unsigned char *p = take(f, 100, s.a);

	ck_assert_int_eq(f->ops->event_record(f->g, event, s.a), SOMA_STATUS_OK);
	ck_assert_int_eq(f->ops->event_wait(f->g, event, s.b), SOMA_STATUS_OK);
	ck_assert_int_eq(use(f, p, WRITE, s.a), SOMA_STATUS_OK);
	ck_assert_int_eq(f->ops->event_record(f->g, event, s.a), SOMA_STATUS_OK);
	ck_assert_int_eq(use(f, p, READ, s.b), SOMA_STATUS_STREAM_MISUSE);
	EXPECT(f, "stream-race");
	ck_assert_int_eq(f->ops->event_wait(f->g, event, s.b), SOMA_STATUS_OK);
	ck_assert_int_eq(use(f, p, READ, s.b), SOMA_STATUS_OK);
	order(f, s.b, s.a);
	give(f, p, 100, s.a);
	EXPECT(f, "stream-race");
	f->ops->event_destroy(f->g, event);
}

CASE(a_write_that_waits_for_one_reader_of_two)
{
	struct soma_backend_stream *d = make_stream(f, NON_BLOCKING);
	unsigned char *p = take(f, 100, s.a);

	ck_assert_int_eq(use(f, p, WRITE, s.a), SOMA_STATUS_OK);
	order(f, s.a, s.b);
	order(f, s.a, s.c);
	ck_assert_int_eq(use(f, p, READ, s.b), SOMA_STATUS_OK);
	ck_assert_int_eq(use(f, p, READ, s.c), SOMA_STATUS_OK);
	order(f, s.b, d);
	ck_assert_int_eq(use(f, p, WRITE, d), SOMA_STATUS_STREAM_MISUSE);
	EXPECT(f, "stream-race");
	order(f, s.c, d);
	ck_assert_int_eq(use(f, p, WRITE, d), SOMA_STATUS_OK);
	give(f, p, 100, d);
	EXPECT(f, "stream-race");
}

CASE(a_question_whose_answer_was_no)
{
	unsigned char *p = take(f, 100, s.a);
	bool done = true;

	ck_assert_int_eq(f->ops->fill8(f->g, (uintptr_t)p, 1, 100, s.a), SOMA_STATUS_OK);
	ck_assert_int_eq(f->ops->stream_query(f->g, s.a, &done), SOMA_STATUS_OK);
	ck_assert(!done || f->kind != INNER_HOST); /* ours runs some work at once */
	if (!done) {
		ck_assert_int_eq(use(f, p, READ, s.b), SOMA_STATUS_STREAM_MISUSE);
		EXPECT(f, "use-before-ready");
	}
	unsigned before = f->report_count;
	sync_stream(f, s.a);
	ck_assert_int_eq(f->ops->stream_query(f->g, s.a, &done), SOMA_STATUS_OK);
	ck_assert(done);
	ck_assert_int_eq(use(f, p, READ, s.b), SOMA_STATUS_OK);
	order(f, s.b, s.a);
	give(f, p, 100, s.a);
	ck_assert_uint_eq(f->report_count, before);
}

CASE(a_stream_that_takes_the_place_of_a_destroyed_one)
{
	struct soma_backend_stream *old = make_stream(f, NON_BLOCKING);
	unsigned char *p = take(f, 100, old);

	f->ops->stream_destroy(f->g, old);
	struct soma_backend_stream *new = make_stream(f, NON_BLOCKING);
	ck_assert_int_eq(use(f, p, WRITE, new), SOMA_STATUS_STREAM_MISUSE);
	EXPECT(f, "use-before-ready");
	ck_assert_int_eq(f->ops->synchronize(f->g), SOMA_STATUS_OK);
	give(f, p, 100, new);
	EXPECT(f, "use-before-ready");
}

/* ---- ends ---------------------------------------------------------------------------- */

CASE(a_free_that_is_after_the_allocation_but_not_after_the_writer)
{
	unsigned char *p = take(f, 100, s.a);

	order(f, s.a, s.b);
	order(f, s.a, s.c);
	ck_assert_int_eq(use(f, p, WRITE, s.b), SOMA_STATUS_OK);
	give(f, p, 100, s.c);
	EXPECT(f, "free-unordered");
	EXPECT_TEXT(f, 0, " write seq ");
	EXPECT_TEXT(f, 0, "missing: stream ");
}

CASE(a_free_of_the_first_half_and_of_a_pointer_into_the_block)
{
	unsigned char *p = take(f, 100, s.a);

	ck_assert_int_eq(f->ops->free(f->g, (uintptr_t)p, 50, s.a), SOMA_STATUS_INVALID_VALUE);
	EXPECT(f, "wrong-size-free");
	ck_assert_int_eq(f->ops->free(f->g, (uintptr_t)p + 99, 1, s.a), SOMA_STATUS_INVALID_VALUE);
	EXPECT(f, "wrong-size-free", "foreign-free");
	EXPECT_TEXT(f, 1, "at offset +99 of block");
	ck_assert_int_eq(use(f, p + 1, WRITE, s.a), SOMA_STATUS_INVALID_VALUE);
	EXPECT(f, "wrong-size-free", "foreign-free", "foreign-use");
	give(f, p, 100, s.a);
	EXPECT(f, "wrong-size-free", "foreign-free", "foreign-use");
}

/* The address comes back as another block: the alias ends that, and its owner's free is the second one. */
CASE_WITH(a_free_through_an_alias_of_what_was_allocated_again, "quarantine_blocks", "0")
{
	unsigned char *alias = take(f, 100, s.a), *p = NULL, *kept[64];
	int count = 0;

	give(f, alias, 100, s.a);
	sync_stream(f, s.a);
	drain(f);
	while (count < 64 && p != alias)
		kept[count++] = p = take(f, 100, s.a);
	if (p == alias) {
		EXPECT(f);
		give(f, alias, 100, s.a);
		ck_assert_int_eq(f->ops->free(f->g, (uintptr_t)p, 100, s.a), SOMA_STATUS_INVALID_VALUE);
		EXPECT(f, "double-free");
		EXPECT_TEXT(f, 0, "\n free: stream ");
		count--;
	}
	ck_assert(p == alias || f->kind != INNER_HOST);
	while (count > 0)
		give(f, kept[--count], 100, s.a);
}

CASE_WITH(a_write_to_the_block_that_is_about_to_leave_the_quarantine, "quarantine_blocks", "4")
{
	unsigned char *p = take(f, 1001, s.a), *q[4];

	for (int i = 0; i < 4; i++)
		q[i] = take(f, 64, s.a);
	give(f, p, 1001, s.a);
	for (int i = 0; i < 3; i++)
		give(f, q[i], 64, s.a);
	sync_stream(f, s.a);
	struct soma_backend_guard_stats stats = { .size = sizeof stats };
	ck_assert_int_eq(f->ops->guard_stats(f->g, &stats), SOMA_STATUS_OK);
	ck_assert_uint_eq(stats.quarantined_blocks, 4);
	EXPECT(f);
	p[1000] ^= 1; /* its last byte, which is in no whole word */
	give(f, q[3], 64, s.a);
	sync_stream(f, s.a);
	EXPECT(f, "write-after-free");
	EXPECT_TEXT(f, 0, "offset +1000 ");
	EXPECT_TEXT(f, 0, "scan at the eviction");
	ck_assert_int_eq(f->ops->guard_stats(f->g, &stats), SOMA_STATUS_OK);
	ck_assert_uint_eq(stats.condemned_blocks, 1);
}

CASE(a_write_behind_the_end_of_a_block_that_was_freed)
{
	unsigned char *p = take(f, 101, s.a), *q = take(f, 101, s.a);

	give(f, p, 101, s.a);
	give(f, q, 101, s.a);
	sync_stream(f, s.a);
	p[101] ^= 1;  /* in the word that the block ends in */
	q[-256] ^= 1; /* the left redzone's first byte */
	drain(f);
	EXPECT(f, "oob-write-after", "oob-write-before");
	EXPECT_TEXT(f, 0, "offset +101 (0 past end)");
	EXPECT_TEXT(f, 1, "offset -256 ");
}

CASE(leaks_of_several_owners)
{
	static const char *const tags[] = { "kv cache", "weights", "" };
	unsigned char *p[4];

	for (int i = 0; i < 4; i++)
		p[i] = take(f, 100 + (unsigned)i, s.a);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(f->ops->block_name(f->g, (uintptr_t)p[i], 50 + (unsigned)i, tags[i]),
				 SOMA_STATUS_OK);
	give(f, p[3], 103, s.a); /* and this one not */
	f->ops->close(f->g);
	EXPECT(f, "leak", "leak", "leak");
	EXPECT_TEXT(f, 0, "size 100 gen 50 tag \"kv cache\"");
	EXPECT_TEXT(f, 1, "size 101 gen 51 tag \"weights\"");
	EXPECT_TEXT(f, 2, "size 102 gen 52");
	struct soma_backend_open how = { .size = sizeof how, .host = &f->host };
	ck_assert_int_eq(f->ops->open(&how, &f->g), SOMA_STATUS_OK);
}

/* ---- threads ------------------------------------------------------------------------- */

struct other {
	struct fixture *f;
	unsigned char *p;
	struct soma_backend_stream *stream;
	pthread_barrier_t *both;
	enum soma_status status;
};

static void *
free_it(void *argument)
{
	struct other *o = argument;

	if (o->both != NULL)
		pthread_barrier_wait(o->both);
	o->status = o->f->ops->free(o->f->g, (uintptr_t)o->p, 100, o->stream);
	return NULL;
}

static void *
write_it(void *argument)
{
	struct other *o = argument;

	o->status = use(o->f, o->p, WRITE, o->stream);
	return NULL;
}

/* A join of threads orders no streams. */
CASE(a_thread_that_takes_a_join_for_order)
{
	struct other o = { .f = f, .p = take(f, 100, s.a), .stream = s.b };
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, write_it, &o), 0);
	pthread_join(thread, NULL);
	ck_assert_int_eq(o.status, SOMA_STATUS_STREAM_MISUSE);
	EXPECT(f, "use-before-ready");
	ck_assert_int_eq(pthread_create(&thread, NULL, free_it, &o), 0);
	pthread_join(thread, NULL);
	EXPECT(f, "use-before-ready", "free-unordered");
}

CASE(two_threads_that_free_one_block)
{
	for (int i = 0; i < 50; i++) {
		pthread_barrier_t both;
		pthread_barrier_init(&both, NULL, 2);
		unsigned char *p = take(f, 100, s.a);
		struct other o[2] = { { f, p, s.a, &both, SOMA_STATUS_OK }, { f, p, s.a, &both, SOMA_STATUS_OK } };
		pthread_t threads[2];
		for (int k = 0; k < 2; k++)
			ck_assert_int_eq(pthread_create(&threads[k], NULL, free_it, &o[k]), 0);
		for (int k = 0; k < 2; k++)
			pthread_join(threads[k], NULL);
		pthread_barrier_destroy(&both);
		ck_assert_int_eq((int)(o[0].status + o[1].status), SOMA_STATUS_INVALID_VALUE);
		ck_assert_uint_eq(f->report_count, (unsigned)i + 1);
		ck_assert_str_eq(f->reports[i].kind, "double-free");
	}
}

UNIT_MAIN("guard wrong", a_loop_that_is_off_by_n, a_memset_of_too_many_bytes_with_any_value,
	  a_chain_of_waits_that_misses_the_write, a_chain_of_waits_that_are_in_the_wrong_sequence,
	  an_event_that_was_recorded_before_the_allocation, an_event_that_is_recorded_again_after_the_wait,
	  a_write_that_waits_for_one_reader_of_two, a_question_whose_answer_was_no,
	  a_stream_that_takes_the_place_of_a_destroyed_one,
	  a_free_that_is_after_the_allocation_but_not_after_the_writer,
	  a_free_of_the_first_half_and_of_a_pointer_into_the_block,
	  a_free_through_an_alias_of_what_was_allocated_again,
	  a_write_to_the_block_that_is_about_to_leave_the_quarantine,
	  a_write_behind_the_end_of_a_block_that_was_freed, leaks_of_several_owners,
	  a_thread_that_takes_a_join_for_order, two_threads_that_free_one_block)
