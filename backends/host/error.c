/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of the host backend.  No state. */
#include "backends/host/error.h"

#include <stdarg.h>
#include <stdio.h>

enum soma_status
host_fail(const struct soma_backend_host *host, enum soma_status status, const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	const struct soma_backend_error error = { .size = sizeof error, .status = status, .text = text };
	return host->fail(host->context, &error);
}
