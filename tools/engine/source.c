/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recorded segments on offer.  The lists are short: a segment is offered just
 * before it is needed, and segments are few beside blocks.
 */
#include "tools/engine/source.h"

#include <stdlib.h>
#include <string.h>

#include "tools/xalloc.h"

#define SEGMENT_ALIGNMENT ((uint64_t)2 << 20)

static void
list_add(struct source_list *list, struct source_segment segment)
{
	list->at = xgrow(list->at, &list->room, list->count, sizeof *list->at);
	list->at[list->count++] = segment;
}

/* In order: the first one offered is the first one taken. */
static void
list_remove(struct source_list *list, size_t index)
{
	list->count--;
	memmove(&list->at[index], &list->at[index + 1], (list->count - index) * sizeof *list->at);
}

static void
list_remove_address(struct source_list *list, uint64_t address)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->at[i].address == address) {
			list_remove(list, i);
			return;
		}
	}
}

/* The first that overlaps [address, address + size), or NULL. */
static const struct source_segment *
list_overlap(const struct source_list *list, uint64_t address, uint64_t size)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct source_segment *other = &list->at[i];

		if (address < other->address + other->size && other->address < address + size)
			return other;
	}
	return NULL;
}

static uint64_t
aligned_up(uint64_t address)
{
	return (address + SEGMENT_ALIGNMENT - 1) / SEGMENT_ALIGNMENT * SEGMENT_ALIGNMENT;
}

/* The lowest place from `from` on that no segment has or is on offer for; 0: none. */
static uint64_t
find_place(const struct source *source, uint64_t from, uint64_t size)
{
	const struct source_segment *other;
	bool above = from == source->next && from >= source->top;

	if (above && from <= SOMA_MODEL_ADDRESS_MAX && size <= SOMA_MODEL_ADDRESS_MAX - from)
		return from;
	while (from < SOMA_MODEL_ADDRESS_MAX && size <= SOMA_MODEL_ADDRESS_MAX - from) {
		other = list_overlap(&source->held, from, size);
		if (other == NULL)
			other = list_overlap(&source->offered, from, size);
		if (other == NULL)
			return from;
		from = aligned_up(other->address + other->size);
	}
	return 0;
}

/* Behind the trace's addresses while there is room; then wherever there is. */
static enum soma_status
acquire_unrecorded(struct source *source, uint64_t stream, uint64_t size, uint64_t *address)
{
	uint64_t place = find_place(source, source->next, size);

	if (place != 0)
		source->next = aligned_up(place + size);
	else
		place = find_place(source, SEGMENT_ALIGNMENT, size);
	if (place == 0)
		return SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
	list_add(&source->held, (struct source_segment){ place, size, stream });
	*address = place;
	return SOMA_STATUS_OK;
}

static enum soma_status
acquire(void *context, uint64_t stream, uint64_t size, uint64_t *address)
{
	struct source *source = context;

	for (size_t i = 0; i < source->offered.count; i++) {
		struct source_segment segment = source->offered.at[i];

		if (segment.stream != stream || segment.size != size ||
		    list_overlap(&source->held, segment.address, size) != NULL)
			continue;
		*address = segment.address;
		list_remove(&source->offered, i);
		list_add(&source->held, segment);
		source->reproduced++;
		return SOMA_STATUS_OK;
	}
	return acquire_unrecorded(source, stream, size, address);
}

static void
release(void *context, uint64_t address, uint64_t size)
{
	struct source *source = context;

	(void)size;
	source->released++;
	list_remove_address(&source->held, address);
}

struct soma_segment_source
source_functions(struct source *source)
{
	return (struct soma_segment_source){
		.size = sizeof(struct soma_segment_source),
		.context = source,
		.acquire = acquire,
		.release = release,
	};
}

/* Above the trace's addresses, if those leave room for much. */
void
source_init(struct source *source, uint64_t highest)
{
	*source = (struct source){ .next = SOMA_MODEL_BASE_DEFAULT };
	if (highest > SOMA_MODEL_ADDRESS_MAX / 4 * 3)
		source->next = SEGMENT_ALIGNMENT;
	else if (highest > 0)
		source->next = aligned_up(highest);
}

void
source_fini(struct source *source)
{
	free(source->offered.at);
	free(source->held.at);
	*source = (struct source){ 0 };
}

static void
see_recorded(struct source *source, uint64_t end)
{
	if (end > source->top)
		source->top = end;
}

/* An address that the model cannot have (misaligned or too high) is not offered; one
 * that it still uses, because the replay differs from the recording, not given. */
void
source_offer(struct source *source, uint64_t stream, uint64_t address, uint64_t size)
{
	bool usable = address != 0 && address % 512 == 0 && size > 0 && size <= SOMA_MODEL_ADDRESS_MAX &&
		      address <= SOMA_MODEL_ADDRESS_MAX - size;

	source_withdraw(source, address);
	if (!usable)
		return;
	list_add(&source->offered, (struct source_segment){ address, size, stream });
	see_recorded(source, address + size);
}

void
source_withdraw(struct source *source, uint64_t address)
{
	list_remove_address(&source->offered, address);
}

bool
source_holds(const struct source *source, uint64_t address)
{
	return list_overlap(&source->held, address, 1) != NULL;
}

void
source_adopted(struct source *source, uint64_t address, uint64_t size)
{
	list_add(&source->held, (struct source_segment){ address, size, 0 });
	see_recorded(source, address + size);
}
