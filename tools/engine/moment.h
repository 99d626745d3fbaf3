/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking at every block of a model at one moment: the four numbers, and why an
 * allocation found no room.
 */
#ifndef SOMA_TOOLS_ENGINE_MOMENT_H
#define SOMA_TOOLS_ENGINE_MOMENT_H

#include "tools/engine/engine.h"
#include "tools/engine/streams.h"

/* As the given stream of the model sees it: what one stream keeps in several pools is
 * stranded for the others only.  padding: what was added to requests before the model. */
void moment_take(const struct streams *streams, uint64_t stream, uint64_t padding,
		 struct replay_moment *moment);

/* The allocation of `size` bytes on the stream has just failed under `capacity`. */
void moment_verdict(const struct streams *streams, uint64_t stream, uint64_t size, uint64_t capacity,
		    struct replay_oom *oom);

#endif
