/* SPDX-License-Identifier: Apache-2.0 */
/* lib/resource used by several threads at once: what must hold when they are done, and always. */
#include <sched.h>
#include <string.h>

#include "lib/resource/terminal.h"
#include "tests/check_resource_fake.h"

#define THREADS 4
#define ROUNDS 1500
#define HELD 12
#define LIMIT 6000u

struct worker {
	pthread_t thread;
	struct soma_resource *budget, *tenant;
	struct soma_block block;
	uint64_t stream;
	unsigned seed;
	uint64_t refused;
	int freed;
	pthread_barrier_t *barrier;
};

static unsigned
draw_number(struct worker *w)
{
	w->seed = w->seed * 1664525u + 1013904223u;
	return w->seed >> 8;
}

static void
run_workers(struct worker workers[], int count, void *(*function)(void *))
{
	pthread_barrier_t barrier;

	pthread_barrier_init(&barrier, NULL, (unsigned)count);
	for (int i = 0; i < count; i++) {
		workers[i].barrier = &barrier;
		ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, function, &workers[i]), 0);
	}
	for (int i = 0; i < count; i++)
		pthread_join(workers[i].thread, NULL);
	pthread_barrier_destroy(&barrier);
}

/* ---- a free race --------------------------------------------------------------------------- */

static void *
free_the_same(void *argument)
{
	struct worker *w = argument;

	pthread_barrier_wait(w->barrier);
	enum soma_status status = soma_resource_deallocate(w->budget, &w->block);
	ck_assert(status == SOMA_STATUS_OK || status == SOMA_STATUS_USE_AFTER_FREE);
	w->freed = status == SOMA_STATUS_OK;
	return NULL;
}

START_TEST(of_many_frees_of_a_block_one_succeeds)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(0, &resource);
	struct worker workers[THREADS];

	for (int round = 0; round < 200; round++) {
		struct soma_block block = allocate(resource, 64, 0);
		int freed = 0;
		for (int i = 0; i < THREADS; i++)
			workers[i] = (struct worker){ .budget = resource, .block = block };
		run_workers(workers, THREADS, free_the_same);
		for (int i = 0; i < THREADS; i++)
			freed += workers[i].freed;
		ck_assert_int_eq(freed, 1);
		ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 0);
	}
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

/* ---- a stream's end -------------------------------------------------------------------------- */

static void *
destroy_the_same(void *argument)
{
	struct worker *w = argument;

	pthread_barrier_wait(w->barrier);
	enum soma_status status = soma_resource_stream_destroy(w->budget, w->stream);
	ck_assert(status == SOMA_STATUS_OK || status == SOMA_STATUS_STREAM_MISUSE);
	w->freed = status == SOMA_STATUS_OK;
	return NULL;
}

static _Atomic int finals;

/* Holds the first to record its stream's end until the others have come as far, or cannot. */
static void
gather(struct soma_backend *fake, enum fake_op op, void *context)
{
	(void)fake, (void)context;
	if (op != FAKE_EVENT_RECORD)
		return;
	atomic_fetch_add(&finals, 1);
	for (int i = 0; i < 10000 && atomic_load(&finals) < THREADS; i++)
		sched_yield();
}

START_TEST(of_many_destructions_of_a_stream_one_succeeds)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &resource);
	struct worker workers[THREADS];

	fake->streams_run = true;
	fake->before = gather;
	for (int round = 0; round < 8; round++) {
		uint64_t stream = new_stream(resource);
		int destroyed = 0;
		atomic_store(&finals, 0);
		for (int i = 0; i < THREADS; i++)
			workers[i] = (struct worker){ .budget = resource, .stream = stream };
		run_workers(workers, THREADS, destroy_the_same);
		for (int i = 0; i < THREADS; i++)
			destroyed += workers[i].freed;
		ck_assert_int_eq(destroyed, 1);
	}
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

/* ---- a budget that just fits is never refused -------------------------------------------------- */

static void *
take_a_share(void *argument)
{
	struct worker *w = argument;

	pthread_barrier_wait(w->barrier);
	for (int i = 0; i < ROUNDS; i++) {
		struct soma_block block = allocate(w->budget, LIMIT / THREADS, 0);
		deallocate(w->budget, &block);
	}
	return NULL;
}

START_TEST(shares_that_fit_are_never_refused)
{
	struct soma_resource *terminal, *budget;
	struct soma_backend *fake = fake_create(0, &terminal);
	struct worker workers[THREADS];

	ck_assert_int_eq(soma_budget_create(terminal, LIMIT, &budget), SOMA_STATUS_OK);
	for (int i = 0; i < THREADS; i++)
		workers[i] = (struct worker){ .budget = budget };
	run_workers(workers, THREADS, take_a_share);
	ck_assert_uint_le(fake->peak_bytes, LIMIT);
	ck_assert_uint_eq(soma_budget_remaining(budget), LIMIT);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

/* ---- everything at once ---------------------------------------------------------------------------- */

static void
use_one(struct worker *w, struct soma_block *block)
{
	struct soma_use use = { .size = sizeof use };
	enum soma_access access = draw_number(w) % 2 != 0 ? SOMA_ACCESS_READ : SOMA_ACCESS_WRITE;

	if (!soma_resource_supports_use_tracking(w->tenant))
		return;
	ck_assert_int_eq(soma_resource_prepare_use(w->tenant, block->id, 0, access, &use), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_finish_use(w->tenant, &use, 1), SOMA_STATUS_OK);
}

static void
reserve_one(struct worker *w, struct soma_block *block)
{
	struct soma_request request = { .size = sizeof request, .bytes = 200, .stream = w->stream };
	struct soma_reservation *reservation;

	if (soma_reservation_create(w->tenant, 500, &reservation) != SOMA_STATUS_OK) {
		w->refused++;
		return;
	}
	*block = (struct soma_block){ .size = sizeof *block };
	ck_assert_int_eq(soma_reservation_draw(reservation, &request, block), SOMA_STATUS_OK);
	soma_reservation_destroy(reservation);
}

static void
take_one(struct worker *w, struct soma_block *block)
{
	struct soma_resource *through = draw_number(w) % 2 != 0 ? w->tenant : w->budget;
	uint64_t bytes = 1 + draw_number(w) % 8 * 317, pressure = draw_number(w) % 4 == 0 ? 100 : 0;
	enum soma_status status;

	*block = (struct soma_block){ .size = sizeof *block };
	status = soma_resource_allocate_with_reservation_pressure(through, bytes, w->stream, pressure, block);
	ck_assert(status == SOMA_STATUS_OK || status == SOMA_STATUS_OUT_OF_BUDGET);
	if (status == SOMA_STATUS_OK)
		return;
	w->refused++;
	block->bytes = 0;
}

static void
step(struct worker *w, struct soma_block *block)
{
	if (block->bytes == 0) {
		if (draw_number(w) % 8 == 0)
			reserve_one(w, block);
		else
			take_one(w, block);
		return;
	}
	switch (draw_number(w) % 4) {
	case 0:
		use_one(w, block);
		break;
	case 1:
		ck_assert_int_eq(soma_resource_set_tag(w->budget, block->id, draw_number(w) % 40 + 2),
				 SOMA_STATUS_OK);
		break;
	default:
		deallocate(w->budget, block);
		block->bytes = 0;
	}
}

static void *
do_everything(void *argument)
{
	struct worker *w = argument;
	struct soma_block held[HELD] = { 0 };

	pthread_barrier_wait(w->barrier);
	for (int i = 0; i < ROUNDS; i++) {
		step(w, &held[draw_number(w) % HELD]);
		if (i % 200 == 0) {
			ck_assert_int_eq(soma_resource_reap_pending(w->budget), SOMA_STATUS_OK);
			ck_assert_uint_le(soma_budget_reserved(w->tenant), LIMIT);
		}
	}
	for (int i = 0; i < HELD; i++)
		if (held[i].bytes != 0)
			deallocate(w->budget, &held[i]);
	return NULL;
}

static void
run_everything(uint64_t capabilities)
{
	struct soma_resource *terminal, *budget, *trace, *tenant;
	struct soma_backend *fake = fake_create(capabilities, &terminal);
	struct soma_trace_config config = { .size = sizeof config,
					    .path = "/dev/null",
					    .patience_ms = 600000 };
	struct soma_trace_stats stats = { .size = sizeof stats };
	struct worker workers[THREADS];
	uint64_t refused = 0;

	fake->streams_run = true;
	fake->keep_max = 3;
	ck_assert_int_eq(soma_trace_create(terminal, &config, &trace), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_budget_create(trace, LIMIT, &budget), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_budget_create(budget, LIMIT, &tenant), SOMA_STATUS_OK);
	for (int i = 0; i < 40; i++)
		(void)soma_tag_intern((char[]){ 't', (char)('0' + i), '\0' });
	for (int i = 0; i < THREADS; i++)
		workers[i] =
			(struct worker){ .budget = budget,
					 .tenant = tenant,
					 .seed = (unsigned)i,
					 .stream = capabilities & SOMA_BACKEND_STREAMS ? new_stream(budget)
										       : 0 };
	run_workers(workers, THREADS, do_everything);
	for (int i = 0; i < THREADS; i++)
		refused += workers[i].refused;
	ck_assert_uint_gt(refused, 0);
	fake_run_all(fake);
	ck_assert_int_eq(soma_resource_reap_pending(budget), SOMA_STATUS_OK);
	ck_assert_uint_le(fake->peak_bytes, LIMIT);
	ck_assert_uint_eq(fake->live_bytes, 0);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(terminal), fake->kept_bytes);
	ck_assert_uint_eq(soma_budget_reserved(budget), fake->kept_bytes);
	ck_assert_int_eq(soma_trace_flush(trace), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_trace_stats(trace, &stats), SOMA_STATUS_OK);
	ck_assert_uint_eq(stats.dropped, 0);
	ck_assert_uint_eq(stats.live_bytes, 0);
	ck_assert_uint_le(stats.peak_bytes, LIMIT);
	soma_resource_release(tenant);
	soma_resource_release(budget);
	soma_resource_release(trace);
	soma_resource_release(terminal);
	fake_destroy(fake);
}

START_TEST(everything_at_once_on_a_stream_ordered_backend)
{
	run_everything(FAKE_ORDERED | SOMA_BACKEND_USES);
}
END_TEST

START_TEST(everything_at_once_where_frees_record_their_ends)
{
	run_everything(FAKE_ORDERED | FAKE_RECORDS);
}
END_TEST

START_TEST(everything_at_once_on_a_synchronous_backend)
{
	run_everything(0);
}
END_TEST

START_TEST(everything_at_once_under_a_guard)
{
	run_everything(FAKE_ORDERED | SOMA_BACKEND_GUARD | SOMA_BACKEND_KEEPS_FREED);
}
END_TEST

/* ---- more threads than there are slots -------------------------------------------------------------- */

static void *
hold_a_while(void *argument)
{
	struct worker *w = argument;
	struct soma_block block = allocate(w->budget, 10, 0);

	pthread_barrier_wait(w->barrier);
	deallocate(w->budget, &block);
	pthread_barrier_wait(w->barrier);
	w->block = allocate(w->budget, 7, 0);
	return NULL;
}

#define MANY 300

START_TEST(threads_beyond_the_slots_are_counted_as_exactly)
{
	struct soma_resource *terminal, *budget;
	struct soma_backend *fake = fake_create(0, &terminal);
	static struct worker workers[MANY];

	ck_assert_int_eq(soma_budget_create(terminal, 10 * MANY, &budget), SOMA_STATUS_OK);
	for (int i = 0; i < MANY; i++)
		workers[i] = (struct worker){ .budget = budget };
	run_workers(workers, MANY, hold_a_while);
	ck_assert_uint_eq(soma_budget_reserved(budget), 7 * MANY);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(budget), 7 * MANY);
	for (int i = 0; i < MANY; i++)
		deallocate(budget, &workers[i].block);
	ck_assert_uint_eq(soma_budget_remaining(budget), 10 * MANY);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

/* ---- one owner at a time --------------------------------------------------------------------------------
 */

struct spiller {
	struct soma_resource *resource;
	struct soma_block spilled[THREADS];
	_Atomic int inside;
	int count; /* by one thread at a time: that is what is tested */
};

static bool
spill(void *context, uint64_t bytes_needed, unsigned attempt)
{
	struct spiller *s = context;

	(void)bytes_needed, (void)attempt;
	ck_assert_int_eq(atomic_fetch_add(&s->inside, 1), 0);
	bool any = s->count > 0;
	if (any)
		deallocate(s->resource, &s->spilled[--s->count]);
	atomic_fetch_sub(&s->inside, 1);
	return any;
}

static void *
need_much(void *argument)
{
	struct worker *w = argument;

	pthread_barrier_wait(w->barrier);
	w->block = allocate(w->budget, 100, 0);
	return NULL;
}

START_TEST(the_owner_serves_one_thread_at_a_time_and_all_in_the_end)
{
	struct soma_resource *terminal, *budget;
	struct soma_backend *fake = fake_create(0, &terminal);
	struct worker workers[THREADS];
	struct spiller spiller = { .count = THREADS };

	ck_assert_int_eq(soma_budget_create(terminal, 100 * THREADS, &budget), SOMA_STATUS_OK);
	spiller.resource = budget;
	for (int i = 0; i < THREADS; i++) {
		spiller.spilled[i] = allocate(budget, 100, 0);
		workers[i] = (struct worker){ .budget = budget };
	}
	soma_resource_set_pressure_callback(budget, spill, &spiller);
	run_workers(workers, THREADS, need_much);
	ck_assert_int_eq(spiller.count, 0);
	for (int i = 0; i < THREADS; i++)
		deallocate(budget, &workers[i].block);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

/* ---- a callback that is taken away ----------------------------------------------------------- */

struct owner {
	_Atomic int entered, left;
};

static bool
linger(void *context, uint64_t bytes_needed, unsigned attempt)
{
	struct owner *owner = context;

	(void)bytes_needed, (void)attempt;
	atomic_store(&owner->entered, 1);
	for (int i = 0; i < 100000; i++)
		sched_yield();
	atomic_store(&owner->left, 1);
	return false;
}

static void *
need_too_much(void *argument)
{
	struct worker *w = argument;
	struct soma_block block = { .size = sizeof block };

	ck_assert_int_eq(soma_resource_allocate(w->budget, 100, 0, &block), SOMA_STATUS_OUT_OF_BUDGET);
	return NULL;
}

START_TEST(a_callback_that_is_taken_away_is_over)
{
	struct soma_resource *terminal, *budget;
	struct soma_backend *fake = fake_create(0, &terminal);
	struct worker worker = { 0 };
	struct owner owner = { 0 };

	ck_assert_int_eq(soma_budget_create(terminal, 100, &budget), SOMA_STATUS_OK);
	struct soma_block block = allocate(budget, 100, 0);
	worker.budget = budget;
	soma_resource_set_pressure_callback(budget, linger, &owner);
	ck_assert_int_eq(pthread_create(&worker.thread, NULL, need_too_much, &worker), 0);
	while (!atomic_load(&owner.entered))
		sched_yield();
	soma_resource_set_pressure_callback(budget, NULL, NULL);
	ck_assert_int_eq(atomic_load(&owner.left), 1);
	pthread_join(worker.thread, NULL);
	deallocate(budget, &block);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

UNIT_MAIN("resource_threads", a_callback_that_is_taken_away_is_over, of_many_frees_of_a_block_one_succeeds,
	  of_many_destructions_of_a_stream_one_succeeds, shares_that_fit_are_never_refused,
	  everything_at_once_on_a_stream_ordered_backend, everything_at_once_where_frees_record_their_ends,
	  everything_at_once_on_a_synchronous_backend, everything_at_once_under_a_guard,
	  threads_beyond_the_slots_are_counted_as_exactly,
	  the_owner_serves_one_thread_at_a_time_and_all_in_the_end)
