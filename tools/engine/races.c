/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass.  Every operation on a block is judged against those before it that it may not run
 * beside: a use against the allocation, the last write and, when it writes, the reads since; a
 * free against all of that; an allocation against what was done with the memory before.
 */
#include "tools/engine/races.h"

#include <stdlib.h>
#include <string.h>

#include "tools/engine/order.h"
#include "tools/engine/regions.h"
#include "tools/xalloc.h"

struct finding {
	struct trace_reader *reader;
	struct races *races;
	size_t limit;
	struct order order;
	struct regions regions;
	int32_t *devices; /* that have blocks */
	size_t device_count, device_room;
};

static const struct {
	const char *text, *what;
} kinds[] = {
#define X(name, text, what) { text, what },
	RACE_KIND_MAP(X)
#undef X
};

static const char *const ops[] = {
#define X(name, text) text,
	RACE_OP_MAP(X)
#undef X
};

const char *
race_kind_text(enum race_kind kind)
{
	return kinds[kind].text;
}

const char *
race_kind_what(enum race_kind kind)
{
	return kinds[kind].what;
}

const char *
race_op_text(enum race_op op)
{
	return ops[op];
}

/* ---- reporting ------------------------------------------------------------------- */

static enum race_reason
reason_of(const struct finding *finding, const struct access *first, const struct access *second)
{
	const struct order_lane *a = &finding->order.lanes[first->at.lane],
				*b = &finding->order.lanes[second->at.lane];

	if (first->what.stream == second->what.stream && first->what.device == second->what.device)
		return RACE_OTHER_STREAM;
	if (first->what.device == second->what.device &&
	    ((first->what.stream == 0 && !b->declared) || (second->what.stream == 0 && !a->declared)))
		return RACE_LEGACY_UNKNOWN;
	return RACE_NEVER_WAITED;
}

static void
report(struct finding *finding, enum race_kind kind, enum race_reason reason, const struct region *region,
       struct access *first, const struct access *second)
{
	struct races *races = finding->races;

	uint32_t telling = second->at.lane * RACE_KINDS + kind + 1;

	if (first->told == telling)
		return;
	first->told = telling;
	races->total++;
	races->of_kind[kind]++;
	if (races->count == finding->limit)
		return;
	races->found = xgrow(races->found, &races->room, races->count, sizeof *races->found);
	races->found[races->count++] = (struct race){
		.kind = kind,
		.reason = reason,
		.device = region->device,
		.ptr = region->ptr,
		.size = region->size,
		.holder = region->holder,
		.first = first->what,
		.second = second->what,
	};
}

/* Whether the second runs after the first; when not, it is reported. */
static bool
judge(struct finding *finding, enum race_kind kind, const struct region *region, struct access *first,
      const struct access *second)
{
	if (first->at.tick == 0 || order_is_after(&finding->order, second->at.lane, first->at))
		return true;
	report(finding, kind, reason_of(finding, first, second), region, first, second);
	return false;
}

static void
judge_reads(struct finding *finding, enum race_kind kind, struct region *region, const struct access *second)
{
	for (size_t i = 0; i < region->read_count; i++)
		judge(finding, kind, region, &region->reads[i], second);
}

/* ---- operations ------------------------------------------------------------------ */

static struct access
operation(struct finding *finding, const struct trace_event *event, enum race_op op)
{
	uint32_t lane = order_lane(&finding->order, event->device, event->stream);

	return (struct access){
		.at = order_op(&finding->order, lane),
		.what = { event->index, event->stream, event->device, op },
	};
}

static uint64_t
end_of(const struct trace_event *event)
{
	uint64_t end;

	return __builtin_add_overflow(event->ptr, event->size, &end) ? UINT64_MAX : end;
}

static void
note_device(struct finding *finding, int32_t device)
{
	for (size_t i = 0; i < finding->device_count; i++)
		if (finding->devices[i] == device)
			return;
	finding->devices = xgrow(finding->devices, &finding->device_room, finding->device_count,
				 sizeof *finding->devices);
	finding->devices[finding->device_count++] = device;
}

/* Of all that was done with the memory before, the free runs last where it is in order. */
static void
judge_reuse(struct finding *finding, struct region *region, const struct access *alloc)
{
	if (region->reusable || !judge(finding, RACE_REUSE, region, &region->end_of_life, alloc))
		return;
	judge(finding, RACE_REUSE, region, &region->write, alloc);
	judge_reads(finding, RACE_REUSE, region, alloc);
}

static void
make_way(struct finding *finding, const struct trace_event *event, const struct access *alloc)
{
	uint64_t end = end_of(event);
	struct region *region;

	while ((region = regions_find(&finding->regions, event->device, event->ptr, end)) != NULL) {
		if (region->freed) {
			judge_reuse(finding, region, alloc);
			regions_cut(&finding->regions, region, event->ptr, end);
		} else {
			finding->races->overwritten++;
			regions_remove(&finding->regions, region);
		}
	}
}

static void
on_alloc(struct finding *finding, const struct trace_event *event)
{
	struct access alloc;
	struct region *region;

	finding->races->allocs++;
	if (event->ptr == 0 || event->size == 0 || event->ptr == UINT64_MAX)
		return;
	alloc = operation(finding, event, RACE_OP_ALLOC);
	make_way(finding, event, &alloc);
	note_device(finding, event->device);
	region = regions_add(&finding->regions, event->device, event->ptr, end_of(event));
	region->ptr = event->ptr;
	region->size = event->size;
	region->holder = event->holder;
	region->alloc = alloc;
}

/* A block may be used on another device than its own. */
static struct region *
block_at(const struct finding *finding, const struct trace_event *event)
{
	uint64_t end = event->ptr + (event->ptr < UINT64_MAX);
	struct region *region = regions_find(&finding->regions, event->device, event->ptr, end);

	for (size_t i = 0; region == NULL && i < finding->device_count; i++)
		region = regions_find(&finding->regions, finding->devices[i], event->ptr, end);
	return region;
}

static enum race_op
access_of(const struct finding *finding, const struct trace_event *event)
{
	const char *detail = trace_name_text(finding->reader, event->detail);

	if (strcmp(detail, "read") == 0)
		return RACE_OP_READ;
	if (strcmp(detail, "write") == 0)
		return RACE_OP_WRITE;
	return strcmp(detail, "read_write") == 0 ? RACE_OP_READ_WRITE : RACE_OP_ACCESS;
}

static void
add_read(struct region *region, const struct access *use)
{
	for (size_t i = 0; i < region->read_count; i++) {
		if (region->reads[i].at.lane == use->at.lane) {
			region->reads[i] = *use;
			return;
		}
	}
	region->reads = xgrow(region->reads, &region->read_room, region->read_count, sizeof *region->reads);
	region->reads[region->read_count++] = *use;
}

/* What does not say how it uses the block may write. */
static void
judge_use(struct finding *finding, struct region *region, const struct access *use)
{
	bool ready = judge(finding, RACE_BEFORE_READY, region, &region->alloc, use);

	if (ready || region->write.at.lane != region->alloc.at.lane)
		judge(finding, RACE_USE, region, &region->write, use);
	if (use->what.op == RACE_OP_READ) {
		add_read(region, use);
		return;
	}
	judge_reads(finding, RACE_USE, region, use);
	region->write = *use;
	region->read_count = 0;
}

static void
on_use(struct finding *finding, const struct trace_event *event)
{
	struct access use = operation(finding, event, access_of(finding, event));
	struct region *region = block_at(finding, event);

	finding->races->uses++;
	if (region == NULL)
		finding->races->unknown_uses++;
	else if (region->freed)
		report(finding, RACE_AFTER_FREE, RACE_FREED_BEFORE, region, &region->end_of_life, &use);
	else
		judge_use(finding, region, &use);
}

/* A deferred free is the recorder's promise to wait for the uses that it knows. */
static void
judge_free(struct finding *finding, struct region *region, const struct access *freed, bool deferred)
{
	bool ready = judge(finding, RACE_FREE, region, &region->alloc, freed);

	if (deferred)
		return;
	if (ready || region->write.at.lane != region->alloc.at.lane)
		judge(finding, RACE_FREE, region, &region->write, freed);
	judge_reads(finding, RACE_FREE, region, freed);
}

static bool
is_settled(const struct finding *finding, const struct region *region)
{
	bool settled = region->reusable || (order_is_settled(&finding->order, region->end_of_life.at) &&
					    order_is_settled(&finding->order, region->write.at));

	for (size_t i = 0; settled && !region->reusable && i < region->read_count; i++)
		settled = order_is_settled(&finding->order, region->reads[i].at);
	return settled;
}

static void
forget_oldest(struct finding *finding)
{
	struct region *oldest = finding->regions.oldest;

	if (finding->regions.freed_count <= RACES_FREED_MAX)
		return;
	finding->races->forgotten += !is_settled(finding, oldest);
	regions_remove(&finding->regions, oldest);
}

static bool
has_detail(const struct finding *finding, const struct trace_event *event, const char *text)
{
	return strcmp(trace_name_text(finding->reader, event->detail), text) == 0;
}

/* Who recorded it may promise to give the memory out again in order alone. */
static void
on_free(struct finding *finding, const struct trace_event *event)
{
	struct access freed = operation(finding, event, RACE_OP_FREE);
	struct region *region = block_at(finding, event);

	finding->races->frees++;
	if (event->ptr == 0)
		return;
	if (region == NULL || region->freed || region->ptr != event->ptr) {
		finding->races->unknown_frees++;
		return;
	}
	judge_free(finding, region, &freed, event->deferred);
	region->end_of_life = freed;
	region->deferred = event->deferred;
	region->reusable = has_detail(finding, event, "ordered");
	regions_free(&finding->regions, region);
	forget_oldest(finding);
}

/* From now on anybody may have the memory: so says who recorded it. */
static void
on_completed(struct finding *finding, const struct trace_event *event)
{
	struct region *region = block_at(finding, event);

	if (region == NULL || !region->freed || !region->deferred || region->ptr != event->ptr)
		return;
	region->deferred = false;
	region->reusable = true;
}

/* ---- the pass --------------------------------------------------------------------- */

static void
on_order(struct finding *finding, const struct trace_event *event)
{
	struct order *order = &finding->order;
	struct races *races = finding->races;

	switch (event->op) {
	case TRACE_RECORD:
		races->records++;
		order_record(order, order_lane(order, event->device, event->stream), event->ptr);
		break;
	case TRACE_WAIT:
		races->waits++;
		order_wait(order, order_lane(order, event->device, event->stream), event->ptr);
		break;
	case TRACE_SYNC:
		races->syncs++;
		if (has_detail(finding, event, "device"))
			order_sync_device(order, event->device);
		else if (has_detail(finding, event, "event"))
			order_sync_event(order, event->ptr);
		else
			order_sync(order, order_lane(order, event->device, event->stream));
		break;
	case TRACE_STREAM_CREATE:
		races->creates++;
		order_create(order, event->device, event->stream, has_detail(finding, event, "blocking"),
			     event->detail != 0);
		break;
	default:
		order_destroy(order, event->device, event->stream);
		break;
	}
}

static void
on_mark(struct finding *finding, const struct trace_event *event)
{
	const char *lost = "events lost here: ";

	finding->races->lost |=
		strncmp(trace_name_text(finding->reader, event->detail), lost, strlen(lost)) == 0;
}

static void
see_event(struct finding *finding, const struct trace_event *event)
{
	finding->races->events++;
	switch (event->op) {
	case TRACE_ALLOC:
		on_alloc(finding, event);
		break;
	case TRACE_FREE:
		on_free(finding, event);
		break;
	case TRACE_FREE_COMPLETED:
		on_completed(finding, event);
		break;
	case TRACE_USE:
		on_use(finding, event);
		break;
	case TRACE_RECORD:
	case TRACE_WAIT:
	case TRACE_SYNC:
	case TRACE_STREAM_CREATE:
	case TRACE_STREAM_DESTROY:
		on_order(finding, event);
		break;
	case TRACE_MARK:
		on_mark(finding, event);
		break;
	default:
		break;
	}
}

static void
sum_up(struct finding *finding, enum trace_result result, const struct trace_error *error)
{
	struct races *races = finding->races;

	races->truncated = result == TRACE_TRUNCATED;
	if (races->truncated)
		races->truncation = *error;
	races->streams = finding->order.streams;
	races->unknown_waits = finding->order.unknown_waits;
	races->judged = races->uses + races->records + races->waits + races->syncs + races->creates > 0;
	races->crowded = races->judged && finding->order.crowded;
	if (races->judged && !races->crowded)
		return;
	races->count = 0;
	races->total = 0;
	memset(races->of_kind, 0, sizeof races->of_kind);
}

enum trace_result
races_find(struct trace_reader *reader, size_t limit, struct races *races, struct trace_error *error)
{
	struct finding finding = { .reader = reader, .races = races, .limit = limit };
	struct trace_event event;
	enum trace_result result;

	*races = (struct races){ 0 };
	order_init(&finding.order);
	while ((result = trace_next(reader, &event, error)) == TRACE_OK)
		see_event(&finding, &event);
	sum_up(&finding, result, error);
	regions_fini(&finding.regions);
	order_fini(&finding.order);
	free(finding.devices);
	if (result == TRACE_ERROR)
		races_fini(races);
	return result == TRACE_ERROR ? TRACE_ERROR : TRACE_OK;
}

void
races_fini(struct races *races)
{
	free(races->found);
	*races = (struct races){ 0 };
}
