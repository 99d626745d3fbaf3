/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pointer lookup's rare cases: entries behind their own lines, and growth.  A line
 * counts the entries that had to go past it: where there are none, a search ends, and so
 * nothing is moved when an entry goes.
 */
#include "lib/model/lookup.h"

#define FIRST_COUNT 8

/* From so many lines (1 MiB) on the table grows in small steps. */
#define LARGE_COUNT ((uint32_t)1 << 14)

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

uint32_t
soma__lookup_recall(const struct soma__lookup *lookup, const struct soma__block *block, uint32_t record)
{
	uint32_t number = soma__lookup_line(lookup, soma__lookup_hash(soma__block_address(block)));

	for (;; number = next_line(lookup, number))
		for (unsigned i = 0; i < SOMA__LINE_ENTRIES; i++)
			if (soma__link_record(lookup->lines[number].link[i]) == record)
				return number * SOMA__LINE_ENTRIES + i;
}

/* ---- growth ---- */

/* The last hash, of the 40 bits, whose own line is this one. */
static uint64_t
last_hash(const struct soma__lookup *lookup, uint32_t line)
{
	uint64_t upper = ((((uint64_t)line + 1) << 32) - 1) / lookup->count;

	return upper << (SOMA__ADDRESS_BITS - 32) | (((uint64_t)1 << (SOMA__ADDRESS_BITS - 32)) - 1);
}

/* The hash of an entry: the last one that ends in its 31 bits and can be in this line.  The one
 * before, which is 2^31 less, is beyond the reach. */
static uint64_t
hash_of(uint64_t last, uint32_t lower)
{
	return (last - ((last - (lower >> 1)) & (UINT32_MAX >> 1))) << (64 - SOMA__ADDRESS_BITS);
}

/* A line's number is the upper part of the hash, so that both tables are passed over in order;
 * and nothing but them is read, unless the table is so small that the blocks have to be asked. */
static void
move_entries(struct soma__lookup *to, const struct soma__lookup *from, const struct soma__slab *blocks)
{
	for (uint32_t number = 0; number < from->count; number++) {
		const struct soma__line *line = &from->lines[number];
		uint64_t last = from->ask ? 0 : last_hash(from, number);

		for (unsigned i = 0; i < SOMA__LINE_ENTRIES; i++) {
			uint64_t hash = hash_of(last, line->hash[i]);

			if (line->hash[i] == 0)
				continue;
			if (from->ask)
				hash = soma__lookup_hash(
					soma__block_address(soma__lookup_block(blocks, line->link[i])));
			soma__lookup_enter(to, hash, line->link[i]);
		}
	}
}

/* At three entries to four places; large tables by an eighth: 11 to 12 bytes an entry. */
static uint32_t
next_count(uint32_t count)
{
	if (count < FIRST_COUNT)
		return FIRST_COUNT;
	return count + (count < LARGE_COUNT ? count / 2 : count / 8);
}

bool
soma__lookup_grow(struct soma__lookup *lookup, const struct soma__slab *blocks, struct soma__arena *arena)
{
	struct soma__lookup wider = { .count = next_count(lookup->count) };

	wider.grow_at = wider.count / 4 * 3 * SOMA__LINE_ENTRIES;
	wider.lines = soma__arena_calloc(arena, (size_t)wider.count * sizeof *wider.lines, 64);
	wider.passed = soma__arena_calloc(arena, wider.count, 1);
	if (wider.lines == NULL || wider.passed == NULL) {
		soma__arena_free(arena, wider.lines, (size_t)wider.count * sizeof *wider.lines);
		soma__arena_free(arena, wider.passed, wider.count);
		return false;
	}
	set_reach(&wider, 1);
	move_entries(&wider, lookup, blocks);
	soma__arena_free(arena, lookup->lines, (size_t)lookup->count * sizeof *lookup->lines);
	soma__arena_free(arena, lookup->passed, lookup->count);
	*lookup = wider;
	return true;
}
