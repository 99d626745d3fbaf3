/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory this machine has for this process: /proc/meminfo, and the limits of
 * the control groups it is in (versions 1 and 2).  No state. */
#ifndef SOMA_BACKENDS_HOST_MACHINE_H
#define SOMA_BACKENDS_HOST_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

struct machine {
	uint64_t total; /* the machine's memory or the lowest limit */
	uint64_t free;  /* available on the machine, and left in every group */
};

/* `root` is "" for this machine, or a folder that holds proc/ and what its mountinfo names.
 * False when meminfo cannot be read. */
bool machine_read(const char *root, struct machine *machine);

#endif
