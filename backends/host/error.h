/* SPDX-License-Identifier: Apache-2.0 */
/* Recording an error with the library; see host->fail in <soma/backend.h>. */
#ifndef SOMA_BACKENDS_HOST_ERROR_H
#define SOMA_BACKENDS_HOST_ERROR_H

#include <soma/backend.h>

/* Makes the text from the format, records it and returns `status`. */
enum soma_status host_fail(const struct soma_backend_host *host, enum soma_status status, const char *format,
			   ...) __attribute__((format(printf, 3, 4)));

#endif
