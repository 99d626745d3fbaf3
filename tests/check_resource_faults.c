/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/resource: every call to the backend, and every allocation of soma's own, is made to fail in turn in a
 * scripted scenario.  Whatever fails, the ledger, the budgets and the backend agree, and nothing is lost.
 */
#include <string.h>

#include "lib/resource/order.h"
#include "lib/resource/terminal.h"
#include "tests/check_resource_fake.h"

#define BLOCKS 6

struct script {
	struct soma_backend *fake;
	struct soma_resource *terminal, *device, *tenant;
	struct soma_block blocks[BLOCKS];
	bool live[BLOCKS];
	uint64_t streams[2];
	int failures;
};

static void
check_agreement(struct script *s)
{
	struct soma_ledger ledger = { .size = sizeof ledger };
	uint64_t bytes = 0, count = 0;

	for (int i = 0; i < BLOCKS; i++) {
		bytes += s->live[i] ? s->blocks[i].bytes : 0;
		count += s->live[i];
	}
	ck_assert_int_eq(soma_resource_ledger(s->device, &ledger), SOMA_STATUS_OK);
	ck_assert_uint_eq(ledger.live_bytes, bytes);
	ck_assert_uint_eq(ledger.live_count, count);
	ck_assert_uint_eq(s->fake->live_bytes, bytes);
	ck_assert_uint_eq(soma_budget_reserved(s->device), soma_resource_bytes_outstanding(s->terminal));
	ck_assert_uint_eq(soma_budget_reserved(s->tenant), soma_resource_bytes_outstanding(s->terminal));
}

static bool
ok(struct script *s, enum soma_status status)
{
	if (status == SOMA_STATUS_OK)
		return true;
	ck_assert(status == SOMA_STATUS_DRIVER || status == SOMA_STATUS_OUT_OF_HOST_MEMORY ||
		  status == SOMA_STATUS_OUT_OF_BUDGET);
	s->failures++;
	return false;
}

static void
take(struct script *s, int i, uint64_t stream)
{
	s->blocks[i] = (struct soma_block){ .size = sizeof s->blocks[i] };
	s->live[i] = ok(s, soma_resource_allocate(s->tenant, 100 * (uint64_t)(i + 1), stream, &s->blocks[i]));
	check_agreement(s);
}

static void
give(struct script *s, int i)
{
	if (!s->live[i])
		return;
	s->live[i] = !ok(s, soma_resource_deallocate(s->tenant, &s->blocks[i]));
	check_agreement(s);
}

static void
use_block(struct script *s, int i, uint64_t stream, enum soma_access access)
{
	struct soma_use use = { .size = sizeof use };

	if (!s->live[i] ||
	    !ok(s, soma_resource_prepare_use(s->tenant, s->blocks[i].id, stream, access, &use)))
		return;
	(void)ok(s, soma_resource_finish_use(s->tenant, &use, 1));
	check_agreement(s);
}

static void
draw_block(struct script *s, int i)
{
	struct soma_reservation *reservation;
	struct soma_request request = { .size = sizeof request, .bytes = 50 };

	if (!ok(s, soma_reservation_create(s->tenant, 60, &reservation)))
		return;
	s->blocks[i] = (struct soma_block){ .size = sizeof s->blocks[i] };
	s->live[i] = ok(s, soma_reservation_draw(reservation, &request, &s->blocks[i]));
	soma_reservation_destroy(reservation);
	check_agreement(s);
}

static void
run_script(struct script *s)
{
	for (int i = 0; i < 2; i++)
		if (!ok(s, soma_resource_stream_create(s->tenant, 0, &s->streams[i])))
			s->streams[i] = 0;
	take(s, 0, s->streams[0]);
	take(s, 1, s->streams[1]);
	use_block(s, 0, s->streams[1], SOMA_ACCESS_READ);
	use_block(s, 0, 0, SOMA_ACCESS_WRITE);
	use_block(s, 1, s->streams[0], SOMA_ACCESS_READ_WRITE);
	if (s->live[1])
		(void)ok(s, soma_resource_record_use(s->tenant, s->blocks[1].id, 0));
	give(s, 0);
	take(s, 2, 0);
	draw_block(s, 3);
	fake_run_all(s->fake);
	take(s, 4, s->streams[0]); /* more than remains before a reap */
	give(s, 1);
	if (s->streams[0] != 0)
		(void)ok(s, soma_resource_stream_destroy(s->tenant, s->streams[0]));
	give(s, 4);
	(void)ok(s, soma_resource_stream_synchronize(s->tenant, s->streams[1]));
	give(s, 2);
	give(s, 3);
}

static void
begin_script(struct script *s, uint64_t capabilities)
{
	*s = (struct script){ 0 };
	s->fake = fake_create(capabilities, &s->terminal);
	ck_assert_int_eq(soma_budget_create(s->terminal, 900, &s->device), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_budget_create(s->device, 900, &s->tenant), SOMA_STATUS_OK);
	atomic_store(&s->fake->calls, 0);
}

/* Neither in the pool nor spare, nor kept for the next mark. */
static uint64_t
events_in_use(struct soma__terminal *terminal)
{
	uint64_t count = atomic_load(&terminal->events.created);

	for (struct soma__event *event = terminal->events.pool; event != NULL; event = event->next)
		count--;
	for (uint32_t i = 0; i < atomic_load(&terminal->streams.slots); i++) {
		struct soma__stream *stream = soma__stream_at(&terminal->streams, i);
		count -= stream->spare_count;
		count -= stream->mark != NULL && soma__event_is_only(stream->mark);
	}
	return count;
}

static void
end_script(struct script *s)
{
	atomic_store(&s->fake->fail_at, 0);
	for (int i = 0; i < BLOCKS; i++)
		give(s, i);
	fake_run_all(s->fake);
	ck_assert_int_eq(soma_resource_reap_pending(s->tenant), SOMA_STATUS_OK);
	check_agreement(s);
	if (!(s->fake->capabilities & SOMA_BACKEND_KEEPS_FREED)) {
		ck_assert_uint_eq(soma_resource_bytes_outstanding(s->tenant), 0);
		ck_assert_uint_eq(soma_budget_remaining(s->tenant), 900);
		/* The destroyed stream keeps one, for what may still ask. */
		ck_assert_uint_le(events_in_use(s->terminal->terminal), 1);
	} else {
		ck_assert_uint_eq(soma_resource_bytes_outstanding(s->tenant), s->fake->kept_bytes);
	}
	soma_resource_release(s->tenant);
	soma_resource_release(s->device);
	soma_resource_release(s->terminal);
	fake_destroy(s->fake);
}

static const uint64_t kinds[] = {
	FAKE_ORDERED,
	FAKE_ORDERED | FAKE_RECORDS,
	FAKE_ORDERED | SOMA_BACKEND_USES | SOMA_BACKEND_POOL,
	SOMA_BACKEND_STREAMS | SOMA_BACKEND_USE_TRACKING,
	FAKE_ORDERED | SOMA_BACKEND_GUARD | SOMA_BACKEND_KEEPS_FREED | SOMA_BACKEND_USES,
};

START_TEST(every_call_of_the_backend_may_fail)
{
	for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
		uint64_t nth = 0, calls;
		int failed = 0;
		do {
			struct script s;
			begin_script(&s, kinds[kind]);
			atomic_store(&s.fake->fail_at, ++nth);
			run_script(&s);
			calls = atomic_load(&s.fake->calls);
			failed += s.failures > 0;
			end_script(&s);
		} while (nth < calls);
		ck_assert_uint_gt(nth, 15);
		ck_assert_int_gt(failed, 5);
	}
}
END_TEST

START_TEST(every_allocation_of_soma_itself_may_fail)
{
	for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
		unsigned long nth = 0, made;
		do {
			struct script s;
			begin_script(&s, kinds[kind]);
			soma__arena_fail_nth(++nth);
			run_script(&s);
			made = soma__arena_fail_nth(0);
			end_script(&s);
		} while (nth < made);
		ck_assert_uint_gt(nth, 8);
	}
}
END_TEST

START_TEST(creating_a_stack_may_fail_anywhere)
{
	struct soma_resource *terminal, *budget;
	unsigned long nth = 0;
	enum soma_status status;

	do {
		struct soma_backend *fake = fake_create(FAKE_ORDERED, &terminal);
		soma__arena_fail_nth(++nth);
		status = soma_budget_create(terminal, 1000, &budget);
		soma__arena_fail_nth(0);
		if (status == SOMA_STATUS_OK)
			soma_resource_release(budget);
		else
			ck_assert_int_eq(status, SOMA_STATUS_OUT_OF_HOST_MEMORY);
		struct soma_block block = allocate(terminal, 5000, 0);
		deallocate(terminal, &block);
		soma_resource_release(terminal);
		fake_destroy(fake);
	} while (status != SOMA_STATUS_OK);
	ck_assert_uint_gt(nth, 2);
}
END_TEST

/* The stream that the free named is the block's only once it is freed. */
START_TEST(a_free_on_another_stream_that_fails_leaves_the_blocks_stream)
{
	static const enum fake_op ops[] = { FAKE_FREE, FAKE_EVENT_WAIT };
	struct soma_resource *terminal;

	for (int i = 0; i < 2; i++) {
		struct soma_backend *fake = fake_create(FAKE_ORDERED, &terminal);
		uint64_t a = new_stream(terminal), b = new_stream(terminal), c = new_stream(terminal);
		struct soma_block block = allocate(terminal, 100, a);
		struct soma_use use;
		if (ops[i] == FAKE_EVENT_WAIT) {
			use = prepare(terminal, &block, c, SOMA_ACCESS_READ);
			ck_assert_int_eq(soma_resource_finish_use(terminal, &use, 1), SOMA_STATUS_OK);
			fake->fail_with[FAKE_EVENT_SYNCHRONIZE] = SOMA_STATUS_DRIVER;
		}
		fake->fail_with[ops[i]] = SOMA_STATUS_DRIVER;
		ck_assert_int_eq(soma__resource_deallocate_on(terminal, &block, b), SOMA_STATUS_DRIVER);
		fake->fail_with[ops[i]] = SOMA_STATUS_OK;
		use = prepare(terminal, &block, b, SOMA_ACCESS_WRITE);
		ck_assert(fake_ordered(fake_stream(terminal, b), fake_stream(terminal, a), 1));
		deallocate(terminal, &block);
		ck_assert_int_eq(fake_block(fake, block.ptr)->free_stream, fake_stream(terminal, a)->index);
		soma_resource_release(terminal);
		fake_destroy(fake);
	}
}
END_TEST

UNIT_MAIN("resource_faults", every_call_of_the_backend_may_fail, every_allocation_of_soma_itself_may_fail,
	  creating_a_stack_may_fail_anywhere, a_free_on_another_stream_that_fails_leaves_the_blocks_stream)
