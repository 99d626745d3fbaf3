/* SPDX-License-Identifier: Apache-2.0 */
/* Growth of slabs; everything hot is inline in the header.  No locking. */
#include "lib/model/slab.h"

#include <string.h>

#include "lib/base/error.h"

void
soma__slab_init(struct soma__slab *slab, size_t record_size, uint32_t limit)
{
	*slab = (struct soma__slab){ .record_size = (uint32_t)record_size, .limit = limit };
}

static bool
grow_directory(struct soma__slab *slab, struct soma__arena *arena)
{
	uint32_t slots = slab->chunk_slots ? slab->chunk_slots * 2 : 8;
	char **chunks = soma__arena_alloc(arena, slots * sizeof *chunks, 0);

	if (chunks == NULL)
		return false;
	if (slab->chunk_slots != 0)
		memcpy(chunks, slab->chunks, slab->chunk_slots * sizeof *chunks);
	soma__arena_free(arena, slab->chunks, slab->chunk_slots * sizeof *chunks);
	slab->chunks = chunks;
	slab->chunk_slots = slots;
	return true;
}

bool
soma__slab_grow(struct soma__slab *slab, struct soma__arena *arena, uint32_t count)
{
	while (slab->free_count + (slab->capacity - slab->fresh) < count) {
		uint32_t chunk = slab->capacity >> SOMA__SLAB_SHIFT;

		if (slab->capacity > slab->limit - SOMA__SLAB_CHUNK) {
			soma__fail(OUT_OF_HOST_MEMORY, "a model holds at most %" PRIu64 " records of one kind",
				   slab->limit);
			return false;
		}
		if (chunk == slab->chunk_slots && !grow_directory(slab, arena))
			return false;
		slab->chunks[chunk] =
			soma__arena_alloc(arena, (size_t)slab->record_size * SOMA__SLAB_CHUNK, 64);
		if (slab->chunks[chunk] == NULL)
			return false;
		slab->capacity += SOMA__SLAB_CHUNK;
		if (slab->fresh == 0)
			slab->fresh = 1; /* index 0 is no record */
	}
	return true;
}
