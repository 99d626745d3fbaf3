/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filling a scene: what is kept of each thing that a replay does.
 */
#include "tools/report/scene.h"

#include <stdlib.h>
#include <string.h>

#include "tools/report/report.h"
#include "tools/xalloc.h"

const char *const scene_by_names[] = { "holder", "stream", "pool", NULL };

size_t
scene_layer(const struct layers *layers, uint32_t key)
{
	for (size_t i = 0; i < layers->count; i++)
		if (layers->at[i].key == key)
			return i;
	return LAYER_OTHER;
}

unsigned
scene_bucket(uint64_t size)
{
	return size > 0 ? 63u - (unsigned)__builtin_clzll(size) : 0;
}

/* ---- looking on ----------------------------------------------------------- */

static uint64_t
since_origin(const struct scene *scene, uint64_t x)
{
	uint64_t first = scene->series[SCENE_HOLDER].x_first;

	return x > first ? x - first : 0;
}

/* Everything of a pass; names and layers last longer. */
static void
clear(struct scene *scene)
{
	for (int by = 0; by < SCENE_BY_COUNT; by++) {
		holders_fini(&scene->held[by]);
		series_fini(&scene->series[by]);
	}
	for (int when = 0; when < SCENE_WHEN_COUNT; when++)
		scene_map_fini(&scene->maps[when]);
	table_fini(&scene->live);
	table_init(&scene->live, sizeof(struct scene_live));
	scene->blocks.count = 0;
	scene->blocks.seen = 0;
	scene->blocks.seen_area = 0;
	scene->least_area = 0;
	scene->span_count = scene->open_count = 0;
	scene->sample = SIZE_MAX;
	scene->sizes = (struct scene_sizes){ 0 };
	scene->has_failed = false;
}

static void
begin(void *context, const struct series *series, const struct soma_policy *policy)
{
	struct scene *scene = context;

	clear(scene);
	scene->policy = policy;
	if (!scene->ranked) {
		scene->layers[SCENE_HOLDER].count = series->layer_count;
		for (size_t i = 0; i < series->layer_count; i++)
			scene->layers[SCENE_HOLDER].at[i].key = series->layers[i];
	}
	for (int by = 0; by < SCENE_BY_COUNT; by++) {
		struct series *own = &scene->series[by];

		series_init(own, scene->ranking ? 0 : scene->columns, series->by_time, series->x_first,
			    series->x_first + series->x_span);
		own->layer_count = scene->layers[by].count;
		for (size_t i = 0; i < own->layer_count; i++)
			own->layers[i] = scene->layers[by].at[i].key;
		series_reach(own, series->x_first, &scene->held[by]);
	}
}

static void
add_to_sizes(struct scene *scene, const struct scene_block *block)
{
	struct scene_sizes *sizes = &scene->sizes;
	unsigned bucket = scene_bucket(block->size);

	sizes->blocks++;
	sizes->count[bucket]++;
	sizes->bytes[bucket] += block->size;
	for (int by = 0; by < SCENE_BY_COUNT; by++) {
		size_t layer = scene_layer(&scene->layers[by], block->key[by]);

		sizes->layer_count[by][layer][bucket]++;
		sizes->layer_bytes[by][layer][bucket] += block->size;
	}
}

static void
reach(struct scene *scene, uint64_t x)
{
	for (int by = 0; by < SCENE_BY_COUNT; by++)
		series_reach(&scene->series[by], x, &scene->held[by]);
}

static void
enter(void *context, const struct watch_at *at, const struct watch_block *seen)
{
	struct scene *scene = context;
	struct scene_live *live = table_add(&scene->live, seen->ptr);
	struct scene_block *block = &live->block;

	reach(scene, at->x);
	block->ptr = seen->ptr;
	block->size = seen->size;
	block->x0 = since_origin(scene, at->x);
	block->event = at->event;
	block->x1 = block->freed = SCENE_AT_END;
	scene_keys_of(scene, seen, block->key);
	for (int by = 0; by < SCENE_BY_COUNT; by++)
		holders_add(&scene->held[by], block->key[by], block->size, 1);
	if (!scene->ranking)
		add_to_sizes(scene, block);
}

static void
leave(void *context, const struct watch_at *at, uint64_t ptr)
{
	struct scene *scene = context;
	struct scene_live *live = table_find(&scene->live, ptr);

	if (live == NULL)
		return;
	reach(scene, at->x);
	live->block.x1 = since_origin(scene, at->x);
	live->block.freed = at->event;
	for (int by = 0; by < SCENE_BY_COUNT; by++)
		holders_add(&scene->held[by], live->block.key[by], live->block.size, -1);
	if (!scene->ranking) {
		scene_map_freed(scene, live);
		scene_blocks_add(scene, &live->block, live->block.x1);
	}
	table_remove(&scene->live, live);
}

static void
after(struct scene *scene, const struct watch_at *at)
{
	uint64_t live = watch_live(at), reserved = watch_reserved(at);

	reach(scene, at->x);
	for (int by = 0; by < SCENE_BY_COUNT; by++)
		series_put(&scene->series[by], live, reserved, &scene->held[by]);
	if (scene->spans)
		scene_spans_look(scene, at, since_origin(scene, at->x));
	if (scene->event_is_wanted && at->event == scene->event)
		scene_map_take(scene, SCENE_EVENT, at);
	/* An event at which something failed is looked at when all of it is done. */
	if (scene->has_failed && !scene->maps[SCENE_OOM].taken)
		scene_map_take(scene, SCENE_OOM, at);
}

static void
moment(void *context, const struct watch_at *at, enum watch_moment what)
{
	struct scene *scene = context;

	if (what == WATCH_PEAK || what == WATCH_LOOK)
		for (int by = 0; by < SCENE_BY_COUNT; by++)
			holders_mark_peak(&scene->held[by]);
	if (scene->ranking)
		return;
	if (what == WATCH_LOOK)
		scene_map_take(scene, SCENE_PEAK, at);
	if (what == WATCH_FAILED)
		scene->has_failed = true;
	if (what == WATCH_AFTER)
		after(scene, at);
	if (what == WATCH_END)
		scene_map_take(scene, SCENE_END, at);
}

/* ---- from the first event to the last ------------------------------------- */

/* A holder of less than this part of the peak gets no layer, as in engine.c.  Streams and
 * pools are few. */
#define LAYER_LEAST_SHARE 200

static void
rank(struct layers *layers, enum scene_by by, const struct holders *held)
{
	size_t count;
	struct holder_rank *ranks = holders_rank_at_peak(held, &count);
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += ranks[i].bytes;
	layers->count = 0;
	for (size_t i = 0; i < count && i < SERIES_LAYERS; i++)
		if (by != SCENE_HOLDER || ranks[i].bytes >= sum / LAYER_LEAST_SHARE)
			layers->at[layers->count++] = (struct layer){ .key = ranks[i].name };
	free(ranks);
}

static void
finish_layers(struct scene *scene, enum scene_by by)
{
	struct layers *layers = &scene->layers[by];
	size_t count;
	struct holder_rank *ranks = holders_rank_at_peak(&scene->held[by], &count);

	layers->by = by;
	for (size_t i = 0; i < layers->count; i++) {
		layers->at[i].name = scene_name(scene, by, layers->at[i].key);
		for (size_t j = 0; j < count; j++)
			if (ranks[j].name == layers->at[i].key)
				layers->at[i].bytes = ranks[j].bytes;
	}
	free(ranks);
}

static void
finish(struct scene *scene)
{
	uint64_t end = scene->series[SCENE_HOLDER].x_span;

	for (int by = 0; by < SCENE_BY_COUNT; by++) {
		series_finish(&scene->series[by], &scene->held[by]);
		finish_layers(scene, (enum scene_by)by);
	}
	scene_blocks_finish(scene, end);
	scene_spans_finish(scene, end);
	for (int when = 0; when < SCENE_WHEN_COUNT; when++)
		scene_map_finish(scene, &scene->maps[when]);
}

enum soma_status
scene_take(struct scene *scene, struct trace_reader *reader, struct replay_options options, bool all,
	   struct replay_result *result, struct trace_error *error)
{
	enum soma_status status;

	scene->watch = (struct watch){ scene, begin, enter, leave, moment };
	scene->reader = reader;
	options.watch = &scene->watch;
	table_init(&scene->stream_keys, sizeof(struct table_key));
	table_init(&scene->live, sizeof(struct scene_live));
	if (all) {
		scene->ranking = true;
		status = replay_run(reader, &options, result, error);
		if (status != SOMA_STATUS_OK)
			return status;
		replay_result_fini(result);
		for (int by = 0; by < SCENE_BY_COUNT; by++)
			rank(&scene->layers[by], (enum scene_by)by, &scene->held[by]);
		scene->ranking = false;
		scene->ranked = true;
		if (trace_rewind(reader, error) != TRACE_OK)
			return SOMA_STATUS_IO;
	}
	status = replay_run(reader, &options, result, error);
	if (status == SOMA_STATUS_OK)
		finish(scene);
	return status;
}

void
scene_fini(struct scene *scene)
{
	for (int by = 0; by < SCENE_BY_COUNT; by++)
		for (size_t i = 0; i < SERIES_LAYERS; i++)
			free(scene->layers[by].at[i].name);
	clear(scene);
	table_fini(&scene->live);
	scene_keys_fini(scene);
	free(scene->blocks.at);
	free(scene->span);
	free(scene->open);
	*scene = (struct scene){ 0 };
}
