/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks by address: open addressing, linear, in pages of its own once there are many.
 * The caller holds the set's mutex.
 */
#include "lib/arena/chunks.h"

#include <sys/mman.h>

#define CHUNK SOMA__PAGES_CHUNK

static size_t
home_slot(const struct soma__pages *pages, uintptr_t number)
{
	return (size_t)(((uint64_t)number * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (pages->slots - 1);
}

/* The chunk's slot, or the empty one where it would go. */
static struct soma__chunk *
slot_of(const struct soma__pages *pages, uintptr_t number)
{
	size_t i = home_slot(pages, number);

	while (pages->table[i].number != 0 && pages->table[i].number != number)
		i = (i + 1) & (pages->slots - 1);
	return &pages->table[i];
}

struct soma__chunk *
soma__chunk_of(const struct soma__pages *pages, const void *address)
{
	return slot_of(pages, (uintptr_t)address / CHUNK);
}

static void
free_table(struct soma__pages *pages, struct soma__chunk *table, size_t slots)
{
	if (table != pages->first)
		munmap(table, slots * sizeof *table);
}

/* At a load of at most a half. */
bool
soma__chunks_reserve(struct soma__pages *pages, size_t more)
{
	size_t slots = pages->slots, old_slots = pages->slots;
	struct soma__chunk *old = pages->table;

	while (slots < 2 * (pages->chunks + more))
		slots *= 2;
	if (slots == old_slots)
		return true;
	struct soma__chunk *table =
		mmap(NULL, slots * sizeof *table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (table == MAP_FAILED)
		return false;
	pages->table = table;
	pages->slots = slots;
	for (size_t i = 0; i < old_slots; i++)
		if (old[i].number != 0)
			*slot_of(pages, old[i].number) = old[i];
	free_table(pages, old, old_slots);
	return true;
}

/* Those behind it that could not have their own place move up. */
void
soma__chunks_remove(struct soma__pages *pages, struct soma__chunk *chunk)
{
	size_t mask = pages->slots - 1, hole = (size_t)(chunk - pages->table);

	for (size_t i = (hole + 1) & mask; pages->table[i].number != 0; i = (i + 1) & mask) {
		size_t home = home_slot(pages, pages->table[i].number);

		if (((i - home) & mask) >= ((i - hole) & mask)) {
			pages->table[hole] = pages->table[i];
			hole = i;
		}
	}
	pages->table[hole] = (struct soma__chunk){ 0 };
	pages->chunks--;
}

void
soma__chunks_add(struct soma__pages *pages, char *address, size_t size, struct soma__chunk like)
{
	for (size_t at = 0; at < size; at += CHUNK) {
		like.number = (uintptr_t)(address + at) / CHUNK;
		*slot_of(pages, like.number) = like;
		like.range = 0;
		pages->chunks++;
	}
	pages->mapped += size;
}

bool
soma__pages_owns(const struct soma__pages *pages, uintptr_t address)
{
	return address >= CHUNK && slot_of(pages, address / CHUNK)->number != 0;
}

void
soma__chunks_free(struct soma__pages *pages)
{
	free_table(pages, pages->table, pages->slots);
}
