/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small numbers for streams and pools, and their names.  A holder's number is its trace_name.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/report/report.h"
#include "tools/report/scene.h"
#include "tools/units.h"
#include "tools/xalloc.h"

/* Handles up to this are numbers that somebody gave; above, they are addresses. */
#define SMALL_HANDLE 0xffff

static uint32_t
stream_key(struct scene *scene, uint64_t handle)
{
	struct table_key *entry = table_find(&scene->stream_keys, handle);

	if (entry != NULL)
		return entry->tag;
	entry = table_add(&scene->stream_keys, handle);
	entry->tag = (uint32_t)scene->stream_count;
	scene->streams =
		xgrow(scene->streams, &scene->stream_room, scene->stream_count, sizeof *scene->streams);
	scene->streams[scene->stream_count++] = handle;
	return entry->tag;
}

static bool
is_pool(const struct scene_pool *pool, const struct watch_block *block)
{
	return pool->pool[0] == block->pool[0] && pool->pool[1] == block->pool[1] &&
	       pool->size_pool == block->size_pool;
}

/* Blocks of a pool come in runs. */
static uint32_t
pool_key(struct scene *scene, const struct watch_block *block)
{
	size_t i = scene->last_pool;

	if (i >= scene->pool_count || !is_pool(&scene->pools[i], block))
		for (i = 0; i < scene->pool_count && !is_pool(&scene->pools[i], block);)
			i++;
	if (i == scene->pool_count) {
		scene->pools =
			xgrow(scene->pools, &scene->pool_room, scene->pool_count, sizeof *scene->pools);
		scene->pools[scene->pool_count++] =
			(struct scene_pool){ { block->pool[0], block->pool[1] }, block->size_pool };
	}
	scene->last_pool = i;
	return (uint32_t)i;
}

void
scene_keys_of(struct scene *scene, const struct watch_block *block, uint32_t key[SCENE_BY_COUNT])
{
	key[SCENE_HOLDER] = block->holder;
	key[SCENE_STREAM] = stream_key(scene, block->stream);
	key[SCENE_POOL] = pool_key(scene, block);
}

void
scene_keys_fini(struct scene *scene)
{
	table_fini(&scene->stream_keys);
	free(scene->streams);
	free(scene->pools);
}

static void
pool_name(char *buffer, size_t size, const struct scene *scene, const struct scene_pool *pool)
{
	static const char *const sizes[] = { "small", "large" };
	bool has_rows = scene->policy != NULL && scene->policy->pool_count > 1;
	bool is_private = pool->pool[0] != 0 || pool->pool[1] != 0;
	size_t length = 0;

	if (is_private)
		length = (size_t)snprintf(buffer, size, "private pool %" PRIu64 ":%" PRIu64 "%s", pool->pool[0],
					  pool->pool[1], has_rows ? ", " : "");
	if (has_rows)
		snprintf(buffer + length, size - length, "%s blocks", sizes[pool->size_pool > 0]);
	else if (!is_private)
		snprintf(buffer, size, "the one pool");
}

char *
scene_stream_text(char *buffer, uint64_t handle)
{
	snprintf(buffer, UNITS_MAX, handle > SMALL_HANDLE ? "stream 0x%" PRIx64 : "stream %" PRIu64, handle);
	return buffer;
}

char *
scene_name(const struct scene *scene, enum scene_by by, uint32_t key)
{
	char text[128] = "";

	if (by == SCENE_HOLDER)
		return report_holder(trace_name_text(scene->reader, key));
	if (by == SCENE_POOL)
		pool_name(text, sizeof text, scene, &scene->pools[key]);
	else
		scene_stream_text(text, scene->streams[key]);
	return xstrdup(text);
}
