/* SPDX-License-Identifier: Apache-2.0 */
/* What tests/fake/facts.h says, for the probe to compare with: facts.c, which knows nothing of the probe. */
#ifndef SOMA_TESTS_GPU_PROBE_H
#define SOMA_TESTS_GPU_PROBE_H

#include <stdint.h>

struct probe_fact {
	const char *name; /* of the constant */
	uint64_t value;
};

/* Ended by a name of NULL. */
extern const struct probe_fact probe_facts[];

#endif
