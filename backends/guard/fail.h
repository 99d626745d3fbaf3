/* SPDX-License-Identifier: Apache-2.0 */
/* Recording an error with the library.  Stateless; call it under no lock of the guard's. */
#ifndef SOMA_BACKENDS_GUARD_FAIL_H
#define SOMA_BACKENDS_GUARD_FAIL_H

#include <soma/backend.h>

enum soma_status guard_fail(const struct soma_backend_host *host, enum soma_status status, const char *format,
			    ...) __attribute__((format(printf, 3, 4)));

#endif
