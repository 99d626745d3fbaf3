/* SPDX-License-Identifier: Apache-2.0 */
/* A pool with a twin over the fake backend of the resource tests. */
#ifndef SOMA_TESTS_TWIN_FIXTURE_H
#define SOMA_TESTS_TWIN_FIXTURE_H

#include "tests/pool_fake.h"

#define CAN (FAKE_ORDERED | SOMA_BACKEND_POOL)
#define TWIN .placement = SOMA_PLACEMENT_BACKEND, .twin = true

static inline void
open_twin(struct soma_pool_config config)
{
	fake = fake_create(CAN, &resource);
	fake->attributes[SOMA_BACKEND_RELEASE_THRESHOLD] = UINT64_MAX;
	for (int i = SOMA_BACKEND_REUSE_FOLLOW_EVENT_DEPENDENCIES; i < SOMA_BACKEND_RELEASE_THRESHOLD; i++)
		fake->attributes[i] = 1;
	p = pool_over(resource, config);
	a = new_stream(resource);
	b = new_stream(resource);
}

static inline struct soma_twin_report
report(void)
{
	struct soma_twin_report r = { .size = sizeof r };

	ck_ok(soma_pool_twin(p, &r));
	return r;
}

static inline void
expect_agreement(uint64_t compared)
{
	struct soma_twin_report r = report();

	ck_assert_msg(!r.used_divergence.happened, "%s", r.used_divergence.text);
	ck_assert_msg(!r.reserved_divergence.happened, "%s", r.reserved_divergence.text);
	ck_assert_uint_eq(r.used.differences + r.used_high.differences, 0);
	ck_assert_uint_eq(r.reserved.differences + r.reserved_high.differences, 0);
	ck_assert_uint_eq(r.compared, compared);
	ck_assert_uint_eq(r.skipped, 0);
}

static inline void
has(const char *text, const char *part)
{
	ck_assert_msg(strstr(text, part) != NULL, "\"%s\" lacks \"%s\"", text, part);
}

static inline uint64_t
draw(uint64_t *random, uint64_t n)
{
	*random = *random * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (*random >> 33) % n;
}

#endif
