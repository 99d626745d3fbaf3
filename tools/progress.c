/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress bar.
 */
#include "tools/progress.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WIDTH 40
#define PATIENCE_NS 1000000000
#define REDRAW_NS 100000000

static int64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void
progress_start(struct progress *progress, const char *label, bool wanted)
{
	*progress = (struct progress){ .label = label, .wanted = wanted && isatty(STDERR_FILENO) };
	progress->start_ns = now_ns();
}

void
progress_show(void *context, double done)
{
	struct progress *progress = context;
	char bar[WIDTH + 1];
	int64_t now;
	int filled = (int)(done * WIDTH);

	if (!progress->wanted)
		return;
	now = now_ns();
	if (now - progress->start_ns < PATIENCE_NS || now - progress->last_ns < REDRAW_NS)
		return;
	progress->last_ns = now;
	progress->shown = true;
	for (int i = 0; i < WIDTH; i++)
		bar[i] = i < filled ? '#' : '.';
	bar[WIDTH] = '\0';
	fprintf(stderr, "\r%s [%s] %3d %%", progress->label, bar, (int)(done * 100));
	fflush(stderr);
}

void
progress_end(struct progress *progress)
{
	if (progress->shown)
		fputs("\r\033[K", stderr);
	progress->shown = false;
}
