/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names as people read them.
 */
#include <string.h>

#include "tools/report/report.h"
#include "tools/trace/clean.h"
#include "tools/xalloc.h"

const char *const replay_complete_names[] = { "free", "sync", "never", NULL };

char *
report_clean(const char *text)
{
	return trace_clean(xstrdup(text));
}

char *
report_holder(const char *name)
{
	return report_clean(name[0] != '\0' ? name : "(not recorded)");
}

/* The index-th character, or the end. */
static const char *
character_at(const char *text, size_t index)
{
	for (; index > 0 && *text != '\0'; index--)
		text += trace_clean_character(text);
	return text;
}

static size_t
count_characters(const char *text)
{
	size_t count = 0;

	for (; *text != '\0'; text += trace_clean_character(text))
		count++;
	return count;
}

/* Appends whole characters of [from, to), as many as fit. */
static void
append(char *buffer, size_t size, const char *from, const char *to)
{
	size_t used = strlen(buffer), length;

	for (; from < to; from += length, used += length) {
		length = trace_clean_character(from);
		if (length == 0 || length >= size - used)
			break;
		memcpy(buffer + used, from, length);
	}
	buffer[used] = '\0';
}

/* The end tells more (a path's file, a line): it keeps two thirds. */
char *
report_shorten(char *buffer, size_t size, const char *text, size_t width)
{
	static const char dots[] = "...";
	const size_t dot_count = sizeof dots - 1;
	size_t count = count_characters(text), head = width > dot_count ? (width - dot_count) / 3 : 0;
	const char *end = text + strlen(text);

	buffer[0] = '\0';
	if (count <= width) {
		append(buffer, size, text, end);
	} else if (width > dot_count) {
		append(buffer, size, text, character_at(text, head));
		append(buffer, size, dots, dots + dot_count);
		append(buffer, size, character_at(text, count - (width - dot_count - head)), end);
	}
	return buffer;
}
