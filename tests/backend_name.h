/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which backend a test runs on: its own choice, or what SOMA_TEST_BACKEND names, so that the same tests can be
 * run around another one (tests/check_guarded runs them over guard:host).
 */
#ifndef SOMA_TESTS_BACKEND_NAME_H
#define SOMA_TESTS_BACKEND_NAME_H

#include <stdlib.h>

#include "lib/resource/open.h"

static inline const char *
test_backend(const char *own)
{
	const char *name = getenv("SOMA_TEST_BACKEND");

	return name != NULL && name[0] != '\0' ? name : own;
}

/* Completes what is over: frees, and what a guard keeps back. */
static inline void
test_complete(struct soma_resource *resource)
{
	const struct soma__backend *backend = soma__resource_backend(resource);

	soma_resource_reap_pending(resource);
	if ((backend->capabilities & SOMA_BACKEND_GUARD) != 0)
		backend->ops->guard_drain(backend->self, 0);
}

#endif
