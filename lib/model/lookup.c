/* SPDX-License-Identifier: Apache-2.0 */
/* Growth of the pointer lookup; everything hot is inline in the header. */
#include "lib/model/lookup.h"

#define FIRST_COUNT 256 /* the fewest for which bucket and 32 bits of hash are exact */

/* By a half and by a third in turn, at three entries to four buckets: 11 to 16 bytes an
 * entry.  A bucket's number is the upper part of the hash, so that both tables are passed
 * over in order. */
bool
soma__lookup_grow(struct soma__lookup *lookup, const struct soma__slab *blocks, struct soma__arena *arena)
{
	uint32_t old = lookup->count;
	uint32_t count = (old & (old - 1)) == 0 ? old / 2 * 3 : old / 3 * 4;
	struct soma__lookup wider = { .count = old != 0 ? count : FIRST_COUNT };

	wider.grow_at = wider.count / 4 * 3;
	wider.buckets = soma__arena_calloc(arena, (size_t)wider.count * sizeof *wider.buckets, 64);
	if (wider.buckets == NULL)
		return false;
	for (uint32_t bucket = 0; bucket < old; bucket++) {
		uint32_t link = lookup->buckets[bucket].link;

		while (link != 0) {
			struct soma__block *block = soma__lookup_block(blocks, soma__link_record(link));
			uint32_t next = block->chain;

			soma__lookup_put(&wider, block, soma__block_address(block), link);
			link = next;
		}
	}
	soma__arena_free(arena, lookup->buckets, (size_t)old * sizeof *lookup->buckets);
	*lookup = wider;
	return true;
}
