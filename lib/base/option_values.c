/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the value of an option may be: one parser a kind.  Each takes the whole text
 * or refuses it, saying what was expected.  No state, no locks.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/base/error.h"
#include "lib/base/options.h"
#include "lib/base/size.h"

static enum soma_status
refuse(const char *text, const char *expected)
{
	return soma__error_text(SOMA_STATUS_INVALID_VALUE, "\"%.64s\" is not %s", text, expected);
}

enum soma_status
soma__option_bool(const struct soma__option *option, const char *text, void *field)
{
	static const char *const words[][2] = {
		{ "no", "yes" },
		{ "off", "on" },
		{ "false", "true" },
		{ "0", "1" },
	};
	(void)option;

	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
		for (int value = 0; value < 2; value++) {
			if (strcasecmp(text, words[i][value]) == 0) {
				*(bool *)field = value != 0;
				return SOMA_STATUS_OK;
			}
		}
	}
	return refuse(text, "yes or no");
}

/* Decimal digits alone: strtoull would take signs, blanks and other bases. */
static bool
read_decimal(const char *text, uint64_t max, uint64_t *value)
{
	uint64_t sum = 0;

	if (*text == '\0')
		return false;
	for (; *text != '\0'; text++) {
		if (*text < '0' || *text > '9' || __builtin_mul_overflow(sum, 10, &sum) ||
		    __builtin_add_overflow(sum, (uint64_t)(*text - '0'), &sum) || sum > max)
			return false;
	}
	*value = sum;
	return true;
}

enum soma_status
soma__option_u32(const struct soma__option *option, const char *text, void *field)
{
	uint64_t value;
	(void)option;

	if (!read_decimal(text, UINT32_MAX, &value))
		return refuse(text, "a whole number from 0 to 4294967295");
	*(uint32_t *)field = (uint32_t)value;
	return SOMA_STATUS_OK;
}

enum soma_status
soma__option_u64(const struct soma__option *option, const char *text, void *field)
{
	(void)option;
	if (!read_decimal(text, UINT64_MAX, field))
		return refuse(text, "a whole number from 0 to 18446744073709551615");
	return SOMA_STATUS_OK;
}

enum soma_status
soma__option_size(const struct soma__option *option, const char *text, void *field)
{
	const char *problem = soma__size_parse(text, field);
	(void)option;

	if (problem != NULL)
		return soma__error_text(SOMA_STATUS_INVALID_VALUE, "\"%.64s\" %s", text, problem);
	return SOMA_STATUS_OK;
}

/* "D", "D.D" or ".D" with digits alone, so that the locale has no say. */
static bool
read_point(const char *text, size_t length, double *value)
{
	double sum = 0, scale = 1;
	bool digits = false, point = false;

	for (size_t i = 0; i < length; i++) {
		if (text[i] == '.' && !point) {
			point = true;
			continue;
		}
		if (text[i] < '0' || text[i] > '9')
			return false;
		digits = true;
		sum = sum * 10 + (text[i] - '0');
		if (point)
			scale *= 10;
	}
	*value = sum / scale;
	return digits && length < 32;
}

enum soma_status
soma__option_fraction(const struct soma__option *option, const char *text, void *field)
{
	size_t length = strlen(text);
	bool percent = length > 0 && text[length - 1] == '%';
	double value;
	(void)option;

	if (!read_point(text, percent ? length - 1 : length, &value))
		return refuse(text, "a fraction such as 0.9 or 90%");
	if (percent)
		value /= 100;
	if (value > 1)
		return refuse(text, "a fraction from 0 to 1 (0% to 100%)");
	*(double *)field = value;
	return SOMA_STATUS_OK;
}

/* "one of a, b, c" */
static void
list_choices(const char *const *choices, char *buffer, size_t size)
{
	size_t used = (size_t)snprintf(buffer, size, "one of");

	for (size_t i = 0; choices[i] != NULL && used < size; i++)
		used += (size_t)snprintf(buffer + used, size - used, "%s %s", i == 0 ? "" : ",", choices[i]);
}

enum soma_status
soma__option_choice(const struct soma__option *option, const char *text, void *field)
{
	char expected[160];

	for (unsigned i = 0; option->choices[i] != NULL; i++) {
		if (strcmp(option->choices[i], text) == 0) {
			*(unsigned *)field = i;
			return SOMA_STATUS_OK;
		}
	}
	list_choices(option->choices, expected, sizeof expected);
	return refuse(text, expected);
}

enum soma_status
soma__option_string(const struct soma__option *option, const char *text, void *field)
{
	char *copy = strdup(text);
	(void)option;

	if (copy == NULL)
		return soma__fail(OUT_OF_HOST_MEMORY, "no memory for an option");
	free(*(char **)field);
	*(char **)field = copy;
	return SOMA_STATUS_OK;
}

enum soma_status
soma__option_pattern(const struct soma__option *option, const char *text, void *field)
{
	for (const char *at = strchr(text, '%'); at != NULL; at = strchr(at + 2, '%'))
		if (at[1] == '\0' || strchr("dp%", at[1]) == NULL)
			return soma__error_text(SOMA_STATUS_INVALID_VALUE,
						"\"%.2s\" in \"%.64s\": expected %%d, %%p or %%%%", at, text);
	return soma__option_string(option, text, field);
}
