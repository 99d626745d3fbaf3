/* SPDX-License-Identifier: Apache-2.0 */
/* Records of blocks: storage, lists, the table by address.  Does not lock. */
#include "backends/guard/block.h"

#include <string.h>

#define SLAB_BLOCKS 32u
#define FIRST_BITS 10u

struct block_slab {
	struct block_slab *next;
	struct block blocks[SLAB_BLOCKS];
};

void
block_list_push(struct block_list *list, struct block *block)
{
	block->next = NULL;
	block->prev = list->tail;
	if (list->tail != NULL)
		list->tail->next = block;
	else
		list->head = block;
	list->tail = block;
	list->count++;
	list->bytes += block_bytes(block);
	list->requested += block_requested(block);
}

void
block_list_remove(struct block_list *list, struct block *block)
{
	if (block->prev != NULL)
		block->prev->next = block->next;
	else
		list->head = block->next;
	if (block->next != NULL)
		block->next->prev = block->prev;
	else
		list->tail = block->prev;
	block->next = block->prev = NULL;
	list->count--;
	list->bytes -= block_bytes(block);
	list->requested -= block_requested(block);
}

uint64_t
block_bytes(const struct block *block)
{
	return block->range != 0 && !block->resident ? 0 : block->outer_size;
}

uint64_t
block_requested(const struct block *block)
{
	return block->range != 0 && !block->resident ? 0 : block->size;
}

bool
blocks_init(struct blocks *blocks, const struct soma_backend_host *host)
{
	size_t bytes = sizeof(struct block *) << FIRST_BITS;

	*blocks = (struct blocks){ .host = host, .bits = FIRST_BITS };
	blocks->buckets = host->alloc(host->context, bytes, 0);
	if (blocks->buckets == NULL)
		return false;
	memset(blocks->buckets, 0, bytes);
	return true;
}

void
blocks_fini(struct blocks *blocks)
{
	const struct soma_backend_host *host = blocks->host;

	if (blocks->buckets == NULL)
		return;
	for (struct block *block = blocks->oldest; block != NULL; block = block->newer)
		uses_fini(&block->uses, host);
	while (blocks->slabs != NULL) {
		struct block_slab *slab = blocks->slabs;
		blocks->slabs = slab->next;
		host->free(host->context, slab, sizeof *slab);
	}
	host->free(host->context, blocks->buckets, sizeof(struct block *) << blocks->bits);
	*blocks = (struct blocks){ 0 };
}

static bool
add_slab(struct blocks *blocks)
{
	struct block_slab *slab = blocks->host->alloc(blocks->host->context, sizeof *slab, 64);

	if (slab == NULL)
		return false;
	slab->next = blocks->slabs;
	blocks->slabs = slab;
	for (uint32_t i = SLAB_BLOCKS; i-- > 0;) {
		slab->blocks[i].next = blocks->spare;
		blocks->spare = &slab->blocks[i];
	}
	return true;
}

struct block *
blocks_take(struct blocks *blocks)
{
	if (blocks->spare == NULL && !add_slab(blocks))
		return NULL;
	struct block *block = blocks->spare;
	blocks->spare = block->next;
	memset(block, 0, sizeof *block);
	block->generation = ++blocks->generation;
	return block;
}

void
blocks_give(struct blocks *blocks, struct block *block)
{
	uses_fini(&block->uses, blocks->host);
	block->next = blocks->spare;
	blocks->spare = block;
}

static struct block **
bucket(const struct blocks *blocks, uint64_t ptr)
{
	return &blocks->buckets[((ptr >> 4) * 0x9e3779b97f4a7c15u) >> (64 - blocks->bits)];
}

struct block *
blocks_find(const struct blocks *blocks, uint64_t ptr)
{
	struct block *block = *bucket(blocks, ptr);

	while (block != NULL && block->ptr != ptr)
		block = block->in_bucket;
	return block;
}

/* Without memory the chains only get longer. */
static void
grow(struct blocks *blocks)
{
	const struct soma_backend_host *host = blocks->host;
	size_t bytes = sizeof(struct block *) << (blocks->bits + 1);
	struct block **buckets = host->alloc(host->context, bytes, 0);

	if (buckets == NULL)
		return;
	memset(buckets, 0, bytes);
	host->free(host->context, blocks->buckets, bytes / 2);
	blocks->buckets = buckets;
	blocks->bits++;
	for (struct block *block = blocks->oldest; block != NULL; block = block->newer) {
		struct block **to = bucket(blocks, block->ptr);
		block->in_bucket = *to;
		*to = block;
	}
}

void
blocks_insert(struct blocks *blocks, struct block *block)
{
	if (++blocks->count > (uint64_t)1 << blocks->bits)
		grow(blocks);
	struct block **to = bucket(blocks, block->ptr);
	block->in_bucket = *to;
	*to = block;
	block->older = blocks->newest;
	block->newer = NULL;
	if (blocks->newest != NULL)
		blocks->newest->newer = block;
	else
		blocks->oldest = block;
	blocks->newest = block;
}

void
blocks_remove(struct blocks *blocks, struct block *block)
{
	struct block **at = bucket(blocks, block->ptr);

	while (*at != block)
		at = &(*at)->in_bucket;
	*at = block->in_bucket;
	if (block->older != NULL)
		block->older->newer = block->newer;
	else
		blocks->oldest = block->newer;
	if (block->newer != NULL)
		block->newer->older = block->older;
	else
		blocks->newest = block->older;
	blocks->count--;
}

struct block_places
blocks_near(const struct blocks *blocks, uint64_t ptr)
{
	struct block_places places = { 0 };

	for (const struct block *block = blocks->oldest; block != NULL; block = block->newer) {
		if (block->state == BLOCK_TOMBSTONE)
			continue;
		if (ptr >= block->outer && ptr - block->outer < block->outer_size && ptr != block->ptr)
			places.around = block;
		if (block->ptr < ptr && (places.before == NULL || block->ptr > places.before->ptr))
			places.before = block;
		if (block->ptr > ptr && (places.after == NULL || block->ptr < places.after->ptr))
			places.after = block;
	}
	return places;
}
