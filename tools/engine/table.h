/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of fixed-size entries by a 64-bit key (an address or a handle).  An
 * entry is a struct of the caller's that begins with struct table_key.  Entries move
 * when others are added or removed: keep no pointers to them across that.
 */
#ifndef SOMA_TOOLS_ENGINE_TABLE_H
#define SOMA_TOOLS_ENGINE_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct table_key {
	uint64_t key;
	uint32_t used; /* the table's */
	uint32_t tag;  /* the caller's */
};

struct table {
	unsigned char *slots;
	size_t entry_size;
	size_t mask; /* slots - 1; 0 before the first entry */
	size_t count;
};

void table_init(struct table *table, size_t entry_size);
void table_fini(struct table *table);

/* NULL when there is none. */
void *table_find(const struct table *table, uint64_t key);

/* It will be asked for soon. */
void table_prefetch(const struct table *table, uint64_t key);

/* A cleared entry for a key that is not in the table. */
void *table_add(struct table *table, uint64_t key);

void table_remove(struct table *table, void *entry);

/* Goes through all in no particular order: start with a cursor of 0, until NULL. */
void *table_next(const struct table *table, size_t *cursor);

#endif
