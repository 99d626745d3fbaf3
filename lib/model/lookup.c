/* SPDX-License-Identifier: Apache-2.0 */
/* Growth of the pointer lookup; everything hot is inline in the header. */
#include "lib/model/lookup.h"

#define FIRST_BITS 8 /* the fewest for which bucket and 32 bits of hash are exact */

/* Doubling at three entries to four buckets: 11 to 21 bytes an entry.  A bucket's number
 * is the upper part of the hash, so that both tables are passed over in order. */
bool
soma__lookup_grow(struct soma__lookup *lookup, const struct soma__slab *blocks, struct soma__arena *arena)
{
	unsigned bits = lookup->buckets ? SOMA__ADDRESS_BITS - lookup->shift + 1 : FIRST_BITS;
	uint64_t old = lookup->buckets ? (uint64_t)1 << (bits - 1) : 0, count = (uint64_t)1 << bits;
	struct soma__lookup wider = { .shift = SOMA__ADDRESS_BITS - bits,
				      .grow_at = (uint32_t)(count / 4 * 3) };

	wider.buckets = soma__arena_calloc(arena, (size_t)count * sizeof *wider.buckets, 64);
	if (wider.buckets == NULL)
		return false;
	for (uint64_t bucket = 0; bucket < old; bucket++) {
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
