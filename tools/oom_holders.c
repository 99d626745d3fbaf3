/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who held how much when memory ran out, for both reports of `soma oom`; as frames or as tags.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/answer.h"
#include "tools/oom.h"
#include "tools/xalloc.h"

static int
by_share_name(const void *left, const void *right)
{
	const struct oom_share *a = left, *b = right;

	return strcmp(a->name, b->name);
}

static int
by_share(const void *left, const void *right)
{
	const struct oom_share *a = left, *b = right;

	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	return strcmp(a->name, b->name);
}

/* By frame as the trace names them, or by tag: without the place. */
struct oom_shares
oom_shares(const struct oom *oom, bool by_tag)
{
	const struct autopsy *autopsy = &oom->autopsy;
	struct oom_shares shares = { .at = xcalloc(autopsy->holder_count, sizeof(struct oom_share)) };
	size_t kept = 0;

	for (size_t i = 0; i < autopsy->holder_count; i++) {
		char *name = answer_holder(oom->reader, autopsy->holders[i].name);

		if (by_tag)
			answer_drop_place(name);
		shares.at[shares.count++] =
			(struct oom_share){ name, autopsy->holders[i].bytes, autopsy->holders[i].blocks };
	}
	if (shares.count > 0)
		qsort(shares.at, shares.count, sizeof *shares.at, by_share_name);
	for (size_t i = 0; i < shares.count; i++) {
		if (kept > 0 && strcmp(shares.at[kept - 1].name, shares.at[i].name) == 0) {
			shares.at[kept - 1].bytes += shares.at[i].bytes;
			shares.at[kept - 1].blocks += shares.at[i].blocks;
			free(shares.at[i].name);
		} else {
			shares.at[kept++] = shares.at[i];
		}
	}
	shares.count = kept;
	if (kept > 0)
		qsort(shares.at, kept, sizeof *shares.at, by_share);
	return shares;
}

void
oom_shares_fini(struct oom_shares *shares)
{
	for (size_t i = 0; i < shares->count; i++)
		free(shares->at[i].name);
	free(shares->at);
}
