/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of a model, with everything that they point to, read and checked.
 */
#ifndef SOMA_LIB_MODEL_LIMITS_H
#define SOMA_LIB_MODEL_LIMITS_H

#include <soma/model.h>

struct soma__limits {
	uint64_t max_pool_size;
	uint64_t release_threshold;
	uint64_t base; /* 0: the default */
	struct soma_policy policy;
	bool has_source;
	struct soma_segment_source source;
};

/* given may be NULL.  INVALID_VALUE, recorded, where something is wrong. */
enum soma_status soma__limits_read(const struct soma_model_limits *given, struct soma__limits *limits);

#endif
