/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads over budget(trace(guard:host)): in the end the ledger, the budget, the trace and the guard
 * count the same bytes, and nothing is reported.
 *
 *   check_stack_threads [OPERATIONS]    of each thread
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <soma/budget.h>

#include "tests/check_resource_sanitizer.h"
#include "tests/stack_fixture.h"
#include "tools/engine/engine.h"

#define THREADS 8
#define HELD 8
#define POSTED 32 /* blocks on their way to other threads */
#define BYTES_MAX 16384u
/* More than all that threads can hold at once. */
#define PLATEAU ((uint64_t)(THREADS * HELD + POSTED) * BYTES_MAX + 1)
#define LIMIT (2 * PLATEAU)

static unsigned long operations = 10000;

struct stack {
	char path[64];
	struct soma_resource *guard, *trace, *budget;
	uint64_t streams[THREADS + 1]; /* the last one is the legacy stream */
	struct soma_block *_Atomic posted[POSTED];
};

struct worker {
	pthread_t thread;
	struct stack *stack;
	unsigned number, seed;
	uint64_t allocated, refused, uses;
	struct soma_block *held[HELD];
};

static unsigned
draw(struct worker *w, unsigned below)
{
	w->seed = w->seed * 1664525u + 1013904223u;
	return (unsigned)((uint64_t)(w->seed >> 8) * below >> 24);
}

/* ---- what a thread does ---------------------------------------------------------------------- */

static unsigned char
mark_of(const struct soma_block *block)
{
	return (unsigned char)(block->id.generation * 31 + block->bytes);
}

/* Nobody else has the block, so its bytes are what its owner wrote. */
static void
give(struct worker *w, struct soma_block *block)
{
	const unsigned char *bytes = (const unsigned char *)(uintptr_t)block->ptr;

	ck_assert_uint_eq(bytes[0], mark_of(block));
	ck_assert_uint_eq(bytes[block->bytes - 1], mark_of(block));
	ck_assert_int_eq(soma_resource_deallocate(w->stack->budget, block), SOMA_STATUS_OK);
	free(block);
}

/* Streams run when they are waited for; a thread that finds no room waits for all of them. */
static void
make_room(struct worker *w)
{
	for (int i = 0; i <= THREADS; i++)
		ck_assert_int_eq(soma_resource_stream_synchronize(w->stack->budget, w->stack->streams[i]),
				 SOMA_STATUS_OK);
}

static struct soma_block *
take(struct worker *w)
{
	static const unsigned sizes[] = { 16, 300, 5000, BYTES_MAX };
	struct soma_block *block = calloc(1, sizeof *block);
	struct soma_request request = { .size = sizeof request,
					.bytes = 1 + draw(w, sizes[draw(w, 4)]),
					.alignment = draw(w, 8) == 0 ? 1024 : 0,
					.stream = w->stack->streams[draw(w, THREADS + 1)] };

	ck_assert_ptr_nonnull(block);
	block->size = sizeof *block;
	enum soma_status status = soma_resource_materialize(w->stack->budget, &request, block);
	if (status == SOMA_STATUS_OK) {
		w->allocated++;
		memset((void *)(uintptr_t)block->ptr, mark_of(block), block->bytes);
		return block;
	}
	ck_assert_msg(status == SOMA_STATUS_OUT_OF_BUDGET, "%s", soma_error_last()->text);
	w->refused++;
	free(block);
	make_room(w);
	return NULL;
}

static void
use(struct worker *w, const struct soma_block *block)
{
	struct soma_use made = { .size = sizeof made };
	uint64_t stream = w->stack->streams[draw(w, THREADS + 1)];
	enum soma_access access = (enum soma_access)(1 + draw(w, 3));

	ck_assert_int_eq(soma_resource_prepare_use(w->stack->budget, block->id, stream, access, &made),
			 SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_finish_use(w->stack->budget, &made, 1), SOMA_STATUS_OK);
	w->uses++;
}

static void
step(struct worker *w, struct soma_block **held)
{
	unsigned what = draw(w, 16);

	if (*held == NULL) {
		*held = take(w);
	} else if (what < 6) {
		give(w, *held);
		*held = NULL;
	} else if (what < 12) {
		/* Whoever takes it from there frees it, or passes it on. */
		*held = atomic_exchange(&w->stack->posted[draw(w, POSTED)], *held);
	} else if (what < 15) {
		use(w, *held);
	} else if (draw(w, 64) == 0) {
		ck_assert_int_eq(
			soma_resource_stream_synchronize(w->stack->budget, w->stack->streams[w->number]),
			SOMA_STATUS_OK);
	}
}

static void *
work(void *argument)
{
	struct worker *w = argument;

	for (unsigned long i = 0; i < operations; i++)
		step(w, &w->held[draw(w, HELD)]);
	return NULL;
}

/* ---- counting ----------------------------------------------------------------------------------- */

/* A trace as its reader has it. */
struct counted {
	uint64_t events, allocs, frees, completed, uses, failed, dropped_marks;
	uint64_t live, peak, retired; /* bytes */
};

static void
count_event(struct counted *c, const struct trace_event *event)
{
	c->events += event->op != TRACE_MARK;
	switch (event->op) {
	case TRACE_ALLOC:
		c->allocs++;
		c->live += event->size;
		break;
	case TRACE_FREE:
		ck_assert(event->deferred);
		c->frees++;
		c->live -= event->size;
		c->retired += event->size;
		break;
	case TRACE_FREE_COMPLETED:
		c->completed++;
		c->retired -= event->size;
		break;
	case TRACE_MARK:
		c->dropped_marks++;
		break;
	default:
		c->uses += event->op == TRACE_USE;
		c->failed += event->op == TRACE_ALLOC_FAILED;
	}
	if (c->live > c->peak)
		c->peak = c->live;
}

static struct counted
read_trace(const char *path)
{
	struct trace_reader *reader;
	struct trace_error error;
	struct trace_event event;
	struct counted counted = { 0 };
	enum trace_result result;

	ck_assert_msg(trace_open(path, NULL, &reader, &error) == TRACE_OK, "%s", error.text);
	while ((result = trace_next(reader, &event, &error)) == TRACE_OK)
		count_event(&counted, &event);
	ck_assert_msg(result == TRACE_END, "%s", error.text);
	trace_close(reader);
	return counted;
}

/* No call is under way. */
static struct counted
expect_agreement(struct stack *s)
{
	struct soma_trace_stats written = { .size = sizeof written };
	struct soma_backend_guard_stats guard = guard_stats_of(s->guard);
	struct soma_ledger ledger = ledger_of(s->budget);

	ck_assert_int_eq(soma_trace_flush(s->trace), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_trace_stats(s->trace, &written), SOMA_STATUS_OK);
	struct counted read = read_trace(s->path);
	ck_assert_uint_eq(written.dropped, 0);
	ck_assert_uint_eq(read.dropped_marks, 0);
	ck_assert_uint_eq(read.events, written.events);
	ck_assert_uint_eq(read.allocs, ledger.alloc_count);
	ck_assert_uint_eq(read.frees, ledger.free_count);
	ck_assert_uint_eq(read.frees - read.completed, ledger.retired_count);
	ck_assert_uint_eq(read.live, ledger.live_bytes);
	ck_assert_uint_eq(read.retired, ledger.retired_bytes);
	ck_assert_uint_eq(written.live_bytes, ledger.live_bytes);
	ck_assert_uint_eq(written.peak_bytes, read.peak);
	ck_assert_uint_eq(guard.live_blocks, ledger.live_count);
	ck_assert_uint_eq(guard.retired_bytes + guard.quarantined_bytes, ledger.retired_bytes);
	ck_assert_uint_eq(guard.condemned_blocks, 0);
	ck_assert_uint_eq(guard.reports, 0);
	ck_assert_uint_eq(soma_budget_reserved(s->budget), ledger.live_bytes + ledger.retired_bytes);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(s->budget),
			  ledger.live_bytes + ledger.retired_bytes);
	return read;
}

/* ---- the course of it ------------------------------------------------------------------------------ */

static void
open_stack(struct stack *s, const struct soma_backend_option *options, size_t count)
{
	struct soma_trace_config config = { .size = sizeof config, .patience_ms = 600000 };

	*s = (struct stack){ .path = "check_stack_threads.XXXXXX" };
	close(mkstemp(s->path));
	config.path = s->path;
	s->guard = open_guarded(options, count);
	ck_assert_int_eq(soma_trace_create(s->guard, &config, &s->trace), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_budget_create(s->trace, LIMIT, &s->budget), SOMA_STATUS_OK);
	for (unsigned i = 0; i < THREADS; i++)
		ck_assert_int_eq(soma_resource_stream_create(s->budget, i % 2, &s->streams[i]),
				 SOMA_STATUS_OK);
}

static void
run_workers(struct stack *s, struct worker workers[THREADS])
{
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .stack = s, .number = i, .seed = i };
		ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
}

static void
give_all(struct stack *s, struct worker workers[THREADS])
{
	for (int i = 0; i < POSTED; i++)
		if (s->posted[i] != NULL)
			give(&workers[0], s->posted[i]);
	for (int i = 0; i < THREADS; i++)
		for (int j = 0; j < HELD; j++)
			if (workers[i].held[j] != NULL)
				give(&workers[0], workers[i].held[j]);
}

/* One block above all that was live before: the ledger's peak is known, and is this moment. */
static uint64_t
reach_peak(struct stack *s, struct worker *w)
{
	struct soma_block block = { .size = sizeof block };

	make_room(w);
	ck_assert_msg(soma_resource_allocate(s->budget, PLATEAU, s->streams[0], &block) == SOMA_STATUS_OK,
		      "%s", soma_error_last()->text);
	uint64_t peak = ledger_of(s->budget).live_bytes;
	ck_assert_uint_eq(expect_agreement(s).peak, peak);
	ck_assert_int_eq(soma_resource_deallocate(s->budget, &block), SOMA_STATUS_OK);
	return peak;
}

static void
expect_replayed_peak(const char *path, uint64_t peak)
{
	const struct replay_options options = { .release_threshold = UINT64_MAX,
						.device = REPLAY_DEVICE_ANY };
	struct trace_reader *reader;
	struct replay_result result;
	struct trace_error error;

	ck_assert_msg(trace_open(path, NULL, &reader, &error) == TRACE_OK, "%s", error.text);
	ck_assert_msg(replay_run(reader, &options, &result, &error) == SOMA_STATUS_OK, "%s", error.text);
	ck_assert_uint_eq(result.peak_live_requested, peak);
	ck_assert_uint_eq(result.counts.unknown_frees, 0);
	ck_assert_uint_eq(result.counts.overwritten, 0);
	ck_assert_uint_eq(result.counts.live_bytes, 0);
	replay_result_fini(&result);
	trace_close(reader);
}

static void
end_stack(struct stack *s)
{
	struct soma__backend *backend = soma__resource_backend(s->guard);
	uint64_t damaged;

	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(soma_resource_stream_destroy(s->budget, s->streams[i]), SOMA_STATUS_OK);
	ck_assert_int_eq(backend->ops->guard_scan(backend->self, &damaged), SOMA_STATUS_OK);
	ck_assert_uint_eq(damaged, 0);
	drain_guard(s->guard);
	struct counted read = expect_agreement(s);
	ck_assert_uint_eq(read.live + read.retired, 0);
	ck_assert_uint_eq(soma_budget_remaining(s->budget), LIMIT);
	soma_resource_release(s->budget);
	soma_resource_release(s->trace);
	soma_resource_release(s->guard);
}

/* What the threads themselves counted. */
static void
expect_traced(const struct counted *read, const struct worker workers[THREADS])
{
	uint64_t allocated = 0, refused = 0, uses = 0;

	for (int i = 0; i < THREADS; i++) {
		allocated += workers[i].allocated;
		refused += workers[i].refused;
		uses += workers[i].uses;
	}
	ck_assert_uint_eq(read->allocs, allocated);
	ck_assert_uint_eq(read->failed, refused);
	ck_assert_uint_eq(read->uses, uses);
}

static void
run_stack(const struct soma_backend_option *options, size_t count)
{
	static struct worker workers[THREADS];
	static struct stack s;

	open_stack(&s, options, count);
	run_workers(&s, workers);
	struct counted read = expect_agreement(&s);
	expect_traced(&read, workers);
	ck_assert_uint_gt(read.live, 0);
	ck_assert_uint_gt(read.completed, 0);
	uint64_t peak = reach_peak(&s, &workers[0]);
	give_all(&s, workers);
	expect_agreement(&s);
	make_room(&workers[0]);
	expect_agreement(&s);
	end_stack(&s);
	expect_replayed_peak(s.path, peak);
	unlink(s.path);
}

START_TEST(all_accounts_agree_to_the_byte)
{
	run_stack(NULL, 0);
}
END_TEST

START_TEST(all_accounts_agree_when_blocks_have_pages_of_their_own)
{
	static const struct soma_backend_option full[] = { { "guard.mode", "full" },
							   { "guard.vmm_sample", "1/4" } };

	run_stack(full, 2);
}
END_TEST

int
main(int argc, char **argv)
{
	const TTest *const tests[] = { all_accounts_agree_to_the_byte,
				       all_accounts_agree_when_blocks_have_pages_of_their_own };

	if (argc > 1)
		operations = strtoul(argv[1], NULL, 10);
	return unit_run("stack_threads", tests, sizeof tests / sizeof tests[0]);
}
