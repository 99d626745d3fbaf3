/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Releasing idle segments by age and by size.  The records for it are reserved by whoever
 * calls (make_room) or here, before anything changes (collect).  Not thread-safe, like the
 * model.
 */
#include "lib/model/cache.h"

#include "lib/model/segments.h"

/* Segments become idle and are not by (size, address): the first one from there on. */
static uint32_t
idle_from(const struct soma_model *model, uint64_t size, uint64_t address)
{
	uint32_t tree = soma__tree_at_least(&model->index.trees, model->idle, size, address);

	return tree != 0 ? soma__tree_at(&model->index.trees, tree)->record : 0;
}

static uint32_t
idle_after(const struct soma_model *model, uint32_t name)
{
	const struct soma__segment *segment = soma__segment_at(model, name);

	return idle_from(model, segment->end - segment->address, segment->address + 1);
}

static uint64_t
size_of(const struct soma_model *model, uint32_t name)
{
	const struct soma__segment *segment = soma__segment_at(model, name);

	return segment->end - segment->address;
}

/* ---- by age ---- */

struct ages {
	uint64_t sum, count;
};

static bool
is_collected(const struct soma_model *model, uint32_t name)
{
	return soma__segment_at(model, name)->pool == model->policy.pool_count - 1;
}

static uint64_t
age_of(const struct soma_model *model, uint32_t name)
{
	return model->searches - soma__segment_at(model, name)->idle_since;
}

static struct ages
sum_ages(const struct soma_model *model)
{
	struct ages ages = { 0 };

	for (uint32_t name = idle_from(model, 0, 0); name != 0; name = idle_after(model, name)) {
		if (!is_collected(model, name))
			continue;
		ages.sum += age_of(model, name);
		ages.count++;
	}
	return ages;
}

/* Releases those that are at least as old as the average; the bytes of it. */
static uint64_t
collect_old(struct soma_model *model, struct ages *ages)
{
	const struct ages limit = *ages;
	uint64_t released = 0;

	for (uint32_t name = idle_from(model, 0, 0), next; name != 0; name = next) {
		uint64_t age = age_of(model, name);

		next = idle_after(model, name);
		if (!is_collected(model, name) || age * limit.count < limit.sum)
			continue;
		ages->sum -= age;
		ages->count--;
		released += soma__bytes(model, size_of(model, name));
		soma__segment_release(model, name);
	}
	return released;
}

bool
soma__cache_collect(struct soma_model *model)
{
	uint64_t reserved = model->stats.reserved, target, released = 0, now = 1;
	struct ages ages;

	ages = sum_ages(model);
	if (ages.count == 0)
		return true;
	if (!soma__segments_reserve_release(model))
		return false;
	target = reserved - model->policy.collect_above;
	while (released < target && ages.count > 0 && now > 0) {
		now = collect_old(model, &ages);
		released += now;
	}
	model->headroom = 0;
	return true;
}

/* ---- by size ---- */

static bool
is_own(const struct soma_model *model, const struct soma__stream *stream, unsigned pool, uint32_t name)
{
	return soma__segment_at(model, name)->home ==
	       soma__own_shelf(model, soma__stream_slot(stream), pool);
}

/* The largest one of the stream's own; 0: none of at least `least`. */
static uint32_t
largest_own(const struct soma_model *model, const struct soma__stream *stream, unsigned pool, uint64_t least)
{
	uint32_t found = 0;

	for (uint32_t name = idle_from(model, least, 0); name != 0; name = idle_after(model, name))
		if (is_own(model, stream, pool, name))
			found = name;
	return found;
}

bool
soma__cache_make_room(struct soma_model *model, const struct soma__stream *stream, unsigned pool,
		      uint64_t granules)
{
	uint64_t oversize = model->policy.oversize >> model->granule_shift, released = 0;
	uint64_t wanted = granules > oversize ? granules : oversize;
	uint32_t name;

	model->headroom = 0;
	for (name = idle_from(model, wanted, 0); name != 0; name = idle_after(model, name)) {
		if (is_own(model, stream, pool, name)) {
			soma__segment_release(model, name);
			return true;
		}
	}
	while (released < wanted && (name = largest_own(model, stream, pool, oversize)) != 0) {
		released += size_of(model, name);
		soma__segment_release(model, name);
	}
	return released >= wanted;
}
