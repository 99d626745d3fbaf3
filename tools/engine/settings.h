/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of PyTorch's caching allocator, as its documentation names them, for the
 * `pytorch` policy.  What they do to placement is the model's (struct soma_policy); how
 * requests are rounded is here.  `backend` is a choice of policy.
 */
#ifndef SOMA_TOOLS_ENGINE_SETTINGS_H
#define SOMA_TOOLS_ENGINE_SETTINGS_H

#include "tools/engine/engine.h"

/* Sizes from 1 MiB to 32 GiB, by power of two; what is outside belongs to the ends. */
#define SETTINGS_INTERVALS 16

struct settings {
	uint64_t max_split;         /* bytes; 0: none */
	uint64_t non_split_slack;   /* bytes */
	double collect_threshold;   /* of the capacity; 0: none */
	unsigned divisions[SETTINGS_INTERVALS]; /* 0 and 1: none */
	bool rounds;                /* some division is above 1 */
	bool expandable, not_expandable; /* neither: as the trace has them */
	uint64_t capacity;          /* 0: not set here */
	const struct soma_policy *policy; /* that `backend` names: pytorch or cuda; NULL: not set */
};

/* Reads "key=value,key=value", or with colons as the variable PYTORCH_CUDA_ALLOC_CONF has them, which may stand
 * before them with a '='; a list in brackets may have commas.  NULL, or what is wrong. */
const char *settings_parse(const char *text, struct settings *settings, char *buffer, size_t size);

/* Makes the policy and the rounding of `options`, which have their capacity.  Both must
 * outlive them.  With the backend cudaMallocAsync nothing holds but the capacity, as in PyTorch. */
void settings_apply(const struct settings *settings, struct soma_policy *policy,
		    struct replay_options *options);

/* What the allocator makes of a request; context is the struct settings. */
uint64_t settings_round(const void *context, uint64_t size);

#endif
