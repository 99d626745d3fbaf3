/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a trace of our own says of order, as `soma race` judges it: the waits that a stack queues for uses and
 * frees are in it, and what nobody ordered is found.
 */
#include <unistd.h>

#include <soma/launch.h>
#include <soma/model.h>

#include "lib/base/error.h"
#include "lib/resource/open.h"
#include "tests/unit.h"
#include "tools/engine/races.h"

#define STREAMS 12

/* A trace over a backend; `inner` is under the trace, which is not told of what is called there. */
struct scene {
	struct soma_resource *inner, *trace;
	uint64_t streams[STREAMS];
	char path[64];
};

static void
create_stream(struct scene *s, int stream)
{
	ck_assert_int_eq(soma_resource_stream_create(s->trace, SOMA_STREAM_NON_BLOCKING, &s->streams[stream]),
			 SOMA_STATUS_OK);
}

static void
begin(struct scene *s, const char *backend)
{
	const struct soma__backend_config config = { .name = backend, .search = STACK_FOLDERS };
	struct soma_trace_config to = { .size = sizeof to, .path = s->path };
	int file;

	strcpy(s->path, "trace_races.XXXXXX");
	file = mkstemp(s->path);
	ck_assert_int_ge(file, 0);
	close(file);
	ck_assert_msg(soma__resource_open(&config, &s->inner) == SOMA_STATUS_OK, "%s",
		      soma_error_last()->text);
	ck_assert_int_eq(soma_trace_create(s->inner, &to, &s->trace), SOMA_STATUS_OK);
	for (int i = 0; i < STREAMS; i++)
		create_stream(s, i);
}

static void
end(struct scene *s, struct races *races)
{
	struct trace_reader *reader;
	struct trace_error error;

	ck_assert_int_eq(soma_trace_flush(s->trace), SOMA_STATUS_OK);
	soma_resource_release(s->trace);
	soma_resource_release(s->inner);
	ck_assert_int_eq(trace_open(s->path, NULL, &reader, &error), TRACE_OK);
	ck_assert_int_eq(races_find(reader, 10, races, &error), TRACE_OK);
	trace_close(reader);
	unlink(s->path);
	ck_assert(races->judged && !races->lost && !races->truncated);
	ck_assert_uint_eq(races->unknown_waits, 0);
	ck_assert_uint_eq(races->unknown_uses, 0);
}

static void
end_calm(struct scene *s, uint64_t uses)
{
	struct races races;

	end(s, &races);
	ck_assert_uint_eq(races.uses, uses);
	ck_assert_msg(races.total == 0, "%s: events %" PRIu64 " and %" PRIu64,
		      race_kind_text(races.found[0].kind), races.found[0].first.event,
		      races.found[0].second.event);
	races_fini(&races);
}

static struct soma_block
allocate(struct scene *s, int stream)
{
	struct soma_request request = { .size = sizeof request, .bytes = 1000, .stream = s->streams[stream] };
	struct soma_block block = { .size = sizeof block };

	ck_assert_int_eq(soma_resource_materialize(s->trace, &request, &block), SOMA_STATUS_OK);
	return block;
}

static void
use(struct scene *s, const struct soma_block *block, int stream, enum soma_access access)
{
	struct soma_use use = { .size = sizeof use };

	ck_assert_int_eq(soma_resource_prepare_use(s->trace, block->id, s->streams[stream], access, &use),
			 SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_finish_use(s->trace, &use, 1), SOMA_STATUS_OK);
}

static void
record_use(struct scene *s, const struct soma_block *block, int stream)
{
	ck_assert_int_eq(soma_resource_record_use(s->trace, block->id, s->streams[stream]), SOMA_STATUS_OK);
}

static void
launch(struct scene *s, const struct soma_block *block, int stream, bool preflight)
{
	struct soma_launch l;

	ck_assert_int_eq(soma_launch_begin(&l, s->trace, s->streams[stream]), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_launch_write(&l, block->id), SOMA_STATUS_OK);
	if (preflight)
		ck_assert_int_eq(soma_launch_preflight(&l), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_launch_commit(&l), SOMA_STATUS_OK);
}

static void
free_block(struct scene *s, const struct soma_block *block)
{
	ck_assert_int_eq(soma_resource_deallocate(s->trace, block), SOMA_STATUS_OK);
}

/* Without a line in the trace. */
static void
wait_for_all(struct scene *s)
{
	for (int i = 0; i < STREAMS; i++)
		ck_assert_int_eq(soma_resource_stream_synchronize(s->inner, s->streams[i]), SOMA_STATUS_OK);
}

static void
replace_stream(struct scene *s, int stream)
{
	ck_assert_int_eq(soma_resource_stream_destroy(s->trace, s->streams[stream]), SOMA_STATUS_OK);
	create_stream(s, stream);
}

static const char *const backends[] = { "host", "guard:host" };

/* ---- nothing is found -------------------------------------------------------------------- */

START_TEST(prepared_uses_on_other_streams_are_no_races)
{
	struct scene s;

	begin(&s, backends[_i]);
	for (int round = 0; round < 20; round++) {
		struct soma_block block = allocate(&s, round % 3);

		use(&s, &block, 7, SOMA_ACCESS_WRITE);
		use(&s, &block, 4, SOMA_ACCESS_READ);
		use(&s, &block, 5, SOMA_ACCESS_READ);
		use(&s, &block, 6, SOMA_ACCESS_WRITE);
		use(&s, &block, 4, SOMA_ACCESS_READ_WRITE);
		free_block(&s, &block);
	}
	end_calm(&s, 100);
}
END_TEST

/* Nobody waits for what is known to be over: the trace has to say that, too. */
START_TEST(accesses_that_are_over_when_the_list_is_full_are_no_races)
{
	struct scene s;

	begin(&s, backends[_i]);
	struct soma_block block = allocate(&s, 0);
	use(&s, &block, 1, SOMA_ACCESS_WRITE);
	for (int i = 2; i < 6; i++)
		use(&s, &block, i, SOMA_ACCESS_READ);
	wait_for_all(&s);
	for (int i = 6; i < STREAMS; i++)
		use(&s, &block, i, SOMA_ACCESS_READ);
	use(&s, &block, 0, SOMA_ACCESS_WRITE);
	free_block(&s, &block);
	end_calm(&s, 12);
}
END_TEST

START_TEST(streams_that_end_between_uses_are_no_races)
{
	struct scene s;

	begin(&s, backends[_i]);
	struct soma_block block = allocate(&s, 0);
	for (int i = 1; i < STREAMS; i++) {
		use(&s, &block, i, SOMA_ACCESS_WRITE);
		if (i % 3 == 0)
			wait_for_all(&s);
		replace_stream(&s, i);
		replace_stream(&s, i);
	}
	replace_stream(&s, 0);
	free_block(&s, &block);
	block = allocate(&s, 1);
	free_block(&s, &block);
	end_calm(&s, STREAMS - 1);
}
END_TEST

START_TEST(memory_that_comes_back_on_another_stream_is_no_race)
{
	struct scene s;

	begin(&s, backends[_i]);
	for (int round = 0; round < 200; round++) {
		struct soma_block block = allocate(&s, round % STREAMS);

		use(&s, &block, (round + 1) % STREAMS, SOMA_ACCESS_WRITE);
		free_block(&s, &block);
	}
	end_calm(&s, 200);
}
END_TEST

START_TEST(uses_at_random_are_no_races)
{
	struct soma_block blocks[8];
	bool live[8] = { false };
	uint64_t random = 1, uses = 0;
	struct scene s;

	begin(&s, backends[_i]);
	for (int step = 0; step < 3000; step++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		int which = (int)(random >> 60) % 8, stream = (int)(random >> 40 & 0xffff) % STREAMS;
		unsigned what = (unsigned)(random >> 20 & 0xffff) % 100;

		if (what < 2) {
			replace_stream(&s, stream);
		} else if (what < 4) {
			wait_for_all(&s);
		} else if (!live[which]) {
			blocks[which] = allocate(&s, stream);
			live[which] = true;
			use(&s, &blocks[which], (stream + 1) % STREAMS, SOMA_ACCESS_WRITE);
			uses++;
		} else if (what < 20) {
			free_block(&s, &blocks[which]);
			live[which] = false;
		} else {
			use(&s, &blocks[which], stream, (enum soma_access)(what % 3 + 1));
			uses++;
		}
	}
	for (int i = 0; i < 8; i++)
		if (live[i])
			free_block(&s, &blocks[i]);
	end_calm(&s, uses);
}
END_TEST

/* ---- something is ------------------------------------------------------------------------ */

static void
expect_race(struct scene *s, enum race_kind kind, enum race_op first, enum race_op second)
{
	struct races races;

	end(s, &races);
	ck_assert_uint_eq(races.total, 1);
	ck_assert_str_eq(race_kind_text(races.found[0].kind), race_kind_text(kind));
	ck_assert_str_eq(race_op_text(races.found[0].first.op), race_op_text(first));
	ck_assert_str_eq(race_op_text(races.found[0].second.op), race_op_text(second));
	races_fini(&races);
}

/* A recorded use waits for nothing. */
START_TEST(a_use_that_does_not_wait_for_the_allocation_is_found)
{
	struct scene s;

	begin(&s, backends[0]);
	struct soma_block block = allocate(&s, 0);
	record_use(&s, &block, 1);
	free_block(&s, &block);
	expect_race(&s, RACE_BEFORE_READY, RACE_OP_ALLOC, RACE_OP_READ_WRITE);
}
END_TEST

START_TEST(two_uses_in_no_order_are_found)
{
	struct scene s;

	begin(&s, backends[0]);
	struct soma_block block = allocate(&s, 0);
	ck_assert_int_eq(soma_resource_stream_synchronize(s.trace, s.streams[0]), SOMA_STATUS_OK);
	use(&s, &block, 1, SOMA_ACCESS_WRITE);
	record_use(&s, &block, 2);
	free_block(&s, &block);
	expect_race(&s, RACE_USE, RACE_OP_WRITE, RACE_OP_READ_WRITE);
}
END_TEST

START_TEST(a_launch_without_a_preflight_is_found)
{
	struct scene s;

	begin(&s, backends[0]);
	struct soma_block block = allocate(&s, 0);
	launch(&s, &block, 1, false);
	free_block(&s, &block);
	expect_race(&s, RACE_BEFORE_READY, RACE_OP_ALLOC, RACE_OP_WRITE);
}
END_TEST

START_TEST(a_launch_with_a_preflight_is_none)
{
	struct scene s;

	begin(&s, backends[_i]);
	struct soma_block block = allocate(&s, 0);
	launch(&s, &block, 1, true);
	free_block(&s, &block);
	end_calm(&s, 1);
}
END_TEST

START_TEST(a_recorded_use_that_the_next_one_waits_for_is_none)
{
	struct scene s;

	begin(&s, backends[0]);
	struct soma_block block = allocate(&s, 0);
	ck_assert_int_eq(soma_resource_stream_synchronize(s.trace, s.streams[0]), SOMA_STATUS_OK);
	record_use(&s, &block, 1);
	use(&s, &block, 2, SOMA_ACCESS_WRITE);
	free_block(&s, &block);
	end_calm(&s, 2);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("trace_races");
	TCase *calm = tcase_create("calm"), *racy = tcase_create("racy");
	int count = (int)(sizeof backends / sizeof backends[0]);

	tcase_set_timeout(calm, 0);
	tcase_set_timeout(racy, 0);
	tcase_add_loop_test(calm, prepared_uses_on_other_streams_are_no_races, 0, count);
	tcase_add_loop_test(calm, accesses_that_are_over_when_the_list_is_full_are_no_races, 0, count);
	tcase_add_loop_test(calm, streams_that_end_between_uses_are_no_races, 0, count);
	tcase_add_loop_test(calm, memory_that_comes_back_on_another_stream_is_no_race, 0, count);
	tcase_add_loop_test(calm, uses_at_random_are_no_races, 0, count);
	tcase_add_test(racy, a_use_that_does_not_wait_for_the_allocation_is_found);
	tcase_add_loop_test(calm, a_launch_with_a_preflight_is_none, 0, count);
	tcase_add_test(racy, a_launch_without_a_preflight_is_found);
	tcase_add_test(racy, two_uses_in_no_order_are_found);
	tcase_add_test(racy, a_recorded_use_that_the_next_one_waits_for_is_none);
	suite_add_tcase(suite, calm);
	suite_add_tcase(suite, racy);
	return unit_run_suite(suite);
}
