/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short words for tests of one model: every call is checked on the spot, so that a
 * test reads as the sequence of what happens.
 */
#ifndef SOMA_TESTS_MODEL_FIXTURE_H
#define SOMA_TESTS_MODEL_FIXTURE_H

#include <check.h>

#include <soma/model.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define SEGMENT (32 * MIB) /* what the `cuda` preset grows by */

#define ck_ok(call) ck_assert_int_eq(call, SOMA_STATUS_OK)
#define ck_invalid(call) ck_assert_int_eq(call, SOMA_STATUS_INVALID_VALUE)

static inline struct soma_model *
model_with_policy(const struct soma_policy *policy, uint64_t max, uint64_t threshold)
{
	struct soma_model_limits limits = {
		.size = sizeof limits,
		.max_pool_size = max,
		.release_threshold = threshold,
		.policy = policy,
	};
	struct soma_model *model = NULL;

	ck_ok(soma_model_create(&limits, &model));
	return model;
}

/* A preset, keeping everything at a synchronisation. */
static inline struct soma_model *
model_of(const char *preset, uint64_t max)
{
	return model_with_policy(soma_policy_preset(preset), max, UINT64_MAX);
}

/* The `cuda` preset with other reuse rules. */
static inline struct soma_model *
model_reusing(unsigned reuse, uint64_t max)
{
	struct soma_policy policy = *soma_policy_preset("cuda");

	policy.reuse = reuse;
	return model_with_policy(&policy, max, UINT64_MAX);
}

static inline uint64_t
stream_of(struct soma_model *model)
{
	uint64_t stream = 0;

	ck_ok(soma_model_stream_create(model, SOMA_STREAM_NON_BLOCKING, &stream));
	return stream;
}

static inline struct soma_model_alloc
alloc(struct soma_model *model, uint64_t size, uint64_t stream)
{
	struct soma_model_alloc a = { 0 };

	ck_ok(soma_model_alloc(model, size, stream, &a));
	return a;
}

static inline enum soma_status
try_alloc(struct soma_model *model, uint64_t size, uint64_t stream)
{
	struct soma_model_alloc a = { 0 };

	return soma_model_alloc(model, size, stream, &a);
}

static inline void
release(struct soma_model *model, struct soma_model_alloc a, uint64_t stream)
{
	ck_ok(soma_model_free(model, a.ptr, stream));
}

static inline uint64_t
record(struct soma_model *model, uint64_t stream)
{
	uint64_t seq = UINT64_MAX;

	ck_ok(soma_model_record_event(model, stream, &seq));
	return seq;
}

static inline uint64_t
submitted(struct soma_model *model, uint64_t stream)
{
	struct soma_model_position position;

	ck_ok(soma_model_position(model, stream, &position));
	return position.submitted;
}

static inline uint64_t
executed(struct soma_model *model, uint64_t stream)
{
	struct soma_model_position position;

	ck_ok(soma_model_position(model, stream, &position));
	return position.executed;
}

/* Later work of `stream` runs after all that `other` was given so far. */
static inline void
order_after(struct soma_model *model, uint64_t stream, uint64_t other)
{
	ck_ok(soma_model_wait_event(model, stream, other, record(model, other)));
}

#endif
