/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packing that `soma fit` shows, and what the policies are beside it.
 */
#ifndef SOMA_TOOLS_FIT_PACKING_H
#define SOMA_TOOLS_FIT_PACKING_H

#include <soma/model.h>

#include "tools/answer.h"
#include "tools/engine/lives.h"
#include "tools/pack/pack.h"

#define FIT_OVER_MAX 16
#define FIT_HOW_MAX 96

struct fit_packing {
	struct pack_result result;
	_Atomic uint64_t steps; /* so far; any thread may ask */
	_Atomic bool done;
	uint64_t low;                    /* of the result, and of the policies that make a packing */
	const struct soma_policy *lower; /* that made the lowest; NULL: the search did */
};

/* Rounds the sizes of the lives up. */
void fit_packing_run(struct fit_packing *packing, struct lives *lives, uint64_t alignment);

/* From 0 to 1, while it runs. */
double fit_packing_part_done(const struct fit_packing *packing);

/* The policy passes at the capacity, which is a packing where its memory is one range of addresses in which nothing
 * is moved, or used before its free has completed. */
void fit_packing_policy(struct fit_packing *packing, const struct soma_policy *policy, uint64_t capacity);

/* False: blocks overlap, which was said. */
bool fit_packing_check(const struct command *command, const struct fit_packing *packing,
		       const struct lives *lives);

/* "+2.40 %", "27962 x", or "" where it is not over: nine columns at most. */
char *fit_over(char buffer[FIT_OVER_MAX], uint64_t bytes, uint64_t least);

const char *fit_packing_how(const struct fit_packing *packing, char buffer[FIT_HOW_MAX]);

/* A line on how low a packing can be, and one on a policy that is below it. */
void fit_packing_note(const struct fit_packing *packing);
void fit_packing_note_policy(const struct fit_packing *packing, const struct soma_policy *policy,
			     uint64_t capacity);

json_t *fit_packing_object(const struct fit_packing *packing, size_t blocks);

#endif
