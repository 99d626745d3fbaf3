/* SPDX-License-Identifier: Apache-2.0 */
/* Budgets over the fake backend: what their tests do all the time. */
#ifndef SOMA_TESTS_BUDGET_FIXTURE_H
#define SOMA_TESTS_BUDGET_FIXTURE_H

#include "tests/check_resource_fake.h"

static inline struct soma_resource *
budget_of(struct soma_resource *inner, uint64_t limit)
{
	struct soma_resource *budget;

	ck_assert_int_eq(soma_budget_create(inner, limit, &budget), SOMA_STATUS_OK);
	return budget;
}

static inline enum soma_status
try_allocate(struct soma_resource *resource, uint64_t bytes)
{
	struct soma_block block = { .size = sizeof block };

	return soma_resource_allocate(resource, bytes, 0, &block);
}

/* The figures of the last error, in bytes. */
static inline void
check_error_sizes(uint64_t requested, uint64_t current, uint64_t remaining, uint64_t limit)
{
	const struct soma_error *error = soma_error_last();

	ck_assert_uint_eq(error->requested, requested);
	ck_assert_uint_eq(error->current, current);
	ck_assert_uint_eq(error->remaining, remaining);
	ck_assert_uint_eq(error->limit, limit);
}

#endif
