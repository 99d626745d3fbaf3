/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking at every block of a model at one moment: the four numbers, and why an
 * allocation found no room.
 */
#ifndef SOMA_TOOLS_ENGINE_MOMENT_H
#define SOMA_TOOLS_ENGINE_MOMENT_H

#include "tools/engine/engine.h"

/* As the given stream sees it. */
void moment_take(const struct soma_model *model, uint64_t stream, struct replay_moment *moment);

/* The allocation of `size` bytes on the stream has just failed under `capacity`. */
void moment_verdict(const struct soma_model *model, uint64_t stream, uint64_t size, uint64_t capacity,
		    struct replay_oom *oom);

#endif
