/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a replay with real memory, or under load, found.
 */
#ifndef SOMA_TOOLS_LIVE_REPORT_H
#define SOMA_TOOLS_LIVE_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/live/live.h"

#define LIVE_TRACE_HEADER "time,thread,op,device,stream,ptr,size,tag,generation,detail\n"

struct live_report {
	const char *path; /* of the trace, clean */
	const struct program *program;
	const struct live_options *options;
	const struct live_result *result;
};

void live_report_text(FILE *out, const struct live_report *report);

/* One object; every key is always there.  false: it could not be written. */
bool live_report_json(FILE *out, const struct live_report *report);

#endif
