/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Live bytes by holder.  The arrays grow with the number of names, not with events.
 */
#include "tools/engine/holders.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tools/xalloc.h"

void
holders_fini(struct holders *holders)
{
	free(holders->at);
	*holders = (struct holders){ 0 };
}

static struct holder *
holder_of(struct holders *holders, trace_name name)
{
	size_t room = holders->room;

	if (name >= room) {
		while (room <= name)
			room = room > 0 ? 2 * room : 64;
		holders->at = xreallocarray(holders->at, room, sizeof *holders->at);
		memset(holders->at + holders->room, 0, (room - holders->room) * sizeof *holders->at);
		holders->room = room;
	}
	return &holders->at[name];
}

/* Sizes come from a file: their sum may wrap, but must not trap. */
static void
count(struct holder_count *held, uint64_t bytes, int sign)
{
	held->bytes = (int64_t)((uint64_t)held->bytes + (sign < 0 ? 0 - bytes : bytes));
	held->blocks += sign;
}

void
holders_add(struct holders *holders, trace_name name, uint64_t bytes, int sign)
{
	struct holder *holder = holder_of(holders, name);

	if (holder->saved != holders->peak) {
		holder->at_peak = holder->now;
		holder->saved = holders->peak;
	}
	count(&holder->now, bytes, sign);
}

void
holders_add_always(struct holders *holders, trace_name name, uint64_t bytes)
{
	struct holder *holder = holder_of(holders, name);

	count(&holder->now, bytes, 1);
	count(&holder->at_peak, bytes, 1);
}

void
holders_mark_peak(struct holders *holders)
{
	holders->peak++;
}

struct holder_count
holders_now(const struct holders *holders, trace_name name)
{
	return name < holders->room ? holders->at[name].now : (struct holder_count){ 0 };
}

static int
bigger_first(const void *left, const void *right)
{
	const struct holder_rank *a = left, *b = right;

	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	return a->name < b->name ? -1 : 1;
}

static void
add_rank(struct holder_rank **ranks, size_t *room, size_t *count, size_t name, const struct holder_count *held)
{
	if (held->bytes <= 0)
		return;
	*ranks = xgrow(*ranks, room, *count, sizeof **ranks);
	(*ranks)[(*count)++] =
		(struct holder_rank){ (trace_name)name, (uint64_t)held->bytes, (uint64_t)held->blocks };
}

static struct holder_rank *
rank(const struct holders *holders, bool at_peak, size_t *count)
{
	struct holder_rank *ranks = NULL;
	size_t room = 0;

	*count = 0;
	for (size_t name = 0; name < holders->room; name++) {
		const struct holder *holder = &holders->at[name];
		bool saved = at_peak && holder->saved == holders->peak;

		add_rank(&ranks, &room, count, name, saved ? &holder->at_peak : &holder->now);
	}
	if (ranks != NULL)
		qsort(ranks, *count, sizeof *ranks, bigger_first);
	return ranks;
}

struct holder_rank *
holders_rank_at_peak(const struct holders *holders, size_t *count)
{
	return rank(holders, true, count);
}

struct holder_rank *
holders_rank_now(const struct holders *holders, size_t *count)
{
	return rank(holders, false, count);
}
