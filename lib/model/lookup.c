/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pointer lookup's rare cases: entries behind their own lines, and growth.  A line
 * counts the entries that had to go past it: where there are none, a search ends, and so
 * nothing is moved when an entry goes.
 */
#include "lib/model/lookup.h"

#define FIRST_COUNT 8

/* What so large a count was is forgotten: it stays. */
#define PASSED_MAX UINT8_MAX

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

	for (uint32_t looked = 0; looked < lookup->reach; looked++) {
		struct soma__line *line = &lookup->lines[number];

		for (unsigned i = 0; i < SOMA__LINE_ENTRIES; i++) {
			uint32_t link = line->link[i];

			if (line->hash[i] == soma__hash_lower(hash) &&
			    soma__block_address(soma__lookup_block(blocks, link)) == granule)
				return (link & SOMA__LINK_FREED) == 0 ? &line->link[i] : NULL;
		}
		if (lookup->passed[number] == 0)
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
		if (lookup->passed[number] < PASSED_MAX)
			lookup->passed[number]++;
		number = next_line(lookup, number);
		reach++;
		empty = soma__line_find(lookup->lines[number].hash, 0);
	} while (empty == SOMA__LINE_ENTRIES);
	if (reach > lookup->reach)
		set_reach(lookup, reach);
	return number * SOMA__LINE_ENTRIES + empty;
}

void
soma__lookup_come_back(struct soma__lookup *lookup, uint32_t own, uint32_t line)
{
	for (; own != line; own = next_line(lookup, own))
		if (lookup->passed[own] < PASSED_MAX)
			lookup->passed[own]--;
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
	wider.passed = soma__arena_calloc(arena, wider.count, 1);
	if (wider.lines == NULL || wider.passed == NULL) {
		soma__arena_free(arena, wider.lines, (size_t)wider.count * sizeof *wider.lines);
		soma__arena_free(arena, wider.passed, wider.count);
		return false;
	}
	set_reach(&wider, 1);
	for (uint32_t number = 0; number < old; number++)
		for (unsigned i = 0; i < SOMA__LINE_ENTRIES; i++) {
			uint32_t link = lookup->lines[number].link[i];
			struct soma__block *block = soma__lookup_block(blocks, link);

			if (lookup->lines[number].hash[i] != 0)
				soma__lookup_put(&wider, block, soma__block_address(block), link);
		}
	soma__arena_free(arena, lookup->lines, (size_t)old * sizeof *lookup->lines);
	soma__arena_free(arena, lookup->passed, old);
	*lookup = wider;
	return true;
}
