/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random streams on real memory.  Every block is filled with a pattern of its own in stream order, and
 * looked at in stream order before its free; streams run a few operations at a time, in an order that a
 * test with a random generator likes.  So whatever is handed out too early is overwritten before it was
 * looked at.  And no two blocks that are live overlap.
 */
#include <inttypes.h>
#include <pthread.h>

#include "tests/check_resource_sanitizer.h"
#include "tests/pool_fixture.h"

#define STREAMS 5
#define HELD 24
#define SHARED_HELD 256
#define BIGGEST (48 * KIB)

/* What is live, for all workers of a pool. */
struct live {
	pthread_mutex_t mutex;
	struct {
		uint64_t begin, end;
	} blocks[SHARED_HELD];
};

struct held {
	struct soma_allocation *allocation;
	uint64_t stream; /* that comes after all work on the block */
	bool noted;      /* an event that does, too */
	uint64_t event_stream, event;
	uint32_t pattern;
	unsigned live; /* its place there */
};

struct worker {
	pthread_t thread;
	struct setup setup;
	struct live *live;
	unsigned number;
	uint64_t random;
	unsigned operations;
	uint64_t streams[STREAMS];
	bool blocking[STREAMS];
	struct held held[HELD];
	struct soma_backend_scan *scans;
	size_t scan_count, scan_max;
	uint32_t patterns;
	bool destroys_streams;
};

static uint32_t
below(struct worker *w, uint32_t n)
{
	w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)((w->random >> 33) % n);
}

static const struct soma_backend_ops *
ops_of(const struct worker *w)
{
	return w->setup.resource->terminal->ops;
}

static struct soma_backend *
self_of(const struct worker *w)
{
	return w->setup.resource->terminal->self;
}

/* ---- what is live ------------------------------------------------------------------------ */

static void
enter_live(struct worker *w, struct held *held)
{
	uint64_t begin = soma_allocation_device_ptr(held->allocation);
	uint64_t end = begin + soma_allocation_size(held->allocation);

	held->live = SHARED_HELD;
	pthread_mutex_lock(&w->live->mutex);
	for (unsigned i = 0; i < SHARED_HELD; i++) {
		if (w->live->blocks[i].end == 0)
			held->live = i;
		else
			ck_assert_msg(end <= w->live->blocks[i].begin || w->live->blocks[i].end <= begin,
				      "two live blocks overlap");
	}
	ck_assert_uint_lt(held->live, SHARED_HELD);
	w->live->blocks[held->live].begin = begin;
	w->live->blocks[held->live].end = end;
	pthread_mutex_unlock(&w->live->mutex);
}

static void
leave_live(struct worker *w, const struct held *held)
{
	pthread_mutex_lock(&w->live->mutex);
	w->live->blocks[held->live].end = 0;
	pthread_mutex_unlock(&w->live->mutex);
}

/* ---- the operations ------------------------------------------------------------------------- */

static void
take(struct worker *w, struct held *held)
{
	uint64_t stream = w->streams[below(w, STREAMS)], size = 4 + 4 * below(w, BIGGEST / 4 - 1);
	enum soma_status status = soma_pool_alloc(w->setup.pool, size, stream, &held->allocation);

	if (status == SOMA_STATUS_OUT_OF_DEVICE_MEMORY) {
		held->allocation = NULL;
		return;
	}
	ck_ok(status);
	held->stream = stream;
	held->noted = false;
	held->pattern = w->number << 24 | ++w->patterns;
	enter_live(w, held);
	ck_ok(ops_of(w)->fill32(self_of(w), soma_allocation_device_ptr(held->allocation), held->pattern,
				size / 4, real(w->setup.resource, stream)));
}

static void
look(struct worker *w, const struct held *held)
{
	struct soma_backend_scan *scan = &w->scans[w->scan_count++];

	*scan = (struct soma_backend_scan){ .ptr = soma_allocation_device_ptr(held->allocation),
					    .bytes = soma_allocation_size(held->allocation),
					    .pattern = held->pattern };
	ck_ok(ops_of(w)->scan(self_of(w), scan, 1, real(w->setup.resource, held->stream)));
}

/* By an event that was recorded some time ago, if there is one. */
static void
move(struct worker *w, struct held *held, uint64_t stream)
{
	if (held->noted)
		ck_ok(soma_pool_wait_event(w->setup.pool, stream, held->event_stream, held->event));
	else
		order_after(w->setup.pool, stream, held->stream);
	held->stream = stream;
	held->noted = false;
}

static void
note(struct worker *w, struct held *held)
{
	held->noted = true;
	held->event_stream = held->stream;
	held->event = record(w->setup.pool, held->stream);
}

/* One is the legacy stream, and the other one blocks with it. */
static bool
are_ordered(const struct worker *w, uint64_t one, uint64_t other)
{
	for (unsigned i = 0; i < STREAMS; i++)
		if (w->blocking[i] && w->streams[i] != 0 && w->streams[i] == (one != 0 ? one : other))
			return (one == 0) != (other == 0);
	return false;
}

static void
free_looked_at(struct worker *w, struct held *held, uint64_t stream)
{
	leave_live(w, held);
	if (below(w, 16) == 0) {
		ck_ok(ops_of(w)->stream_synchronize(self_of(w), real(w->setup.resource, held->stream)));
		ck_ok(soma_pool_free_now(held->allocation));
	} else {
		ck_ok(soma_pool_free(held->allocation, stream));
	}
	ck_ok(soma_allocation_release(held->allocation));
	held->allocation = NULL;
}

static void
give(struct worker *w, struct held *held)
{
	uint64_t other = w->streams[below(w, STREAMS)];
	bool implicit = are_ordered(w, held->stream, other) && below(w, 2) == 0;

	if (!implicit && below(w, 3) == 0 && other != held->stream)
		move(w, held, other);
	look(w, held);
	/* What comes on the other stream is after the look, and nothing is put there. */
	free_looked_at(w, held, implicit ? other : held->stream);
}

static void
step_some(struct worker *w)
{
	uint64_t stream = w->streams[below(w, STREAMS)];

	ck_ok(ops_of(w)->stream_step(self_of(w), real(w->setup.resource, stream), 1 + below(w, 12), NULL));
}

/* What is on the stream goes on on another one that comes after it. */
static void
replace_stream(struct worker *w)
{
	uint32_t at = 1 + below(w, STREAMS - 1);
	uint64_t *place = &w->streams[at], old = *place;
	uint64_t heir = w->streams[0];

	order_after(w->setup.pool, heir, old);
	for (unsigned i = 0; i < HELD; i++)
		if (w->held[i].allocation != NULL && w->held[i].stream == old)
			w->held[i].stream = heir;
	ck_ok(soma_resource_stream_destroy(w->setup.resource, old));
	w->blocking[at] = below(w, 2) == 0;
	ck_ok(soma_resource_stream_create(w->setup.resource, w->blocking[at] ? 0 : SOMA_STREAM_NON_BLOCKING,
					  place));
}

/* Of reuse: any at any time; what the policy excludes is refused. */
static void
set_some_attribute(struct worker *w)
{
	enum soma_pool_attribute which = SOMA_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES + below(w, 3);
	enum soma_status status = soma_pool_set_attribute(w->setup.pool, which, below(w, 2));

	ck_assert(status == SOMA_STATUS_OK || status == SOMA_STATUS_NOT_SUPPORTED);
}

static void
do_one(struct worker *w)
{
	struct held *held = &w->held[below(w, HELD)];
	uint32_t what = below(w, 100);

	if (what < 70 && held->allocation == NULL)
		take(w, held);
	else if (what < 70)
		give(w, held);
	else if (what < 80)
		order_after(w->setup.pool, w->streams[below(w, STREAMS)], w->streams[below(w, STREAMS)]);
	else if (what < 94)
		step_some(w);
	else if (what < 96)
		ck_ok(soma_pool_synchronize(w->setup.pool, w->streams[below(w, STREAMS)]));
	else if (what < 97)
		ck_ok(soma_pool_trim(w->setup.pool, below(w, 2) * 256 * KIB));
	else if (what < 98 && w->destroys_streams)
		replace_stream(w);
	else if (what < 99 && w->destroys_streams && below(w, 4) == 0)
		set_some_attribute(w);
	else if (held->allocation != NULL && !held->noted)
		note(w, held);
	else if (held->allocation != NULL)
		(void)soma_pool_is_ready(held->allocation);
}

static void *
work(void *argument)
{
	struct worker *w = argument;

	for (unsigned i = 0; i < w->operations && w->scan_count < w->scan_max - HELD; i++)
		do_one(w);
	for (unsigned i = 0; i < HELD; i++)
		if (w->held[i].allocation != NULL)
			give(w, &w->held[i]);
	return NULL;
}

/* ---- runs ------------------------------------------------------------------------------------- */

static void
start(struct worker *w, struct setup setup, struct live *live, unsigned number, uint64_t seed,
      unsigned operations)
{
	void *memory;

	*w = (struct worker){ .setup = setup,
			      .live = live,
			      .number = number,
			      .random = seed,
			      .operations = operations,
			      .scan_max = operations + HELD };
	ck_ok(ops_of(w)->staging_alloc(self_of(w), w->scan_max * sizeof *w->scans, &memory));
	w->scans = memory;
	for (unsigned i = 0; i < STREAMS; i++) {
		w->blocking[i] = i % 2 == 0;
		ck_ok(soma_resource_stream_create(
			setup.resource, w->blocking[i] ? 0 : SOMA_STREAM_NON_BLOCKING, &w->streams[i]));
	}
}

/* After everything has run. */
static void
finish(struct worker *w)
{
	for (size_t i = 0; i < w->scan_count; i++)
		ck_assert_msg(w->scans[i].first_bad == SOMA_BACKEND_SCAN_CLEAN,
			      "worker %u: look %zu of %zu: byte %" PRIu64 " of %" PRIu64
			      " had changed before the free",
			      w->number, i, w->scan_count, w->scans[i].first_bad, w->scans[i].bytes);
	ck_assert_uint_gt(w->scan_count, w->operations / 8);
	ops_of(w)->staging_free(self_of(w), w->scans, w->scan_max * sizeof *w->scans);
}

static struct soma_policy
small_segments(const char *preset)
{
	struct soma_policy policy = *soma_policy_preset(preset);

	for (unsigned i = 0; i < policy.pool_count; i++) {
		policy.pools[i].segment_step = 128 * KIB;
		policy.pools[i].segment_size = policy.pools[i].segment_max = 0;
	}
	policy.pools[0].request_max = policy.pool_count > 1 ? 8 * KIB : UINT64_MAX;
	policy.pools[policy.pool_count - 1].split_min = 512;
	return policy;
}

/* A guard's; 0 without one. */
static uint64_t
reports_of(struct soma_resource *resource)
{
	struct soma_backend_guard_stats stats = { .size = sizeof stats };

	if (soma__terminal_can(resource->terminal, SOMA_BACKEND_GUARD))
		ck_ok(resource->terminal->ops->guard_stats(resource->terminal->self, &stats));
	return stats.reports;
}

/* Nothing is left when all has run. */
static void
end(struct setup setup, struct worker *workers, unsigned count)
{
	ck_ok(setup.resource->terminal->ops->synchronize(setup.resource->terminal->self));
	for (unsigned i = 0; i < count; i++) {
		for (unsigned j = 0; j < STREAMS; j++)
			ck_ok(soma_pool_synchronize(setup.pool, workers[i].streams[j]));
		finish(&workers[i]);
	}
	ck_assert_uint_eq(stats_of(setup.pool).used, 0);
	ck_assert_uint_eq(stats_of(setup.pool).handle_count, 0);
	ck_ok(soma_pool_synchronize(setup.pool, 0));
	ck_ok(soma_pool_trim(setup.pool, 0));
	ck_assert_uint_eq(stats_of(setup.pool).reserved, 0);
	ck_ok(setup.resource->terminal->ops->synchronize(setup.resource->terminal->self));
	ck_ok(soma_resource_reap_pending(setup.resource));
	if (soma_pool_placement(setup.pool) == SOMA_PLACEMENT_POOL)
		ck_assert_uint_eq(soma_resource_bytes_outstanding(setup.resource), 0);
	ck_assert_uint_eq(reports_of(setup.resource), 0);
	take_down(setup);
}

static void
run_one(enum kind kind, const char *preset, uint64_t max, uint64_t seed, unsigned operations)
{
	const struct soma_policy policy = small_segments(preset);
	struct setup setup =
		set_up(kind, (struct soma_pool_config){ .policy = &policy,
							.max_size = max,
							.release_threshold = seed % 3 * 128 * KIB });
	struct live live = { .mutex = PTHREAD_MUTEX_INITIALIZER };
	struct worker w;

	start(&w, setup, &live, 1, seed, operations);
	w.destroys_streams = true;
	if (seed % 5 == 1)
		w.streams[0] = 0; /* the legacy default stream */
	work(&w);
	end(setup, &w, 1);
}

START_TEST(bytes_survive_while_the_pool_is_at_its_maximum)
{
	for (uint64_t seed = 1; seed <= 40; seed++)
		run_one(POOL_OVER_HOST, "cuda", 512 * KIB, seed, 2000);
}
END_TEST

START_TEST(bytes_survive_while_the_pool_grows)
{
	for (uint64_t seed = 1; seed <= 20; seed++)
		run_one(POOL_OVER_HOST, "cuda", 0, seed, 2000);
}
END_TEST

START_TEST(bytes_survive_with_a_pool_for_each_stream)
{
	for (uint64_t seed = 1; seed <= 20; seed++)
		run_one(POOL_OVER_HOST, "pytorch", 2 * MIB, seed, 2000);
}
END_TEST

START_TEST(bytes_survive_where_the_resource_places_the_blocks)
{
	for (uint64_t seed = 1; seed <= 10; seed++)
		run_one(BACKEND_OVER_HOST, "cuda", 2 * MIB, seed, 1000);
}
END_TEST

/* The guard finds nothing to report, either. */
START_TEST(bytes_survive_over_a_guard)
{
	for (uint64_t seed = 1; seed <= 6; seed++)
		run_one(OVER_GUARD, "cuda", 2 * MIB, seed, 400);
}
END_TEST

static void
run_threads(enum kind kind, uint64_t max, unsigned operations)
{
	const struct soma_policy policy = small_segments("cuda");
	struct setup setup = set_up(
		kind,
		(struct soma_pool_config){ .policy = &policy, .max_size = max, .release_threshold = 0 });
	struct live live = { .mutex = PTHREAD_MUTEX_INITIALIZER };
	struct worker workers[4];

	for (unsigned i = 0; i < 4; i++) {
		start(&workers[i], setup, &live, i + 1, i + 7, operations);
		workers[i].destroys_streams = true;
	}
	for (unsigned i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(workers[i].thread, NULL);
	end(setup, workers, 4);
}

START_TEST(threads_share_a_pool_at_its_maximum)
{
	run_threads(POOL_OVER_HOST, 2 * MIB, 5000);
}
END_TEST

START_TEST(threads_share_a_pool_that_grows_and_gives_back)
{
	run_threads(POOL_OVER_HOST, 0, 5000);
}
END_TEST

START_TEST(threads_share_a_pool_where_the_resource_places_the_blocks)
{
	run_threads(BACKEND_OVER_HOST, 8 * MIB, 3000);
}
END_TEST

/* ---- a pool that is destroyed under its users --------------------------------------------------- */

#define LEAVERS 4
#define OWNED 30

struct leaver {
	pthread_t thread;
	pthread_barrier_t *barrier;
	uint64_t stream;
	struct soma_allocation *live[OWNED];
	struct soma_allocation *freed[OWNED];
};

static void *
leave(void *argument)
{
	struct leaver *l = argument;

	pthread_barrier_wait(l->barrier);
	for (unsigned i = 0; i < OWNED; i++) {
		ck_ok(soma_allocation_release(l->freed[i]));
		if (i % 2 == 0)
			ck_ok(soma_pool_free(l->live[i], l->stream));
		ck_ok(soma_allocation_release(l->live[i]));
	}
	return NULL;
}

static void
destroy_under_users(enum kind kind)
{
	struct setup s = set_up(kind, (struct soma_pool_config){ .release_threshold = UINT64_MAX });
	struct leaver leavers[LEAVERS];
	pthread_barrier_t barrier;

	pthread_barrier_init(&barrier, NULL, LEAVERS + 1);
	for (unsigned t = 0; t < LEAVERS; t++) {
		struct leaver *l = &leavers[t];
		*l = (struct leaver){ .barrier = &barrier, .stream = stream_of(s) };
		for (unsigned i = 0; i < OWNED; i++) {
			l->live[i] = alloc(s.pool, 1000 * (i + 1), l->stream);
			l->freed[i] = alloc(s.pool, 1000, l->stream);
			ck_ok(soma_pool_free(l->freed[i], l->stream));
		}
		ck_assert_int_eq(pthread_create(&l->thread, NULL, leave, l), 0);
	}
	pthread_barrier_wait(&barrier);
	ck_ok(soma_pool_destroy(s.pool));
	for (unsigned t = 0; t < LEAVERS; t++)
		pthread_join(leavers[t].thread, NULL);
	pthread_barrier_destroy(&barrier);
	if (s.resource == NULL)
		return;
	ck_ok(s.resource->terminal->ops->synchronize(s.resource->terminal->self));
	ck_ok(soma_resource_reap_pending(s.resource));
	ck_assert_uint_eq(soma_resource_bytes_outstanding(s.resource), 0);
	soma_resource_release(s.resource);
}

START_TEST(a_pool_may_be_destroyed_while_threads_free_its_blocks)
{
	for (unsigned round = 0; round < 30; round++) {
		destroy_under_users(ALONE);
		destroy_under_users(POOL_OVER_HOST);
		destroy_under_users(BACKEND_OVER_HOST);
	}
}
END_TEST

UNIT_MAIN("pool_random", bytes_survive_while_the_pool_is_at_its_maximum, bytes_survive_while_the_pool_grows,
	  bytes_survive_with_a_pool_for_each_stream, bytes_survive_where_the_resource_places_the_blocks,
	  bytes_survive_over_a_guard, threads_share_a_pool_at_its_maximum,
	  threads_share_a_pool_that_grows_and_gives_back,
	  threads_share_a_pool_where_the_resource_places_the_blocks,
	  a_pool_may_be_destroyed_while_threads_free_its_blocks)
