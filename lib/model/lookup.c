/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pointer lookup's rare cases: entries behind their own lines, and growth.  Between
 * an entry's own line and the one it is in, all lines are full: that is what ends a search.
 */
#include "lib/model/lookup.h"

#define FIRST_COUNT 8

static bool
is_full(const struct soma__line *line)
{
	return soma__line_find(line->hash, 0) == SOMA__LINE_ENTRIES;
}

static uint32_t
next_line(const struct soma__lookup *lookup, uint32_t line)
{
	return line + 1 < lookup->count ? line + 1 : 0;
}

/* Hashes whose lower 31 bits are equal are a 512th of all hashes apart, or more: so many lines. */
static void
set_reach(struct soma__lookup *lookup, uint32_t reach)
{
	lookup->reach = reach;
	lookup->ask = (lookup->count >> 9) <= reach + 1;
}

uint32_t *
soma__lookup_search(const struct soma__lookup *lookup, const struct soma__slab *blocks, uint64_t granule)
{
	uint64_t hash = soma__lookup_hash(granule);
	uint32_t number = soma__lookup_line(lookup, hash);

	for (uint32_t passed = 0; passed < lookup->reach; passed++) {
		struct soma__line *line = &lookup->lines[number];

		for (unsigned i = 0; i < SOMA__LINE_ENTRIES; i++) {
			uint32_t link = line->link[i];

			if (line->hash[i] == soma__hash_lower(hash) &&
			    soma__block_address(soma__lookup_block(blocks, link)) == granule)
				return (link & SOMA__LINK_FREED) == 0 ? &line->link[i] : NULL;
		}
		if (!is_full(line))
			return NULL;
		number = next_line(lookup, number);
	}
	return NULL;
}

uint32_t
soma__lookup_displace(struct soma__lookup *lookup, uint64_t hash)
{
	uint32_t number = soma__lookup_line(lookup, hash), reach = 1;
	unsigned empty;

	do {
		number = next_line(lookup, number);
		reach++;
		empty = soma__line_find(lookup->lines[number].hash, 0);
	} while (empty == SOMA__LINE_ENTRIES);
	if (reach > lookup->reach)
		set_reach(lookup, reach);
	return number * SOMA__LINE_ENTRIES + empty;
}

/* Lines from one to the other, going round. */
static uint32_t
distance(const struct soma__lookup *lookup, uint32_t from, uint32_t to)
{
	return to >= from ? to - from : to + lookup->count - from;
}

#define NO_ENTRY UINT32_MAX

/* An entry of line `from` that may as well be in line `to`, which comes before it. */
static uint32_t
find_displaced(const struct soma__lookup *lookup, const struct soma__slab *blocks, uint32_t from, uint32_t to)
{
	for (unsigned i = 0; i < SOMA__LINE_ENTRIES; i++) {
		uint32_t link = lookup->lines[from].link[i], own;

		if (lookup->lines[from].hash[i] == 0)
			continue;
		own = soma__lookup_line(
			lookup, soma__lookup_hash(soma__block_address(soma__lookup_block(blocks, link))));
		if (distance(lookup, own, from) >= distance(lookup, to, from))
			return from * SOMA__LINE_ENTRIES + i;
	}
	return NO_ENTRY;
}

void
soma__lookup_close(struct soma__lookup *lookup, const struct soma__slab *blocks, uint32_t entry)
{
	uint32_t hole = entry / SOMA__LINE_ENTRIES, number = hole;

	if (soma__line_find(lookup->lines[hole].hash, 0) != entry % SOMA__LINE_ENTRIES)
		return; /* another place was empty before */
	/* What is behind a line that is not full is not displaced past it. */
	for (uint32_t passed = 1; passed < lookup->reach; passed++) {
		struct soma__line *line, *to = &lookup->lines[entry / SOMA__LINE_ENTRIES];
		uint32_t found;
		bool full;

		number = next_line(lookup, number);
		line = &lookup->lines[number];
		full = is_full(line);
		found = find_displaced(lookup, blocks, number, hole);
		if (found != NO_ENTRY) {
			unsigned i = found % SOMA__LINE_ENTRIES;

			soma__line_set(to->hash, entry % SOMA__LINE_ENTRIES, line->hash[i]);
			to->link[entry % SOMA__LINE_ENTRIES] = line->link[i];
			soma__lookup_block(blocks, line->link[i])->entry = entry;
			soma__line_set(line->hash, i, 0);
			entry = found;
			hole = number;
			passed = 0;
		}
		if (!full)
			return;
	}
}

/* By a half and by a third in turn, at three entries to four places: 11 to 16 bytes an
 * entry.  A line's number is the upper part of the hash, so that both tables are passed
 * over in order. */
bool
soma__lookup_grow(struct soma__lookup *lookup, const struct soma__slab *blocks, struct soma__arena *arena)
{
	uint32_t old = lookup->count;
	uint32_t count = (old & (old - 1)) == 0 ? old / 2 * 3 : old / 3 * 4;
	struct soma__lookup wider = { .count = old != 0 ? count : FIRST_COUNT };

	wider.grow_at = wider.count / 4 * 3 * SOMA__LINE_ENTRIES;
	wider.lines = soma__arena_calloc(arena, (size_t)wider.count * sizeof *wider.lines, 64);
	if (wider.lines == NULL)
		return false;
	set_reach(&wider, 1);
	for (uint32_t number = 0; number < old; number++)
		for (unsigned i = 0; i < SOMA__LINE_ENTRIES; i++) {
			uint32_t link = lookup->lines[number].link[i];
			struct soma__block *block = soma__lookup_block(blocks, link);

			if (lookup->lines[number].hash[i] != 0)
				soma__lookup_put(&wider, block, soma__block_address(block), link);
		}
	soma__arena_free(arena, lookup->lines, (size_t)old * sizeof *lookup->lines);
	*lookup = wider;
	return true;
}
