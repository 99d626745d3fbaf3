/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing and printing sizes; integers throughout when parsing, so that it is exact. */
#include "lib/base/size.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char units[] = "KMGTPE";

/* More digits of a fraction than this cannot change a whole byte below 2^64. */
#define FRACTION_DIGITS 18

struct number {
	uint64_t whole;
	uint64_t fraction; /* over scale */
	uint64_t scale;
	bool overflow;
};

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Digits, and a point with more digits.  NULL when there is no digit where one must be. */
static const char *
read_number(const char *at, struct number *number)
{
	*number = (struct number){ .scale = 1 };
	if (!is_digit(*at))
		return NULL;
	for (; is_digit(*at); at++)
		if (__builtin_mul_overflow(number->whole, 10, &number->whole) ||
		    __builtin_add_overflow(number->whole, (uint64_t)(*at - '0'), &number->whole))
			number->overflow = true;
	if (*at != '.')
		return at;
	if (!is_digit(*++at))
		return NULL;
	for (int digits = 0; is_digit(*at); at++, digits++) {
		if (digits < FRACTION_DIGITS) {
			number->fraction = number->fraction * 10 + (uint64_t)(*at - '0');
			number->scale *= 10;
		}
	}
	return at;
}

/* The power of two of "", "B", "K", "KiB", ...; -1 when it is no unit. */
static int
unit_shift(const char *text)
{
	if (*text == '\0' || strcasecmp(text, "B") == 0)
		return 0;
	for (int i = 0; units[i] != '\0'; i++)
		if (strncasecmp(text, &units[i], 1) == 0)
			return text[1] == '\0' || strcasecmp(text + 1, "iB") == 0 ? 10 * (i + 1) : -1;
	return -1;
}

/* number->fraction / number->scale of a unit in whole bytes: long division, a bit at a time. */
static uint64_t
fraction_bytes(const struct number *number, int shift)
{
	uint64_t rest = number->fraction, bytes = 0;

	while (shift-- > 0) {
		rest *= 2;
		bytes = bytes * 2 + (rest >= number->scale);
		if (rest >= number->scale)
			rest -= number->scale;
	}
	return bytes;
}

const char *
soma__size_parse(const char *text, uint64_t *bytes)
{
	struct number number;
	const char *unit = read_number(text, &number);
	int shift = unit == NULL ? -1 : unit_shift(unit);

	if (shift < 0 || (shift == 0 && number.scale != 1))
		return "is not a size: a number of bytes, or one with K, M, G, T or KiB, MiB, GiB, TiB "
		       "(powers of 1024), such as 64M or 1.5GiB";
	if (number.overflow || number.whole > UINT64_MAX >> shift)
		return "is more bytes than 64 bits count";
	*bytes = (number.whole << shift) + fraction_bytes(&number, shift);
	return NULL;
}

char *
soma__size_format(char *buffer, uint64_t bytes)
{
	double value = (double)bytes;
	int unit = -1;

	/* What would be printed as 1024 is 1.00 of the next unit. */
	while (value >= 1023.5 && units[unit + 1] != '\0') {
		value /= 1024;
		unit++;
	}
	if (unit < 0) {
		snprintf(buffer, SOMA__SIZE_TEXT_MAX, "%u B", (unsigned)bytes);
	} else {
		int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
		snprintf(buffer, SOMA__SIZE_TEXT_MAX, "%.*f %ciB", digits, value, units[unit]);
	}
	return buffer;
}

/* What soma__size_format() wrote, read again. */
static bool
reads_back(const char *text, uint64_t bytes)
{
	char joined[SOMA__SIZE_TEXT_MAX];
	size_t number = strcspn(text, " ");
	uint64_t read;

	snprintf(joined, sizeof joined, "%.*s%s", (int)number, text, text + number + 1);
	return soma__size_parse(joined, &read) == NULL && read == bytes;
}

char *
soma__size_exact(char *buffer, uint64_t bytes)
{
	char text[SOMA__SIZE_TEXT_MAX];

	soma__size_format(text, bytes);
	if (reads_back(text, bytes))
		return strcpy(buffer, text);
	snprintf(buffer, SOMA__SIZE_EXACT_MAX, "%s (%" PRIu64 " bytes)", text, bytes);
	return buffer;
}
