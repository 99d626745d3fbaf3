/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One walk over the model's extents, with the names of the blocks beside it.
 */
#include "tools/engine/autopsy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/engine/blocks.h"
#include "tools/engine/expandable.h"
#include "tools/engine/moment.h"
#include "tools/xalloc.h"

/* Blocks by the model's address. */
struct named {
	struct table_key key; /* the model's address; the tag is the holder */
	uint64_t ptr;         /* the trace's */
};

struct walk {
	struct autopsy *autopsy;
	struct table names;
	bool follows;   /* segments of the model may be recorded ones */
	struct pin pin; /* the segment that is being walked */
	bool in_segment;
};

static void
name_blocks(struct walk *walk, const struct run *run)
{
	const struct run_block *block;
	size_t cursor = 0;

	table_init(&walk->names, sizeof(struct named));
	while ((block = table_next(&run->blocks, &cursor)) != NULL) {
		struct named *named;

		if (block->state != BLOCK_LIVE)
			continue;
		named = table_add(&walk->names, block->ptr);
		named->key.tag = block->key.tag;
		named->ptr = block->key.key;
	}
}

static int
by_size(const void *left, const void *right)
{
	const struct pin_block *a = left, *b = right;

	if (a->size != b->size)
		return a->size < b->size ? -1 : 1;
	return a->nth < b->nth ? -1 : 1;
}

static int
by_free(const void *left, const void *right)
{
	const struct pin *a = left, *b = right;

	if (a->free != b->free)
		return a->free > b->free ? -1 : 1;
	return a->nth < b->nth ? -1 : 1;
}

/* Keeps one that is partly free. */
static void
end_segment(struct walk *walk)
{
	struct autopsy *autopsy = walk->autopsy;
	struct pin *pin = &walk->pin;

	if (walk->in_segment && pin->free > 0 && pin->block_count > 0) {
		qsort(pin->blocks, pin->block_count, sizeof *pin->blocks, by_size);
		pin->nth = autopsy->pin_count;
		autopsy->pins = xgrow(autopsy->pins, &autopsy->pin_room, autopsy->pin_count,
				      sizeof *autopsy->pins);
		autopsy->pins[autopsy->pin_count++] = *pin;
	} else {
		if (walk->in_segment && pin->free == pin->size)
			autopsy->idle += pin->size;
		free(pin->blocks);
	}
	*pin = (struct pin){ 0 };
}

static void
add_live(struct walk *walk, const struct soma_extent *extent)
{
	const struct named *named = table_find(&walk->names, extent->address);
	struct pin *pin = &walk->pin;
	struct pin_block block = { extent->address, extent->requested, named != NULL ? named->key.tag : 0,
				   pin->block_count };

	if (walk->autopsy->recorded_addresses && named != NULL) {
		block.address = named->ptr;
		pin->has_address &= named->ptr == extent->address;
	}
	pin->blocks = xgrow(pin->blocks, &pin->block_room, pin->block_count, sizeof *pin->blocks);
	pin->blocks[pin->block_count++] = block;
}

static bool
visit(void *context, const struct soma_extent *extent)
{
	struct walk *walk = context;

	switch (extent->kind) {
	case SOMA_EXTENT_SEGMENT:
		end_segment(walk);
		walk->in_segment = true;
		walk->pin = (struct pin){ .has_address = walk->follows || !walk->autopsy->recorded_addresses,
					  .address = extent->address,
					  .size = extent->size };
		break;
	case SOMA_EXTENT_LIVE:
		add_live(walk, extent);
		break;
	case SOMA_EXTENT_FREE:
		walk->pin.free += extent->size;
		break;
	case SOMA_EXTENT_PENDING:
	case SOMA_EXTENT_HOLE:
		break;
	}
	return true;
}

static void
look(struct autopsy *autopsy, struct run *run, uint64_t event, uint64_t size, uint64_t stream)
{
	struct walk walk = { .autopsy = autopsy, .follows = run->plan->follow_segments };

	autopsy->taken = true;
	autopsy->recorded_addresses = trace_has_addresses(run->reader);
	autopsy->event = event;
	autopsy->size = size;
	moment_take(&run->streams, stream, run->padding, &autopsy->moment);
	autopsy->holders = holders_rank_now(&run->holders, &autopsy->holder_count);
	name_blocks(&walk, run);
	if (run->streams.expandable != NULL)
		expandable_walk(run->streams.expandable, visit, &walk);
	else
		soma_model_walk(run->model, visit, &walk);
	end_segment(&walk);
	if (autopsy->pin_count > 0)
		qsort(autopsy->pins, autopsy->pin_count, sizeof *autopsy->pins, by_free);
	table_fini(&walk.names);
}

void
autopsy_take(struct autopsy *autopsy, struct run *run, uint64_t event, uint64_t size, uint64_t stream)
{
	look(autopsy, run, event, size, stream);
	autopsy->verdict = run->result->oom;
}

/* The detail is a number of bytes free on the device, or "device_free NUMBER", as it is
 * read from a snapshot. */
static bool
read_device_free(const char *text, uint64_t *bytes)
{
	static const char prefix[] = "device_free ";
	unsigned long long value;
	char *end;

	if (strncmp(text, prefix, sizeof prefix - 1) == 0)
		text += sizeof prefix - 1;
	errno = 0;
	value = strtoull(text, &end, 10);
	*bytes = 0;
	if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value > SOMA_MODEL_ADDRESS_MAX)
		return false;
	*bytes = value;
	return true;
}

static uint64_t
limit_then(const struct autopsy *autopsy, uint64_t capacity)
{
	uint64_t most = autopsy->moment.reserved + autopsy->device_free;

	return capacity > 0 && (capacity < most || !autopsy->has_device_free) ? capacity : most;
}

void
autopsy_take_recorded(struct autopsy *autopsy, struct run *run, const struct trace_event *event,
		      uint64_t stream)
{
	const struct replay_options *options = run->plan->options;
	uint64_t wanted = options->round != NULL ? options->round(options->round_context, event->size)
						 : event->size;

	look(autopsy, run, event->index, event->size, stream);
	autopsy->recorded = true;
	if (event->op == TRACE_OOM)
		autopsy->has_device_free = read_device_free(trace_name_text(run->reader, event->detail),
							    &autopsy->device_free);
	autopsy->limit = limit_then(autopsy, options->capacity);
	moment_verdict(&run->streams, stream, wanted, autopsy->limit, &autopsy->verdict);
	autopsy->verdict.event = event->index;
	autopsy->verdict.requested = event->size;
	autopsy->verdict.live_requested -= run->padding;
}

void
autopsy_fini(struct autopsy *autopsy)
{
	for (size_t i = 0; i < autopsy->pin_count; i++)
		free(autopsy->pins[i].blocks);
	free(autopsy->pins);
	free(autopsy->holders);
	*autopsy = (struct autopsy){ 0 };
}
