/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Independent pieces of work, side by side on as many threads as there are processors, 16 at
 * most.  What they make does not depend on how many those are.
 */
#ifndef SOMA_TOOLS_JOBS_H
#define SOMA_TOOLS_JOBS_H

#include <stddef.h>

struct job {
	void (*run)(void *context); /* by any thread */
	void *context;
};

/*
 * Runs all of them; they are begun in order.  Meanwhile the caller's thread calls wait() ten times
 * a second; it may be NULL.  Where there are no threads to be had, the caller's runs them.
 */
void jobs_run(const struct job *jobs, size_t count, void (*wait)(void *context), void *context);

#endif
