/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pointer lookup's rare cases: entries behind their own lines, and growth.  A line
 * counts the entries that had to go past it: where there are none, a search ends, and so
 * nothing is moved when an entry goes.
 */
#include "lib/model/lookup.h"

#define FIRST_COUNT 8

/* Lines that fill a huge page.  A larger table grows in small steps. */
#define HUGE_LINES ((uint32_t)1 << 15)

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

static uint32_t *
search_line(struct soma__line *line, const struct soma__slab *blocks, uint32_t lower, uint64_t granule)
{
	for (unsigned i = soma__line_find(line->hash, lower); i < SOMA__LINE_ENTRIES; i++)
		if (line->hash[i] == lower &&
		    soma__block_address(soma__lookup_block(blocks, line->link[i])) == granule)
			return &line->link[i];
	return NULL;
}

/* The link at this granule, marked or not, or NULL. */
static uint32_t *
search(const struct soma__lookup *lookup, const struct soma__slab *blocks, uint64_t granule)
{
	uint64_t hash = soma__lookup_hash(granule);
	uint32_t number = soma__lookup_line(lookup, hash);

	for (uint32_t looked = 0; looked < lookup->reach; looked++) {
		uint32_t *link = search_line(&lookup->lines[number], blocks, soma__hash_lower(hash), granule);

		if (link != NULL)
			return link;
		if (lookup->passed[number] == 0)
			return NULL;
		number = next_line(lookup, number);
	}
	return NULL;
}

uint32_t *
soma__lookup_search(const struct soma__lookup *lookup, const struct soma__slab *blocks, uint64_t granule)
{
	uint32_t *link = search(lookup, blocks, granule);

	return link != NULL && (*link & SOMA__LINK_FREED) == 0 ? link : NULL;
}

uint32_t
soma__lookup_recall(const struct soma__lookup *lookup, const struct soma__slab *blocks, uint64_t granule)
{
	return soma__lookup_place(lookup, search(lookup, blocks, granule));
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
	return number;
}

void
soma__lookup_come_back(struct soma__lookup *lookup, uint32_t own, uint32_t line)
{
	for (; own != line; own = next_line(lookup, own))
		if (lookup->passed[own] < PASSED_MAX)
			lookup->passed[own]--;
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

/* The lines of the wider table that are being filled, and how many entries each has, in its first
 * places: looking for a place that was just written would wait for that. */
#define FILLING 8

struct filling {
	uint32_t first, end;
	uint8_t count[FILLING];
};

static void
fill_until(struct filling *filling, const struct soma__lookup *to, uint32_t last)
{
	for (; filling->end <= last; filling->end++) {
		filling->count[filling->end % FILLING] =
			(uint8_t)soma__line_find(to->lines[filling->end].hash, 0);
		if (filling->end - filling->first == FILLING)
			filling->first++;
	}
}

static bool
is_filling(const struct filling *filling, uint32_t line)
{
	return line - filling->first < filling->end - filling->first;
}

static void
fill(struct filling *filling, struct soma__lookup *to, uint64_t hash, uint32_t link)
{
	uint32_t number = soma__lookup_line(to, hash);
	uint8_t *count = &filling->count[number % FILLING];

	if (is_filling(filling, number) && *count < SOMA__LINE_ENTRIES) {
		to->lines[number].hash[*count] = soma__hash_lower(hash);
		to->lines[number].link[*count] = link;
		to->used++;
		++*count;
		return;
	}
	number = soma__lookup_enter(to, hash, link);
	if (is_filling(filling, number))
		filling->count[number % FILLING]++;
}

/* A bit for each place that has an entry. */
static unsigned
occupied(const struct soma__line *line)
{
	unsigned bits = 0;

	for (unsigned i = 0; i < SOMA__LINE_ENTRIES; i++)
		bits |= (unsigned)(line->hash[i] != 0) << i;
	return bits;
}

/* A line's number is the upper part of the hash, so that both tables are passed over in order;
 * and nothing but them is read, unless the table is so small that the blocks have to be asked. */
static void
move_entries(struct soma__lookup *to, const struct soma__lookup *from, const struct soma__slab *blocks)
{
	struct filling filling = { 0 };

	for (uint32_t number = 0; number < from->count; number++) {
		const struct soma__line *line = &from->lines[number];
		uint64_t last = last_hash(from, number);

		fill_until(&filling, to, soma__lookup_line(to, last << (64 - SOMA__ADDRESS_BITS)));
		for (unsigned bits = occupied(line); bits != 0; bits &= bits - 1) {
			unsigned i = (unsigned)__builtin_ctz(bits);
			uint64_t hash = hash_of(last, line->hash[i]);

			if (from->ask)
				hash = soma__lookup_hash(
					soma__block_address(soma__lookup_block(blocks, line->link[i])));
			fill(&filling, to, hash, line->link[i]);
		}
	}
}

/* At three entries to four places: small tables by a half and by a third in turn, large ones by a
 * quarter, later by an eighth and what fills the last huge page: 11 to 14 bytes an entry. */
static uint32_t
next_count(uint32_t count)
{
	uint32_t whole;

	if (count < FIRST_COUNT)
		return FIRST_COUNT;
	if (count < HUGE_LINES)
		return (count & (count - 1)) == 0 ? count / 2 * 3 : count / 3 * 4;
	count += count / (count < 4 * HUGE_LINES ? 4 : 8);
	whole = (count + HUGE_LINES - 1) / HUGE_LINES * HUGE_LINES;
	return whole - count <= count / 8 ? whole : count;
}

bool
soma__lookup_grow(struct soma__lookup *lookup, const struct soma__slab *blocks, struct soma__arena *arena)
{
	struct soma__lookup wider = { .count = next_count(lookup->count) };

	wider.grow_at = wider.count / 4 * 3 * SOMA__LINE_ENTRIES;
	wider.lines = soma__arena_full_table(arena, (size_t)wider.count * sizeof *wider.lines);
	if (wider.lines == NULL)
		return false;
	wider.passed = soma__arena_full_table(arena, wider.count);
	if (wider.passed == NULL) {
		soma__arena_free_table(arena, wider.lines, (size_t)wider.count * sizeof *wider.lines);
		return false;
	}
	set_reach(&wider, 1);
	move_entries(&wider, lookup, blocks);
	soma__arena_free_table(arena, lookup->lines, (size_t)lookup->count * sizeof *lookup->lines);
	soma__arena_free_table(arena, lookup->passed, lookup->count);
	*lookup = wider;
	return true;
}
