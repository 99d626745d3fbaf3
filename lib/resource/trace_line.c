/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of a trace.  The same fields in the same form as the command writes them.
 */
#include "lib/resource/trace_line.h"

#include <string.h>

#include <soma/resource.h>

static const char *const ops[] = {
	[SOMA__TRACE_ALLOC] = "alloc",
	[SOMA__TRACE_FREE] = "free",
	[SOMA__TRACE_FREE_COMPLETED] = "free_completed",
	[SOMA__TRACE_ALLOC_FAILED] = "alloc_failed",
	[SOMA__TRACE_USE] = "use",
	[SOMA__TRACE_SYNC] = "sync",
	[SOMA__TRACE_RECORD] = "record",
	[SOMA__TRACE_WAIT] = "wait",
	[SOMA__TRACE_MARK] = "mark",
};

static const char *const details[] = {
	[SOMA__TRACE_PLAIN] = "",
	[SOMA__TRACE_ORDERED] = "ordered",
	[SOMA__TRACE_DEFERRED] = "deferred;ordered",
	[SOMA__TRACE_READ] = "read",
	[SOMA__TRACE_WRITE] = "write",
	[SOMA__TRACE_READ_WRITE] = "read_write",
	[SOMA__TRACE_FREE_FAILED] = "the free failed",
	[SOMA__TRACE_EVENT] = "event",
};

static char *
put_string(char *at, const char *text)
{
	size_t length = strlen(text);

	memcpy(at, text, length);
	return at + length;
}

static char *
put_number(char *at, uint64_t number)
{
	char digits[20], *from = digits + sizeof digits;

	do
		*--from = (char)('0' + number % 10);
	while ((number /= 10) != 0);
	memcpy(at, from, (size_t)(digits + sizeof digits - from));
	return at + (digits + sizeof digits - from);
}

static char *
put_hex(char *at, uint64_t number)
{
	int shift = 60 - (number != 0 ? __builtin_clzll(number) / 4 * 4 : 60);

	*at++ = '0';
	*at++ = 'x';
	for (; shift >= 0; shift -= 4)
		*at++ = "0123456789abcdef"[number >> shift & 15];
	return at;
}

static char *
put_comma(char *at)
{
	*at++ = ',';
	return at;
}

/* 0 as an empty field. */
static char *
put_optional(char *at, uint64_t number)
{
	return put_comma(number != 0 ? put_number(at, number) : at);
}

static char *
put_text(char *at, const char *text)
{
	if (text[strcspn(text, ",\"\r\n")] == '\0')
		return put_string(at, text);
	*at++ = '"';
	for (; *text != '\0'; text++) {
		if (*text == '"')
			*at++ = '"';
		*at++ = *text;
	}
	*at++ = '"';
	return at;
}

static char *
put_front(char *at, int device, const struct soma__trace_event *event)
{
	at = put_comma(put_number(at, event->time_ns));
	at = put_optional(at, event->thread);
	at = put_comma(put_string(at, ops[event->op]));
	at = put_comma(put_number(at, (uint64_t)device));
	at = put_comma(put_number(at, event->stream));
	at = put_comma(event->ptr != 0 ? put_hex(at, event->ptr) : at);
	return put_optional(at, event->size);
}

size_t
soma__trace_line(char line[SOMA__TRACE_LINE_MAX], int device, const struct soma__trace_event *event)
{
	char *at = put_front(line, device, event);

	at = put_comma(put_text(at, soma_tag_name(event->tag)));
	at = put_optional(at, event->generation);
	at = put_string(at, details[event->detail]);
	*at++ = '\n';
	return (size_t)(at - line);
}

size_t
soma__trace_lost_line(char line[SOMA__TRACE_LINE_MAX], int device, uint64_t time_ns, uint64_t lost)
{
	struct soma__trace_event event = { .time_ns = time_ns, .op = SOMA__TRACE_MARK };
	char *at = put_front(line, device, &event);

	at = put_string(at, "soma,,events lost here: ");
	at = put_number(at, lost);
	*at++ = '\n';
	return (size_t)(at - line);
}
