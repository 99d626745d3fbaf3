/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formatting of quantities; no state.
 */
#include "tools/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/size.h"

char *
units_bytes(char *buffer, uint64_t bytes)
{
	return soma__size_format(buffer, bytes);
}

char *
units_exact(char *buffer, uint64_t bytes)
{
	return soma__size_exact(buffer, bytes);
}

char *
units_count(char *buffer, uint64_t count)
{
	char digits[24];
	size_t length = (size_t)snprintf(digits, sizeof digits, "%" PRIu64, count);
	char *out = buffer;

	for (size_t i = 0; i < length; i++) {
		if (i > 0 && (length - i) % 3 == 0)
			*out++ = ',';
		*out++ = digits[i];
	}
	*out = '\0';
	return buffer;
}

char *
units_percent(char *buffer, uint64_t part, uint64_t whole)
{
	if (whole == 0)
		return strcpy(buffer, "-");
	snprintf(buffer, UNITS_MAX, "%.1f %%", 100.0 * (double)part / (double)whole);
	return buffer;
}

char *
units_plural(char *buffer, uint64_t count, const char *noun)
{
	char number[UNITS_MAX];

	snprintf(buffer, UNITS_MAX, "%s %s%s", units_count(number, count), noun, count == 1 ? "" : "s");
	return buffer;
}
