/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows: ranges of addresses that are nobody's memory, one for each pool whose blocks have virtual names,
 * so that no two pools of the process have an address in common.  They lie above what a process can have
 * mapped.
 *
 * A window is part of its pool.  Any thread; one mutex for the process, held for a walk over the pools.
 */
#ifndef SOMA_LIB_POOL_WINDOW_H
#define SOMA_LIB_POOL_WINDOW_H

#include <stdint.h>

#include <soma/status.h>

struct soma__window {
	uint64_t base, end;
	struct soma__window *next; /* by address */
};

/* For a pool of at most max_size bytes; 0: unlimited; of at least this many addresses.  NOT_SUPPORTED: there is
 * no room for another one. */
enum soma_status soma__window_take(uint64_t max_size, uint64_t addresses, struct soma__window *window);
void soma__window_give(struct soma__window *window);

#endif
