/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formatting of quantities; no state.
 */
#include "tools/units.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/size.h"

char *
units_bytes(char *buffer, uint64_t bytes)
{
	return soma__size_format(buffer, bytes);
}

char *
units_power(char *buffer, unsigned power)
{
	static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };

	snprintf(buffer, UNITS_MAX, "%u %s", 1u << power % 10, names[power / 10 % 7]);
	return buffer;
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

char *
units_part(char *buffer, uint64_t part, uint64_t whole, const char *noun)
{
	char all[UNITS_MAX];
	int room = UNITS_MAX - (int)strlen(units_count(buffer, part)) - (int)sizeof " of ";

	strcat(buffer, " of ");
	strncat(buffer, units_plural(all, whole, noun), room > 0 ? (size_t)room : 0);
	return buffer;
}

/* What would be rounded to a thousand of a unit is one of the next. */
char *
units_time(char *buffer, uint64_t ns)
{
	static const struct {
		double unit;
		const char *name;
	} units[] = { { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "us" } };

	for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
		double value = (double)ns / units[i].unit;

		if (value < 0.9995)
			continue;
		snprintf(buffer, UNITS_MAX, value < 999.5 ? "%.3g %s" : "%.0f %s", value, units[i].name);
		return buffer;
	}
	snprintf(buffer, UNITS_MAX, "%" PRIu64 " ns", ns);
	return buffer;
}

/* Whole numbers from 100 on; below, three digits, and below 1 two, never an exponent. */
char *
units_rate(char *buffer, double rate)
{
	if (!(rate < 0x1p63))
		return units_count(buffer, INT64_MAX);
	if (rate >= 99.95)
		return units_count(buffer, (uint64_t)(rate + 0.5));
	if (rate >= 1 || rate <= 0)
		snprintf(buffer, UNITS_MAX, "%.*f", rate < 9.995 && rate > 0 ? 2 : rate > 0 ? 1 : 0, rate);
	else
		snprintf(buffer, UNITS_MAX, "%.*f", (int)fmin(1 - floor(log10(rate)), 20), rate);
	return buffer;
}
