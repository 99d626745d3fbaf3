/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names as people read them.
 */
#include <string.h>

#include "tools/report/report.h"

const char *const replay_complete_names[] = { "free", "sync", "never", NULL };

const char *
report_holder(const struct report *report, trace_name name)
{
	const struct replay_counts *counts = &report->result->counts;
	const char *text = trace_name_text(report->reader, name);

	if (text[0] != '\0')
		return text;
	return counts->start_blocks > 0 && counts->allocs > 0 ? "(from before the trace)" : "(not recorded)";
}

static bool
starts_character(char c)
{
	return ((unsigned char)c & 0xc0) != 0x80;
}

static size_t
count_characters(const char *text)
{
	size_t count = 0;

	for (; *text != '\0'; text++)
		count += starts_character(*text);
	return count;
}

/* The byte where the index-th character starts. */
static const char *
character_at(const char *text, size_t index)
{
	for (; *text != '\0'; text++)
		if (starts_character(*text) && index-- == 0)
			break;
	return text;
}

/* The end tells more (a path's file, a line): it keeps two thirds. */
char *
report_shorten(char *buffer, const char *text, size_t width)
{
	static const char dots[] = "...";
	size_t count = count_characters(text);
	size_t head = (width - (sizeof dots - 1)) / 3;
	size_t tail = width - (sizeof dots - 1) - head;
	const char *head_end = character_at(text, head), *tail_start;

	if (count <= width || width < sizeof dots)
		return strcpy(buffer, count <= width ? text : "");
	tail_start = character_at(text, count - tail);
	memcpy(buffer, text, (size_t)(head_end - text));
	strcpy(buffer + (head_end - text), dots);
	strcat(buffer, tail_start);
	return buffer;
}
