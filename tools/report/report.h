/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a replay found, for people (text, a picture) and for programs (JSON).
 * These only show; nothing is computed here that the engine does not say.
 */
#ifndef SOMA_TOOLS_REPORT_REPORT_H
#define SOMA_TOOLS_REPORT_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/engine/engine.h"
#include "tools/trace/trace.h"

struct report {
	const char *path;                  /* of the trace, clean */
	const struct trace_reader *reader; /* for names, which are not */
	const struct replay_options *options;
	const struct replay_result *result;
};

void report_text(FILE *out, const struct report *report);

/* One object.  false: it could not be written. */
bool report_json(FILE *out, const struct report *report);

/* "free", "sync", "never" */
extern const char *const replay_complete_names[];

/* A name from outside (a tag, a path) as it may be shown: valid UTF-8 without control
 * characters.  The caller frees it. */
char *report_clean(const char *text);

/* A holder's name for people, clean and never empty: one that is empty was not recorded, be it that its block is
 * from before the trace or that the recorder names nobody.  The caller frees it. */
char *report_holder(const char *name);

/* Writes the clean text into `buffer` of `size` bytes: at most `width` characters,
 * shortened in the middle.  What does not fit is cut. */
char *report_shorten(char *buffer, size_t size, const char *text, size_t width);

#endif
