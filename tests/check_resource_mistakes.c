/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Known mistakes of earlier implementations of these interfaces, each shown absent.  What has to happen
 * "meanwhile" is done by a hook in the middle of the backend's call.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/resource/terminal.h"
#include "tests/check_resource_fake.h"
#include "tests/unit.h"

/* What a hook works on; `busy` keeps it from hooking itself. */
struct meanwhile {
	struct soma_resource *resource;
	enum fake_op op;
	bool busy;
	int times;
	uint64_t stream;
	uint64_t seen;
	struct soma_block block;
	pthread_t thread;
};

/* ---- 1 ---------------------------------------------------------------------------------- */

static void
allocate_meanwhile(struct soma_backend *fake, enum fake_op op, void *context)
{
	struct meanwhile *m = context;

	(void)fake;
	if (op != m->op || m->busy)
		return;
	m->busy = true;
	m->block = allocate(m->resource, 100, 0);
	m->times++;
}

START_TEST(mistake_01_a_concurrent_allocation_does_not_hide_a_release)
{
	struct soma_resource *terminal, *budget;
	struct soma_backend *fake = fake_create(0, &terminal);
	ck_assert_int_eq(soma_budget_create(terminal, 1000, &budget), SOMA_STATUS_OK);
	struct meanwhile m = { .resource = budget, .op = FAKE_FREE };

	for (int i = 0; i < 50; i++) {
		struct soma_block block = allocate(budget, 100, 0);
		m.busy = false;
		fake->context = &m;
		fake->before = allocate_meanwhile;
		deallocate(budget, &block);
		fake->before = NULL;
		ck_assert_uint_eq(soma_budget_reserved(budget), 100);
		ck_assert_uint_eq(soma_resource_bytes_outstanding(terminal), 100);
		deallocate(budget, &m.block);
	}
	ck_assert_int_eq(m.times, 50);
	ck_assert_uint_eq(soma_budget_reserved(budget), 0);
	ck_assert_uint_eq(soma_budget_remaining(budget), 1000);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

/* ---- 2 ---------------------------------------------------------------------------------- */

START_TEST(mistake_02_nothing_above_a_budget_answers_before_it_has_reaped)
{
	struct soma_resource *terminal, *device, *tenant;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &terminal);
	ck_assert_int_eq(soma_budget_create(terminal, 1000, &device), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_budget_create(device, 800, &tenant), SOMA_STATUS_OK);
	uint64_t stream = new_stream(tenant);
	struct soma_block block = allocate(tenant, 800, stream), other = { .size = sizeof other };
	deallocate(tenant, &block);

	ck_assert_int_eq(soma_resource_allocate(tenant, 800, stream, &other), SOMA_STATUS_OUT_OF_BUDGET);
	fake_run(fake, terminal, stream);
	ck_assert_int_eq(soma_resource_allocate(tenant, 800, stream, &other), SOMA_STATUS_OK);
	deallocate(tenant, &other);
	fake_run(fake, terminal, stream);
	ck_assert_int_eq(soma_resource_allocate(device, 1000, stream, &other), SOMA_STATUS_OK);
	deallocate(device, &other);
	soma_resource_release(tenant);
	soma_resource_release(device);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

/* ---- 3 ---------------------------------------------------------------------------------- */

static void
reap_meanwhile(struct soma_backend *fake, enum fake_op op, void *context)
{
	struct meanwhile *m = context;

	if (op != FAKE_FREE)
		return;
	fake_run_all(fake);
	ck_assert_int_eq(soma_resource_reap_pending(m->resource), SOMA_STATUS_OK);
	m->seen = soma_resource_bytes_outstanding(m->resource);
	m->times++;
}

START_TEST(mistake_03_a_free_is_not_pending_before_it_is_queued)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &resource);
	struct meanwhile m = { .resource = resource };
	uint64_t stream = new_stream(resource);
	fake->context = &m;

	struct soma_block block = allocate(resource, 100, stream);
	fake->before = reap_meanwhile;
	deallocate(resource, &block);
	fake->before = NULL;
	ck_assert_uint_eq(m.seen, 100);
	block = allocate(resource, 100, stream);
	fake->after = reap_meanwhile;
	deallocate(resource, &block);
	fake->after = NULL;
	ck_assert_uint_eq(m.seen, 100);
	ck_assert_int_eq(m.times, 2);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 100);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

/* ---- 7 ---------------------------------------------------------------------------------- */

/* In the trace, a line for each event of this address: 'a' alloc, 'f' free, 'c' free_completed. */
static void
read_history(FILE *file, uint64_t ptr, char *history, size_t size)
{
	char line[512], wanted[32];
	size_t used = 0;

	snprintf(wanted, sizeof wanted, ",0x%llx,", (unsigned long long)ptr);
	rewind(file);
	while (fgets(line, sizeof line, file) != NULL && used + 1 < size) {
		if (strstr(line, wanted) == NULL)
			continue;
		history[used++] = strstr(line, ",free_completed,") != NULL ? 'c'
				  : strstr(line, ",free,") != NULL         ? 'f'
									   : 'a';
	}
	history[used] = '\0';
}

START_TEST(mistake_07_a_free_is_logged_before_its_memory_can_come_back)
{
	struct soma_resource *terminal, *trace;
	struct soma_backend *fake = fake_create(0, &terminal);
	FILE *file = tmpfile();
	struct soma_trace_config config = { .size = sizeof config, .descriptor = fileno(file) };
	struct meanwhile m = { .op = FAKE_FREE };
	char history[16];

	ck_assert_int_eq(soma_trace_create(terminal, &config, &trace), SOMA_STATUS_OK);
	struct soma_block block = allocate(trace, 100, 0);
	m.resource = trace;
	fake->context = &m;
	fake->after = allocate_meanwhile;
	deallocate(trace, &block);
	fake->after = NULL;
	ck_assert_uint_eq(m.block.ptr, block.ptr);
	deallocate(trace, &m.block);
	ck_assert_int_eq(soma_trace_flush(trace), SOMA_STATUS_OK);
	read_history(file, block.ptr, history, sizeof history);
	ck_assert_str_eq(history, "afaf");
	soma_resource_release(trace);
	soma_resource_release(terminal);
	fclose(file);
	fake_destroy(fake);
}
END_TEST

/* ---- 8 ---------------------------------------------------------------------------------- */

/* All that a thread may want of a stack. */
static void *
use_everything(void *argument)
{
	struct meanwhile *m = argument;
	struct soma_resource *resource = m->resource;
	struct soma_block block = allocate(resource, 10, m->stream);
	struct soma_use use;

	if (soma_resource_supports_use_tracking(resource)) {
		use = prepare(resource, &block, 0, SOMA_ACCESS_WRITE);
		ck_assert_int_eq(soma_resource_finish_use(resource, &use, 1), SOMA_STATUS_OK);
	}
	deallocate(resource, &block);
	ck_assert_int_eq(soma_resource_reap_pending(resource), SOMA_STATUS_OK);
	(void)soma_resource_bytes_outstanding(resource);
	return NULL;
}

/* Another thread gets through while this one is in a call that may wait; a lock would hang it. */
static void
join_meanwhile(struct soma_backend *fake, enum fake_op op, void *context)
{
	struct meanwhile *m = context;

	(void)fake;
	if (op != m->op || m->busy)
		return;
	m->busy = true;
	ck_assert_int_eq(pthread_create(&m->thread, NULL, use_everything, m), 0);
	pthread_join(m->thread, NULL);
	m->times++;
	m->busy = false;
}

START_TEST(mistake_08_no_lock_is_held_while_a_stream_is_waited_for)
{
	struct soma_resource *terminal, *budget;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &terminal);
	ck_assert_int_eq(soma_budget_create(terminal, 1000, &budget), SOMA_STATUS_OK);
	struct meanwhile m = { .resource = budget, .op = FAKE_STREAM_SYNCHRONIZE };
	m.stream = new_stream(budget);
	fake->context = &m;
	fake->before = join_meanwhile;

	ck_assert_int_eq(soma_resource_stream_synchronize(budget, m.stream), SOMA_STATUS_OK);
	ck_assert_int_eq(m.times, 1);
	/* A free that has to wait on the host, because an order cannot be queued. */
	m.op = FAKE_EVENT_SYNCHRONIZE;
	uint64_t other = new_stream(budget);
	struct soma_block block = allocate(budget, 100, m.stream);
	struct soma_use use = prepare(budget, &block, other, SOMA_ACCESS_WRITE);
	ck_assert_int_eq(soma_resource_finish_use(budget, &use, 1), SOMA_STATUS_OK);
	m.resource = terminal;
	fake->fail_with[FAKE_EVENT_WAIT] = SOMA_STATUS_DRIVER;
	m.stream = 0;
	deallocate(budget, &block);
	ck_assert_int_eq(m.times, 2);
	fake->before = NULL;
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

START_TEST(mistake_08_no_lock_is_held_over_a_free_that_waits)
{
	struct soma_resource *terminal, *budget;
	struct soma_backend *fake = fake_create(SOMA_BACKEND_STREAMS | SOMA_BACKEND_USE_TRACKING, &terminal);
	ck_assert_int_eq(soma_budget_create(terminal, 1000, &budget), SOMA_STATUS_OK);
	struct meanwhile m = { .resource = budget, .op = FAKE_FREE };
	m.stream = new_stream(budget);
	fake->context = &m;

	struct soma_block block = allocate(budget, 100, m.stream);
	fake->before = join_meanwhile;
	deallocate(budget, &block);
	fake->before = NULL;
	ck_assert_int_eq(m.times, 1);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(budget), 0);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

START_TEST(mistake_08_no_lock_is_held_over_a_drain_or_a_trim)
{
	struct soma_resource *resource;
	struct soma_backend *fake =
		fake_create(SOMA_BACKEND_GUARD | SOMA_BACKEND_POOL | SOMA_BACKEND_KEEPS_FREED, &resource);
	struct meanwhile m = { .resource = resource, .op = FAKE_GUARD_DRAIN };
	struct soma_block block = { .size = sizeof block };

	fake->limit = 100;
	fake->context = &m;
	fake->before = join_meanwhile;
	ck_assert_int_eq(soma_resource_allocate(resource, 200, 0, &block), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	ck_assert_int_eq(m.times, 2);
	m.op = FAKE_POOL_TRIM;
	ck_assert_int_eq(soma_resource_allocate(resource, 200, 0, &block), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	ck_assert_int_eq(soma_resource_trim_to(resource, 5), SOMA_STATUS_OK);
	ck_assert_int_eq(m.times, 4);
	fake->before = NULL;
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

/* ---- 9 ---------------------------------------------------------------------------------- */

START_TEST(mistake_09_pressure_drains_no_more_than_is_needed)
{
	struct soma_resource *terminal, *budget;
	struct soma_backend *fake = fake_create(SOMA_BACKEND_GUARD | SOMA_BACKEND_KEEPS_FREED, &terminal);
	ck_assert_int_eq(soma_budget_create(terminal, 1000, &budget), SOMA_STATUS_OK);

	for (int i = 0; i < 10; i++) {
		struct soma_block block = allocate(budget, 100, 0);
		deallocate(budget, &block);
		ck_assert_int_eq(soma_resource_block_state(budget, block.id), SOMA_BLOCK_QUARANTINED);
	}
	ck_assert_uint_eq(soma_budget_reserved(budget), 1000);
	struct soma_block block = allocate(budget, 150, 0);
	ck_assert_uint_eq(fake->kept_bytes, 800);
	ck_assert_uint_eq(soma_budget_reserved(budget), 950);
	deallocate(budget, &block);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

START_TEST(mistake_09_a_trims_floor_goes_to_the_pool_as_it_is)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(SOMA_BACKEND_POOL, &resource);

	ck_assert_int_eq(soma_resource_trim_to(resource, 12345), SOMA_STATUS_OK);
	ck_assert_uint_eq(fake->trim_keep, 12345);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

/* ---- 10 --------------------------------------------------------------------------------- */

START_TEST(mistake_10_a_recycled_handle_is_another_stream)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &resource);
	uint64_t first, second, other = new_stream(resource);

	ck_assert_int_eq(soma_resource_stream_wrap(resource, 0x77, &first), SOMA_STATUS_OK);
	struct soma_block block = allocate(resource, 100, other), freed = allocate(resource, 200, first);
	struct soma_use use = prepare(resource, &block, first, SOMA_ACCESS_WRITE);
	fake_work(fake_stream(resource, first), 4);
	struct soma_backend_stream *old = fake_stream(resource, first);
	uint64_t end = old->queued;
	ck_assert_int_eq(soma_resource_finish_use(resource, &use, 1), SOMA_STATUS_OK);
	deallocate(resource, &freed);
	ck_assert_int_eq(soma_resource_stream_destroy(resource, first), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_stream_wrap(resource, 0x77, &second), SOMA_STATUS_OK);
	ck_assert_uint_ne(second, first);

	/* The new stream's progress says nothing of the old one's free ... */
	fake_run(fake, resource, second);
	ck_assert_int_eq(soma_resource_reap_pending(resource), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_block_state(resource, freed.id), SOMA_BLOCK_RETIRED);
	/* ... nor is it ordered after the old one's write by itself ... */
	prepare(resource, &block, second, SOMA_ACCESS_READ);
	ck_assert(fake_ordered(fake_stream(resource, second), old, end));
	/* ... and the old id is gone. */
	ck_assert_int_eq(soma_resource_prepare_use(resource, block.id, first, SOMA_ACCESS_READ, &use),
			 SOMA_STATUS_STREAM_MISUSE);
	old->run = old->queued;
	ck_assert_int_eq(soma_resource_reap_pending(resource), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_block_state(resource, freed.id), SOMA_BLOCK_FREED);
	deallocate(resource, &block);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

/* ---- 11 --------------------------------------------------------------------------------- */

START_TEST(mistake_11_a_stack_refuses_a_block_of_another_one_at_the_same_address)
{
	struct soma_resource *one, *two;
	struct soma_backend *fake_one = fake_create(0, &one), *fake_two = fake_create(0, &two);
	struct soma_block a = allocate(one, 100, 0), b = allocate(two, 100, 0);

	ck_assert_uint_eq(a.ptr, b.ptr);
	ck_assert_int_eq(soma_resource_deallocate(one, &b), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(soma_resource_block_state(one, a.id), SOMA_BLOCK_LIVE);
	ck_assert_int_eq(soma_resource_block_state(one, b.id), SOMA_BLOCK_FREED);
	deallocate(one, &a);
	deallocate(two, &b);
	soma_resource_release(one);
	soma_resource_release(two);
	fake_destroy(fake_one);
	fake_destroy(fake_two);
}
END_TEST

/* ---- 12 --------------------------------------------------------------------------------- */

static bool
is_small(void *context, const struct soma_tag_account *account)
{
	(void)context;
	ck_assert_uint_le(account->live_bytes, 1000);
	ck_assert_uint_le(account->live_count, 10);
	return true;
}

static void
check_small(struct soma_resource *budget)
{
	struct soma_ledger ledger = { .size = sizeof ledger };

	ck_assert_int_eq(soma_resource_ledger(budget, &ledger), SOMA_STATUS_OK);
	ck_assert_uint_le(ledger.live_bytes + ledger.retired_bytes, 1000);
	ck_assert_uint_eq(ledger.live_bytes + ledger.retired_bytes, soma_budget_reserved(budget));
	ck_assert_uint_le(soma_budget_remaining(budget), 1000);
	soma_resource_walk_tags(budget, is_small, NULL);
}

START_TEST(mistake_12_what_is_released_is_what_was_charged)
{
	struct soma_resource *terminal, *budget;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &terminal);
	ck_assert_int_eq(soma_budget_create(terminal, 1000, &budget), SOMA_STATUS_OK);
	uint64_t stream = new_stream(budget);
	struct soma_block block = allocate(budget, 100, stream), lie = block;

	lie.bytes = 900;
	lie.tag = soma_tag_intern("lie");
	lie.stream = 0;
	ck_assert_int_eq(soma_resource_set_tag(budget, block.id, soma_tag_intern("truth")), SOMA_STATUS_OK);
	check_small(budget);
	fake->fail_with[FAKE_FREE] = SOMA_STATUS_DRIVER;
	ck_assert_int_eq(soma_resource_deallocate(budget, &lie), SOMA_STATUS_DRIVER);
	fake->fail_with[FAKE_FREE] = SOMA_STATUS_OK;
	check_small(budget);
	ck_assert_uint_eq(soma_budget_reserved(budget), 100);
	deallocate(budget, &lie);
	check_small(budget);
	ck_assert_int_eq(soma_resource_deallocate(budget, &block), SOMA_STATUS_USE_AFTER_FREE);
	check_small(budget);
	ck_assert_int_eq(soma_resource_stream_synchronize(budget, stream), SOMA_STATUS_OK);
	check_small(budget);
	ck_assert_uint_eq(soma_budget_reserved(budget), 0);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

UNIT_MAIN("resource_mistakes", mistake_01_a_concurrent_allocation_does_not_hide_a_release,
	  mistake_02_nothing_above_a_budget_answers_before_it_has_reaped,
	  mistake_03_a_free_is_not_pending_before_it_is_queued,
	  mistake_07_a_free_is_logged_before_its_memory_can_come_back,
	  mistake_08_no_lock_is_held_while_a_stream_is_waited_for,
	  mistake_08_no_lock_is_held_over_a_free_that_waits,
	  mistake_08_no_lock_is_held_over_a_drain_or_a_trim,
	  mistake_09_pressure_drains_no_more_than_is_needed,
	  mistake_09_a_trims_floor_goes_to_the_pool_as_it_is, mistake_10_a_recycled_handle_is_another_stream,
	  mistake_11_a_stack_refuses_a_block_of_another_one_at_the_same_address,
	  mistake_12_what_is_released_is_what_was_charged)
