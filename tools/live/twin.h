/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model that goes through a program: beside a backend, to count what that should
 * count; or alone, for load.  One thread.
 */
#ifndef SOMA_TOOLS_LIVE_TWIN_H
#define SOMA_TOOLS_LIVE_TWIN_H

#include <soma/model.h>

#include "tools/engine/engine.h"
#include "tools/live/program.h"

struct twin {
	const struct program *program;
	enum replay_complete complete;
	struct soma_model *model;
	uint64_t *streams; /* by the program's number */
	struct twin_marker {
		uint64_t stream, seq;
	} * markers;
	struct twin_block {
		uint64_t ptr; /* 0: it is not there */
		uint64_t stream, seq; /* of its free, which is to be completed */
	} * blocks;
};

enum soma_status twin_init(struct twin *twin, const struct program *program, const struct soma_policy *policy,
			   uint64_t release_threshold, enum replay_complete complete);
void twin_fini(struct twin *twin);

/* A step of a block that was never made, or not with success, does nothing. */
enum soma_status twin_step(struct twin *twin, const struct step *step);

/* After the last step: frees what is live and destroys the streams, for another run. */
enum soma_status twin_clear(struct twin *twin);

#endif
