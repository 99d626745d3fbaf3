/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A progress bar on standard error: only on a terminal, only when the work takes
 * over a second, gone when it is done.
 */
#ifndef SOMA_TOOLS_PROGRESS_H
#define SOMA_TOOLS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	const char *label;
	bool wanted;
	bool shown;
	int64_t start_ns, last_ns;
};

void progress_start(struct progress *progress, const char *label, bool wanted);

/* context is the struct progress; done is from 0 to 1. */
void progress_show(void *context, double done);
void progress_end(struct progress *progress);

#endif
