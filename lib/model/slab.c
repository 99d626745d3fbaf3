/* SPDX-License-Identifier: Apache-2.0 */
/* Growth of slabs; everything hot is inline in the header.  No locking. */
#include "lib/model/slab.h"

#include "lib/base/error.h"

#define FIRST_CAPACITY 64

/* Bytes; smaller slabs are doubled. */
#define LARGE ((uint64_t)1 << 20)

void
soma__slab_init(struct soma__slab *slab, size_t record_size, uint32_t limit)
{
	*slab = (struct soma__slab){ .record_size = (uint32_t)record_size, .limit = limit };
}

/* Records cost memory when they are first handed out, and a table in pages of its own grows where it
 * is: so small steps cost little, and what is kept ready is little. */
static uint64_t
next_capacity(const struct soma__slab *slab, uint64_t capacity)
{
	if (capacity == 0)
		return FIRST_CAPACITY;
	return capacity + (capacity * slab->record_size < LARGE ? capacity : capacity / 8);
}

bool
soma__slab_grow(struct soma__slab *slab, struct soma__arena *arena, uint32_t count)
{
	uint64_t wanted = (uint64_t)slab->capacity - soma__slab_spare(slab) + count + 1;
	uint64_t capacity = slab->capacity;
	char *records;

	while (capacity < wanted)
		capacity = next_capacity(slab, capacity);
	if (capacity > slab->limit && wanted <= slab->limit)
		capacity = slab->limit;
	if (capacity > slab->limit) {
		soma__fail(OUT_OF_HOST_MEMORY, "a model holds at most %" PRIu64 " records of one kind",
			   slab->limit);
		return false;
	}
	records = soma__arena_grow_table(arena, slab->records, (size_t)slab->capacity * slab->record_size,
					 (size_t)capacity * slab->record_size);
	if (records == NULL)
		return false;
	slab->records = records;
	slab->capacity = (uint32_t)capacity;
	if (slab->fresh == 0)
		slab->fresh = 1;
	return true;
}
