/* SPDX-License-Identifier: Apache-2.0 */
/* Growth of the pointer lookup; everything hot is inline in the header. */
#include "lib/model/lookup.h"

#define FIRST_SLOTS 64

/* Growing by a quarter keeps the load between 0.4 and 0.5: about 18 bytes an entry, and
 * runs of entries that are short. */
bool
soma__lookup_grow(struct soma__lookup *lookup, struct soma__arena *arena)
{
	struct soma__lookup wider = { 0 };

	wider.slot_count = lookup->slot_count ? lookup->slot_count + lookup->slot_count / 4 : FIRST_SLOTS;
	wider.grow_at = wider.slot_count / 2;
	wider.slots = soma__arena_calloc(arena, wider.slot_count * sizeof *wider.slots, 64);
	if (wider.slots == NULL)
		return false;
	for (uint64_t slot = 0; slot < lookup->slot_count; slot++) {
		uint64_t entry = lookup->slots[slot];

		if (entry != 0)
			soma__lookup_put(&wider, entry >> SOMA__LOOKUP_RECORD_BITS,
					 (uint32_t)(entry & (SOMA__LOOKUP_RECORDS - 1)));
	}
	soma__arena_free(arena, lookup->slots, lookup->slot_count * sizeof *lookup->slots);
	*lookup = wider;
	return true;
}
