/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the block for an allocation: the ladder of HACKING, "Alloc". */
#ifndef SOMA_LIB_MODEL_PLACE_H
#define SOMA_LIB_MODEL_PLACE_H

#include "lib/model/state.h"

struct soma__placement {
	uint32_t block; /* live, its waste not set */
	bool queued;    /* it was in the queue: still known to the pointer lookup, as freed */
	/* The event to wait for, which the stream's clock has joined; wait_seq 0: none. */
	uint64_t wait_stream;
	uint64_t wait_seq;
};

/* What the queue does not have.  Nothing that an operation can see has changed when this fails.  OUT_OF_DEVICE_MEMORY
 * is left for the caller to describe. */
enum soma_status soma__place(struct soma_model *model, struct soma__stream *stream, unsigned pool,
			     uint64_t granules, struct soma__placement *placement);

#endif
