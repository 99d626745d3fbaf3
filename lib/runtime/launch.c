/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launch recorder: a list of uses that is kept free of duplicates, prepared together and finished together.
 * What a use is, lib/resource knows.  With few blocks the list is searched from its end; one that
 * was allocated has an index of open addressing beside it.  No locks: a launch is one thread's.
 */
#include <soma/launch.h>

#include <stddef.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/resource/terminal.h"
#include "lib/resource/uses.h"

enum state {
	RECORDING = 1,
	PREPARED = 2, /* preflight was run, whatever it found */
	FAILED = 3,   /* committed, but not every block */
	ENDED = 4,
};

/* Slots of the index for each use that there is room for, so that it is at most half full. */
#define SLOTS_PER_USE 2u

static enum soma_status
bad_state(const struct soma_launch *launch, const char *what)
{
	static const char *const texts[] = {
		[RECORDING] = "being recorded",
		[PREPARED] = "past its preflight",
		[FAILED] = "committed",
		[ENDED] = "ended",
	};
	bool known = launch->state >= RECORDING && launch->state <= ENDED;

	return soma__error_text(SOMA_STATUS_INVALID_VALUE, "a launch that is %s cannot be %s",
				known ? texts[launch->state] : "not begun", what);
}

/* The uses and, behind them, the index. */
static size_t
memory_size(uint32_t capacity)
{
	return capacity * (sizeof(struct soma_use) + SLOTS_PER_USE * sizeof(uint32_t));
}

static bool
is_inline(const struct soma_launch *launch)
{
	return launch->uses == launch->first;
}

/* ---- begin, end --------------------------------------------------------------------- */

enum soma_status
soma_launch_begin(struct soma_launch *launch, struct soma_resource *resource, uint64_t stream)
{
	struct soma__stream *open;
	enum soma_status status;

	launch->state = ENDED;
	launch->count = 0;
	launch->uses = launch->first;
	if (!soma_resource_supports_use_tracking(resource))
		return soma__fail(STREAM_MISUSE,
				  "the backend cannot keep an order between streams: uses are not tracked");
	status = soma__stream_open(&resource->terminal->streams, stream, &open);
	if (status != SOMA_STATUS_OK)
		return status;
	launch->resource = resource;
	launch->stream = stream;
	launch->state = RECORDING;
	launch->capacity = SOMA_LAUNCH_INLINE;
	launch->slots = 0;
	launch->index = NULL;
	return SOMA_STATUS_OK;
}

void
soma_launch_abandon(struct soma_launch *launch)
{
	if (launch->state == ENDED)
		return;
	launch->state = ENDED;
	if (!is_inline(launch))
		soma__arena_free(launch->resource->terminal->arena, launch->uses,
				 memory_size(launch->capacity));
	launch->uses = launch->first;
	launch->count = 0;
}

/* ---- recording ------------------------------------------------------------------------ */

static inline bool
is_same(struct soma_block_id a, struct soma_block_id b)
{
	return a.handle == b.handle && a.generation == b.generation;
}

static uint32_t
slot_of(const struct soma_launch *launch, struct soma_block_id block)
{
	uint64_t hash = (block.handle ^ block.generation << 17) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t)(hash >> 32) & (launch->slots - 1);
}

/* The slot that has the block, or the empty one where it belongs.  Slots hold numbers from 1. */
static uint32_t *
find_slot(const struct soma_launch *launch, struct soma_block_id block)
{
	uint32_t slot = slot_of(launch, block);

	while (launch->index[slot] != 0 && !is_same(launch->uses[launch->index[slot] - 1].block, block))
		slot = (slot + 1) & (launch->slots - 1);
	return &launch->index[slot];
}

static struct soma_use *
find_use(const struct soma_launch *launch, struct soma_block_id block)
{
	if (launch->index != NULL) {
		uint32_t number = *find_slot(launch, block);
		return number != 0 ? &launch->uses[number - 1] : NULL;
	}
	for (uint32_t i = launch->count; i-- > 0;)
		if (is_same(launch->uses[i].block, block))
			return &launch->uses[i];
	return NULL;
}

static enum soma_status
grow(struct soma_launch *launch)
{
	struct soma__arena *arena = launch->resource->terminal->arena;
	uint32_t capacity = launch->capacity * 4;
	struct soma_use *larger = soma__arena_alloc(arena, memory_size(capacity), 0);

	if (larger == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	memcpy(larger, launch->uses, launch->count * sizeof *larger);
	if (!is_inline(launch))
		soma__arena_free(arena, launch->uses, memory_size(launch->capacity));
	launch->uses = larger;
	launch->capacity = capacity;
	launch->slots = SLOTS_PER_USE * capacity;
	launch->index = (uint32_t *)(void *)(larger + capacity);
	memset(launch->index, 0, launch->slots * sizeof *launch->index);
	for (uint32_t i = 0; i < launch->count; i++)
		*find_slot(launch, larger[i].block) = i + 1;
	return SOMA_STATUS_OK;
}

static enum soma_status
record(struct soma_launch *launch, struct soma_block_id block, enum soma_access access)
{
	struct soma_use *use;

	if (launch->state != RECORDING)
		return bad_state(launch, "added to");
	use = find_use(launch, block);
	if (use != NULL) {
		use->access = (enum soma_access)(use->access | access);
		return SOMA_STATUS_OK;
	}
	if (launch->count == launch->capacity && grow(launch) != SOMA_STATUS_OK)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	launch->uses[launch->count] = (struct soma_use){
		.size = sizeof *use,
		.block = block,
		.stream = launch->stream,
		.access = access,
	};
	launch->count++;
	if (launch->index != NULL)
		*find_slot(launch, block) = launch->count;
	return SOMA_STATUS_OK;
}

enum soma_status
soma_launch_read(struct soma_launch *launch, struct soma_block_id block)
{
	return record(launch, block, SOMA_ACCESS_READ);
}

enum soma_status
soma_launch_write(struct soma_launch *launch, struct soma_block_id block)
{
	return record(launch, block, SOMA_ACCESS_WRITE);
}

enum soma_status
soma_launch_read_write(struct soma_launch *launch, struct soma_block_id block)
{
	return record(launch, block, SOMA_ACCESS_READ_WRITE);
}

/* ---- preflight, commit -------------------------------------------------------------------- */

/* All of them, also after one that failed: so a program learns of everything that is wrong at once. */
enum soma_status
soma_launch_preflight(struct soma_launch *launch)
{
	enum soma_status first = SOMA_STATUS_OK;

	if (launch->state != RECORDING)
		return bad_state(launch, "prepared");
	launch->state = PREPARED;
	for (uint32_t i = 0; i < launch->count; i++) {
		struct soma_use *use = &launch->uses[i];
		use->status = soma_resource_prepare_use(launch->resource, use->block, launch->stream,
							use->access, use);
		if (first == SOMA_STATUS_OK)
			first = use->status;
	}
	return first;
}

enum soma_status
soma_launch_commit(struct soma_launch *launch)
{
	enum soma_status status;

	if (launch->state != RECORDING && launch->state != PREPARED)
		return bad_state(launch, "committed");
	status = soma__uses_commit(launch->resource, launch->uses, launch->count, launch->state == PREPARED);
	launch->state = FAILED;
	if (status == SOMA_STATUS_OK)
		soma_launch_abandon(launch);
	return status;
}

size_t
soma_launch_count(const struct soma_launch *launch)
{
	return launch->count;
}

const struct soma_use *
soma_launch_use(const struct soma_launch *launch, size_t index)
{
	return index < launch->count ? &launch->uses[index] : NULL;
}
