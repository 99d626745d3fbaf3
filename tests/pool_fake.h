/* SPDX-License-Identifier: Apache-2.0 */
/* A pool over the fake backend of the resource tests, with two streams. */
#ifndef SOMA_TESTS_POOL_FAKE_H
#define SOMA_TESTS_POOL_FAKE_H

#include <string.h>

#include "tests/check_resource_fake.h"
#include "tests/pool_fixture.h"

#define ORDERED FAKE_ORDERED
#define SYNCHRONOUS (SOMA_BACKEND_USE_TRACKING | SOMA_BACKEND_STREAMS)

static struct soma_backend *fake;
static struct soma_resource *resource;
static struct soma_pool *p;
static uint64_t a, b;

static inline void
open_fake(uint64_t capabilities, struct soma_pool_config config)
{
	fake = fake_create(capabilities, &resource);
	p = pool_over(resource, config);
	a = new_stream(resource);
	b = new_stream(resource);
}

static inline void
close_fake(void)
{
	ck_ok(soma_pool_destroy(p));
	fake_run_all(fake);
	ck_ok(soma_resource_reap_pending(resource));
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 0);
	ck_assert_int_eq(fake->live_count, 0);
	soma_resource_release(resource);
	fake_destroy(fake);
}

#define KEEP .release_threshold = UINT64_MAX
#define POOL ((struct soma_pool_config){ .placement = SOMA_PLACEMENT_POOL, KEEP })
#define BACKEND ((struct soma_pool_config){ .placement = SOMA_PLACEMENT_BACKEND, KEEP })

static inline bool
same(struct soma_pool_stats x, struct soma_pool_stats y)
{
	return memcmp(&x, &y, sizeof x) == 0;
}

#endif
