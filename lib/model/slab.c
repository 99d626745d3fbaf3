/* SPDX-License-Identifier: Apache-2.0 */
/* Growth of slabs; everything hot is inline in the header.  No locking. */
#include "lib/model/slab.h"

#include <string.h>

#include "lib/base/error.h"

#define FIRST_CAPACITY 64

void
soma__slab_init(struct soma__slab *slab, size_t record_size, uint32_t limit)
{
	*slab = (struct soma__slab){ .record_size = (uint32_t)record_size, .limit = limit };
}

bool
soma__slab_grow(struct soma__slab *slab, struct soma__arena *arena, uint32_t count)
{
	uint64_t wanted = (uint64_t)slab->capacity - soma__slab_spare(slab) + count + 1;
	uint64_t capacity = slab->capacity ? slab->capacity : FIRST_CAPACITY;
	char *records;

	while (capacity < wanted)
		capacity *= 2;
	if (capacity > slab->limit) {
		soma__fail(OUT_OF_HOST_MEMORY, "a model holds at most %" PRIu64 " records of one kind",
			   slab->limit);
		return false;
	}
	records = soma__arena_alloc(arena, (size_t)capacity * slab->record_size, 64);
	if (records == NULL)
		return false;
	if (slab->records != NULL)
		memcpy(records, slab->records, (size_t)slab->fresh * slab->record_size);
	else
		memset(records, 0, slab->record_size);
	soma__arena_free(arena, slab->records, (size_t)slab->capacity * slab->record_size);
	slab->records = records;
	slab->capacity = (uint32_t)capacity;
	if (slab->fresh == 0)
		slab->fresh = 1;
	return true;
}
