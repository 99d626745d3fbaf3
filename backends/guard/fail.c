/* SPDX-License-Identifier: Apache-2.0 */
/* Recording an error with the library.  No state, no locks. */
#include "backends/guard/fail.h"

#include <stdarg.h>
#include <stdio.h>

enum soma_status
guard_fail(const struct soma_backend_host *host, enum soma_status status, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	struct soma_backend_error error = { .size = sizeof error, .status = status, .text = text };
	return host->fail(host->context, &error);
}
