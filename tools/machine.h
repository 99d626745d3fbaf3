/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine says of its huge pages.  Everything is read from /proc and /sys
 * when asked; what cannot be read is "unknown" or 0.
 */
#ifndef SOMA_TOOLS_MACHINE_H
#define SOMA_TOOLS_MACHINE_H

#include <stdint.h>

#define MACHINE_TEXT_MAX 64

struct machine_huge_pages {
	char transparent[MACHINE_TEXT_MAX]; /* the chosen one of "always madvise never" */
	char defrag[MACHINE_TEXT_MAX];
	uint64_t explicit_total, explicit_free; /* pages of the default size */
	uint64_t explicit_size;                 /* bytes */
};

void machine_read_huge_pages(struct machine_huge_pages *pages);

#endif
