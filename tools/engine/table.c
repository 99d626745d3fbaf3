/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open addressing with linear probing; removing shifts back, so there are no
 * tombstones and a long replay stays as fast as a short one.
 */
#include "tools/engine/table.h"

#include <stdlib.h>
#include <string.h>

#include "tools/xalloc.h"

#define SLOTS_FIRST 64

static struct table_key *
slot_at(const struct table *table, size_t index)
{
	return (struct table_key *)(void *)(table->slots + index * table->entry_size);
}

/* Addresses differ in their middle bits: a multiplication carries them upwards. */
static size_t
home_of(const struct table *table, uint64_t key)
{
	return (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 24) & table->mask;
}

void
table_init(struct table *table, size_t entry_size)
{
	*table = (struct table){ .entry_size = entry_size };
}

void
table_fini(struct table *table)
{
	free(table->slots);
	*table = (struct table){ .entry_size = table->entry_size };
}

void *
table_find(const struct table *table, uint64_t key)
{
	if (table->slots == NULL)
		return NULL;
	for (size_t i = home_of(table, key);; i = (i + 1) & table->mask) {
		struct table_key *slot = slot_at(table, i);

		if (!slot->used)
			return NULL;
		if (slot->key == key)
			return slot;
	}
}

void
table_prefetch(const struct table *table, uint64_t key)
{
	if (table->slots != NULL)
		__builtin_prefetch(slot_at(table, home_of(table, key)));
}

static struct table_key *
free_slot(const struct table *table, uint64_t key)
{
	size_t i = home_of(table, key);

	while (slot_at(table, i)->used)
		i = (i + 1) & table->mask;
	return slot_at(table, i);
}

static void
grow(struct table *table)
{
	struct table old = *table;
	size_t slots = old.slots != NULL ? 2 * (old.mask + 1) : SLOTS_FIRST;

	table->slots = xcalloc(slots, table->entry_size);
	table->mask = slots - 1;
	for (size_t i = 0; old.slots != NULL && i <= old.mask; i++) {
		struct table_key *slot = slot_at(&old, i);

		if (slot->used)
			memcpy(free_slot(table, slot->key), slot, table->entry_size);
	}
	free(old.slots);
}

void *
table_add(struct table *table, uint64_t key)
{
	struct table_key *slot;

	if (table->slots == NULL || 5 * (table->count + 1) > 3 * (table->mask + 1))
		grow(table);
	slot = free_slot(table, key);
	memset(slot, 0, table->entry_size);
	slot->key = key;
	slot->used = 1;
	table->count++;
	return slot;
}

void
table_remove(struct table *table, void *entry)
{
	size_t hole = (size_t)((unsigned char *)entry - table->slots) / table->entry_size;

	for (size_t i = (hole + 1) & table->mask; slot_at(table, i)->used; i = (i + 1) & table->mask) {
		size_t home = home_of(table, slot_at(table, i)->key);

		/* It may move back only as far as its home. */
		if (((i - home) & table->mask) >= ((i - hole) & table->mask)) {
			memcpy(slot_at(table, hole), slot_at(table, i), table->entry_size);
			hole = i;
		}
	}
	slot_at(table, hole)->used = 0;
	table->count--;
}

void *
table_next(const struct table *table, size_t *cursor)
{
	while (table->slots != NULL && *cursor <= table->mask) {
		struct table_key *slot = slot_at(table, (*cursor)++);

		if (slot->used)
			return slot;
	}
	return NULL;
}
