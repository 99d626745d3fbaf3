/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open addressing with linear probing.  Removing shifts back, so nothing is left of what
 * is gone.  tools/engine has a table like it that cannot fail; readers must be able to.
 */
#include "tools/trace/map.h"

#include "tools/trace/memory.h"

#define ROOM_FIRST 64

static size_t
home_of(const struct trace_map *map, uint64_t key)
{
	return (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 24) & (map->room - 1);
}

void
trace_map_fini(struct trace_map *map)
{
	trace_release(map->at);
	*map = (struct trace_map){ 0 };
}

static size_t
slot_of(const struct trace_map *map, uint64_t key)
{
	size_t i = home_of(map, key);

	while (map->at[i].used && map->at[i].key != key)
		i = (i + 1) & (map->room - 1);
	return i;
}

struct trace_map_entry *
trace_map_find(const struct trace_map *map, uint64_t key)
{
	size_t slot;

	if (map->room == 0)
		return NULL;
	slot = slot_of(map, key);
	return map->at[slot].used ? &map->at[slot] : NULL;
}

static bool
grow(struct trace_map *map)
{
	struct trace_map larger = { .count = map->count, .room = map->room > 0 ? 2 * map->room : ROOM_FIRST };

	larger.at = trace_zeroed(larger.room * sizeof *larger.at);
	if (larger.at == NULL)
		return false;
	for (size_t i = 0; i < map->room; i++)
		if (map->at[i].used)
			larger.at[slot_of(&larger, map->at[i].key)] = map->at[i];
	trace_release(map->at);
	*map = larger;
	return true;
}

struct trace_map_entry *
trace_map_need(struct trace_map *map, uint64_t key)
{
	struct trace_map_entry *entry = trace_map_find(map, key);

	if (entry != NULL)
		return entry;
	if (5 * (map->count + 1) > 3 * map->room && !grow(map))
		return NULL;
	entry = &map->at[slot_of(map, key)];
	*entry = (struct trace_map_entry){ .key = key, .used = true };
	map->count++;
	return entry;
}

void
trace_map_remove(struct trace_map *map, struct trace_map_entry *entry)
{
	size_t mask = map->room - 1, hole = (size_t)(entry - map->at);

	for (size_t i = (hole + 1) & mask; map->at[i].used; i = (i + 1) & mask) {
		size_t home = home_of(map, map->at[i].key);

		/* It may move back only as far as its home. */
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			map->at[hole] = map->at[i];
			hole = i;
		}
	}
	map->at[hole].used = false;
	map->count--;
}
