/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same calls give the same pointers and counters, in every build and on every
 * machine: a fixed sequence, made by a generator that stands here and never changes,
 * has a digest that stands here too.  The oracle must come to the same one.
 *
 * A digest that changes is a change of results: HACKING, "The model", says which rules
 * are meant, and a release that changes one says so.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

#include "tests/engine.h"
#include "tests/unit.h"

struct recording {
	const char *preset;
	unsigned slots; /* blocks that may be live at once */
	unsigned operations;
	uint64_t largest;
	uint64_t max_pool_size;
	uint64_t batch_above; /* in place of the preset's; 0: the preset's */
	uint64_t digest;
};

/* Those with a batch_above begin with more live blocks than that and fall below: the queue holds back
 * its latest then, and later does not. */
static const struct recording recordings[] = {
	{ "strict", 200, 200000, (uint64_t)1 << 22, (uint64_t)1 << 28, 0, 0xf45d86cd2cb3ecf1 },
	{ "cuda", 200, 200000, (uint64_t)1 << 26, (uint64_t)1 << 30, 0, 0xff461145a8de19b4 },
	{ "pytorch", 200, 200000, (uint64_t)1 << 25, (uint64_t)1 << 30, 0, 0xce1240e2b6681c86 },
	{ "cuda", 2400, 20000, (uint64_t)1 << 16, 0, 2000, 0xab000b72e8817733 },
	{ "soma", 200, 200000, (uint64_t)1 << 26, (uint64_t)1 << 30, 0, 0xcc25fa4bdcb7a51b },
	{ "soma", 2400, 20000, (uint64_t)1 << 20, (uint64_t)1 << 27, 2000, 0xcc3d035f53b7fae9 },
};

#define RECORDINGS ((int)(sizeof recordings / sizeof recordings[0]))
#define STREAMS 8
#define EVENTS 16

struct replay {
	const struct engine *engine;
	void *handle;
	const struct recording *recording;
	uint64_t state;
	uint64_t digest;
	uint64_t *live; /* by slot; 0: none */
	unsigned filled;
	uint64_t streams[STREAMS];
	struct {
		uint64_t stream;
		uint64_t seq;
	} events[EVENTS];
};

/* xorshift64* */
static uint64_t
draw(struct replay *r, uint64_t limit)
{
	r->state ^= r->state >> 12;
	r->state ^= r->state << 25;
	r->state ^= r->state >> 27;
	return (r->state * 0x2545f4914f6cdd1d >> 16) % limit;
}

/* FNV-1a */
static void
digest(struct replay *r, uint64_t value)
{
	for (unsigned i = 0; i < 8; i++) {
		r->digest ^= (value >> (8 * i)) & 0xff;
		r->digest *= 0x100000001b3;
	}
}

static void
digest_counters(struct replay *r)
{
	struct soma_model_stats stats;

	r->engine->stats(r->handle, &stats);
	/* Counters that came later, where nothing is counted: the digests are older. */
#define X(name)                                                                                       \
	if (offsetof(struct soma_model_stats, name) < offsetof(struct soma_model_stats, map_count) || \
	    stats.map_count > 0)                                                                      \
		digest(r, stats.name);
	SOMA_MODEL_COUNTER_MAP(X)
#undef X
}

static void
alloc_or_free(struct replay *r)
{
	/* Where the number of live blocks matters, they are all made first. */
	bool filling = r->recording->batch_above > 0 && r->filled < r->recording->slots;
	uint64_t *slot = &r->live[filling ? r->filled++ : draw(r, r->recording->slots)];
	uint64_t stream = r->streams[draw(r, STREAMS)];
	uint64_t size = 1 + draw(r, r->recording->largest >> draw(r, 16));
	struct soma_model_alloc a = { 0 };

	if (*slot != 0) {
		digest(r, r->engine->free(r->handle, *slot, stream));
		*slot = 0;
		return;
	}
	digest(r, r->engine->alloc(r->handle, size, stream, &a));
	digest(r, a.ptr);
	digest(r, a.capacity);
	digest(r, a.ready_seq);
	digest(r, a.wait_stream);
	digest(r, a.wait_seq);
	*slot = a.ptr;
}

static void
record_or_wait(struct replay *r)
{
	unsigned event = (unsigned)draw(r, EVENTS);
	uint64_t stream = r->streams[draw(r, STREAMS)];

	if (draw(r, 2) == 0) {
		r->events[event].stream = stream;
		digest(r, r->engine->record_event(r->handle, stream, &r->events[event].seq));
		digest(r, r->events[event].seq);
		return;
	}
	digest(r, r->engine->wait_event(r->handle, stream, r->events[event].stream, r->events[event].seq));
}

static void
make_progress(struct replay *r)
{
	uint64_t stream = r->streams[draw(r, STREAMS)];
	struct soma_model_position position = { 0 };

	r->engine->position(r->handle, stream, &position);
	digest(r, position.executed);
	if (draw(r, 8) == 0)
		digest(r, r->engine->synchronize(r->handle, stream));
	else
		digest(r, r->engine->advance(r->handle, stream,
					     position.submitted - draw(r, position.submitted / 64 + 1)));
}

static void
replace_stream(struct replay *r)
{
	uint64_t *stream = &r->streams[1 + draw(r, STREAMS - 1)];

	digest(r, r->engine->stream_destroy(r->handle, *stream));
	digest(r, r->engine->stream_create(r->handle, (unsigned)draw(r, 2), stream));
	digest(r, *stream);
}

static void
step(struct replay *r)
{
	uint64_t n = draw(r, 1000);

	if (n < 850)
		alloc_or_free(r);
	else if (n < 930)
		record_or_wait(r);
	else if (n < 980)
		make_progress(r);
	else if (n < 981)
		replace_stream(r);
	else if (n < 995)
		digest(r, r->engine->trim_to(r->handle, draw(r, r->recording->largest * 16)));
	else
		digest(r, r->engine->synchronize_all(r->handle));
}

static uint64_t
replay(const struct recording *recording, const struct engine *engine)
{
	struct soma_policy policy = *soma_policy_preset(recording->preset);
	struct soma_model_limits limits = {
		.size = sizeof limits,
		.max_pool_size = recording->max_pool_size,
		.release_threshold = recording->largest * 8,
		.policy = &policy,
	};
	struct replay r = {
		.engine = engine,
		.recording = recording,
		.state = 0x50a05eed,
		.digest = 0xcbf29ce484222325,
		.live = calloc(recording->slots, sizeof(uint64_t)),
	};

	if (recording->batch_above > 0)
		policy.batch_above = recording->batch_above;
	ck_assert_ptr_nonnull(r.live);
	ck_assert_int_eq(engine->create(&limits, ORACLE_FAULT_NONE, &r.handle), SOMA_STATUS_OK);
	for (unsigned i = 1; i < STREAMS; i++)
		ck_assert_int_eq(engine->stream_create(r.handle, i % 2, &r.streams[i]), SOMA_STATUS_OK);
	for (unsigned i = 0; i < recording->operations; i++) {
		step(&r);
		if (i % 4 == 0)
			digest_counters(&r);
	}
	digest_counters(&r);
	engine->destroy(r.handle);
	free(r.live);
	return r.digest;
}

START_TEST(a_fixed_sequence_gives_the_same_pointers_and_counters_everywhere)
{
	uint64_t found = replay(&recordings[_i], &engine_model);

	ck_assert_msg(found == recordings[_i].digest, "%s: digest 0x%016" PRIx64 ", expected 0x%016" PRIx64,
		      recordings[_i].preset, found, recordings[_i].digest);
}
END_TEST

START_TEST(the_oracle_comes_to_the_same_digest)
{
	uint64_t found = replay(&recordings[_i], &engine_oracle);

	ck_assert_msg(found == recordings[_i].digest, "%s: digest 0x%016" PRIx64 ", expected 0x%016" PRIx64,
		      recordings[_i].preset, found, recordings[_i].digest);
}
END_TEST

int
main(void)
{
	Suite *suite = suite_create("determinism");
	TCase *tcase = tcase_create("digests");

	tcase_set_timeout(tcase, 0);
	tcase_add_loop_test(tcase, a_fixed_sequence_gives_the_same_pointers_and_counters_everywhere, 0,
			    RECORDINGS);
	tcase_add_loop_test(tcase, the_oracle_comes_to_the_same_digest, 0, RECORDINGS);
	suite_add_tcase(suite, tcase);
	return unit_run_suite(suite);
}
