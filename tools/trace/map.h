/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a reader or writer knows of live blocks and the like: a hash table from a 64-bit
 * key to a few numbers.  Entries move when others are added or removed.
 */
#ifndef SOMA_TOOLS_TRACE_MAP_H
#define SOMA_TOOLS_TRACE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_map_entry {
	uint64_t key;
	uint64_t number, other, more;
	uint32_t name;
	bool used; /* the map's */
};

struct trace_map {
	struct trace_map_entry *at;
	size_t count, room; /* room: 0 or a power of two */
};

void trace_map_fini(struct trace_map *map);

/* NULL: not there. */
struct trace_map_entry *trace_map_find(const struct trace_map *map, uint64_t key);

/* The key's entry, made with zeros when it is not there.  NULL: no memory. */
struct trace_map_entry *trace_map_need(struct trace_map *map, uint64_t key);

void trace_map_remove(struct trace_map *map, struct trace_map_entry *entry);

#endif
