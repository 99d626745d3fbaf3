/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe's parts: probe.c asks; questions.c has the questions, ask.c what they ask with; facts.c knows what
 * tests/fake/facts.h says, and nothing of the others, because the stand-in's declarations and the backends' cannot be
 * in one file.
 */
#ifndef SOMA_TESTS_GPU_PROBE_H
#define SOMA_TESTS_GPU_PROBE_H

#include <stdint.h>
#include <stdio.h>

#define PROBE_SECONDS 60 /* a question that takes longer is given up */

struct gpu;

struct probe_question {
	const char *name; /* of the constant */
	void (*ask)(void);
};

struct probe_fact {
	const char *name;
	uint64_t value;
};

/* In one order, ended by a name of NULL. */
extern const struct probe_question probe_questions[];
extern const struct probe_fact probe_facts[];

/* The answer goes into the file, "1 CUDA_ERROR_INVALID_VALUE" or "? a reason".  It may end the process. */
void probe_ask(const struct probe_question *question, struct gpu *device, FILE *file);

#endif
