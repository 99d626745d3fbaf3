/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in's open facts as a table. */
#include "tests/gpu/probe.h"

#include "tests/fake/api.h"
#include "tests/fake/facts.h"

/* clang-format off */
#define FACT(name) { #name, (uint64_t)(name) }
/* clang-format on */

/* In the order of facts.h, and all of it: tests/check_gpu_kit compares. */
const struct probe_fact probe_facts[] = {
	FACT(FAKE_ASYNC_SIZE_0),
	FACT(FAKE_FREE_ASYNC_NULL),
	FACT(FAKE_FREE_NULL),
	FACT(FAKE_ALIGNMENT),
	FACT(FAKE_USED_IS_ROUNDED),
	FACT(FAKE_RESERVE_STEP),
	FACT(FAKE_SYNC_STEP),
	FACT(FAKE_SPLIT_MIN),
	FACT(FAKE_MAX_SIZE_IS_ROUNDED),
	FACT(FAKE_GRANULARITY),
	FACT(FAKE_USED_FALLS_AT_CALL),
	FACT(FAKE_QUERY_OBSERVES),
	FACT(FAKE_QUERY_RELEASES),
	FACT(FAKE_TRIM_RELEASES_UNOBSERVED),
	FACT(FAKE_FAILED_GROWTH_RELEASES),
	FACT(FAKE_FREE_WAITS),
	FACT(FAKE_DEFERRED_CALL_WORKS),
	FACT(FAKE_DESTROY_DEFAULT_POOL),
	FACT(FAKE_FREE_ASYNC_OF_OTHER),
	FACT(FAKE_STALE_HANDLE),
	FACT(FAKE_CALL_IN_CALLBACK),
	FACT(FAKE_CALL_IN_SIGNAL),
	FACT(FAKE_CALL_AFTER_FORK),
	FACT(FAKE_ALLOC_FROM_IMPORT),
	{ 0 },
};
