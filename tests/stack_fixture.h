/* SPDX-License-Identifier: Apache-2.0 */
/* The whole stack for a test: lib/resource over guard:host, as modules. */
#ifndef SOMA_TESTS_STACK_FIXTURE_H
#define SOMA_TESTS_STACK_FIXTURE_H

#include "lib/base/error.h"
#include "lib/resource/open.h"
#include "tests/unit.h"

/* options: of the guard, `count` of them. */
static inline struct soma_resource *
open_guarded(const struct soma_backend_option *options, size_t count)
{
	const struct soma__backend_config config = {
		.name = "guard:host", .search = STACK_FOLDERS, .option_count = count, .options = options
	};
	struct soma_resource *resource;

	ck_assert_msg(soma__resource_open(&config, &resource) == SOMA_STATUS_OK, "%s",
		      soma_error_last()->text);
	return resource;
}

static inline struct soma_backend_guard_stats
guard_stats_of(struct soma_resource *resource)
{
	struct soma__backend *backend = soma__resource_backend(resource);
	struct soma_backend_guard_stats stats = { .size = sizeof stats };

	ck_assert_int_eq(backend->ops->guard_stats(backend->self, &stats), SOMA_STATUS_OK);
	return stats;
}

static inline struct soma_ledger
ledger_of(struct soma_resource *resource)
{
	struct soma_ledger ledger = { .size = sizeof ledger };

	ck_assert_int_eq(soma_resource_ledger(resource, &ledger), SOMA_STATUS_OK);
	return ledger;
}

static inline void
drain_guard(struct soma_resource *resource)
{
	struct soma__backend *backend = soma__resource_backend(resource);

	ck_assert_int_eq(backend->ops->guard_drain(backend->self, 0), SOMA_STATUS_OK);
}

#endif
