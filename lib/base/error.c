/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread-local error detail.  Recording keeps the format and its arguments, and
 * only soma_error_last() formats; soma__error_text() is for what is rare.  No locks, no allocation.
 */
#include "lib/base/error.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/size.h"

#define NAME_MAX_LENGTH 96

struct detail {
	struct soma_error error;
	const char *format; /* NULL: the status's own text */
	bool formatted;     /* text is final */
	bool sizes;         /* as in struct soma__error_args */
	uint64_t arg[4];
	char name[NAME_MAX_LENGTH];
	char text[SOMA__ERROR_TEXT_MAX];
	uint64_t serial;
};

static _Thread_local struct detail last;

const char *
soma_status_name(enum soma_status status)
{
	switch (status) {
#define X(name, value, text)     \
	case SOMA_STATUS_##name: \
		return #name;
		SOMA_STATUS_MAP(X)
#undef X
	}
	return "UNKNOWN";
}

const char *
soma_status_text(enum soma_status status)
{
	switch (status) {
#define X(name, value, text)     \
	case SOMA_STATUS_##name: \
		return text;
		SOMA_STATUS_MAP(X)
#undef X
	}
	return "unknown status";
}

enum soma_status
soma__error(enum soma_status status, const char *format, struct soma__error_args args)
{
	last.error = (struct soma_error){ .status = status };
	last.serial++;
	last.format = format;
	last.formatted = false;
	last.sizes = args.sizes;
	memcpy(last.arg, args.arg, sizeof last.arg);
	last.name[0] = '\0';
	if (args.name != NULL) {
		size_t length = strnlen(args.name, NAME_MAX_LENGTH - 1);
		memcpy(last.name, args.name, length);
		last.name[length] = '\0';
	}
	return status;
}

enum soma_status
soma__error_text(enum soma_status status, const char *format, ...)
{
	va_list args;

	last.error = (struct soma_error){ .status = status };
	last.serial++;
	last.formatted = true;
	va_start(args, format);
	vsnprintf(last.text, sizeof last.text, format, args);
	va_end(args);
	return status;
}

uint64_t
soma__error_serial(void)
{
	return last.serial;
}

void
soma__error_sizes(uint64_t requested, uint64_t current, uint64_t remaining, uint64_t limit)
{
	last.error.requested = requested;
	last.error.current = current;
	last.error.remaining = remaining;
	last.error.limit = limit;
}

void
soma__error_held(uint64_t promised, uint64_t retired)
{
	last.error.promised = promised;
	last.error.retired = retired;
}

void
soma__error_driver(int driver_code)
{
	last.error.driver_code = driver_code;
}

void
soma__error_generation(uint64_t generation)
{
	last.error.generation = generation;
}

/* The formats are literals of ours; the caller's integers are all 64 bits wide, so
 * passing all four is fine for a format that uses fewer. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
static void
format_sizes(struct detail *d)
{
	char sizes[4][SOMA__SIZE_EXACT_MAX];

	for (size_t i = 0; i < 4; i++)
		soma__size_exact(sizes[i], d->arg[i]);
	snprintf(d->text, sizeof d->text, d->format, sizes[0], sizes[1], sizes[2], sizes[3]);
}

static void
format_text(struct detail *d)
{
	const uint64_t *a = d->arg;

	if (d->formatted)
		return;
	if (d->format == NULL)
		snprintf(d->text, sizeof d->text, "%s", soma_status_text(d->error.status));
	else if (d->sizes)
		format_sizes(d);
	else if (strstr(d->format, "%s") != NULL)
		snprintf(d->text, sizeof d->text, d->format, d->name, a[0], a[1], a[2], a[3]);
	else
		snprintf(d->text, sizeof d->text, d->format, a[0], a[1], a[2], a[3]);
}
#pragma GCC diagnostic pop

const struct soma_error *
soma_error_last(void)
{
	format_text(&last);
	last.error.text = last.text;
	return &last.error;
}

void
soma_error_clear(void)
{
	last = (struct detail){ .serial = last.serial };
}
