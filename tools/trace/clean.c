/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Valid UTF-8 without control characters.  No state, no allocation.
 */
#include "tools/trace/clean.h"

#include <stdbool.h>
#include <stdint.h>

struct character {
	size_t length; /* 0: the bytes are no character */
	uint32_t code;
};

/* The length and the lowest code that the first byte of a character stands for, so
 * that longer forms than needed are none. */
static struct character
of_first_byte(uint8_t byte, uint32_t *lowest)
{
	*lowest = 0;
	if (byte < 0x80)
		return (struct character){ 1, byte };
	*lowest = 0x80;
	if (byte >= 0xc0 && byte < 0xe0)
		return (struct character){ 2, byte & 0x1f };
	*lowest = 0x800;
	if (byte >= 0xe0 && byte < 0xf0)
		return (struct character){ 3, byte & 0x0f };
	*lowest = 0x10000;
	if (byte >= 0xf0 && byte < 0xf8)
		return (struct character){ 4, byte & 0x07 };
	return (struct character){ 0, 0 };
}

/* A text's end is no continuation, so nothing behind it is read. */
static struct character
character_of(const char *text)
{
	uint32_t lowest;
	struct character c = of_first_byte((uint8_t)text[0], &lowest);

	for (size_t i = 1; i < c.length; i++) {
		if (((uint8_t)text[i] & 0xc0) != 0x80)
			return (struct character){ 0, 0 };
		c.code = c.code << 6 | ((uint8_t)text[i] & 0x3f);
	}
	if (c.code < lowest || c.code > 0x10ffff || (c.code >= 0xd800 && c.code < 0xe000))
		return (struct character){ 0, 0 };
	return c;
}

static bool
is_control(uint32_t code)
{
	return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 ||
	       (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
	       (code & 0xfffe) == 0xfffe;
}

char *
trace_clean(char *text)
{
	const char *from = text;
	char *to = text;

	while (*from != '\0') {
		struct character c = character_of(from);

		if (c.length == 0 || is_control(c.code)) {
			*to++ = '?';
			from += c.length > 0 ? c.length : 1;
			continue;
		}
		while (c.length-- > 0)
			*to++ = *from++;
	}
	*to = '\0';
	return text;
}

size_t
trace_clean_character(const char *text)
{
	size_t length = character_of(text).length;

	if (text[0] == '\0')
		return 0;
	return length > 0 ? length : 1;
}
