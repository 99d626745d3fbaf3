/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short words for tests of the guard around a backend: its reports, kept, and its ops.  Included where
 * FAILED(format, ...), which ends the test, is defined, and what backend_words.h needs; by the same two.
 */
#ifndef SOMA_TESTS_GUARD_WORDS_H
#define SOMA_TESTS_GUARD_WORDS_H

#include <stdio.h>
#include <string.h>

#include "tests/backend_words.h"

#define SEEN_MAX 64
#define READ SOMA_BACKEND_ACCESS_READ
#define WRITE SOMA_BACKEND_ACCESS_WRITE

static char seen[SEEN_MAX][32], last_text[8192];
static unsigned seen_count;
static struct soma_backend_stream *a, *b, *c; /* non-blocking */

static inline void
note(void *context, const struct soma_backend_guard_report *report)
{
	(void)context;
	if (seen_count < SEEN_MAX)
		snprintf(seen[seen_count++], sizeof seen[0], "%s", report->kind);
	snprintf(last_text, sizeof last_text, "%s", report->text);
}

/* The guard was opened. */
static inline void
begin_listening(void)
{
	seen_count = 0;
	OK(ops->guard_listen(self, note, NULL));
	a = stream_new();
	b = stream_new();
	c = stream_new();
}

/* The reports so far are of exactly these kinds. */
static inline void
expect(int line, const char *const *kinds)
{
	unsigned i = 0;

	for (; kinds[i] != NULL; i++)
		if (i >= seen_count || strcmp(seen[i], kinds[i]) != 0)
			FAILED("line %d: report %u is %s, not %s", line, i + 1,
			       i < seen_count ? seen[i] : "missing", kinds[i]);
	if (i != seen_count)
		FAILED("line %d: a report too many: %s", line, seen[i]);
}
#define EXPECT(...) expect(__LINE__, (const char *const[]){ __VA_ARGS__ __VA_OPT__(, ) NULL })

static inline void
expect_text(int line, const char *part)
{
	if (strstr(last_text, part) == NULL)
		FAILED("line %d: \"%s\" is not in the report: %.200s", line, part, last_text);
}
#define EXPECT_TEXT(part) expect_text(__LINE__, part)

static inline struct soma_backend_stream *
legacy_stream(void)
{
	struct soma_backend_stream *stream;

	OK(ops->stream_default(self, SOMA_BACKEND_STREAM_LEGACY, &stream));
	return stream;
}

static inline void
sync_stream(struct soma_backend_stream *stream)
{
	OK(ops->stream_synchronize(self, stream));
}

static inline void
drain(void)
{
	OK(ops->guard_drain(self, 0));
}

static inline uint64_t
scan_now(void)
{
	uint64_t damaged;

	OK(ops->guard_scan(self, &damaged));
	return damaged;
}

static inline enum soma_status
use(uint64_t ptr, enum soma_backend_access access, struct soma_backend_stream *stream)
{
	return ops->block_use(self, ptr, access, stream);
}

#endif
