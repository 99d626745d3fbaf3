/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A packing is no bound on a policy: it is searched for, and keeps rules that not every
 * policy keeps.  A reader who sees a policy below it is told which.
 */
#include "tools/fit_packing.h"

#include "tools/report/report.h"

#define PERCENT_MAX 1000
#define TIMES_MAX 1e7

void
fit_packing_run(struct fit_packing *packing, struct lives *lives, uint64_t alignment)
{
	for (size_t i = 0; i < lives->count; i++)
		lives->items[i].size = lives_round(lives->items[i].size, alignment);
	pack_run(lives->items, lives->count, PACK_STEPS_DEFAULT, &packing->steps, &packing->result);
	packing->low = packing->result.height;
	packing->done = true;
}

double
fit_packing_part_done(const struct fit_packing *packing)
{
	return packing->done ? 1 : (double)packing->steps / (double)PACK_STEPS_DEFAULT;
}

void
fit_packing_policy(struct fit_packing *packing, const struct soma_policy *policy, uint64_t capacity)
{
	if (policy->segments != SOMA_SEGMENTS_RANGE || policy->reuse != SOMA_REUSE_OPPORTUNISTIC ||
	    !packing->result.packed || capacity >= packing->low)
		return;
	packing->low = capacity;
	packing->lower = policy;
}

bool
fit_packing_check(const struct command *command, const struct fit_packing *packing, const struct lives *lives)
{
	size_t a, b;

	if (!packing->result.packed || pack_check(lives->items, lives->count, packing->result.height, &a, &b))
		return true;
	fprintf(stderr, "soma %s: internal error: blocks %zu and %zu overlap in the packing\n", command->name,
		a, b);
	return false;
}

/* ---- text --------------------------------------------------------------------- */

char *
fit_over(char buffer[FIT_OVER_MAX], uint64_t bytes, uint64_t least)
{
	double times = least > 0 ? (double)bytes / (double)least : 0;

	buffer[0] = '\0';
	if (times > 1 && 100 * (times - 1) < PERCENT_MAX - 0.005)
		snprintf(buffer, FIT_OVER_MAX, "+%.2f %%", 100 * (times - 1));
	else if (times > 1)
		snprintf(buffer, FIT_OVER_MAX, times < TIMES_MAX - 0.5 ? "%.0f x" : "%.1e x", times);
	return buffer;
}

const char *
fit_packing_how(const struct fit_packing *packing, char buffer[FIT_HOW_MAX])
{
	if (packing->lower == NULL)
		return packing->result.order;
	snprintf(buffer, FIT_HOW_MAX, "as policy %s; the search found %" PRIu64, packing->lower->name,
		 packing->result.height);
	return buffer;
}

void
fit_packing_note(const struct fit_packing *packing)
{
	if (packing->low > packing->result.bound)
		printf("  The packing was searched for: there may be a lower one, but none below %" PRIu64
		       "\n",
		       packing->result.bound);
	else
		printf("  No packing is lower: so much is live at once, or freed and not completed\n");
}

void
fit_packing_note_policy(const struct fit_packing *packing, const struct soma_policy *policy,
			uint64_t capacity)
{
	bool moves = policy->segments == SOMA_SEGMENTS_MAPPED;

	if (capacity >= packing->low)
		return;
	printf("  Policy %s is below it: ", policy->name);
	if (capacity < packing->result.bound)
		printf("a stream uses what it freed before the free has completed%s\n",
		       moves ? ", and pages are moved" : "");
	else if (moves)
		printf("pages are moved, and a packing has fixed addresses\n");
	else
		printf("the search does not find the lowest packing\n");
}

/* ---- JSON ----------------------------------------------------------------------- */

json_t *
fit_packing_object(const struct fit_packing *packing, size_t blocks)
{
	json_t *object;

	if (!packing->result.packed)
		return json_null();
	object = json_object();
	report_put(object, "height", report_number(packing->low));
	report_put(object, "searched", report_number(packing->result.height));
	report_put(object, "bound", report_number(packing->result.bound));
	report_put(object, "order", json_string(packing->result.order));
	report_put(object, "policy",
		   packing->lower != NULL ? json_string(packing->lower->name) : json_null());
	report_put(object, "blocks", report_number(blocks));
	return object;
}
